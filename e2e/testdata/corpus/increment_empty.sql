-- '' for an AUTO_INCREMENT column counts as 0, of which a server warns.
CREATE TABLE counted (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a VARCHAR(4));
-- @hash id
CREATE TABLE within (k INT NOT NULL, id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, a TINYINT, PRIMARY KEY (k, id), KEY (id));
-- @hash k
-- refused
INSERT INTO counted (id, a) VALUES ('', 'strict');
INSERT IGNORE INTO counted (id, a) VALUES ('', 'i');
SHOW WARNINGS;
SET sql_mode = '';
INSERT INTO counted (id, a) VALUES ('', 'one');
SHOW WARNINGS;
SELECT LAST_INSERT_ID();
INSERT INTO counted (id, a) VALUES ('', 'a'), (NULL, 'too long'), ('', 'too long'), (20, 'b'), (0, 'c'), ('', 'd'), ('', 'e');
SHOW WARNINGS;
SHOW COUNT(*) WARNINGS;
INSERT INTO counted VALUES ('', 'all');
SHOW WARNINGS;
INSERT INTO counted SET a = 'set', id = '';
SHOW WARNINGS;
-- params: ["", "par"]
INSERT INTO counted (id, a) VALUES (?, ?);
SHOW WARNINGS;
-- params: ["", "par", null, "q", "", "too long"]
INSERT INTO counted (id, a) VALUES (?, ?), (?, ?), (?, ?);
SHOW WARNINGS;
INSERT INTO counted (id, a) VALUES ('', 'x'), (20, 'y') ON DUPLICATE KEY UPDATE a = 'met';
SHOW WARNINGS;
INSERT INTO counted (id) VALUES (100);
REPLACE INTO counted (id, a) VALUES ('', 'r'), ('', 'rr');
SHOW WARNINGS;
INSERT INTO within (k, id, a) VALUES (1, '', 1), (2, '', 1000), (1, '', 2);
SHOW WARNINGS;
INSERT INTO within (k, id, a) VALUES (1, '', 3);
SHOW WARNINGS;
BEGIN;
INSERT INTO within (k, id, a) VALUES (3, '', 4), (3, '', 5);
SHOW WARNINGS;
COMMIT;
SELECT * FROM within ORDER BY id;
SELECT * FROM counted ORDER BY id;
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO within (k, id, a) VALUES (4, '', 6);
SHOW WARNINGS;
SELECT * FROM counted ORDER BY id;
CREATE TABLE levels (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), n INT);
-- @reference
INSERT INTO levels (name, n) VALUES ('a', 1), ('b', 2);
INSERT INTO levels (name, n) VALUES ('c', (SELECT MAX(u.id) FROM levels u));
INSERT INTO levels (name, n) VALUES ('d', (SELECT MAX(u.n) + 1 FROM levels u GROUP BY u.id ORDER BY u.n DESC LIMIT 1));
INSERT INTO levels SET name = 'e', n = (SELECT COUNT(u.id) FROM levels u);
SELECT * FROM levels ORDER BY id;
