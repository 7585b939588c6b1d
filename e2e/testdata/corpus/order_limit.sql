-- include: shop
-- kind: ORDER BY
SELECT id, name FROM users ORDER BY name, id;
SELECT id, age FROM users ORDER BY age DESC, id;
SELECT id, born FROM users ORDER BY born, id DESC;
SELECT id, paid FROM users ORDER BY paid DESC, id;
SELECT id, score FROM users ORDER BY score, id;
SELECT id, country FROM users ORDER BY country DESC, id;
-- kind: ORDER BY an expression
SELECT id FROM users ORDER BY age + paid, id;
SELECT id FROM users ORDER BY LENGTH(name), id;
SELECT id, UPPER(name) AS u FROM users ORDER BY u, id;
SELECT id, name FROM users ORDER BY 2 DESC, 1;
SET NAMES binary;
SELECT id FROM users ORDER BY UPPER(name), id;
SELECT DISTINCT UPPER(country) AS c FROM users ORDER BY c;
SELECT UPPER(country) AS c, COUNT(*), MAX(LOWER(name)) FROM users GROUP BY UPPER(country) ORDER BY c;
SET NAMES utf8mb4;
-- kind: ORDER BY a column that is not selected
SELECT name FROM users ORDER BY id DESC;
-- kind: ORDER BY and LIMIT
SELECT id FROM users ORDER BY id LIMIT 3;
-- kind: ORDER BY, LIMIT and OFFSET
SELECT id, age FROM users ORDER BY age, id LIMIT 3 OFFSET 4;
SELECT id FROM users ORDER BY id LIMIT 2, 5;
SELECT id FROM users ORDER BY id LIMIT 100;
SELECT id FROM users ORDER BY id LIMIT 0;
SELECT id FROM users ORDER BY id LIMIT 5 OFFSET 100;
-- kind: LIMIT
-- check: limited
SELECT id FROM users LIMIT 4;
-- params: [3]
SELECT id FROM users ORDER BY id LIMIT ?;
-- params: [30, 2]
SELECT id, name FROM users WHERE age = ? ORDER BY id LIMIT ?;
-- kind: ORDER BY of a join
SELECT u.name, o.id, o.total FROM users u JOIN orders o ON o.user_id = u.id ORDER BY o.total DESC, u.id, o.id LIMIT 5;
SELECT c.name, u.id FROM countries c JOIN users u ON u.country = c.code ORDER BY c.name, u.id;
SELECT placed, user_id, id FROM orders ORDER BY placed, user_id, id;
-- check: ordered sorted=1 loose=1
SELECT country FROM users ORDER BY country;
-- kind: SQL_CALC_FOUND_ROWS
SELECT SQL_CALC_FOUND_ROWS id, name FROM users ORDER BY name, id LIMIT 2;
-- kind: FOUND_ROWS()
SELECT FOUND_ROWS();
SELECT id, name FROM users ORDER BY (2);
SELECT name FROM users ORDER BY (1) LIMIT 3;
SELECT id FROM users WHERE id > 2 ORDER BY +1 DESC LIMIT 3;
SELECT name, id FROM users ORDER BY +(2);
SELECT id, -age AS age FROM users ORDER BY (age), id;
SELECT age, id FROM users ORDER BY TRUE, id;
SELECT DISTINCT age FROM users ORDER BY (1) DESC LIMIT 2;
SELECT country, COUNT(*) FROM users GROUP BY country ORDER BY (2), (1);
SELECT id FROM users ORDER BY (2);
-- only: mariadb
SELECT id FROM users ORDER BY id OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY;
-- only: mariadb
SELECT id FROM users ORDER BY id OFFSET 2 ROWS FETCH NEXT ROW ONLY;
-- only: mariadb
SELECT id FROM users ORDER BY id OFFSET 7 ROWS;
-- only: mariadb
SELECT id FROM users ORDER BY id FETCH FIRST 3 ROWS ONLY;
-- only: mariadb
-- check: multiset
SELECT age FROM users ORDER BY age FETCH FIRST 4 ROWS WITH TIES;
-- only: mariadb
-- check: multiset
SELECT age FROM users ORDER BY age OFFSET 1 ROW FETCH FIRST 4 ROWS WITH TIES;
-- only: mariadb
SELECT id FROM users WHERE id IN (SELECT user_id FROM orders) ORDER BY id DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY;
-- Under sql_safe_updates MariaDB's DELETE wants a condition beside LIMIT.
SET sql_safe_updates = 1;
BEGIN;
DELETE FROM users ORDER BY id LIMIT 1;
DELETE FROM users WHERE 1 ORDER BY id LIMIT 1;
DELETE FROM users WHERE NOW() > '2000-01-01' ORDER BY id LIMIT 1;
DELETE FROM users WHERE age > 0 ORDER BY id LIMIT 1;
UPDATE users SET name = 'x' ORDER BY id LIMIT 1;
UPDATE users SET name = 'y' WHERE 1 ORDER BY id LIMIT 1;
SELECT COUNT(*) FROM users;
ROLLBACK;
SET sql_safe_updates = 0;
