-- Each copy of a reference table, and each shard that parsed the text, warned.
CREATE TABLE r (id INT NOT NULL, v1 VARCHAR(20), PRIMARY KEY (id));
-- @reference
CREATE TABLE a (id INT NOT NULL, v1 VARCHAR(20), PRIMARY KEY (id));
-- @hash id
INSERT INTO r VALUES (1, 'x');
INSERT IGNORE INTO r VALUES (1, 'y'), (2, 'z');
INSERT INTO a VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd') ON DUPLICATE KEY UPDATE v1 = VALUES(v1);
INSERT INTO r VALUES (3, 'a') ON DUPLICATE KEY UPDATE v1 = VALUES(v1);
SELECT * FROM r ORDER BY id;
