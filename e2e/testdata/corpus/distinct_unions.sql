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
