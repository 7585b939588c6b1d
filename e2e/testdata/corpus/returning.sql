-- include: shop
-- only: mariadb
CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY, v INT, t VARCHAR(20) DEFAULT 'x', KEY (v));
-- @hash id
-- @virtual idx_v v
CREATE TABLE counted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, v INT);
-- @hash id
CREATE TABLE alone (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, v INT);
-- @single s0
INSERT INTO kept (id, v) VALUES (1, 10) RETURNING id;
SELECT ROW_COUNT();
INSERT INTO kept (id, v) VALUES (2, 20), (3, 30), (4, 40), (5, 50), (6, 60) RETURNING *;
SELECT ROW_COUNT();
INSERT INTO kept SET id = 7, v = 70 RETURNING v + 1 AS w, t;
INSERT INTO kept VALUES (8, 80, NULL), (9, 90, 'q') RETURNING CONCAT(id, '-', t) `text`, 'it''s', id;
INSERT INTO kept (id) VALUES (5), (10) RETURNING id;
-- check: multiset
INSERT IGNORE INTO kept (id, v) VALUES (5, 1), (10, 100), (11, 110) RETURNING id, v;
SHOW WARNINGS;
INSERT INTO kept (id, v) VALUES (5, 1), (12, 120) ON DUPLICATE KEY UPDATE v = v + 1 RETURNING id, v;
REPLACE INTO kept (id, v) VALUES (12, 121) RETURNING id, v, t;
REPLACE INTO kept (id, v) VALUES (12, 122), (13, 130), (1, 11) RETURNING id, v;
SELECT * FROM kept ORDER BY id;
-- params: [14, 140, 15, 150, 16, 160]
INSERT INTO kept (id, v) VALUES (?, ?), (?, ?), (?, ?) RETURNING id, v, t;
-- params: [7, 17]
INSERT INTO kept (id, v) VALUES (17, 170) RETURNING id + ?, ? AS x;
-- params: [17]
DELETE FROM kept WHERE id = ? RETURNING id, v;
DELETE FROM kept WHERE id = 16 RETURNING *;
DELETE FROM kept WHERE id = 99 RETURNING *;
DELETE FROM kept WHERE v = 150 RETURNING id;
-- check: multiset
DELETE FROM kept WHERE id > 10 RETURNING id, v;
SELECT ROW_COUNT(), FOUND_ROWS();
-- check: multiset
DELETE FROM kept WHERE v BETWEEN 20 AND 40 RETURNING t, v;
DELETE FROM kept WHERE id = 5 ORDER BY id LIMIT 1 RETURNING id;
SELECT * FROM kept ORDER BY id;
-- refused
DELETE FROM kept ORDER BY id RETURNING id;
-- refused
DELETE FROM kept LIMIT 2 RETURNING id;
INSERT INTO counted (v) VALUES (1) RETURNING id, v;
SELECT LAST_INSERT_ID();
INSERT INTO counted (v) VALUES (2), (3), (4), (5) RETURNING id, v;
SELECT LAST_INSERT_ID();
-- check: multiset
INSERT IGNORE INTO counted VALUES (3, 33), (NULL, 6), (NULL, 7) RETURNING v;
INSERT INTO counted (id, v) VALUES (100, 100) RETURNING id;
SELECT id, v FROM counted WHERE id < 6 ORDER BY id;
INSERT INTO alone (v) VALUES (1) RETURNING id, v;
SELECT LAST_INSERT_ID();
INSERT INTO alone (v) VALUES (2), (3) RETURNING id, v;
SELECT LAST_INSERT_ID();
INSERT INTO alone VALUES (50, 3) RETURNING id, v;
SELECT LAST_INSERT_ID();
DELETE FROM alone WHERE v > 2 ORDER BY id LIMIT 1 RETURNING id;
INSERT INTO countries VALUES ('AA', 'Aa', 'A'), ('AB', 'Ab', 'A') RETURNING code, region;
-- check: multiset
DELETE FROM countries WHERE region = 'A' RETURNING code, name;
SELECT COUNT(*) FROM countries;
INSERT INTO alone (v) SELECT 9 FROM countries WHERE code IN ('DE', 'FR') RETURNING v;
BEGIN;
INSERT INTO kept (id, v) VALUES (21, 1), (22, 2), (23, 3) RETURNING id;
DELETE FROM kept WHERE id = 22 RETURNING id, v;
ROLLBACK;
SELECT * FROM kept ORDER BY id;
INSERT INTO kept (id, v) VALUES (31, 1), (32, 2), (33, 3), (1, 4), (34, 5) RETURNING id;
SELECT * FROM kept ORDER BY id;
DELETE FROM kept WHERE id < 100 RETURNING nosuch;
DELETE FROM kept WHERE id < 100 RETURNING COUNT(*);
DELETE FROM kept WHERE id < 100 RETURNING;
DELETE FROM kept WHERE id < 100 RETURNING id FROM kept;
UPDATE kept SET v = 1 RETURNING id;
SELECT * FROM kept ORDER BY id;
INSERT INTO kept (id, v) VALUES (50 + 1, 1), (50 + 2, 2) RETURNING id;
