-- include: shop
-- kind: CREATE TABLE
CREATE TABLE notes (id INT NOT NULL PRIMARY KEY, body VARCHAR(30), KEY (body));
INSERT INTO notes VALUES (1, 'one'), (2, 'two'), (3, 'three');
-- kind: ALTER TABLE
ALTER TABLE notes ADD COLUMN rank_no INT NOT NULL DEFAULT 7;
SELECT * FROM notes ORDER BY id;
-- kind: CREATE INDEX
CREATE INDEX by_rank ON notes (rank_no);
-- kind: DROP INDEX
DROP INDEX by_rank ON notes;
ALTER TABLE notes MODIFY body VARCHAR(60) NOT NULL;
ALTER TABLE notes DROP COLUMN rank_no;
SELECT * FROM notes ORDER BY id;
-- kind: CREATE VIEW
CREATE VIEW german AS SELECT id, name FROM users WHERE country = 'DE';
-- kind: SELECT of a view
SELECT * FROM german ORDER BY id;
-- kind: DROP VIEW
DROP VIEW german;
-- kind: TRUNCATE TABLE
TRUNCATE TABLE notes;
SELECT * FROM notes;
-- kind: RENAME TABLE
RENAME TABLE notes TO notes2;
INSERT INTO notes2 VALUES (1, 'again'), (2, 'more');
SELECT * FROM notes2 ORDER BY id;
CREATE TABLE notes2 (id INT);
CREATE TABLE IF NOT EXISTS notes2 (id INT);
-- kind: DROP TABLE
DROP TABLE notes2;
DROP TABLE notes2;
DROP TABLE IF EXISTS notes2;
-- kind: CREATE TABLE ... LIKE
CREATE TABLE users2 LIKE users;
SELECT * FROM users2;
-- kind: CREATE TABLE ... SELECT
CREATE TABLE backup AS SELECT * FROM users;
SELECT COUNT(*) FROM backup;
ALTER TABLE users ADD COLUMN nothing INT AFTER nowhere;
-- A name whose rows the configuration places by another column, though no table has it now.
CREATE TABLE others (id INT NOT NULL PRIMARY KEY, n INT);
-- @hash n
DROP TABLE others;
CREATE TABLE goes (id INT NOT NULL PRIMARY KEY, n INT);
-- @hash id
INSERT INTO goes VALUES (1, 21), (2, 22), (3, 23), (4, 24);
-- refused
RENAME TABLE goes TO others;
-- refused
ALTER TABLE goes RENAME TO others;
SELECT id FROM goes WHERE id = 2;
-- Of these two one is on the first shard alone.
CREATE TABLE unkeyed (n INT);
DROP TABLE goes, unkeyed;
SELECT * FROM goes;
SELECT * FROM unkeyed;
CREATE TABLE goes (id INT NOT NULL PRIMARY KEY, n INT);
CREATE TABLE unkeyed (n INT);
DROP TABLE IF EXISTS unkeyed, goes;
SHOW WARNINGS;
-- MariaDB drops the tables that it can, and then tells of the others.
CREATE TABLE gone1 (id INT NOT NULL PRIMARY KEY);
-- @hash id
CREATE TABLE gone2 (id INT NOT NULL PRIMARY KEY);
-- @hash id
DROP TABLE gone1, nothing, gone2;
SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'gone%' ORDER BY 1;
CREATE TABLE IF NOT EXISTS gone1 (id INT NOT NULL PRIMARY KEY);
-- @hash id
CREATE TABLE IF NOT EXISTS gone2 (id INT NOT NULL PRIMARY KEY, FOREIGN KEY (id) REFERENCES gone1 (id));
-- @hash id
CREATE VIEW gone3 AS SELECT 1 AS one;
DROP VIEW gone3, nothing;
SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'gone%' ORDER BY 1;
CREATE OR REPLACE VIEW gone3 AS SELECT 1 AS one;
DROP TABLE gone3, gone1, gone2;
SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'gone%' ORDER BY 1;
DROP TABLE IF EXISTS gone1, gone2;
DROP VIEW gone3;
SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'gone%' ORDER BY 1;
-- One without a primary key is on one shard, and would be left on the others.
CREATE TABLE gone4 (id INT NOT NULL PRIMARY KEY);
-- only: mariadb
-- refused
CREATE OR REPLACE TABLE gone4 (n INT);
-- only: mariadb
-- refused
CREATE OR REPLACE TABLE gone4 AS SELECT 1 AS n;
-- only: mariadb
CREATE OR REPLACE TABLE gone4 (id INT NOT NULL PRIMARY KEY, n INT);
SELECT * FROM gone4;
DROP TABLE gone4;
CREATE TABLE keyed (a INT NOT NULL PRIMARY KEY, b INT);
-- kind: ALTER TABLE of the primary key of an empty table
ALTER TABLE keyed DROP PRIMARY KEY, ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY;
INSERT INTO keyed (a, b) VALUES (1, 1), (2, 2), (3, 3);
SELECT * FROM keyed ORDER BY id;
SELECT a FROM keyed WHERE id = 2;
CREATE TABLE keyed2 (id INT NOT NULL PRIMARY KEY, b INT NOT NULL);
ALTER TABLE keyed2 CHANGE id pk VARCHAR(10) NOT NULL;
INSERT INTO keyed2 VALUES ('x', 1), ('y', 2);
SELECT * FROM keyed2 WHERE pk = 'y';
CREATE TABLE keyed3 (id INT NOT NULL PRIMARY KEY, b INT NOT NULL);
ALTER TABLE keyed3 MODIFY id INT NOT NULL AUTO_INCREMENT;
INSERT INTO keyed3 (b) VALUES (1), (2), (3);
SELECT * FROM keyed3 ORDER BY id;
ALTER TABLE keyed3 DROP COLUMN b;
CREATE TABLE keyed4 (id INT NOT NULL PRIMARY KEY, b INT NOT NULL);
ALTER TABLE keyed4 DROP COLUMN id;
INSERT INTO keyed4 VALUES (1), (2);
SELECT * FROM keyed4 ORDER BY b;
CREATE TABLE named (a VARCHAR(10) NOT NULL PRIMARY KEY, b INT);
INSERT INTO named VALUES ('a', 1), ('b', 2), ('c', 3);
-- kind: ALTER TABLE of a VARCHAR primary key to a longer one
ALTER TABLE named MODIFY a VARCHAR(30) NOT NULL;
INSERT INTO named VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaaaa', 4);
SELECT * FROM named ORDER BY a;
SELECT * FROM named WHERE a = 'b';
-- refused
ALTER TABLE named DROP PRIMARY KEY;
-- refused
ALTER TABLE named MODIFY a VARCHAR(40) COLLATE utf8mb4_bin NOT NULL;
-- only: mariadb
ALTER TABLE IF EXISTS named ADD COLUMN c INT;
-- only: mariadb
ALTER TABLE IF EXISTS nowhere ADD COLUMN c INT;
-- only: mariadb
ALTER TABLE named WAIT 2 ADD COLUMN d INT;
-- only: mariadb
RENAME TABLE IF EXISTS named WAIT 2 TO named2;
-- only: mariadb
RENAME TABLE IF EXISTS nowhere TO named3, named2 TO named;
-- only: mariadb
RENAME TABLE IF EXISTS nowhere TO named3;
-- only: mariadb
SELECT * FROM named ORDER BY a;
-- Without rows: a server's purge of old ones may hold the table's lock for a moment.
CREATE TABLE calm (a INT PRIMARY KEY);
-- only: mariadb
TRUNCATE TABLE calm NOWAIT;
-- only: mariadb
TRUNCATE named WAIT 3;
