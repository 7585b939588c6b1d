-- only: mariadb
-- Each shard counted its own rows: WHERE ROWNUM() <= 3 found, changed and deleted 3 on each.
CREATE TABLE a (id BIGINT NOT NULL PRIMARY KEY, v INT);
-- @hash id
CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v INT);
-- @reference
INSERT INTO a VALUES (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (8, 4), (9, 5), (10, 5);
INSERT INTO r VALUES (1, 1), (2, 2), (3, 3);
-- check: limited
SELECT id FROM a WHERE ROWNUM() <= 3;
SELECT COUNT(*) FROM a WHERE ROWNUM() <= 3;
SELECT MAX(ROWNUM()) AS n FROM a;
SELECT SUM(n) FROM (SELECT ROWNUM() AS n FROM a) x;
SELECT COUNT(*) FROM (SELECT id FROM a WHERE ROWNUM() < 4) x;
SELECT COUNT(*) FROM a JOIN r ON r.v = a.v WHERE ROWNUM() < 3;
SELECT id FROM a WHERE id = 5 AND ROWNUM() = 1;
SELECT COUNT(*) FROM r WHERE ROWNUM() < 3;
UPDATE a SET v = 0 WHERE id = 5 AND ROWNUM() <= 1;
-- refused
UPDATE a SET v = 0 WHERE ROWNUM() <= 2;
-- refused
UPDATE a SET v = ROWNUM();
-- refused
DELETE FROM a WHERE ROWNUM() <= 2;
-- refused
UPDATE a SET v = 7 WHERE ROWNUM() <= 2 ORDER BY id LIMIT 3;
SELECT * FROM a;
