-- include: shop
CREATE TABLE counted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, v INT);
-- @hash id
CREATE TABLE plain (id INT NOT NULL PRIMARY KEY, v INT);
-- @single s0
-- kind: FLUSH TABLES WITH READ LOCK
-- own
FLUSH TABLES WITH READ LOCK;
-- own
UNLOCK TABLES;
-- kind: LOCK TABLES ... READ
LOCK TABLES users READ, countries READ;
SELECT id, name FROM users WHERE id = 3;
SELECT id, name FROM users WHERE email = 'bob@x';
SELECT COUNT(*), MAX(age) FROM users;
SELECT * FROM users ORDER BY id;
SELECT u.id FROM users u WHERE u.id = 3;
SELECT COUNT(*) FROM users u;
SELECT COUNT(*) FROM orders;
SELECT * FROM orders WHERE user_id = 1;
SELECT * FROM settings;
SELECT id FROM legacy WHERE ref = 'r1';
SELECT users.id, countries.name FROM users JOIN countries ON countries.code = users.country ORDER BY 1;
SELECT COUNT(*) FROM users, orders;
SELECT COUNT(DISTINCT name), country FROM users GROUP BY country ORDER BY country;
SELECT name, RANK() OVER (ORDER BY age, id) FROM users ORDER BY id;
SELECT COUNT(*) FROM users WHERE age = (SELECT MAX(age) FROM users);
UPDATE users SET name = 'x' WHERE id = 3;
UPDATE users SET name = 'x';
INSERT INTO users (id) VALUES (20), (21), (22);
DELETE FROM countries;
INSERT INTO orders (user_id, id) VALUES (1, 9);
-- params: [3]
SELECT name FROM users WHERE id = ?;
-- params: [3]
SELECT code FROM orders WHERE user_id = ?;
SELECT 1, DATABASE() IS NULL;
SHOW WARNINGS;
SELECT 1, @@autocommit;
UNLOCK TABLES;
SELECT COUNT(*) FROM orders;
UNLOCK TABLES;

LOCK TABLES users AS u READ, users AS o READ LOCAL;
SELECT u.id FROM users u WHERE u.id = 3;
SELECT id FROM users WHERE id = 3;
SELECT COUNT(*) FROM users;
SELECT u.id, o.id FROM users u JOIN users o ON o.age = u.age AND o.id < u.id ORDER BY 1, 2;
SELECT COUNT(*) FROM users u WHERE u.age > (SELECT AVG(age) FROM users o);
SELECT COUNT(*) FROM users u WHERE u.age > (SELECT AVG(age) FROM users z);
-- kind: UNLOCK TABLES
UNLOCK TABLES;

-- kind: LOCK TABLES ... WRITE
LOCK TABLES users WRITE, orders WRITE, counted WRITE, countries WRITE, plain WRITE, legacy WRITE;
INSERT INTO counted (v) VALUES (1), (2), (3), (4), (5), (6);
INSERT INTO counted (v) VALUES (7);
SELECT COUNT(*), MAX(v), MAX(id) FROM counted;
INSERT INTO users (id, email) VALUES (90, 't90'), (91, 't91'), (92, 't92'), (93, 't93');
SELECT id FROM users WHERE email = 't91';
UPDATE users SET age = 77 WHERE email = 't92';
SELECT id FROM users WHERE age = 77;
UPDATE users SET name = 'all';
UPDATE countries SET region = 'all';
DELETE FROM users WHERE id > 90 ORDER BY id LIMIT 1;
SELECT id FROM users ORDER BY id;
INSERT INTO plain VALUES (1, 1), (2, 2);
SELECT users.id, plain.v FROM users JOIN plain ON plain.id = users.id ORDER BY 1;
SELECT orders.id, users.id FROM orders JOIN users ON users.age = orders.total ORDER BY 1, 2;
INSERT IGNORE INTO legacy (id, ref) VALUES (1, 'x'), (100, 'y');
REPLACE INTO legacy (id, ref) VALUES (2, 'z');
SELECT * FROM legacy ORDER BY id;
INSERT INTO orders (user_id, id, code) SELECT id + 100, 1, email FROM users WHERE id < 5;
SELECT COUNT(*) FROM orders;
INSERT INTO users (id, email) VALUES (94, 't94'), (1, 'dup'), (95, 't95');
SELECT COUNT(*) FROM users;
TRUNCATE TABLE plain;
ALTER TABLE plain DISABLE KEYS;
INSERT INTO plain VALUES (3, 3);
ALTER TABLE plain ENABLE KEYS;
ALTER TABLE plain ADD COLUMN w INT;
INSERT INTO plain VALUES (4, 4, 4);
SELECT * FROM plain ORDER BY id;
ALTER TABLE users DISABLE KEYS;
ALTER TABLE users ENABLE KEYS;
SELECT COUNT(*) FROM users;
CREATE TABLE other (a INT NOT NULL PRIMARY KEY);
DROP TABLE settings;
ALTER TABLE items ADD COLUMN w INT;
CREATE DATABASE locked_other;
CREATE TEMPORARY TABLE notes (a INT);
INSERT INTO notes VALUES (1), (2);
INSERT INTO notes SELECT id FROM users WHERE id = 1;
SELECT COUNT(*) FROM notes;
DROP TEMPORARY TABLE notes;
SELECT COUNT(*) FROM users;
SELECT COUNT(*) FROM items;
UNLOCK TABLES;
SELECT COUNT(*) FROM items;

