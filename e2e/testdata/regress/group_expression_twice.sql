-- A group's expression was selected once more, for the merge.
-- only: mariadb
SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY';
CREATE TABLE a (id SMALLINT NOT NULL, v2 DATE, PRIMARY KEY (id));
-- @hash id
CREATE TABLE b (aid SMALLINT NOT NULL, n SMALLINT NOT NULL, v3 DATE, PRIMARY KEY (aid, n));
-- @hash aid
INSERT INTO a VALUES (1, '2020-01-02'), (2, NULL), (3, '2020-01-02');
INSERT INTO b VALUES (1, 1, NULL), (2, 1, '2020-01-02'), (3, 1, '2021-01-02');
SELECT IFNULL(t1.v2, t2.v3) AS c1, COUNT(*) AS c2 FROM a t1 JOIN b t2 ON t2.aid = t1.id GROUP BY t2.v3, IFNULL(t1.v2, t2.v3);
