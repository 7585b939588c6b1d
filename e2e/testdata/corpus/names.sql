-- include: shop
-- kind: names of columns that are expressions
SELECT EXISTS(SELECT * FROM information_schema.TABLES WHERE TABLE_NAME = 'of_no_table');
SELECT EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_NAME = 'of_no_table') , 1+1;
SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'of_no_table'), DATABASE() IS NULL, VERSION() IS NULL;
SELECT (SELECT MAX(id) FROM users), (SELECT  COUNT( * )  FROM orders);
SELECT EXISTS(SELECT * FROM users WHERE age > 60), NOT EXISTS (SELECT * FROM users WHERE age > 60);
SELECT 1 IN (SELECT id FROM users), 100  IN  (SELECT user_id FROM orders);
SELECT (SELECT name FROM users WHERE id = 3) AS a, (SELECT name FROM users WHERE id = 4);
SELECT u.id, (SELECT COUNT(*) FROM legacy l WHERE l.id = u.id) FROM users u ORDER BY u.id;
SELECT COUNT(DISTINCT country), SUM(age)/COUNT(*), AVG( age ) FROM users;
SELECT FOUND_ROWS() IS NULL, LAST_INSERT_ID() IS NULL, ROW_COUNT() IS NULL, CONNECTION_ID() IS NULL, @@autocommit, @@session.autocommit;
-- kind: errors that name schemas
RENAME TABLE missing TO nowhere.other;
RENAME TABLE settings TO nowhere.other;
ALTER TABLE missing ADD COLUMN x INT;
DROP TABLE missing;
TRUNCATE TABLE missing;
CREATE INDEX i ON missing (x);
SELECT * FROM nowhere.missing;
SHOW CREATE TABLE missing;
DESCRIBE missing;
SHOW COLUMNS FROM nowhere.missing;
SHOW INDEX FROM missing;
USE nowhere;
