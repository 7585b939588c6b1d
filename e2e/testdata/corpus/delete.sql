-- include: shop
-- kind: DELETE by shard key
DELETE FROM users WHERE id = 1;
-- kind: DELETE by a virtual index
DELETE FROM users WHERE email = 'bob@x';
SELECT id FROM users WHERE email = 'bob@x';
-- kind: DELETE without a bound
DELETE FROM users WHERE country = 'DE';
-- kind: DELETE with ORDER BY and LIMIT
DELETE FROM users ORDER BY id LIMIT 1;
SELECT id FROM users ORDER BY id;
-- kind: DELETE of a join on the shard keys
DELETE u, o FROM users u JOIN orders o ON o.user_id = u.id WHERE o.code = 'G1';
DELETE o FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age = 25;
-- kind: DELETE with a subquery
DELETE FROM items WHERE user_id NOT IN (SELECT id FROM users);
SELECT * FROM items ORDER BY user_id, order_id, sku;
-- kind: DELETE from a reference table
DELETE FROM countries WHERE code = 'BR';
DELETE FROM settings WHERE k = 'empty';
DELETE FROM legacy WHERE ref = 'r1';
SELECT * FROM legacy;
-- kind: DELETE by a join on other columns
DELETE o FROM orders o LEFT JOIN users u ON u.paid = o.total WHERE u.id IS NULL AND o.id > 1;
SELECT * FROM orders ORDER BY user_id, id;
-- kind: DELETE from a reference table by other tables' rows
DELETE c FROM countries c LEFT JOIN users u ON u.country = c.code WHERE u.id IS NULL;
SELECT code FROM countries ORDER BY code;
-- kind: DELETE with a subquery that each shard might answer in another way
-- refused
DELETE FROM users WHERE id IN (SELECT * FROM (SELECT user_id FROM orders ORDER BY total LIMIT 2) x);
-- kind: DELETE of all rows
DELETE FROM orders;
SELECT * FROM orders;
DELETE FROM users WHERE nothing = 1;
-- A LIMIT in EXISTS changes nothing.
BEGIN;
DELETE FROM items WHERE user_id IN (SELECT * FROM (SELECT u.id FROM users u WHERE EXISTS (SELECT 1 AS a FROM orders o WHERE o.total > u.age LIMIT 1)) s);
SELECT * FROM items ORDER BY user_id, order_id, sku;
ROLLBACK;
-- kind: DELETE from tables that are not joined on their shard keys
DELETE u, i FROM users u JOIN items i ON i.qty = u.score WHERE u.age > 20;
SELECT id FROM users ORDER BY id;
SELECT user_id, order_id, sku FROM items ORDER BY 1, 2, 3;
