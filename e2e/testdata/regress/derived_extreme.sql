-- MIN and MAX of a derived table's column ended the session.
CREATE TABLE a (id BIGINT NOT NULL, v2 DECIMAL(10,2), PRIMARY KEY (id));
-- @hash id
CREATE TABLE d (code VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, PRIMARY KEY (code));
-- @hash code
INSERT INTO a VALUES (1, 30), (2, 20), (3, NULL);
INSERT INTO d VALUES ('x'), ('y');
SELECT MAX(t3.c1) AS c1, AVG(23.5e0) AS c2, AVG(16) AS c3 FROM (SELECT t2.v2 AS c1, t1.code AS c2 FROM d t1 JOIN a t2 ON t2.v2 > 25.05 GROUP BY t2.v2, t1.code) t3;
-- params: [null]
SELECT id FROM a WHERE v2 <=> ?;
