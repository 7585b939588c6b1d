-- Statements of people's own schema files and dumps.
-- kind: dumps: executable comments, prefixes as long as the column, procedures that call others
CREATE TABLE films (id INT PRIMARY KEY, title VARCHAR(40), seen INT DEFAULT 0);
-- @hash id
CREATE TABLE counted (name VARCHAR(20) PRIMARY KEY, n INT NOT NULL);
-- @single s0
INSERT INTO films (id, /*!50705 title, */ seen) VALUES (1, /*!50705 'one',*/ 6), (2, /*!50705 'two',*/ 6), (3, /*!50705 'three',*/ 7);
INSERT /*!50000 INTO */ films (id, title) VALUES (4, 'four'), (5, 'five'), (6, 'six');
INSERT INTO films (id, /*!50000 title, */ seen) VALUES (7, /*!50000 'seven', */ 1), (8, /*!50000 'eight', */ 2);
INSERT INTO films (id, title) VALUES (9, /*!99999 no */ 'nine'), (10, 'ten') /* done */;
REPLACE INTO films VALUES (1, 'uno' /*!50000 , 8 */), (2, 'due' /*!50000 , 9 */);
INSERT INTO films (id, title) VALUES (1, 'eins'), (11, 'elf') /*!50000 ON DUPLICATE KEY UPDATE */ title = 'again';
SELECT * FROM films ORDER BY id;
CREATE TABLE prefixed (a VARCHAR(191) NOT NULL, b INT, PRIMARY KEY (a(191)));
CREATE TABLE IF NOT EXISTS prefixed (a VARCHAR(191) NOT NULL, b INT, PRIMARY KEY (a(191)));
SHOW WARNINGS;
INSERT INTO prefixed VALUES ('x', 1), ('y', 2), ('z', 3);
SELECT b FROM prefixed WHERE a = 'y';
SELECT COUNT(*) FROM prefixed;
SHOW CREATE TABLE prefixed;
DROP TABLE IF EXISTS prefixed, missing;
DROP TABLE IF EXISTS missing;
DROP VIEW IF EXISTS missing;
DROP PROCEDURE IF EXISTS missing;
DROP TRIGGER IF EXISTS missing;
/*!40000 ALTER TABLE films DISABLE KEYS */;
SHOW WARNINGS;
/*!40000 ALTER TABLE films ENABLE KEYS */;
CREATE TABLE logged (id INT PRIMARY KEY);
-- @single s0
CREATE TRIGGER logs AFTER INSERT ON logged FOR EACH ROW CALL twice('logged');
CREATE PROCEDURE counts(IN what VARCHAR(20)) INSERT INTO counted VALUES (what, 1) ON DUPLICATE KEY UPDATE n = n + 1;
CREATE PROCEDURE twice(IN what VARCHAR(20)) BEGIN CALL counts(what); CALL counts(what); END;
CREATE PROCEDURE often(IN what VARCHAR(20)) BEGIN CALL twice(what); CALL twice('others'); END;
CALL twice('a');
CALL often('b');
INSERT INTO logged VALUES (1), (2);
SELECT * FROM counted ORDER BY name;
DROP PROCEDURE counts;
DROP PROCEDURE IF EXISTS often;
DROP PROCEDURE IF EXISTS twice;
