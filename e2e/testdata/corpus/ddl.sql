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
