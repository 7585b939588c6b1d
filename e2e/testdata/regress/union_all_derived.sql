-- What a derived table of an operand reads counts: its rows were those of each shard.
CREATE TABLE a (id BIGINT NOT NULL, v1 INT, v2 INT, PRIMARY KEY (id));
-- @hash id
CREATE TABLE b (aid BIGINT NOT NULL, n INT NOT NULL, g INT, PRIMARY KEY (aid, n));
-- @hash aid
CREATE TABLE s (id BIGINT NOT NULL, v0 INT, PRIMARY KEY (id));
-- @single s0
INSERT INTO a VALUES (1, 1, 1), (2, 1, 1), (3, 2, 2), (4, 3, 4);
INSERT INTO b VALUES (1, 1, 5), (2, 1, 6), (3, 1, 7), (4, 1, 30);
INSERT INTO s VALUES (1, 1), (2, 2);
SELECT t1.aid AS c1 FROM b t1 UNION ALL SELECT 3 AS c1 FROM (SELECT DISTINCT v1 AS c1, v2 AS c2 FROM a t2) t3 JOIN b t4 ON t4.g BETWEEN -3 AND 22;
SELECT t1.aid AS c1 FROM b t1 UNION ALL SELECT t2.n AS c1 FROM b t2 JOIN (SELECT id FROM s) t3 ON t3.id = t2.n;
SELECT t1.aid AS c1 FROM b t1 WHERE t1.aid = 1 AND EXISTS (SELECT 1 FROM s) UNION ALL SELECT id FROM a;
WITH x AS (SELECT id FROM a), y AS (SELECT id FROM s) SELECT COUNT(*) FROM x;
