-- INSERT IGNORE looks over a failing CHECK in a statement of several rows only,
-- in MariaDB: also where a shard gets one of them.
CREATE TABLE j (id INT PRIMARY KEY, v JSON, n INT CHECK (n < 100));
CREATE TABLE a (k INT PRIMARY KEY, v JSON);
-- @anywhere
CREATE TABLE src (id INT PRIMARY KEY, v TEXT);
INSERT INTO src VALUES (11, '1'), (12, 'x'), (13, '3'), (14, '{}'), (15, 'y'), (16, '6');
-- only: mariadb
INSERT IGNORE INTO j VALUES (1, '1', 1), (2, 'no json', 2), (3, '[]', 3), (4, '4', 400);
-- only: mariadb
INSERT IGNORE INTO j VALUES (5, 'no json', 1), (6, 'nor this', 2), (7, 'nor that', 3), (8, 'no', 4);
INSERT IGNORE INTO j VALUES (9, 'no json', 1);
-- only: mariadb
INSERT IGNORE INTO j (id, v) SELECT id, v FROM src;
-- only: mariadb
INSERT IGNORE INTO a VALUES (1, '1'), (2, 'no json'), (3, '{}');
INSERT IGNORE INTO a VALUES (4, 'no json');
INSERT INTO j VALUES (21, '1', 1), (22, 'no json', 2), (23, '3', 3);
SELECT id, v, n FROM j ORDER BY id;
SELECT k, v FROM a ORDER BY k;
