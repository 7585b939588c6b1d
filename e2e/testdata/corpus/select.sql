-- include: shop
-- kind: SELECT by shard key
SELECT * FROM users WHERE id = 5;
SELECT email, age FROM users WHERE id = 77;
-- kind: SELECT by several shard keys
SELECT id, name FROM users WHERE id IN (1, 4, 9, 77);
-- kind: SELECT by a virtual index
SELECT * FROM users WHERE email = 'eve@x';
SELECT id FROM users WHERE email = 'nobody@x';
-- kind: SELECT by a range of a virtual index
SELECT id, age FROM users WHERE age BETWEEN 30 AND 35;
-- kind: SELECT by two virtual indexes
SELECT id FROM users WHERE age = 30 OR email = 'bob@x';
-- kind: SELECT without a bound
SELECT id, country FROM users WHERE country = 'DE';
SELECT * FROM users;
-- kind: SELECT of a reference table
SELECT * FROM countries WHERE region = 'EU' ORDER BY code;
-- kind: SELECT of a table on one shard
SELECT k, v FROM settings ORDER BY k;
-- kind: SELECT of a table placed anywhere
SELECT id, note FROM legacy WHERE ref = 'r1';
-- kind: SELECT without a table
SELECT 1 + 1, 'a', NULL, 2.50 * 2;
SELECT UPPER('x') AS u, CONCAT('a', 1), DATE '2020-01-02' + INTERVAL 1 DAY;
-- kind: SELECT of a condition that can't be true
SELECT id FROM users WHERE id = 5 AND id = 6;
SELECT id FROM users WHERE email IS NULL;
SELECT id FROM users WHERE email <=> NULL;
SELECT id FROM users WHERE (id, age) IN ((1, 30), (4, 26), (5, 30));
SELECT id FROM users WHERE id = '5';
SELECT id FROM users WHERE id = 5.0;
SELECT id FROM users WHERE NOT (age < 41);
SELECT id FROM users WHERE name = 'ANN';
SELECT id FROM users WHERE name LIKE 'd_e';
-- kind: SELECT ... FOR UPDATE
SELECT id FROM users WHERE id = 5 FOR UPDATE;
SELECT id, age + 1 AS a, age * paid AS ap, IFNULL(paid, 0) AS p FROM users;
SELECT u.id AS user_id, u.* FROM users u WHERE u.id = 1;
SELECT nothing FROM users;
SELECT id FROM nowhere;
SELECT id FROM users WHERE nothing = 1;
-- kind: TABLE
-- only: mysql
TABLE countries;
-- only: mysql
VALUES ROW(1, 'a'), ROW(2, 'b');
-- kind: JSON_VALUE ... RETURNING
-- only: mysql
SELECT id FROM users WHERE JSON_VALUE(CONCAT('{"a": ', age, '}'), '$.a' RETURNING UNSIGNED DEFAULT 3 ON EMPTY NULL ON ERROR) > 30;
-- only: mysql
SELECT JSON_VALUE(CONCAT('{"a": ', id, '}'), '$.a' RETURNING SIGNED) AS v FROM users WHERE id IN (2, 7) ORDER BY v;
-- only: mysql
SELECT COUNT(DISTINCT JSON_VALUE(CONCAT('{"a": ', age, '}'), '$.a' RETURNING SIGNED)) FROM users;
-- only: mariadb
CREATE TABLE past (id INT PRIMARY KEY, a INT, email VARCHAR(20)) WITH SYSTEM VERSIONING;
-- @virtual idx_past email
-- only: mariadb
INSERT INTO past VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd'), (5, 5, 'e');
-- only: mariadb
UPDATE past SET a = a + 10, email = 'z';
-- only: mariadb
DELETE FROM past WHERE id = 2;
-- only: mariadb
SELECT id, a FROM past FOR SYSTEM_TIME ALL ORDER BY id, a;
-- only: mariadb
SELECT id, a FROM past FOR SYSTEM_TIME ALL WHERE id = 2 ORDER BY a;
-- only: mariadb
SELECT id, a FROM past FOR SYSTEM_TIME ALL WHERE email = 'b';
-- only: mariadb
SELECT COUNT(*), SUM(a) FROM past FOR SYSTEM_TIME ALL;
-- only: mariadb
SELECT x.id, a FROM past FOR SYSTEM_TIME BETWEEN '2000-01-01' AND NOW() + INTERVAL 1 DAY AS x ORDER BY x.id, a LIMIT 3;
-- only: mariadb
SELECT x.id, a FROM past FOR SYSTEM_TIME FROM '2000-01-01' TO '2037-01-01' x WHERE x.id > 3 ORDER BY x.id, a;
-- only: mariadb
SELECT COUNT(*) FROM past FOR SYSTEM_TIME AS OF TIMESTAMP '2000-01-01 00:00:00';
-- only: mariadb
SELECT COUNT(DISTINCT a) FROM past FOR SYSTEM_TIME ALL;
