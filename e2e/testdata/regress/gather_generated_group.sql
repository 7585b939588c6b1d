-- A copy's column determines no other as a generated column's does: the query is
-- right over the tables, and is to be over their copies.
CREATE TABLE b (aid SMALLINT NOT NULL, n SMALLINT NOT NULL, v2 VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT 'a', g VARCHAR(70) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci GENERATED ALWAYS AS (LEFT(v2, 2)) VIRTUAL, PRIMARY KEY (aid, n));
-- @hash aid
SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY';
INSERT INTO b (aid, n, v2) VALUES (1, 1, 'zed'), (2, 1, 'zed'), (3, 1, 'ann'), (4, 1, NULL), (5, 2, 'zebra');
-- params: ["ze","2020-02-29","2020-01-02","ze","2020-02-29","2020-01-02"]
-- check: multiset
SELECT t1.v2 AS c1, CASE WHEN t1.g IN (?) THEN ? ELSE ? END AS c2, MIN(t1.v2) AS c3 FROM b t1 GROUP BY t1.v2, CASE WHEN t1.g IN (?) THEN ? ELSE ? END;
-- check: multiset
SELECT t1.v2, t1.g, (SELECT COUNT(*) FROM b t2 WHERE t2.v2 = t1.v2) AS n FROM b t1 GROUP BY t1.v2;
SET SESSION sql_mode = 'ANSI';
-- check: multiset
SELECT t1.v2, t1.g, (SELECT COUNT(*) FROM b t2 WHERE t2.v2 = t1.v2) AS n FROM b t1 GROUP BY t1.v2;
SET SESSION sql_mode = DEFAULT;
-- check: multiset
SELECT t1.v2, t1.g, (SELECT COUNT(*) FROM b t2 WHERE t2.v2 = t1.v2) AS n FROM b t1 GROUP BY t1.v2;
SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY';
SELECT t1.n, t1.g, (SELECT COUNT(*) FROM b t2 WHERE t2.v2 = t1.v2) AS n FROM b t1 GROUP BY t1.n;
