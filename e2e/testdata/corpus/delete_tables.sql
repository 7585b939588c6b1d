-- include: shop
-- Each table by its own key, as `default: {placement: hash}` has them.
CREATE TABLE posts (id INT NOT NULL PRIMARY KEY, author VARCHAR(20) NOT NULL, at DATETIME);
-- @hash id
-- @virtual idx_author author
CREATE TABLE comments (id INT NOT NULL PRIMARY KEY, post_id INT, line VARCHAR(20));
-- @hash id
-- @virtual idx_post post_id
CREATE TABLE tags (post_id INT NOT NULL, tag VARCHAR(10) NOT NULL, n INT, PRIMARY KEY (tag, post_id));
-- @hash tag
CREATE TABLE notes (id INT NOT NULL PRIMARY KEY, post_id INT);
-- @single s0
INSERT INTO posts VALUES (1, 'ann', '2020-01-01'), (2, 'bob', '2021-01-01'), (3, 'ann', NULL), (4, 'cid', '2022-01-01'), (5, 'dee', '2023-01-01'), (6, 'eve', '2024-01-01');
INSERT INTO comments VALUES (10, 1, 'a'), (11, 1, 'b'), (12, 2, 'c'), (13, 3, 'd'), (14, 4, 'e'), (15, 4, 'f'), (16, 9, 'g'), (17, NULL, 'h'), (18, 6, 'i');
INSERT INTO tags VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3), (4, 'z', 4), (5, 'X2', 5), (6, 'é', 6);
INSERT INTO notes VALUES (100, 1), (101, 2), (102, 6);
BEGIN;
DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id WHERE p.author = 'ann';
SELECT ROW_COUNT(), FOUND_ROWS();
SELECT id FROM posts ORDER BY id;
SELECT id FROM comments ORDER BY id;
SELECT id FROM posts WHERE author = 'ann';
SELECT id FROM comments WHERE post_id = 1;
ROLLBACK;
BEGIN;
DELETE p, c, t FROM posts p LEFT JOIN comments c ON c.post_id = p.id LEFT JOIN tags t ON t.post_id = p.id WHERE p.id IN (1, 5);
SELECT id FROM posts ORDER BY id;
SELECT id FROM comments ORDER BY id;
SELECT post_id, tag FROM tags ORDER BY tag, post_id;
ROLLBACK;
BEGIN;
DELETE FROM p, c USING posts AS p INNER JOIN comments AS c WHERE c.post_id = p.id AND c.line > 'c';
SELECT id FROM posts ORDER BY id;
SELECT id FROM comments ORDER BY id;
ROLLBACK;
BEGIN;
DELETE a, b FROM comments a, comments b WHERE b.id = a.id + 1 AND a.post_id = b.post_id;
SELECT id FROM comments ORDER BY id;
ROLLBACK;
BEGIN;
DELETE posts, notes FROM posts JOIN notes ON notes.post_id = posts.id WHERE posts.at > '2020-06-01';
SELECT id FROM posts ORDER BY id;
SELECT id FROM notes ORDER BY id;
ROLLBACK;
BEGIN;
DELETE IGNORE posts.*, tags.* FROM posts JOIN tags ON tags.post_id = posts.id WHERE tags.tag IN ('x', 'É');
SELECT id FROM posts ORDER BY id;
SELECT post_id, tag FROM tags ORDER BY tag, post_id;
ROLLBACK;
BEGIN;
-- refused
WITH old AS (SELECT 4 AS id UNION SELECT 5) DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id JOIN old ON old.id = p.id;
SELECT id FROM posts ORDER BY id;
ROLLBACK;
SET sql_safe_updates = 1;
DELETE p, t FROM posts p JOIN tags t ON t.n = p.id WHERE p.at > '2020-01-01';
BEGIN;
DELETE a, b FROM comments a JOIN comments b ON b.id = a.id + 1 WHERE a.id = 10 AND b.id = 11;
SELECT id FROM comments ORDER BY id;
ROLLBACK;
SET sql_safe_updates = 0;
PREPARE d FROM 'DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id WHERE p.id > ? AND c.line < ?';
SET @id = 1, @line = 'e';
EXECUTE d USING @id, @line;
EXECUTE d USING @id, @line;
SELECT id FROM posts ORDER BY id;
SELECT id FROM comments ORDER BY id;
DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id WHERE p.nothing = 1;
DELETE p, x FROM posts p JOIN comments c ON c.post_id = p.id;
DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id WHERE p.id = 999;
SELECT id FROM posts WHERE author = 'bob';
SELECT COUNT(*) FROM comments WHERE post_id = 4;
-- Shunt takes no account of what one subquery would have a server refuse.
-- refused
DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id WHERE p.id IN (SELECT post_id FROM tags WHERE n > 100);
-- own
EXPLAIN ROUTE DELETE p, c FROM posts p JOIN comments c ON c.post_id = p.id;
