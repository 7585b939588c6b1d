-- include: shop
CREATE TABLE filled (id BIGINT NOT NULL PRIMARY KEY, v INT);
-- @hash id
-- sql_select_limit counts for the whole.
SET sql_select_limit = 3;
SELECT @@sql_select_limit, @@session.sql_select_limit + 1;
SHOW VARIABLES LIKE 'sql_select_limit';
SELECT id FROM users ORDER BY id;
SELECT FOUND_ROWS();
-- check: limited
SELECT id FROM users;
SELECT FOUND_ROWS();
SELECT SQL_CALC_FOUND_ROWS id FROM users ORDER BY id;
SELECT FOUND_ROWS();
SELECT id FROM users WHERE id = 3;
SELECT id FROM users WHERE id IN (1, 2, 3, 4, 5, 6, 7) ORDER BY id DESC;
SELECT id FROM users ORDER BY id LIMIT 5;
SELECT id FROM users ORDER BY id LIMIT 1, 4;
SELECT country, COUNT(*) FROM users GROUP BY country ORDER BY country;
SELECT country, COUNT(*) AS n FROM users GROUP BY country ORDER BY n DESC, country;
SELECT SQL_CALC_FOUND_ROWS country, COUNT(*) AS n FROM users GROUP BY country ORDER BY n DESC, country;
SELECT FOUND_ROWS();
SELECT DISTINCT country FROM users ORDER BY country;
SELECT COUNT(*) FROM users;
SELECT user_id, SUM(total) FROM orders GROUP BY user_id ORDER BY user_id;
SELECT u.id, o.id FROM users u JOIN orders o ON o.user_id = u.id ORDER BY u.id, o.id;
SELECT u.id, o.user_id FROM users u JOIN orders o ON o.total >= u.paid ORDER BY u.id, o.user_id, o.id;
SELECT FOUND_ROWS();
SELECT COUNT(*) FROM users u JOIN orders o ON o.total >= u.paid;
SELECT id FROM users WHERE id IN (SELECT user_id FROM orders) ORDER BY id;
SELECT COUNT(*) FROM users WHERE age IN (SELECT age FROM users WHERE country = 'DE' OR age > 20);
SELECT * FROM (SELECT id FROM users) t ORDER BY id;
SELECT COUNT(*) FROM (SELECT id FROM users) t;
WITH c AS (SELECT id FROM users) SELECT id FROM c ORDER BY id;
SELECT id FROM users UNION ALL SELECT user_id FROM orders ORDER BY 1;
SELECT id FROM users WHERE id < 3 UNION SELECT user_id FROM orders ORDER BY 1;
(SELECT id FROM users) ORDER BY id;
SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM users ORDER BY id;
SELECT id FROM users ORDER BY id FOR UPDATE;
-- only: mysql
SELECT /*+ SET_VAR(sql_select_limit = 2) */ id FROM users ORDER BY id;
SELECT code FROM countries ORDER BY code;
SELECT k FROM settings ORDER BY k;
-- params: [0]
SELECT id FROM users WHERE id > ? ORDER BY id;
-- params: [4]
SELECT id FROM users ORDER BY id LIMIT ?;
-- params: []
SELECT country, COUNT(*) FROM users GROUP BY country ORDER BY country;
-- Not for writes, nor for what is shown otherwise.
INSERT INTO filled SELECT id, age FROM users;
SELECT COUNT(*) FROM filled;
INSERT INTO filled SELECT o.id + 100 + u.id * 10, u.age FROM users u JOIN orders o ON o.total >= u.paid GROUP BY 1, 2;
SELECT COUNT(*) FROM filled;
UPDATE filled SET v = 1 WHERE id IN (SELECT id FROM users);
SELECT COUNT(*) FROM filled WHERE v = 1;
UPDATE filled SET v = 2 ORDER BY id LIMIT 7;
SELECT COUNT(*) FROM filled WHERE v = 2;
CREATE TEMPORARY TABLE few AS SELECT id FROM users;
SELECT COUNT(*) FROM few;
SELECT 1/0, 2/0;
SHOW WARNINGS;
SHOW COLUMNS FROM users;
SHOW DATABASES LIKE 'information%';
SHOW VARIABLES LIKE 'sql\_%t';
SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'users' ORDER BY ORDINAL_POSITION;
SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'users';
SET sql_select_limit = 0;
SELECT id FROM users ORDER BY id;
SELECT id FROM users WHERE id = 3;
SELECT COUNT(*) FROM users;
SELECT u.id, o.user_id FROM users u JOIN orders o ON o.total >= u.paid ORDER BY u.id, o.user_id, o.id;
SELECT id FROM users ORDER BY id LIMIT 2;
INSERT INTO filled VALUES (1000, 1), (1001, 2), (1002, 3);
DELETE FROM filled WHERE id < 1000;
SET sql_select_limit = DEFAULT;
SELECT id FROM users ORDER BY id;
SELECT COUNT(*) FROM filled;
SELECT @@sql_select_limit;
SET sql_select_limit = -1;
SHOW WARNINGS;
SELECT id FROM users ORDER BY id LIMIT 1;
SET sql_select_limit = 'x';
SET sql_select_limit = 18446744073709551615;
SELECT id FROM users ORDER BY id;
BEGIN;
SET SESSION sql_select_limit = 2;
SELECT id FROM users ORDER BY id;
SELECT id FROM users WHERE id = 1;
SELECT u.id, o.user_id FROM users u JOIN orders o ON o.total >= u.paid ORDER BY u.id, o.user_id, o.id;
COMMIT;
SET SESSION sql_select_limit = DEFAULT;
SELECT id FROM users ORDER BY id;
-- What mysql --safe-updates sets.
SET SQL_SAFE_UPDATES = 1, SQL_SELECT_LIMIT = 4, MAX_JOIN_SIZE = 1000000;
SELECT id FROM users ORDER BY id;
UPDATE users SET age = 1;
DELETE FROM users WHERE age = 1;
UPDATE users SET age = 31 WHERE id = 1;
UPDATE filled SET v = 5 WHERE id > 1000;
SELECT country, COUNT(*) FROM users GROUP BY country ORDER BY country;
SELECT u.id, o.user_id FROM users u JOIN orders o ON o.total >= u.paid ORDER BY u.id, o.user_id, o.id;
SELECT id, age FROM users ORDER BY id LIMIT 20;