-- Transactions under locks.
SET autocommit = 0;
LOCK TABLES users WRITE, counted WRITE;
INSERT INTO users (id) VALUES (200), (201), (202), (203);
ROLLBACK;
SELECT id FROM users WHERE id >= 200 ORDER BY id;
SELECT COUNT(*) FROM items;
INSERT INTO users (id) VALUES (204), (205), (206), (207);
SAVEPOINT a;
INSERT INTO users (id) VALUES (208), (209), (210), (211);
ROLLBACK TO a;
COMMIT;
SELECT COUNT(*) FROM items;
INSERT INTO counted (v) VALUES (100), (101);
UNLOCK TABLES;
ROLLBACK;
SELECT id FROM users WHERE id >= 200 ORDER BY id;
SELECT v FROM counted WHERE v >= 100 ORDER BY v;
LOCK TABLES users WRITE;
INSERT INTO users (id) VALUES (212), (213);
LOCK TABLES users READ;
ROLLBACK;
SELECT id FROM users WHERE id > 210 ORDER BY id;
SET autocommit = 1;
SELECT COUNT(*) FROM items;
SELECT COUNT(*) FROM users;
BEGIN;
SELECT COUNT(*) FROM items;
INSERT INTO users (id) VALUES (214), (215);
ROLLBACK;
SELECT id FROM users WHERE id > 210 ORDER BY id;
BEGIN;
INSERT INTO users (id) VALUES (216), (217);
LOCK TABLES users READ;
ROLLBACK;
SELECT id FROM users WHERE id > 210 ORDER BY id;
SAVEPOINT x;
COMMIT;
SELECT COUNT(*) FROM items;
UNLOCK TABLES;
SET TRANSACTION READ ONLY;
LOCK TABLES users READ;
SELECT COUNT(*) FROM users;
UNLOCK TABLES;
SET SESSION TRANSACTION READ ONLY;
LOCK TABLES users READ;
SELECT COUNT(*) FROM users;
UNLOCK TABLES;
LOCK TABLES users WRITE;
SET SESSION TRANSACTION READ WRITE;

-- Temporary tables, views, and what is wrong.
CREATE TEMPORARY TABLE bag (id INT, n INT);
INSERT INTO bag VALUES (1, 1), (2, 2);
LOCK TABLES users WRITE, bag READ;
INSERT INTO bag VALUES (3, 3);
SELECT users.id, bag.n FROM users JOIN bag ON bag.id = users.id ORDER BY 1;
UPDATE users SET name = 'locked' WHERE country = 'DE';
UNLOCK TABLES;
SELECT COUNT(*) FROM bag;
DROP TEMPORARY TABLE bag;
CREATE VIEW german AS SELECT id, name FROM users WHERE country = 'DE';
-- The schema is read though the view's table is locked, which costs all others a second, too.
LOCK TABLES users WRITE, plain WRITE;
ALTER TABLE plain MODIFY v BIGINT;
SELECT * FROM plain ORDER BY id;
UNLOCK TABLES;
LOCK TABLES german READ;
SELECT * FROM german ORDER BY id;
SELECT COUNT(*) FROM orders;
UNLOCK TABLES;
LOCK TABLES nowhere READ;
LOCK TABLES users READ, nowhere READ;
SELECT COUNT(*) FROM orders;
LOCK TABLES users READ;
LOCK TABLES orders READ, nowhere READ;
SELECT COUNT(*) FROM items;
LOCK TABLES users READ, users WRITE;
LOCK TABLES users READ;
LOCK TABLES orders READ, users u READ, users u READ;
SELECT COUNT(*) FROM items;
LOCK TABLES users;
LOCK TABLES users READ WRITE;
UNLOCK TABLES;
-- kind: FLUSH TABLES ... WITH READ LOCK
FLUSH TABLES users, settings WITH READ LOCK;
SELECT COUNT(*) FROM users;
SELECT COUNT(*) FROM settings;
SELECT COUNT(*) FROM orders;
UPDATE settings SET v = 'x';
UPDATE users SET name = 'x';
UNLOCK TABLES;
UPDATE settings SET v = 'x';
LOCK TABLES `countries` READ /*!32311 LOCAL */,`users` READ /*!32311 LOCAL */;
SELECT /*!40001 SQL_NO_CACHE */ * FROM `countries` ORDER BY 1;
SHOW WARNINGS;
UNLOCK TABLES;
LOCK TABLES `plain` WRITE;
/*!40000 ALTER TABLE `plain` DISABLE KEYS */;
INSERT INTO `plain` VALUES (10, 10, 10),(11, 11, 11);
/*!40000 ALTER TABLE `plain` ENABLE KEYS */;
UNLOCK TABLES;
SELECT * FROM plain ORDER BY id;
LOCK TABLES users WRITE, orders READ;
-- refused
UPDATE users SET score = 0 WHERE id IN (SELECT user_id FROM orders WHERE total > 100);
UNLOCK TABLES;
