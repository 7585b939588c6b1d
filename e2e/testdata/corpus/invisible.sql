-- Invisible columns: a * doesn't answer them, rows without a list of columns have no values for them.
CREATE TABLE people (id INT NOT NULL PRIMARY KEY, age INT, name VARCHAR(10));
-- @hash id
INSERT INTO people VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd'), (5, 50, 'e');
CREATE TABLE hidden (hid INT INVISIBLE, id INT NOT NULL PRIMARY KEY, v INT, z INT);
-- @hash id
INSERT INTO hidden VALUES (1, 101, 1), (2, 202, 2), (3, 303, 3), (4, 404, 4);
INSERT INTO hidden (hid, id, v, z) VALUES (9, 5, 505, 5), (9, 6, 606, 6);
SELECT * FROM hidden ORDER BY id;
CREATE TABLE taken (x INT, id INT NOT NULL PRIMARY KEY, z INT);
-- @hash id
INSERT INTO taken SELECT * FROM hidden;
SELECT * FROM taken ORDER BY id;
SELECT * FROM taken WHERE id = 101;
SELECT * FROM taken WHERE id = 202;
SELECT * FROM taken WHERE id = 303;
SELECT * FROM taken WHERE id = 404;
CREATE TABLE half (hid INT INVISIBLE, id INT NOT NULL PRIMARY KEY, v INT);
-- @hash id
INSERT INTO half SELECT age, id FROM people;
INSERT INTO half VALUES (1, 2), (2, 2), (3, 2);
REPLACE INTO half VALUES (2, 7), (3, 7);
INSERT INTO half VALUES (2, 8), (33, 8) ON DUPLICATE KEY UPDATE v = VALUES(v), hid = 5;
SELECT hid, id, v FROM half ORDER BY id;
SELECT * FROM half WHERE id = 10;
SELECT * FROM half WHERE id = 20;
SELECT * FROM half WHERE id = 30;
SELECT * FROM half WHERE id = 40;
SELECT * FROM half WHERE id = 50;
INSERT INTO half SELECT id + 100, v FROM half;
SELECT COUNT(*), SUM(hid), SUM(v) FROM half;
-- MySQL's NATURAL JOIN isn't on invisible columns, MariaDB's is.
CREATE TABLE na (id INT NOT NULL INVISIBLE PRIMARY KEY, v INT);
-- @hash id
CREATE TABLE nb (id INT NOT NULL INVISIBLE PRIMARY KEY, v INT);
-- @hash id
INSERT INTO na (id, v) VALUES (1, 1), (2, 2), (3, 3), (4, 1);
INSERT INTO nb (id, v) VALUES (1, 2), (2, 1), (3, 3), (5, 1);
SELECT COUNT(*) FROM na NATURAL JOIN nb;
SELECT na.id, nb.id FROM na NATURAL JOIN nb ORDER BY 1, 2;
SELECT * FROM na NATURAL LEFT JOIN nb ORDER BY 1;
SELECT * FROM na JOIN nb USING (id) ORDER BY na.id;
-- An AUTO_INCREMENT column that the rows don't name.
CREATE TABLE counted (id BIGINT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY, v INT, w INT);
-- @hash id
INSERT INTO counted VALUES (1, 2);
INSERT INTO counted VALUES (3, 4), (5, 6), (7, 8);
INSERT INTO counted (v) VALUES (9);
INSERT INTO counted () VALUES (), ();
INSERT INTO counted VALUES ();
INSERT INTO counted SET v = 10;
-- params: [11, 12, 13, 14]
INSERT INTO counted VALUES (?, ?), (?, ?);
INSERT INTO counted SELECT v, w FROM counted WHERE v > 9;
SELECT * FROM counted ORDER BY v, w;
SELECT COUNT(DISTINCT id), MIN(id) FROM counted;
SELECT * FROM counted a JOIN counted b ON a.v + 2 = b.v ORDER BY a.v, a.w, b.w;
CREATE TABLE stamped (id INT NOT NULL PRIMARY KEY, at DATETIME NOT NULL DEFAULT '2024-01-01' INVISIBLE, kind ENUM('a', 'b') NOT NULL DEFAULT 'b' INVISIBLE, doc BLOB NOT NULL DEFAULT ('x') INVISIBLE);
-- @hash id
INSERT INTO stamped VALUES (1), (2), (3), (4);
INSERT INTO stamped (id, at, kind, doc) VALUES (5, '2024-05-05', 'a', 'y');
SELECT * FROM stamped a JOIN stamped b ON b.id = a.id + 1 AND b.at >= a.at ORDER BY 1;
SELECT *, a.kind, b.doc, b.at FROM stamped a JOIN stamped b ON b.id = a.id + 1 AND b.at >= a.at ORDER BY 1;
-- The key that MySQL gives a table without one: the table is on one shard, as its text says.
-- only: mysql
SET SESSION sql_generate_invisible_primary_key = 1;
CREATE TABLE keyless (a INT, b INT);
INSERT INTO keyless VALUES (1, 2), (3, 4), (5, 6);
INSERT INTO keyless (a) VALUES (7);
UPDATE keyless SET b = b + 1;
DELETE FROM keyless WHERE a = 3;
SELECT * FROM keyless ORDER BY a;
