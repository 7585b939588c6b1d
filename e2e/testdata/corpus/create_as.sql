-- include: shop
CREATE TABLE people AS SELECT * FROM users;
SELECT * FROM people ORDER BY id;
SHOW CREATE TABLE people;
CREATE TABLE keyed (PRIMARY KEY (id), KEY (email)) SELECT * FROM users WHERE id < 8;
SELECT * FROM keyed ORDER BY id;
SELECT name FROM keyed WHERE id = 4;
SHOW CREATE TABLE keyed;
UPDATE keyed SET name = 'Dea' WHERE id = 4;
SELECT name FROM keyed WHERE id = 4;
-- Columns of its own, in another order.
CREATE TABLE sums (seen INT DEFAULT 7, n BIGINT NOT NULL, PRIMARY KEY (country)) SELECT IFNULL(country, '--') AS country, COUNT(*) AS n, MAX(born) AS youngest, SUM(paid) AS paid, 'x' AS mark FROM users GROUP BY IFNULL(country, '--');
SELECT * FROM sums ORDER BY country;
SHOW CREATE TABLE sums;
CREATE TABLE firsts (id BIGINT PRIMARY KEY) SELECT id, name FROM users ORDER BY id DESC LIMIT 3;
SELECT * FROM firsts ORDER BY id;
CREATE TABLE lands AS (SELECT code, name FROM countries UNION ALL SELECT country, name FROM users);
SELECT code, COUNT(*) FROM lands GROUP BY code ORDER BY code;
CREATE TABLE joined (PRIMARY KEY (user_id, id)) WITH big AS (SELECT user_id, id, total FROM orders WHERE total > 5) SELECT b.user_id, b.id, b.total, u.name FROM big b JOIN users u ON u.id = b.user_id;
SELECT * FROM joined ORDER BY user_id, id;
CREATE TABLE one (id INT KEY) SELECT 5 AS id, 'five' AS name;
SELECT * FROM one WHERE id = 5;
CREATE TABLE counted (no INT NOT NULL AUTO_INCREMENT PRIMARY KEY) SELECT name FROM users WHERE country = 'DE' ORDER BY id;
SELECT no, name FROM counted ORDER BY name;
-- What becomes of rows with one key.
-- MariaDB leaves rows out beside these, and counts others.
-- only: mysql
CREATE TABLE twice (country VARCHAR(2) PRIMARY KEY) IGNORE SELECT country, 'any' AS name FROM users WHERE country IN ('DE', 'US');
-- only: mysql
SELECT * FROM twice ORDER BY country;
CREATE TABLE thrice (country VARCHAR(2) PRIMARY KEY) REPLACE SELECT country, 'any' AS name FROM users WHERE country IN ('DE', 'US');
SELECT * FROM thrice ORDER BY country;
-- A table that can't be filled isn't there.
CREATE TABLE failed (country VARCHAR(2) PRIMARY KEY) SELECT country FROM users WHERE country = 'DE';
SELECT * FROM failed;
CREATE TABLE failed (id BIGINT PRIMARY KEY) SELECT id, age / 0 AS n FROM users;
SELECT * FROM failed;
CREATE TABLE failed (id BIGINT PRIMARY KEY) SELECT id, nothing FROM users;
CREATE TABLE failed AS SELECT id, id FROM users;
CREATE TEMPORARY TABLE failed (id BIGINT PRIMARY KEY) SELECT id, age / 0 AS n FROM users;
SELECT * FROM failed;
-- One that is there is left as it is.
CREATE TABLE people AS SELECT id, name FROM users WHERE id = 1;
CREATE TABLE IF NOT EXISTS people AS SELECT id, name FROM users WHERE id = 1;
SHOW WARNINGS;
SELECT COUNT(*) FROM people;
CREATE TABLE IF NOT EXISTS fresh (id BIGINT PRIMARY KEY) AS SELECT id, name FROM users WHERE id < 3;
SELECT * FROM fresh ORDER BY id;
-- only: mariadb
CREATE OR REPLACE TABLE fresh (id BIGINT PRIMARY KEY) AS SELECT id, name FROM users WHERE id > 7;
SELECT * FROM fresh ORDER BY id;
-- It commits, with or without autocommit.
BEGIN;
UPDATE users SET name = 'Ann2' WHERE id = 1;
CREATE TABLE after_it (id BIGINT PRIMARY KEY) SELECT id, name FROM users WHERE id < 3;
ROLLBACK;
SELECT * FROM after_it ORDER BY id;
SET autocommit = 0;
CREATE TABLE without_it (id BIGINT PRIMARY KEY) SELECT id, name FROM users WHERE id < 3;
ROLLBACK;
SELECT * FROM without_it ORDER BY id;
SET autocommit = 1;
CREATE VIEW shown AS SELECT id, name FROM users WHERE country = 'DE';
CREATE TABLE of_a_view (id BIGINT PRIMARY KEY) SELECT * FROM shown;
SELECT * FROM of_a_view ORDER BY id;
CREATE TABLE tables_of (PRIMARY KEY (name)) SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('users', 'orders');
SELECT * FROM tables_of ORDER BY name;
-- Virtual indexes and placements of the configuration hold for it.
CREATE TABLE placed (id BIGINT NOT NULL PRIMARY KEY, ref VARCHAR(50)) SELECT id, email AS ref, name FROM users;
-- @hash id
-- @virtual idx_placed ref
SELECT id, name FROM placed WHERE ref = 'dee@x';
DROP TABLE placed;
-- refused
CREATE TABLE placed (PRIMARY KEY (ref)) SELECT id + 0 AS no, email AS ref FROM users WHERE email IS NOT NULL;
CREATE TABLE placed (PRIMARY KEY (ref)) SELECT 7 AS ID, email AS ref FROM users WHERE email IS NOT NULL;
SELECT * FROM placed WHERE id = 7 ORDER BY ref;
CREATE TABLE everywhere (PRIMARY KEY (id)) SELECT id, name FROM users;
-- @reference
SELECT u.id, e.name FROM users u JOIN everywhere e ON e.id = u.id ORDER BY u.id;
-- params: []
CREATE TABLE by_protocol (id BIGINT PRIMARY KEY) SELECT id, name FROM users;
SELECT COUNT(*) FROM by_protocol;
-- params: [4, "US"]
CREATE TABLE by_value (id BIGINT PRIMARY KEY) SELECT id, name FROM users WHERE id < ? OR country = ?;
SELECT * FROM by_value ORDER BY id;
-- params: [9]
CREATE TEMPORARY TABLE few AS SELECT id, name FROM users WHERE id >= ?;
SELECT * FROM few ORDER BY id;
SET @name = 'Eve';
PREPARE make FROM 'CREATE TABLE by_name (id BIGINT PRIMARY KEY) SELECT id, name FROM users WHERE name = ?';
EXECUTE make USING @name;
SELECT * FROM by_name ORDER BY id;
DEALLOCATE PREPARE make;
-- only: mysql
CREATE TABLE within (id BIGINT PRIMARY KEY) PARTITION BY HASH ((id)) PARTITIONS 2 AS (WITH x AS (SELECT id, name FROM users) SELECT * FROM x);
-- only: mysql
SELECT * FROM within ORDER BY id;
