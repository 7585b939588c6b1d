-- include: shop
-- kind: SHOW TABLES, SHOW COLUMNS, SHOW CREATE TABLE
SHOW COLUMNS FROM users;
-- own
SHOW TABLES;
SHOW CREATE TABLE countries;
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
