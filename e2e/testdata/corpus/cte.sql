-- include: shop
-- kind: WITH
WITH x AS (SELECT country, COUNT(*) AS n FROM users GROUP BY country) SELECT c.name, x.n FROM x JOIN countries c ON c.code = x.country ORDER BY c.name;
WITH x AS (SELECT id, age FROM users WHERE age > 30), y AS (SELECT id FROM x WHERE id > 3) SELECT * FROM y ORDER BY id;
WITH x AS (SELECT user_id, SUM(total) AS s FROM orders GROUP BY user_id) SELECT a.user_id, b.user_id FROM x a JOIN x b ON a.s < b.s ORDER BY 1, 2;
WITH x AS (SELECT id FROM users WHERE born = 'no date'), y AS (SELECT x.id FROM x JOIN orders o ON o.id = x.id) SELECT a.id FROM users a JOIN orders b ON b.id = a.age - 29 ORDER BY 1;
WITH x AS (SELECT id FROM users), y AS (SELECT x.id FROM x JOIN orders o ON o.id = x.id) SELECT a.id, COUNT(*) FROM users a JOIN y b ON b.id = a.age - 29 GROUP BY a.id;
WITH x AS (SELECT id, paid FROM users) SELECT x.id, x.paid, t.s, t.n FROM x JOIN (SELECT SUM(paid) AS s, COUNT(*) AS n FROM x) t ORDER BY x.id;
-- kind: WITH RECURSIVE
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) SELECT n.i, u.name FROM n LEFT JOIN users u ON u.id = n.i ORDER BY n.i;
-- kind: WITH of one shard
WITH x AS (SELECT * FROM orders WHERE user_id = 10) SELECT COUNT(*), SUM(total) FROM x;
-- To MariaDB a name means the common table expression in those before it too.
WITH RECURSIVE x AS (SELECT id, age FROM orders WHERE age > 30), orders AS (SELECT id + 1 AS id, age FROM users) SELECT x.id, u.name FROM x JOIN users u ON u.id = x.id ORDER BY x.id;
WITH RECURSIVE x AS (SELECT a.id FROM later a WHERE a.id > 3), later AS (SELECT id FROM users) SELECT * FROM x ORDER BY id;
