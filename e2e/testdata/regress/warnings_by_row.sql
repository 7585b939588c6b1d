-- A duplicate's warning doesn't say which row it is about: all were told shard by shard.
CREATE TABLE p (id INT NOT NULL PRIMARY KEY, n DECIMAL(4,2));
-- @hash id
INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8);
INSERT IGNORE INTO p VALUES (8, 1), (1, 0.005);
SHOW WARNINGS;
SHOW WARNINGS LIMIT 1;
INSERT IGNORE INTO p VALUES (1, 0.005), (8, 1);
SHOW WARNINGS LIMIT 1;
INSERT IGNORE INTO p VALUES (8, 1), (7, 1), (6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1);
SHOW WARNINGS;
