-- include: shop
-- kind: UPDATE by shard key
UPDATE users SET age = 31 WHERE id = 1;
UPDATE users SET age = 31 WHERE id = 1;
-- kind: UPDATE by a virtual index
UPDATE users SET name = 'Eve2', email = 'eve2@x' WHERE email = 'eve@x';
SELECT id FROM users WHERE email IN ('eve@x', 'eve2@x');
-- kind: UPDATE without a bound
UPDATE users SET paid = paid + 1 WHERE country = 'DE';
UPDATE users SET email = CONCAT(email, '!') WHERE age > 30;
SELECT * FROM users ORDER BY id;
SELECT id FROM users WHERE email = 'bob@x!';
-- kind: UPDATE with ORDER BY and LIMIT
UPDATE users SET name = 'first' ORDER BY id LIMIT 2;
UPDATE users SET name = 'x' WHERE id = 7 LIMIT 1;
-- kind: UPDATE of the shard key
-- refused
UPDATE users SET id = 100 WHERE id = 10;
-- kind: UPDATE of a reference table
UPDATE countries SET region = 'Europe' WHERE region = 'EU';
SELECT * FROM countries ORDER BY code;
-- kind: UPDATE of a table on one shard
UPDATE settings SET v = 'light' WHERE k = 'theme';
-- kind: UPDATE of a join on the shard keys
UPDATE users u JOIN orders o ON o.user_id = u.id SET u.name = 'buyer' WHERE o.total > 50;
UPDATE users u JOIN countries c ON c.code = u.country SET u.name = c.name WHERE c.code = 'FR';
-- kind: UPDATE of a join on other columns
UPDATE users u JOIN orders o ON o.total = u.paid SET u.name = 'same' WHERE o.code = 'G1';
-- kind: UPDATE with a subquery
UPDATE users SET score = 0 WHERE id IN (SELECT user_id FROM orders WHERE total > 100);
SELECT * FROM users ORDER BY id;
UPDATE users SET age = 'abc' WHERE id = 1;
UPDATE users SET nothing = 1 WHERE id = 1;
UPDATE users SET country = 'TOO LONG' WHERE id IN (1, 2, 3, 4);
UPDATE legacy SET ref = 'r9' WHERE ref = 'r1';
SELECT * FROM legacy WHERE ref = 'r9' ORDER BY id;
-- kind: UPDATE of a reference table by other tables' rows
UPDATE countries SET region = 'used' WHERE code IN (SELECT country FROM users);
SELECT * FROM countries ORDER BY code;
-- kind: UPDATE by a derived table
UPDATE users u JOIN (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id) x ON x.user_id = u.id SET u.age = x.n;
-- kind: UPDATE of two tables that are not joined on their shard keys
-- refused
UPDATE users u JOIN orders o ON o.total = u.paid SET u.name = 'same', o.code = 'same';
UPDATE orders SET total = (SELECT COUNT(*) FROM users) WHERE id < 3;
UPDATE settings SET v = (SELECT MAX(id) FROM users) WHERE k = 'theme';
SELECT * FROM users ORDER BY id;
SELECT * FROM orders ORDER BY user_id, id;
SELECT * FROM settings ORDER BY k;
-- only: mariadb
-- refused
UPDATE users SET age = age + 1, paid = age WHERE paid < (SELECT AVG(paid) FROM users);
-- only: mariadb
UPDATE users SET paid = age, age = age + 1 WHERE paid < (SELECT AVG(paid) FROM users);
SELECT id, age, paid FROM users ORDER BY id;
