-- A shard's plan makes BETWEEN wider than another's: the merge asked for a new catalog, and again.
CREATE TABLE b (aid SMALLINT NOT NULL, n SMALLINT NOT NULL, v0 SMALLINT, PRIMARY KEY (aid, n));
-- @hash aid
CREATE TABLE q (code VARCHAR(20) NOT NULL, v0 MEDIUMINT, PRIMARY KEY (code));
-- @reference
INSERT INTO b VALUES (1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4), (5, 2, NULL), (6, 2, 6), (7, 3, 7);
INSERT INTO q VALUES ('', 3), ('100', 21), ('a', NULL), ('b', 0), ('c', 5);
-- check: sorted=1
SELECT (t3.c2 BETWEEN 21 AND 1) AS c1, t3.c3 AS c2 FROM (SELECT v0 AS c1, aid AS c2, n AS c3 FROM b t1 WHERE NOT EXISTS (SELECT 1 FROM q t2 WHERE t2.v0 = aid AND t2.v0 < 7)) t3 WHERE t3.c2 >= t3.c3 ORDER BY c1;
