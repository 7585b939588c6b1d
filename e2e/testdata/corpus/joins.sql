-- include: shop
-- kind: join on the shard keys
SELECT u.name, o.code FROM users u JOIN orders o ON o.user_id = u.id;
SELECT u.name, o.code, i.sku FROM users u JOIN orders o ON o.user_id = u.id JOIN items i ON i.user_id = o.user_id AND i.order_id = o.id ORDER BY u.id, o.id, i.sku;
-- kind: join on the shard keys, of one key
SELECT u.name, o.code FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = 10;
-- kind: LEFT JOIN on the shard keys
SELECT u.id, o.id FROM users u LEFT JOIN orders o ON o.user_id = u.id;
SELECT u.id FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE o.id IS NULL ORDER BY u.id;
-- kind: join with a reference table
SELECT u.id, c.name FROM users u JOIN countries c ON c.code = u.country;
SELECT u.id, c.name FROM users u LEFT JOIN countries c ON c.code = u.country;
-- kind: reference table LEFT JOIN sharded table
SELECT c.code, u.id FROM countries c LEFT JOIN users u ON u.country = c.code;
SELECT c.code, u.id FROM users u RIGHT JOIN countries c ON u.country = c.code ORDER BY c.code, u.id;
-- kind: join on other columns
SELECT a.id, b.id FROM users a JOIN users b ON a.age = b.age AND a.id < b.id;
SELECT o.code, p.user_id FROM orders o JOIN orders p ON p.code = o.code AND p.user_id <> o.user_id;
-- An error among the rows, when the client has a part of the answer.
SELECT u.id, o.id, CAST(1 AS UNSIGNED) - u.age AS less FROM users u JOIN orders o ON o.total > u.paid WHERE u.age > 25;
-- kind: join on other columns, bounded by an index
SELECT u.id, o.user_id FROM users u JOIN orders o ON o.total > u.paid WHERE u.email = 'ann@x' AND o.code = 'D1';
-- kind: cross join
SELECT COUNT(*) FROM users, items;
-- kind: join with a table on one shard
SELECT u.id, s.v FROM users u JOIN settings s ON s.k = 'limit' WHERE u.age = s.v;
-- kind: join with a table placed anywhere
SELECT u.id, l.note FROM users u JOIN legacy l ON l.id = u.id;
SELECT * FROM orders NATURAL JOIN items;
SELECT u.id, o.code FROM users u JOIN orders o USING (id);
SELECT u.id, x.n FROM users u JOIN (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id) x ON x.user_id = u.id ORDER BY u.id;
SELECT s.k, c.code FROM settings s JOIN countries c ON c.region = 'EU' ORDER BY s.k, c.code;
-- kind: LATERAL
-- only: mysql
SELECT u.id, x.code FROM users u, LATERAL (SELECT code FROM orders o WHERE o.user_id = u.id ORDER BY o.total DESC, o.id LIMIT 1) x;
SELECT o.user_id, o.id FROM orders o WHERE EXISTS (SELECT 1 FROM users u JOIN countries c ON u.id = user_id JOIN items i ON i.qty IN (5, 7, 10) WHERE u.id = o.user_id);
SELECT COUNT(*) FROM orders o JOIN (users u NATURAL JOIN items i) LEFT JOIN countries k ON k.code = o.code WHERE u.id = o.user_id;
SELECT COUNT(*) FROM (orders NATURAL JOIN items) JOIN users u ON u.id = user_id;
CREATE DATABASE `corpus_b`;
CREATE TABLE `corpus_b`.users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(50), age INT, nick VARCHAR(20));
INSERT INTO `corpus_b`.users VALUES (1, 'ann@x', 41, 'a'), (4, 'dee@x', 30, 'd'), (5, 'eve@x', 30, 'same'), (11, 'new@x', 63, 'n'), (12, 'eve@x', NULL, 'e');
SELECT name, nick FROM users JOIN `corpus_b`.users USING (email) ORDER BY name, nick;
SELECT COUNT(*) FROM users JOIN `corpus_b`.users USING (age);
SELECT * FROM users NATURAL JOIN `corpus_b`.users ORDER BY email;
SELECT `corpus_a`.users.id, `corpus_b`.users.id, `corpus_b`.users.age + 1, name FROM users JOIN `corpus_b`.users ON `corpus_b`.users.age = `corpus_a`.users.age ORDER BY 1, 2;
SELECT `corpus_a`.users.*, `corpus_b`.users.nick FROM `corpus_a`.users LEFT JOIN `corpus_b`.users ON `corpus_a`.users.email = `corpus_b`.users.email AND nick > 'b' ORDER BY `corpus_a`.users.id, nick;
SELECT `corpus_a`.users.id FROM users WHERE EXISTS (SELECT 1 FROM `corpus_b`.users WHERE `corpus_b`.users.age = `corpus_a`.users.age AND `corpus_b`.users.id <> `corpus_a`.users.id) ORDER BY `corpus_a`.users.id;
SELECT `corpus_b`.users.age AS a, COUNT(DISTINCT `corpus_a`.users.id) FROM users, `corpus_b`.users WHERE `corpus_a`.users.age >= `corpus_b`.users.age GROUP BY `corpus_b`.users.age HAVING COUNT(*) > 1 ORDER BY a;
-- params: [30]
SELECT `corpus_a`.users.id, `corpus_b`.users.id FROM users JOIN `corpus_b`.users ON `corpus_b`.users.age = `corpus_a`.users.age WHERE `corpus_b`.users.age = ? ORDER BY 1, 2;
-- only: mysql
SELECT `corpus_a`.users.nothing FROM users JOIN `corpus_b`.users USING (age);
SELECT id FROM users JOIN `corpus_b`.users USING (age);
