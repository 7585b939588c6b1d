-- include: shop
-- kind: SHOW TABLES, SHOW COLUMNS, SHOW CREATE TABLE
SHOW COLUMNS FROM users;
-- own
SHOW TABLES;
SHOW CREATE TABLE countries;
-- The counter of all shards.
CREATE TABLE dumped (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, v INT COMMENT ') ENGINE=x AUTO_INCREMENT=3');
SHOW CREATE TABLE dumped;
INSERT INTO dumped (v) VALUES (1), (2), (3), (4), (5), (6), (7);
SHOW CREATE TABLE dumped;
DELETE FROM dumped;
BEGIN;
SHOW CREATE TABLE dumped;
ROLLBACK;
SET sql_select_limit = 0;
SHOW CREATE TABLE dumped;
SET sql_select_limit = DEFAULT;
LOCK TABLES dumped WRITE;
SHOW CREATE TABLE dumped;
UNLOCK TABLES;
DROP TABLE dumped;
DESCRIBE orders;
-- kind: SHOW WARNINGS
-- own
SHOW WARNINGS;
-- kind: SHOW VARIABLES
SHOW VARIABLES LIKE 'sql_mode';
-- kind: EXPLAIN
-- own
EXPLAIN SELECT * FROM users WHERE id = 5;
-- kind: information_schema
SELECT column_name, ordinal_position FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'users' ORDER BY 2;
-- kind: USE
-- own
USE information_schema;
-- kind: SHOW VARIABLES WHERE
SHOW VARIABLES WHERE Variable_name = 'sql_mode' OR Variable_name IN ('autocommit', 'sql_select_limit');
