-- include: shop
-- kind: SELECT DISTINCT
SELECT DISTINCT age FROM users ORDER BY age;
SELECT DISTINCT country, age FROM users;
SELECT DISTINCT country FROM users ORDER BY country LIMIT 3;
-- kind: SELECT DISTINCT with the shard key
SELECT DISTINCT user_id, total FROM orders;
-- kind: UNION ALL
SELECT id FROM users WHERE id < 4 UNION ALL SELECT user_id FROM orders;
SELECT id, name FROM users UNION ALL SELECT user_id, total FROM orders UNION ALL SELECT u.id, o.code FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = 1;
SELECT 0 UNION ALL SELECT id FROM users;
SELECT id FROM users UNION ALL SELECT o.id FROM (SELECT DISTINCT age AS a FROM users) u JOIN orders o ON o.id < u.a;
SELECT id FROM users UNION ALL SELECT o.id FROM orders o JOIN (SELECT k FROM settings) s ON s.k <> o.code;
-- kind: UNION
SELECT age FROM users UNION SELECT qty FROM items;
SELECT id, name FROM users WHERE id = 1 UNION SELECT id, name FROM users WHERE id = 1;
SELECT id AS n FROM users UNION ALL SELECT id FROM orders ORDER BY n LIMIT 6;
-- kind: INTERSECT, EXCEPT
SELECT id FROM users INTERSECT SELECT user_id FROM orders;
SELECT id FROM users EXCEPT SELECT user_id FROM orders ORDER BY id;
(SELECT id FROM users ORDER BY id LIMIT 2) UNION ALL (SELECT user_id FROM orders ORDER BY user_id, id LIMIT 2);
SELECT code FROM countries UNION SELECT k FROM settings;
SELECT id, name FROM users UNION SELECT 1;
-- DISTINCT that has the shard key, in an order by something else.
-- check: multiset
SELECT DISTINCT o.user_id FROM orders o JOIN items i ON i.user_id = o.user_id ORDER BY i.qty;
SELECT DISTINCT user_id FROM orders GROUP BY user_id ORDER BY MAX(total), user_id;
SELECT DISTINCT u.id, u.name FROM users u JOIN orders o ON o.user_id = u.id ORDER BY u.name DESC, u.id LIMIT 4;
SELECT DISTINCT u.id, u.score FROM users u JOIN orders o ON o.user_id = u.id ORDER BY u.score, u.id;
SET sql_mode = '';
-- check: multiset
SELECT DISTINCT o.user_id FROM orders o JOIN items i ON i.user_id = o.user_id ORDER BY i.qty;
-- check: multiset
SELECT DISTINCT user_id FROM orders GROUP BY user_id, id ORDER BY id;
SELECT COUNT(*) FROM (SELECT DISTINCT o.user_id FROM orders o JOIN items i ON i.user_id = o.user_id ORDER BY i.qty) x;
SET sql_mode = DEFAULT;
INSERT INTO orders (user_id, id, code) VALUES (20, 1, 'same'), (20, 2, 'same '), (20, 3, 'SAME'), (21, 1, 'same');
-- check: fold=2 ordered
SELECT DISTINCT user_id, code FROM orders WHERE user_id > 10 ORDER BY code, user_id;
