-- include: shop
-- kind: IN (SELECT) on the shard keys
SELECT id FROM users WHERE id IN (SELECT user_id FROM orders WHERE total > 50);
-- kind: correlated EXISTS on the shard keys
SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.total > 10);
SELECT id FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id);
-- kind: scalar subquery over all rows
SELECT id, age FROM users WHERE age > (SELECT AVG(age) FROM users);
-- kind: scalar subquery in the select list
SELECT id, (SELECT SUM(total) FROM orders o WHERE o.user_id = u.id) AS s FROM users u;
SELECT id, (SELECT MAX(total) FROM orders) AS m FROM users;
-- kind: NOT IN (SELECT) of other columns
SELECT id FROM users WHERE age NOT IN (SELECT qty FROM items WHERE qty IS NOT NULL);
SELECT id FROM users WHERE country IN (SELECT code FROM countries WHERE region = 'EU');
-- kind: ANY, ALL
SELECT id FROM users WHERE paid > ALL (SELECT total FROM orders WHERE total < 100);
SELECT id FROM users WHERE paid = ANY (SELECT total FROM orders);
-- kind: derived table
SELECT x.country, x.n FROM (SELECT country, COUNT(*) AS n FROM users GROUP BY country) x WHERE x.n > 1 ORDER BY x.country;
SELECT * FROM (SELECT id, age FROM users WHERE age > 30) x WHERE id < 8;
SELECT COUNT(*) FROM (SELECT DISTINCT age FROM users) x;
-- kind: derived table with LIMIT
SELECT COUNT(*), SUM(id) FROM (SELECT id FROM users ORDER BY id LIMIT 4) x;
SELECT id FROM users WHERE (SELECT COUNT(*) FROM orders o WHERE o.user_id = users.id) = 2;
SELECT id FROM users WHERE (age, country) IN (SELECT age, country FROM users WHERE id = 5);
SELECT id FROM users WHERE id = (SELECT user_id FROM orders WHERE code = 'G1');
SELECT id FROM users WHERE id = (SELECT user_id FROM orders);
SELECT k FROM settings WHERE v IN (SELECT age FROM users);
-- kind: subqueries of a row that an aggregate answers though WHERE leaves none
SELECT COUNT(*) AS n, (SELECT COUNT(*) FROM orders) AS m FROM users WHERE 1 = 0;
SELECT MAX(age), (SELECT SUM(qty) FROM items) FROM users WHERE FALSE;
SELECT COUNT(*) FROM users WHERE FALSE HAVING (SELECT COUNT(*) FROM orders) > 5;
-- params: [0]
SELECT COUNT(*), (SELECT MAX(total) FROM orders) FROM users WHERE 1 = ?;
SELECT COUNT(*), (SELECT COUNT(*) FROM orders WHERE user_id = 10) AS m FROM users WHERE id = NULL AND 1 = 0;
SELECT (SELECT COUNT(u.id)) AS n, (SELECT COUNT(*) FROM orders) AS m FROM users u WHERE 1 = 0;
SELECT u.id, (SELECT COUNT(*) + (SELECT COUNT(*) FROM items) FROM orders o WHERE o.user_id = u.id AND 1 = 0) AS m FROM users u ORDER BY u.id;
SELECT u.id, (SELECT COUNT(*) + (SELECT COUNT(*) FROM users v WHERE v.age = u.age) FROM orders o WHERE o.user_id = u.id AND u.age = 30) AS m FROM users u ORDER BY u.id;
SELECT u.id, (SELECT COUNT(*) + (SELECT COUNT(*) FROM items i WHERE i.user_id = u.age - 29) FROM orders o WHERE o.user_id = u.id AND o.id > 1) AS m FROM users u ORDER BY u.id;
SELECT u.id, (SELECT COUNT(*) + (SELECT COUNT(*) FROM items i WHERE i.user_id = v.id) FROM orders o WHERE o.user_id = u.id AND u.id = v.id) AS m FROM users u JOIN users v ON v.age = u.age ORDER BY u.id, v.id;
SELECT MAX(o.total), (SELECT COUNT(*) FROM items i WHERE i.user_id = o.user_id) AS m FROM orders o WHERE o.user_id = 10 GROUP BY o.user_id;
SELECT COUNT(*), (SELECT COUNT(*) FROM orders) AS m FROM users WHERE 1 = 0 GROUP BY country;
SELECT COUNT(*), (SELECT COUNT(*) FROM orders) AS m FROM users WHERE 1 = 0 GROUP BY country WITH ROLLUP;
SELECT country, (SELECT COUNT(*) FROM orders) AS m FROM users WHERE 1 = 0 GROUP BY country WITH ROLLUP;
SELECT COUNT(*), (SELECT COUNT(*) FROM orders) AS m FROM users WHERE 1 = 0 GROUP BY 'x';
SELECT id FROM users WHERE 1 = 0 HAVING (SELECT COUNT(*) FROM orders) > 5;
SELECT id FROM users WHERE id IN (SELECT COUNT(*) - (SELECT COUNT(*) FROM orders) + 15 FROM items WHERE 1 = 0);
SELECT COUNT(*) AS n FROM users WHERE 1 = 0 ORDER BY (SELECT COUNT(*) FROM orders);
SELECT COUNT(*) FROM users WHERE 1 = 0 AND (SELECT COUNT(*) FROM orders) > 5;
SELECT MAX(age) AS a, (SELECT COUNT(*) FROM orders o WHERE o.user_id = MAX(u.id)) AS m FROM users u WHERE u.id = 5 AND u.age = 1;
SELECT MAX(u.age) AS a, (SELECT COUNT(*) FROM users v WHERE (v.age, 1) = (u.age, 1)) AS m FROM users u WHERE u.id = 5 AND u.age = 30;
