-- JSON in copies is JSON: MariaDB's is a text with a check.
CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, n INT, j JSON, t TEXT);
-- @hash id
INSERT INTO docs VALUES (1, 1, '{"a": 1}', '{"a": 1}'), (2, 2, '[1, 2]', '[1, 2]'), (3, 3, '"x"', '"x"'), (4, 4, NULL, NULL), (5, 5, '12.5', '12.5');
SELECT JSON_ARRAYAGG(a.j), JSON_ARRAYAGG(a.t) FROM docs a JOIN docs b ON b.n = a.id + 1 WHERE a.id = 2;
SELECT JSON_OBJECTAGG(a.id, a.j) FROM docs a JOIN docs b ON b.n = a.id + 1 WHERE a.id = 1;
SELECT a.id, JSON_OBJECT('j', a.j, 't', a.t), JSON_ARRAY(a.j), JSON_SET('{}', '$.x', a.j) FROM docs a JOIN docs b ON b.n = a.id + 1 ORDER BY a.id;
SELECT LENGTH(JSON_ARRAYAGG(j)), LENGTH(JSON_OBJECTAGG(id, j)), LENGTH(JSON_ARRAYAGG(t)) FROM docs;
UPDATE docs SET t = (SELECT JSON_ARRAY(x.j) FROM (SELECT j FROM docs WHERE id = 5) x) WHERE id < 3;
SELECT id, t FROM docs ORDER BY id;
CREATE VIEW seen AS SELECT id, n, j FROM docs;
SELECT a.id, JSON_ARRAY(a.j) FROM seen a JOIN seen b ON b.n = a.id + 1 ORDER BY a.id;
SELECT JSON_ARRAYAGG(j) FROM seen WHERE id = 1;
CREATE TEMPORARY TABLE bag (id INT PRIMARY KEY, j JSON, t TEXT);
INSERT INTO bag SELECT id, j, t FROM docs;
SELECT bag.id, JSON_ARRAY(bag.j, bag.t, docs.j) FROM bag JOIN docs ON docs.id = bag.id ORDER BY bag.id;
