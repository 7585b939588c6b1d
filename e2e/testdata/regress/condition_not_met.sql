-- What a server doesn't come to compare doesn't fail: the condition of a copy did.
CREATE TABLE a (id BIGINT NOT NULL, v1 DOUBLE, v2 DATE, PRIMARY KEY (id));
-- @hash id
CREATE TABLE s (id BIGINT NOT NULL, v2 INT, v4 DATE, PRIMARY KEY (id));
-- @single s0
INSERT INTO a VALUES (1, 28.5, '2020-01-01'), (2, 1, NULL), (3, 2, '2021-01-01');
INSERT INTO s VALUES (1, 5, '2020-01-01'), (2, 20, NULL);
SELECT 22 AS c1, CAST(t2.v4 AS DATE) AS c2 FROM a t1 INNER JOIN s t2 ON t2.id = t1.id WHERE t2.v2 < 16 UNION SELECT (v1 <> 28.5) AS c1, COALESCE(v2, v2) AS c2 FROM a t3 WHERE v2 BETWEEN '2020-02-29' AND '2019-07-04' AND (id <= '5' OR v2 = 'bob');
