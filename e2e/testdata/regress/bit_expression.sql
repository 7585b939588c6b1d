-- MariaDB answers an expression over a BIT column as a number where it sorts by a temporary table.
CREATE TABLE a (id BIGINT NOT NULL, v1 BIT(8), v2 FLOAT, PRIMARY KEY (id));
-- @hash id
CREATE TABLE r (id SMALLINT NOT NULL, v0 VARCHAR(20), v2 DATETIME, PRIMARY KEY (id));
-- @reference
INSERT INTO a VALUES (1, x'01', 1.5), (2, x'01', 11.25), (3, x'00', 18.75), (5, x'00', 5.75), (6, x'00', 15.75), (8, x'01', 9.25);
INSERT INTO r VALUES (1, 'x', NULL), (2, 'b', '2020-02-29 10:00:00'), (3, 'c', NULL), (5, 'd', NULL), (6, 'e', NULL), (8, 'f', NULL);
SELECT CASE WHEN t2.v2 IN ('2021-01-01 12:34:56') THEN t1.v1 ELSE t1.v1 END AS c1, t1.id AS c2, t1.v2 AS c3 FROM a t1 LEFT JOIN r t2 ON t2.id = t1.id WHERE t2.v0 NOT LIKE '' ORDER BY c3, t1.id, t2.id LIMIT 3, 4;
