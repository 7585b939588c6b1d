-- include: shop
-- kind: derived table whose rows are on one shard each
SELECT COUNT(*), SUM(age), MAX(name) FROM (SELECT id, age, name FROM users WHERE age > 25) AS t;
SELECT * FROM (SELECT * FROM users) t WHERE email = 'ann@x';
SELECT * FROM (SELECT id, country FROM users WHERE id IN (5, 6, 7)) t WHERE country <> 'FR' OR country IS NULL ORDER BY id DESC LIMIT 2;
SELECT mail FROM (SELECT id AS n, email AS mail FROM users) t WHERE n = 5;
SELECT t.country, COUNT(*), AVG(t.paid) FROM (SELECT * FROM (SELECT * FROM users WHERE paid > 0) a WHERE a.age > 20) t GROUP BY t.country ORDER BY t.country;
SELECT t.id, o.total, t.name FROM (SELECT id, name FROM users WHERE age > 3) t JOIN orders o ON o.user_id = t.id ORDER BY t.id, o.id;
SELECT u.id, t.n, t.s FROM users u LEFT JOIN (SELECT user_id, COUNT(*) AS n, SUM(total) AS s FROM orders GROUP BY user_id) t ON t.user_id = u.id ORDER BY u.id;
SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id) t WHERE n > 1;
SELECT DISTINCT id FROM (SELECT u.id, o.total FROM users u JOIN orders o ON o.user_id = u.id) t ORDER BY id;
SELECT COUNT(*), MIN(id) FROM (SELECT id FROM users UNION ALL SELECT user_id FROM orders) t;
SELECT t.id FROM (SELECT id FROM users) t WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = t.id AND o.total > 10);
SELECT * FROM (SELECT id + 1 AS id, name FROM users) t WHERE id = 5;
SELECT * FROM (SELECT id AS email, email AS id FROM users) t WHERE id = 'bob@x';
SELECT * FROM (SELECT o.user_id, u.id FROM users u LEFT JOIN orders o ON o.user_id = u.id) t WHERE user_id IS NULL;
SELECT t.name, MAX(t.born) FROM (SELECT name, born, country FROM users) t GROUP BY t.name HAVING COUNT(*) > 0 ORDER BY MAX(t.born) DESC, t.name LIMIT 4;
SELECT COUNT(*) FROM (SELECT id, name FROM users WHERE age > 3 ORDER BY name) AS t;
SELECT o.id, o.total, t.n FROM orders o LEFT JOIN (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id ORDER BY user_id) t ON t.user_id = o.user_id WHERE o.user_id = 10 ORDER BY o.id;
SELECT * FROM (SELECT id, name FROM users ORDER BY name, id) AS t;
SELECT * FROM (SELECT id, name FROM users ORDER BY name, id) AS t ORDER BY id LIMIT 3;
SELECT t.name, COUNT(*) FROM (SELECT id, name FROM users ORDER BY id DESC) AS t GROUP BY t.name ORDER BY t.name;
-- kind: derived table of several shards' rows
SELECT COUNT(*) FROM (SELECT country FROM users GROUP BY country) t;
SELECT COUNT(*) FROM (SELECT DISTINCT country FROM users) t;
SELECT COUNT(*) FROM (SELECT id FROM users LIMIT 3) t;
SELECT COUNT(*) FROM (SELECT id FROM users WHERE age * 10 > (SELECT AVG(total) FROM orders)) t;
SELECT COUNT(*) FROM (SELECT 0 UNION ALL SELECT id FROM users) t;
SELECT COUNT(*) FROM (SELECT id FROM users UNION SELECT user_id FROM orders) t;
SELECT * FROM (SELECT id, age + 1 AS a FROM users) t ORDER BY a, id;
SELECT u.country AS n, COUNT(*) FROM users u JOIN (SELECT 1 AS n UNION SELECT 2) t GROUP BY n, u.country ORDER BY u.country;
SELECT COUNT(*), t.h % 2 AS h FROM (SELECT id, age + 1 AS h FROM users) t GROUP BY h ORDER BY COUNT(*), h;
-- kind: WITH whose rows are on one shard each
WITH t AS (SELECT id, age FROM users WHERE age > 3) SELECT COUNT(*), SUM(age) FROM t WHERE id IN (5, 6);
WITH t AS (SELECT id, name FROM users) SELECT a.id, b.name FROM t a JOIN t b ON a.id = b.id JOIN orders o ON o.user_id = a.id ORDER BY a.id, o.id LIMIT 4;
WITH t AS (SELECT id, age FROM users) SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.age - 29 ORDER BY 1, 2;
WITH orders AS (SELECT id FROM users) SELECT COUNT(*) FROM (SELECT id FROM orders) d;
SELECT COUNT(*) FROM (SELECT DISTINCT country FROM users GROUP BY id, country) t;
SELECT COUNT(*) FROM (SELECT DISTINCT COUNT(*) AS n FROM orders GROUP BY user_id) t;
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, COUNT(*) AS n FROM orders GROUP BY user_id) t;
-- kind: derived table with names for its columns
-- only: mysql
SELECT * FROM (SELECT id, age FROM users) AS t(a, b) WHERE b = 30 ORDER BY a;
-- only: mysql
SELECT t.`b`, COUNT(*) FROM (SELECT age, id FROM users) t (b, `id`) GROUP BY t.b ORDER BY b;
-- only: mysql
SELECT u.id, t.x FROM users u JOIN (SELECT user_id, total FROM orders) AS t(u, x) ON t.u = u.id ORDER BY u.id, t.x;
-- only: mysql
SELECT u.id, t.x FROM users u, LATERAL (SELECT MAX(o.total) FROM orders o WHERE o.user_id = u.id) AS t(x) WHERE u.id IN (4, 10) ORDER BY u.id;
-- only: mysql
SELECT * FROM (SELECT * FROM countries) AS t(a, b, c) ORDER BY a;
-- only: mysql
SELECT id FROM (SELECT age, id FROM users) AS t(id, other) ORDER BY id, other LIMIT 5;
-- only: mysql
SELECT s.n FROM (SELECT id FROM users WHERE id < 4 UNION ALL SELECT user_id FROM orders) AS s(n) ORDER BY s.n;
-- only: mysql
SELECT t.a, u.name FROM (VALUES ROW(1, 'x'), ROW(4, 'y')) AS t(a, b) JOIN users u ON u.id = t.a ORDER BY t.a;
-- only: mysql
SELECT id FROM users WHERE age IN (SELECT b FROM (SELECT MAX(age) FROM users) AS m(b)) ORDER BY id;
-- only: mysql
SELECT * FROM (SELECT id, age FROM users) AS t(a) ORDER BY a;
-- kind: JSON_TABLE of a list
SELECT u.id, u.name FROM users u JOIN JSON_TABLE('[3, 1, 4, 1]', '$[*]' COLUMNS (x INT PATH '$')) j ON u.id = j.x ORDER BY u.id;
-- kind: JSON_TABLE of a column
SELECT u.id, j.x FROM users u, JSON_TABLE(CONCAT('[1, ', u.age, ']'), '$[*]' COLUMNS (x INT PATH '$')) j ORDER BY u.id, j.x;
