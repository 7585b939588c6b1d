-- only: mysql
-- x'FF' is no text; a server doesn't come to compare with it, and copies' rows
-- shall not either.
CREATE TABLE a (id BIGINT NOT NULL, v4 TEXT CHARACTER SET latin1, PRIMARY KEY (id));
-- @hash id
CREATE TABLE b (aid BIGINT NOT NULL, n SMALLINT NOT NULL, v3 VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT 'bob', PRIMARY KEY (aid, n));
-- @hash aid
INSERT INTO b VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 1, NULL);
SELECT v4 AS c1, (SELECT MAX(13.25) FROM b t7) AS c2, (SELECT SUM(23.5) FROM b t8 WHERE v3 = x'FF' AND t8.n = a.id) AS c3 FROM a;
INSERT INTO a VALUES (1, 'é'), (2, NULL);
SELECT v4 AS c1, (SELECT MAX(13.25) FROM b t7) AS c2, (SELECT SUM(23.5) FROM b t8 WHERE v3 = x'FF' AND t8.n = a.id) AS c3 FROM a;
