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
-- kind: REPLACE, INSERT IGNORE, ON DUPLICATE KEY UPDATE into a table placed anywhere
REPLACE INTO legacy (id, ref, note) VALUES (1, 'r1', 'replaced'), (500, 'r500', 'new'), (2, NULL, 'it''s');
INSERT IGNORE INTO legacy (id, ref) VALUES (1, 'left'), (501, 'r501'), (501, 'twice'), (3, 'left');
INSERT INTO legacy (id, ref) VALUES (2, 'u2'), (502, 'u502'), (502, 'again') ON DUPLICATE KEY UPDATE ref = CONCAT(VALUES(ref), '!'), note = 'updated';
INSERT INTO legacy SET id = 3, ref = 'set' ON DUPLICATE KEY UPDATE ref = VALUES(ref);
-- only: mysql
INSERT INTO legacy (id, ref) VALUES (3, 'x'), (503, 'y') AS new ON DUPLICATE KEY UPDATE ref = CONCAT(new.ref, new.id);
REPLACE INTO legacy SET id = 100 + 404, note = 'computed';
INSERT IGNORE INTO legacy (id, note) VALUES (505.4, 'rounded'), ('506', 'text');
INSERT INTO legacy (id, note) VALUES (NULL, 'no id');
REPLACE INTO legacy (note) VALUES ('no id');
-- kind: ON DUPLICATE KEY UPDATE of a unique column of a table placed anywhere
-- refused
INSERT INTO legacy (id, ref) VALUES (1, 'x') ON DUPLICATE KEY UPDATE id = 2;
INSERT INTO legacy (id, ref) VALUES (507, REPEAT('long', 20)), (508, 'y') ON DUPLICATE KEY UPDATE ref = 'z';
REPLACE INTO legacy (id, note) SELECT id, name FROM users WHERE id < 4;
INSERT IGNORE INTO legacy (id, note) SELECT id, 'ignored' FROM users WHERE id < 12;
BEGIN;
REPLACE INTO legacy (id, note) VALUES (1, 'undone'), (509, 'undone');
SELECT id, note FROM legacy WHERE note = 'undone';
ROLLBACK;
SELECT * FROM legacy ORDER BY id;
SELECT * FROM legacy WHERE ref = 'r1';
CREATE TABLE tags (tag VARCHAR(20) DEFAULT 'none', n INT, KEY (tag));
-- @hash tag
INSERT INTO tags VALUES (NULL, 1), ('none', 2), (NULL, 3), ('a', 4);
INSERT INTO tags (n) VALUES (5), (6);
INSERT INTO tags VALUES (DEFAULT, 7);
SELECT tag, n FROM tags ORDER BY n;
SELECT n FROM tags WHERE tag IS NULL ORDER BY n;
SELECT n FROM tags WHERE tag <=> NULL ORDER BY n;
SELECT n FROM tags WHERE tag = 'none' ORDER BY n;
SELECT tag, COUNT(*), SUM(n) FROM tags GROUP BY tag ORDER BY tag;
SELECT DISTINCT tag FROM tags ORDER BY tag;
SELECT COUNT(*) FROM tags x JOIN tags y ON x.tag <=> y.tag;
SELECT COUNT(*) FROM tags x LEFT JOIN tags y ON x.tag = y.tag;
DELETE FROM tags WHERE tag IS NULL;
INSERT INTO users (id, name) VALUES (NULL, 'no id');
INSERT INTO users (name) VALUES ('no id');
DROP TABLE tags;
-- only: mysql
INSERT INTO countries VALUES ('ZZ', 'Z', 'Z') RETURNING code;
-- only: mysql
DELETE FROM countries WHERE code = 'ZZ' RETURNING code;
INSERT INTO orders (user_id, id) SELECT 700, (SELECT COUNT(u.id)) FROM users u;
SELECT COUNT(*) FROM orders WHERE user_id = 700;
CREATE TABLE docs (id BIGINT NOT NULL PRIMARY KEY, doc JSON, txt TEXT);
-- @hash id
INSERT INTO docs (id, doc) SELECT id + 1, JSON_OBJECT('name', name, 'at', id, 'score', score, 'x', '1.50"') FROM users;
-- only: mysql
-- refused
INSERT INTO docs (id, doc) SELECT id + 100, JSON_OBJECT('paid', paid) FROM users;
INSERT INTO docs (id, txt) SELECT id + 200, JSON_OBJECT('paid', paid) FROM users WHERE id < 3;
SELECT * FROM docs WHERE id NOT BETWEEN 100 AND 199 ORDER BY id;
-- kind: INSERT of a subquery's value
INSERT INTO orders (user_id, id, code) VALUES ((SELECT id FROM users WHERE email = 'a23'), 900, (SELECT email FROM users WHERE id = 24)), (24, (SELECT COUNT(*) FROM items), 'count');
INSERT INTO settings VALUES ('n', (SELECT COUNT(*) FROM users)), ('none', (SELECT email FROM users WHERE id = -1)), ('sum', ((SELECT SUM(score) FROM users)));
REPLACE INTO settings SET k = 'n1', v = (SELECT name FROM users WHERE id = 20);
INSERT INTO settings VALUES ('two', (SELECT email FROM users));
INSERT INTO settings VALUES ('two', (SELECT email, id FROM users WHERE id = 1));
INSERT INTO settings VALUES ('nothing', (SELECT nothing FROM users WHERE id = 1));
INSERT INTO users (id, age) VALUES (901, (SELECT code FROM orders WHERE user_id = 24 AND code = 'count'));
-- params: ["a23", 902, "p"]
INSERT INTO orders (user_id, id, code) VALUES ((SELECT id FROM users WHERE email = ?), ?, ?) ON DUPLICATE KEY UPDATE code = VALUES(code);
BEGIN;
INSERT INTO orders (user_id, id, total) VALUES ((WITH x AS (SELECT MAX(id) AS n FROM users) SELECT n FROM x), 903, (SELECT MAX(qty) FROM items o WHERE EXISTS (SELECT * FROM users u WHERE u.id = o.user_id)));
-- only: mariadb
INSERT INTO orders (user_id, id, total) VALUES (1, 903, (SELECT MAX(total) FROM orders o WHERE EXISTS (SELECT * FROM users u WHERE u.id = o.user_id)));
SELECT COUNT(*) FROM orders WHERE id = 903;
ROLLBACK;
-- refused
INSERT INTO settings VALUES ('later', (SELECT COUNT(*) FROM users WHERE born < NOW()));
INSERT INTO settings VALUES (CONCAT('more', 1), (SELECT COUNT(*) FROM users) + 1), ('most', COALESCE((SELECT email FROM users WHERE id = -1), (SELECT MAX(email) FROM users), '')), ('x', EXISTS (SELECT * FROM orders WHERE user_id = 24));
-- refused
INSERT INTO settings (k, v) VALUES ('more2', CONCAT(k, (SELECT COUNT(*) FROM users)));
SELECT * FROM orders WHERE id >= 900 OR code = 'count' ORDER BY id, user_id;
SELECT * FROM settings ORDER BY k;
-- refused
INSERT INTO settings VALUES ('theme', 1) ON DUPLICATE KEY UPDATE v = (SELECT COUNT(*) FROM orders);
-- refused
INSERT INTO settings SELECT 'theme', 1 ON DUPLICATE KEY UPDATE v = (SELECT COUNT(*) FROM orders);
-- refused
INSERT INTO orders (user_id, id, total) SELECT id, 1, 5 FROM users ON DUPLICATE KEY UPDATE total = (SELECT COUNT(*) FROM items);
INSERT INTO orders (user_id, id, total) SELECT id, 1, 5 FROM users ON DUPLICATE KEY UPDATE total = (SELECT COUNT(*) FROM countries);
INSERT INTO settings SELECT 'users', (SELECT COUNT(*) FROM users);
INSERT INTO settings VALUES ('countries', (SELECT COUNT(*) FROM countries));
SELECT * FROM settings WHERE k IN ('users', 'countries') ORDER BY k;
SELECT user_id, total FROM orders WHERE id = 1 ORDER BY user_id;
-- Rows that move, and names behind ON DUPLICATE KEY UPDATE that both tables have.
BEGIN;
INSERT INTO orders (user_id, id, total) SELECT id + 1, 1, age FROM users ON DUPLICATE KEY UPDATE total = id;
INSERT INTO orders (user_id, id, total) SELECT id + 1, 1, age FROM users WHERE id > 100 ON DUPLICATE KEY UPDATE total = COALESCE(NULL, id);
INSERT IGNORE INTO orders (user_id, id, total) SELECT u.id + 1, 1, u.age FROM users u JOIN orders o ON o.user_id = u.id ON DUPLICATE KEY UPDATE total = total + 1;
INSERT INTO orders (user_id, id, total) SELECT u.id + 1, 1, u.age FROM (SELECT id, age FROM users) u ON DUPLICATE KEY UPDATE total = id;
-- params: [1]
INSERT INTO orders (user_id, id, total) SELECT user_id + 1, 1, qty FROM items ON DUPLICATE KEY UPDATE total = user_id + ?;
INSERT INTO orders (user_id, id, total) SELECT id + 1, 1, age FROM users ORDER BY id LIMIT 3 ON DUPLICATE KEY UPDATE total = orders.id + 1;
INSERT INTO orders (user_id, id, total) SELECT u.id + 1, 1, u.age FROM (SELECT id, age FROM users) u ON DUPLICATE KEY UPDATE total = total + VALUES(total);
INSERT INTO orders (user_id, id, total) SELECT user_id + 1, 1, MAX(qty) FROM items GROUP BY user_id ON DUPLICATE KEY UPDATE total = user_id;
SELECT user_id, total FROM orders WHERE id = 1 ORDER BY user_id;
ROLLBACK;
-- What all rows are given there may be assigned, though it is the shard key, or unique.
BEGIN;
-- kind: ON DUPLICATE KEY UPDATE of the shard key to what is inserted
INSERT INTO users (id, name) VALUES (2, 'bob') ON DUPLICATE KEY UPDATE id = 2, name = 'bob2';
INSERT INTO users (id, name) VALUES ('3', 'cid') ON DUPLICATE KEY UPDATE id = 3, name = 'cid2';
INSERT INTO users (id, name) VALUES (910, 'new') ON DUPLICATE KEY UPDATE id = 910, name = 'old';
INSERT INTO users (id, name) VALUES (910, 'new') ON DUPLICATE KEY UPDATE name = 'old', id = '910';
-- params: [4, "dee", 4, "dee2"]
INSERT INTO users (id, name) VALUES (?, ?) ON DUPLICATE KEY UPDATE id = ?, name = ?;
INSERT INTO users SET id = 5, name = 'eve' ON DUPLICATE KEY UPDATE id = 5, name = 'eve2';
INSERT INTO legacy (id, ref) VALUES (1, 'r1') ON DUPLICATE KEY UPDATE id = 1, ref = 'r9';
-- refused
INSERT INTO users (id, name) VALUES (2, 'bob') ON DUPLICATE KEY UPDATE id = 3;
-- refused
INSERT INTO users (id, name) VALUES (2, 'bob'), (3, 'cid') ON DUPLICATE KEY UPDATE id = 2;
-- params: [2, "bob", 3]
-- refused
INSERT INTO users (id, name) VALUES (?, ?) ON DUPLICATE KEY UPDATE id = ?;
SELECT id, name FROM users WHERE id IN (2, 3, 4, 5, 910) ORDER BY id;
SELECT id, ref FROM legacy WHERE id = 1;
ROLLBACK;
-- kind: INSERT of a subquery over the table itself
INSERT INTO users (id, name) VALUES ((SELECT MAX(u0.id) + 1 FROM users u0), 'next');
INSERT INTO users (id, name, age) VALUES (9001, 'most', (SELECT MAX(u0.age) + 1 FROM users u0 JOIN orders o ON o.user_id <= u0.id));
INSERT INTO users SET id = 9002, age = (SELECT COUNT(*) FROM (SELECT id FROM users) t);
REPLACE INTO users (id, age) VALUES (9002, (SELECT COUNT(*) FROM users u));
INSERT INTO users (id, name) VALUES ((SELECT MAX(id) + 1 FROM users), 'own name');
INSERT INTO legacy (id, ref) VALUES (90, (SELECT COUNT(*) FROM legacy l));
SELECT id, name, age FROM users WHERE id > 10 ORDER BY id;
SELECT * FROM legacy WHERE id = 90;
-- only: mariadb
INSERT INTO users (id, name) VALUES (2, 'q2') ON DUPLICATE KEY UPDATE id = VALUE(id), email = VALUE(email), name = CONCAT(VALUE(name), 'x');
SELECT id, name, email FROM users WHERE id = 2;
SELECT id, name FROM users WHERE email = 'bob@x';
INSERT INTO items (user_id, order_id, sku, qty) VALUES (1, 90, 'u', (SELECT MAX(UNIX_TIMESTAMP(placed)) FROM orders)), (2, 91, 'u', (SELECT UNIX_TIMESTAMP(born) FROM users WHERE id = 1));
SELECT * FROM items WHERE order_id > 80 ORDER BY order_id;
CREATE TABLE days (d DATE PRIMARY KEY, n INT);
-- kind: INSERT of the shard key in another form than the column's
INSERT INTO users (id, name) VALUES (b'1001011', 'bits'), (7.3e1, 'double'), (0x4A, 'hexadecimal'), (80 + 1, 'sum');
INSERT INTO days VALUES ('2024-01-04', 1), ('2024-1-6', 3), (20240107, 4), (DATE '2024-01-08', 5);
INSERT INTO days (n, d) VALUES (6, '2024-2-3');
REPLACE INTO days (n, d) VALUES (7, '2024-2-03');
INSERT INTO days VALUES ('2024-1-40', 1);
-- params: ["2024-3-1", 4]
INSERT INTO days VALUES (?, ?);
SELECT id, name FROM users WHERE id BETWEEN 70 AND 90 ORDER BY id;
SELECT name FROM users WHERE id = 75;
SELECT * FROM days ORDER BY d;
SELECT n FROM days WHERE d = '2024-02-03';
CREATE TABLE numbers (id INT AUTO_INCREMENT PRIMARY KEY, a INT);
SET NAMES binary;
INSERT INTO numbers VALUES ('8', 1), (NULL, 2);
SET NAMES utf8mb4;
SELECT * FROM numbers ORDER BY id;
-- ON DUPLICATE KEY UPDATE of a unique column to what the row has there
CREATE TABLE pairs (id INT NOT NULL PRIMARY KEY, code VARCHAR(10), n INT, UNIQUE KEY (code));
-- @anywhere
-- @virtual idx_pair code
INSERT INTO pairs VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3);
INSERT INTO pairs (id, code, n) VALUES (4, 'c', 4) ON DUPLICATE KEY UPDATE code = 'c', n = 40;
INSERT INTO pairs (id, code, n) VALUES (4, 'c', 4) ON DUPLICATE KEY UPDATE code = 'c', n = n + 40;
INSERT INTO pairs (id, code, n) VALUES (5, 'c', 5) ON DUPLICATE KEY UPDATE code = 'c', n = 50;
INSERT INTO pairs (id, code, n) VALUES (4, 'd', 6) ON DUPLICATE KEY UPDATE code = 'd', n = 60;
INSERT INTO pairs (id, code, n) VALUES (2, 'B', 8) ON DUPLICATE KEY UPDATE code = 'B', n = 80;
INSERT INTO pairs (id, code, n) VALUES (8, 'f', 8), (9, 'f', 9) ON DUPLICATE KEY UPDATE code = 'f', n = n + 100;
INSERT INTO pairs (id, code, n) VALUES (3, NULL, 9) ON DUPLICATE KEY UPDATE code = NULL, n = 90;
INSERT INTO pairs SET id = 9, code = 'g' ON DUPLICATE KEY UPDATE code = 'g', id = 9;
-- params: [9, "h", 1, "h"]
INSERT INTO pairs (id, code, n) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE code = ?;
SELECT * FROM pairs ORDER BY id;
SELECT id FROM pairs WHERE code = 'b';
CREATE TABLE mails (id INT NOT NULL, email VARCHAR(20) NOT NULL, n INT, PRIMARY KEY (id), UNIQUE KEY (id, email));
-- @hash id
-- @virtual idx_mail email
INSERT INTO mails VALUES (1, 'a', 1), (2, 'b', 2) ON DUPLICATE KEY UPDATE email = 'x';
INSERT INTO mails VALUES (1, 'c', 3) ON DUPLICATE KEY UPDATE id = 1, email = 'c', n = 30;
INSERT INTO mails VALUES (2, 'd', 4), (3, 'd', 5) ON DUPLICATE KEY UPDATE email = 'd', n = 40;
SELECT * FROM mails ORDER BY id;
SELECT id FROM mails WHERE email = 'd' ORDER BY id;
