-- include: shop
-- kind: CREATE TEMPORARY TABLE
CREATE TEMPORARY TABLE basket (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(20) NOT NULL, n INT DEFAULT 1, user_id BIGINT, UNIQUE KEY (sku));
-- kind: INSERT into a temporary table
INSERT INTO basket (sku, n, user_id) VALUES ('pen', 3, 1), ('ink', 1, 4), ('cup', NULL, 10);
INSERT INTO basket (sku) VALUES ('pad');
SELECT LAST_INSERT_ID();
-- kind: SELECT from a temporary table
SELECT * FROM basket ORDER BY id;
SELECT COUNT(*), SUM(n) FROM basket;
-- kind: UPDATE of a temporary table
UPDATE basket SET n = n + 1, user_id = 7 WHERE sku = 'pad';
-- kind: DELETE from a temporary table
DELETE FROM basket WHERE n IS NULL;
SELECT sku, n, user_id FROM basket ORDER BY sku;
INSERT INTO basket (sku, n) VALUES ('pen', 10) ON DUPLICATE KEY UPDATE n = n + VALUES(n);
INSERT INTO basket (sku, n) VALUES ('pen', 10);
REPLACE INTO basket (sku, n, user_id) VALUES ('ink', 5, 4);
SELECT * FROM basket ORDER BY id;
-- params: ["pen"]
SELECT id, n FROM basket WHERE sku = ?;
-- params: ["mug", 2, 5]
INSERT INTO basket (sku, n, user_id) VALUES (?, ?, ?);
-- kind: a temporary table joined with sharded ones
SELECT b.sku, u.name FROM basket b JOIN users u ON u.id = b.user_id ORDER BY b.sku;
SELECT b.sku, SUM(i.qty) AS sold FROM basket b LEFT JOIN items i ON i.sku = b.sku GROUP BY b.sku ORDER BY b.sku;
SELECT u.id FROM users u WHERE u.id NOT IN (SELECT user_id FROM basket WHERE user_id IS NOT NULL) ORDER BY u.id;
-- params: [4]
SELECT u.name, b.n FROM users u JOIN basket b ON b.user_id = u.id WHERE u.id >= ? ORDER BY u.id;
SELECT b.sku, c.name FROM basket b JOIN countries c ON c.code = 'DE' ORDER BY b.sku;
SELECT b.sku, s.v FROM basket b JOIN settings s ON s.k = 'theme' ORDER BY b.sku;
CREATE TEMPORARY TABLE copied (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40), age INT, born DATE, paid DECIMAL(10,2), score DOUBLE);
-- kind: INSERT of a sharded table's rows into a temporary one
INSERT INTO copied SELECT id, name, age, born, paid, score FROM users;
SELECT * FROM copied ORDER BY id;
SELECT COUNT(*) FROM copied WHERE age > (SELECT AVG(age) FROM users);
CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40), age INT);
-- kind: INSERT of a temporary table's rows into a sharded one
INSERT INTO kept (id, name, age) SELECT id, name, age FROM copied WHERE age > 20;
SELECT * FROM kept ORDER BY id;
INSERT INTO kept (id, name) SELECT id + 100, sku FROM basket;
SELECT id, name FROM kept WHERE id > 100 ORDER BY id;
-- kind: CREATE TEMPORARY TABLE ... SELECT
CREATE TEMPORARY TABLE sums (PRIMARY KEY (country)) SELECT IFNULL(country, '--') AS country, COUNT(*) AS n, MAX(born) AS youngest, SUM(paid) AS paid, 'x' AS mark FROM users GROUP BY IFNULL(country, '--');
SELECT * FROM sums ORDER BY country;
SHOW CREATE TABLE sums;
CREATE TEMPORARY TABLE firsts AS SELECT id, name FROM users ORDER BY id LIMIT 3;
SELECT * FROM firsts ORDER BY id;
CREATE TEMPORARY TABLE one AS SELECT * FROM orders WHERE user_id = 10;
SELECT * FROM one ORDER BY id;
DESCRIBE one;
CREATE TEMPORARY TABLE lands AS (SELECT code, name FROM countries UNION ALL SELECT country, name FROM users);
SELECT code, COUNT(*) FROM lands GROUP BY code ORDER BY code;
CREATE TEMPORARY TABLE extra (seen INT DEFAULT 7, name VARCHAR(10)) IGNORE AS SELECT name, age FROM users;
SELECT * FROM extra ORDER BY name;
CREATE TEMPORARY TABLE dup (id INT PRIMARY KEY) SELECT 1 AS id, name FROM users;
SELECT * FROM dup;
-- kind: CREATE TEMPORARY TABLE ... LIKE
CREATE TEMPORARY TABLE twin LIKE users;
INSERT INTO twin (id, email, name) VALUES (1, 'other@x', 'Other');
SELECT id, email, name FROM twin;
SELECT t.email, u.email FROM twin t JOIN users u ON u.id = t.id;
SHOW COLUMNS FROM twin;
SHOW INDEX FROM basket;
CREATE TEMPORARY TABLE orders (id INT, what VARCHAR(10));
INSERT INTO orders VALUES (1, 'mine');
SELECT * FROM orders;
SHOW CREATE TABLE orders;
DESCRIBE orders;
SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME, TABLE_TYPE;
UPDATE orders SET what = 'still';
SELECT o.what, u.name FROM orders o JOIN users u ON u.id = o.id;
-- own
EXPLAIN ROUTE SELECT * FROM orders;
-- kind: DROP TEMPORARY TABLE
DROP TEMPORARY TABLE orders;
SELECT COUNT(*) FROM orders;
DROP TEMPORARY TABLE orders;
DROP TEMPORARY TABLE IF EXISTS orders, nowhere;
SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME;
-- kind: ALTER TABLE of a temporary table
ALTER TABLE basket ADD COLUMN note VARCHAR(10) DEFAULT 'new', DROP COLUMN user_id;
SELECT * FROM basket ORDER BY id;
ALTER TABLE basket RENAME TO bag;
SELECT note, COUNT(*) FROM bag GROUP BY note;
SELECT * FROM basket;
CREATE INDEX by_note ON bag (note);
SHOW INDEX FROM bag;
DROP INDEX by_note ON bag;
BEGIN;
INSERT INTO bag (sku) VALUES ('map');
UPDATE users SET age = age + 1 WHERE id = 1;
CREATE TEMPORARY TABLE inside (id INT);
INSERT INTO inside VALUES (1), (2);
SELECT COUNT(*) FROM bag;
SELECT i.id, u.age FROM inside i JOIN users u ON u.id = i.id ORDER BY i.id;
ROLLBACK;
SELECT COUNT(*) FROM bag;
SELECT age FROM users WHERE id = 1;
SELECT COUNT(*) FROM inside;
BEGIN;
UPDATE users SET age = age + 1 WHERE id = 1;
DROP TEMPORARY TABLE inside;
ROLLBACK;
SELECT age FROM users WHERE id = 1;
SET autocommit = 0;
INSERT INTO bag (sku) VALUES ('log');
INSERT INTO kept (id, name) SELECT 200, sku FROM bag WHERE sku = 'log';
ROLLBACK;
SET autocommit = 1;
SELECT COUNT(*) FROM bag WHERE sku = 'log';
SELECT COUNT(*) FROM kept WHERE id = 200;
-- kind: UPDATE of sharded rows by a temporary table
UPDATE kept k JOIN copied c ON c.id = k.id SET k.name = CONCAT(c.name, '!');
SELECT name FROM kept WHERE id < 100 ORDER BY id;
DELETE FROM kept WHERE id IN (SELECT id FROM firsts);
SELECT id FROM kept WHERE id < 100 ORDER BY id;
UPDATE copied c JOIN users u ON u.id = c.id SET c.name = u.email WHERE u.country = 'DE';
SELECT name FROM copied ORDER BY id;
-- kind: TRUNCATE of a temporary table
TRUNCATE TABLE bag;
SELECT COUNT(*) FROM bag;
-- refused
CREATE VIRTUAL INDEX bag_sku ON bag (sku);
-- kind: a virtual index on a temporary table
-- refused
CREATE INDEX bag_sku ON bag (sku) COMMENT 'virtual';
-- kind: other tables, views made of temporary ones
-- refused
CREATE TABLE more LIKE bag;
-- refused
CREATE VIEW bag_view AS SELECT * FROM bag;
-- refused
RENAME TABLE bag TO sack;
CREATE TEMPORARY TABLE bag (id INT);
CREATE TEMPORARY TABLE IF NOT EXISTS bag (id INT);
CREATE TEMPORARY TABLE IF NOT EXISTS copied AS SELECT id FROM users;
SELECT COUNT(*) FROM copied;
SET sql_mode = 'ANSI_QUOTES';
SELECT "sku" FROM bag;
SET sql_mode = DEFAULT, @x = 5;
INSERT INTO bag (sku, n) VALUES ('last', @x);
SELECT sku, n FROM bag;
DROP TABLE bag;
SELECT * FROM bag;
DROP TEMPORARY TABLE copied, sums, firsts, one, lands, extra, twin;
SELECT * FROM twin;
SELECT COUNT(*) FROM users;
-- What temporary tables hide is there all the same.
CREATE TEMPORARY TABLE settings (k INT);
CREATE TEMPORARY TABLE flags (k INT);
SHOW FULL TABLES;
SHOW TABLES LIKE 's%';
SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name IN ('settings', 'flags', 'users') ORDER BY table_name;
CREATE TABLE fired (id BIGINT NOT NULL PRIMARY KEY, n INT);
-- @hash id
CREATE TRIGGER fires BEFORE INSERT ON fired FOR EACH ROW SET NEW.n = 1;
CREATE TEMPORARY TABLE fired (k INT);
DROP TRIGGER fires;
DROP TEMPORARY TABLE settings, flags, fired;
INSERT INTO fired VALUES (1, NULL), (2, NULL), (3, NULL), (4, NULL);
SELECT * FROM fired ORDER BY id;
