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
