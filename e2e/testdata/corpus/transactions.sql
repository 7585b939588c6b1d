-- include: shop
-- kind: BEGIN, COMMIT, ROLLBACK
BEGIN;
INSERT INTO users (id, email) VALUES (90, 't90'), (91, 't91'), (92, 't92'), (93, 't93');
SELECT id FROM users WHERE email = 't91';
SELECT COUNT(*) FROM users;
-- kind: SAVEPOINT, ROLLBACK TO
SAVEPOINT a;
DELETE FROM users WHERE id > 91;
UPDATE countries SET region = 'x';
SELECT COUNT(*), MAX(id) FROM users;
ROLLBACK TO SAVEPOINT a;
SELECT COUNT(*), MAX(id) FROM users;
SELECT DISTINCT region FROM countries ORDER BY region;
ROLLBACK;
SELECT COUNT(*) FROM users;
START TRANSACTION;
UPDATE users SET age = 99 WHERE id = 4;
SELECT u.id, o.id FROM users u JOIN orders o ON o.id = u.id WHERE u.age = 99 ORDER BY 1, 2;
INSERT INTO users (id, email) VALUES (94, 't94'), (4, 'dup'), (95, 't95');
SELECT id, age FROM users WHERE id > 90 OR age = 99;
COMMIT;
SELECT id, age FROM users ORDER BY id;
SET autocommit = 0;
UPDATE users SET age = 1 WHERE id = 5;
SELECT age FROM users WHERE id = 5;
ROLLBACK;
SELECT age FROM users WHERE id = 5;
SET autocommit = 1;
START TRANSACTION READ ONLY;
SELECT COUNT(*) FROM orders;
INSERT INTO users (id) VALUES (99);
COMMIT;
RELEASE SAVEPOINT nothing;
-- kind: SET TRANSACTION
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
BEGIN;
SELECT COUNT(*) FROM items FOR UPDATE;
COMMIT;
BEGIN;
-- kind: SELECT ... FOR UPDATE of a join across shards
SELECT u.id, o.id FROM users u JOIN orders o ON o.total = u.age FOR UPDATE;
COMMIT;
SELECT DISTINCT o.total FROM orders o WHERE o.total NOT IN (SELECT age FROM users WHERE age IS NOT NULL) LOCK IN SHARE MODE;
SELECT country, COUNT(DISTINCT name), RANK() OVER (ORDER BY country) FROM users GROUP BY country ORDER BY country FOR UPDATE;
