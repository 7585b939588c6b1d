-- include: shop
-- kind: INSERT
INSERT INTO users (id, email, country, name, age) VALUES (20, 'new@x', 'DE', 'New', 1);
-- kind: INSERT of several rows
INSERT INTO users (id, email, age) VALUES (21, 'a21', 21), (22, 'a22', NULL), (23, 'a23', 23), (24, 'a24', 24);
INSERT INTO users (id, email) VALUES (1, 'dup');
INSERT INTO users (id, email) VALUES (30, 'a30'), (31, 'a31'), (1, 'dup'), (32, 'a32');
SELECT id, email, age FROM users ORDER BY id;
-- kind: INSERT IGNORE
INSERT IGNORE INTO users (id, email) VALUES (33, 'a33'), (1, 'dup'), (34, 'a34');
INSERT INTO users SET id = 40, email = 'set@x';
INSERT INTO users VALUES (41, 'all@x', 'FR', 'All', 41, '2000-01-01', 4.10, 4.1);
-- kind: INSERT ... ON DUPLICATE KEY UPDATE
INSERT INTO users (id, email, age) VALUES (1, 'z', 9), (50, 'z', 9), (2, 'z', 9) ON DUPLICATE KEY UPDATE age = age + 1, name = 'odku';
SELECT id, email, age, name FROM users WHERE age IS NOT NULL ORDER BY id;
-- kind: REPLACE
REPLACE INTO users (id, email) VALUES (1, 'replaced'), (60, 'a60');
-- kind: INSERT into a reference table
INSERT INTO countries VALUES ('IT', 'Italy', 'EU'), ('ES', 'Spain', 'EU');
INSERT INTO countries (code) VALUES ('DE');
INSERT IGNORE INTO countries (code) VALUES ('DE'), ('PT');
REPLACE INTO countries VALUES ('IT', 'Italia', 'EU');
SELECT * FROM countries ORDER BY code;
-- kind: INSERT into a table on one shard
INSERT INTO settings VALUES ('new', 'x');
-- kind: INSERT into a table placed anywhere
INSERT INTO legacy (id, ref) VALUES (10, 'r10'), (11, 'r11');
-- kind: INSERT ... SELECT by the shard key
INSERT INTO items (user_id, order_id, sku, qty) SELECT user_id, id, 'gift', 1 FROM orders WHERE total > 20;
SELECT * FROM items ORDER BY user_id, order_id, sku;
-- kind: INSERT ... SELECT that moves rows
INSERT INTO orders (user_id, id, code) SELECT id + 100, 1, email FROM users WHERE id < 5;
SELECT * FROM orders ORDER BY user_id, id;
INSERT INTO users (id, email, nothing) VALUES (70, 'x', 1);
INSERT INTO users (id, email) VALUES (71);
INSERT INTO users (id, age) VALUES (72, 'abc');
INSERT INTO users (id, country) VALUES (73, 'DEU');
-- refused
INSERT INTO users (id, email) VALUES (NULL, 'n');
-- params: [80, "p80", null]
INSERT INTO users (id, email, age) VALUES (?, ?, ?);
SELECT id, email, age, country FROM users ORDER BY id;
-- kind: INSERT by an expression for the shard key
INSERT INTO users (id, name) VALUES (400 + 1, 'sum'), (-(-402), 'negative'), (403, 'plain');
INSERT INTO orders (user_id, id, code) VALUES (CAST('404' AS SIGNED), 1, CONCAT('a', 'b')), (ROUND(405.4), 1, UPPER('x')), (1e2 * 4 + 6, 2, NULL);
INSERT INTO users SET name = 'set', id = POW(2, 3) + 400, age = 1 + 1;
INSERT INTO users (id, name) VALUES (400 + 1, 'again') ON DUPLICATE KEY UPDATE name = CONCAT(VALUES(name), '!'), age = 5;
REPLACE INTO users (id, name) VALUES (LENGTH('xx') + 400, 'replaced');
INSERT INTO users (id, name) VALUES (400 + 1, 'duplicate');
INSERT INTO users (id, name) VALUES (9223372036854775807 + 1, 'out of range');
INSERT INTO legacy (id, note) VALUES (400 + 9, 'expression');
SELECT id, name, age FROM users WHERE id > 400 ORDER BY id;
SELECT * FROM orders WHERE user_id IN (404, 405, 406);
SELECT * FROM legacy WHERE id = 409;
