-- include: shop
CREATE VIEW bought AS SELECT u.id, u.name, o.id AS order_id, o.total FROM users u JOIN orders o ON o.user_id = u.id;
-- kind: view of a join on the shard keys
SELECT * FROM bought;
SELECT * FROM bought WHERE id = 4;
SELECT COUNT(*), SUM(total) FROM bought;
SELECT name, COUNT(*) AS n FROM bought GROUP BY name ORDER BY n DESC, name LIMIT 3;
-- only: mysql
SELECT id AS order_id, COUNT(*) FROM bought GROUP BY order_id;
RENAME TABLE bought TO purchases;
SELECT COUNT(*), SUM(total) FROM purchases;
RENAME TABLE purchases TO bought;
CREATE VIEW same_age AS SELECT a.id AS x, b.id AS y, a.age FROM users a JOIN users b ON b.age = a.age AND a.id < b.id;
-- kind: view of a join that is not on the shard keys
SELECT * FROM same_age;
SELECT s.x, u.name FROM same_age s JOIN users u ON u.id = s.y WHERE s.age > 30 ORDER BY s.x;
CREATE VIEW per_country (land, people, eldest) AS SELECT country, COUNT(*), MAX(age) FROM users GROUP BY country;
-- kind: view with GROUP BY
SELECT * FROM per_country;
SELECT land, people FROM per_country WHERE people > 1 ORDER BY land;
SELECT c.name, p.people FROM countries c LEFT JOIN per_country p ON p.land = c.code ORDER BY c.name;
SELECT p.land, q.land FROM per_country p JOIN per_country AS q ON p.people = q.people AND p.land < q.land;
SELECT u.id FROM users u WHERE (SELECT p.people FROM per_country p WHERE p.land = u.country) = 2;
SELECT SUM(people) FROM per_country;
-- params: [2]
SELECT land FROM per_country WHERE people >= ? ORDER BY land;
CREATE VIEW ages AS SELECT DISTINCT age FROM users WHERE age IS NOT NULL;
-- kind: view with DISTINCT
SELECT * FROM ages ORDER BY age;
SELECT COUNT(*) FROM ages;
CREATE VIEW texts (a, b) AS SELECT id, name FROM users UNION ALL SELECT user_id, code FROM orders;
-- kind: view with UNION
SELECT * FROM texts;
SELECT b, COUNT(*) FROM texts GROUP BY b HAVING COUNT(*) > 1;
CREATE VIEW above AS SELECT id, name, age FROM users WHERE age > (SELECT AVG(age) FROM users);
-- kind: view with a subquery
SELECT * FROM above;
SELECT name FROM above WHERE id IN (SELECT user_id FROM orders);
CREATE VIEW top AS SELECT id, total, code FROM orders ORDER BY total DESC LIMIT 3;
SELECT * FROM top;
SELECT SUM(total) FROM top;
CREATE VIEW by_name AS SELECT id, name FROM users ORDER BY name DESC, id;
-- check: ordered
SELECT * FROM by_name;
CREATE VIEW crowded AS SELECT land, CONCAT(land, ': ', people) AS line FROM per_country WHERE people > 1;
-- kind: view of a view
SELECT * FROM crowded;
SELECT crowded.line, COUNT(*) FROM crowded JOIN above ON above.age > 30 GROUP BY crowded.line;
SET NAMES utf8mb4;
CREATE VIEW kinds AS SELECT id, IF(age < 30, 'young', 'old') AS kind, CASE country WHEN 'DE' THEN 'Deutschland' ELSE 'ailleurs' END AS place FROM users;
SELECT kind, COUNT(*), MIN(place) FROM kinds GROUP BY kind ORDER BY kind;
SELECT DISTINCT COLLATION(kind), COLLATION(place) FROM kinds;
CREATE VIEW kinds_per AS SELECT IF(age < 30, 'young', 'old') AS kind, COUNT(*) AS n, GROUP_CONCAT(name ORDER BY id SEPARATOR '|') AS names, 'Ünï\\' AS odd FROM users GROUP BY kind;
SELECT kind, n, names, odd, COLLATION(kind), COLLATION(names) FROM kinds_per ORDER BY kind;
CREATE VIEW ranked AS SELECT id, country, RANK() OVER (PARTITION BY country ORDER BY age DESC) AS r FROM users;
SELECT id, country FROM ranked WHERE r = 1 ORDER BY id;
CREATE VIEW spent AS WITH s AS (SELECT user_id, SUM(total) AS total FROM orders GROUP BY user_id) SELECT s.user_id, s.total, c.n FROM s JOIN (SELECT user_id, COUNT(*) AS n FROM items GROUP BY user_id) c ON c.user_id = s.user_id;
SELECT * FROM spent ORDER BY user_id;
CREATE VIEW noted AS SELECT l.id, l.note, u.name FROM legacy l JOIN users u ON u.id = l.id;
SELECT * FROM noted ORDER BY id;
CREATE VIEW months AS SELECT EXTRACT(YEAR_MONTH FROM placed) AS ym, DATE_FORMAT(placed, '%M') AS month, COUNT(*) AS n, MIN(placed + INTERVAL 1 DAY) AS next, CAST(SUM(total) AS CHAR) AS total, COUNT(DISTINCT user_id) AS who FROM orders WHERE placed NOT BETWEEN '2023-01-01' AND '2023-06-01' OR placed IS NULL GROUP BY ym, month;
SELECT * FROM months ORDER BY ym;
CREATE TABLE sums (land CHAR(2) NOT NULL PRIMARY KEY, people INT);
INSERT INTO sums SELECT land, people FROM per_country WHERE land IS NOT NULL;
SELECT * FROM sums ORDER BY land;
-- kind: reading a view with locks
-- refused
SELECT * FROM per_country FOR UPDATE;
CREATE VIEW locals AS SELECT id, name FROM users WHERE country = 'DE';
-- kind: writing through a view of one table
UPDATE locals SET name = 'local' WHERE id < 5;
SELECT id, name FROM users ORDER BY id;
-- kind: writing through a view of more
-- refused
INSERT INTO above (id, name) VALUES (100, 'x');
-- own
EXPLAIN ROUTE SELECT * FROM per_country;
CREATE VIEW themed AS SELECT u.id, u.name, s.v FROM users u JOIN settings s ON s.k = 'theme';
SELECT * FROM themed;
SELECT name, v FROM themed WHERE id = 4;
SELECT COUNT(*) FROM themed;
DESCRIBE themed;
CREATE OR REPLACE VIEW themed AS SELECT u.id, s.v FROM users u JOIN settings s ON s.k = 'limit' AND s.v = u.age;
SELECT * FROM themed ORDER BY id;
SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 't%' ORDER BY TABLE_NAME;
DROP VIEW themed;
SELECT * FROM themed;
SET NAMES utf8mb4;
CREATE VIEW said AS SELECT IF(age < 30, 'minor', IF(age < 50, 'Minor', 'É')) AS who, COUNT(*) AS n FROM users GROUP BY who;
-- check: fold=1 ordered
SELECT who, n, COLLATION(who) FROM said ORDER BY who;
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
-- check: fold=1 ordered
SELECT who, n, COLLATION(who), 'é' = who FROM said ORDER BY who;
CREATE VIEW said_exactly AS SELECT IF(age < 30, 'minor', IF(age < 50, 'Minor', 'É')) AS who, COUNT(*) AS n FROM users GROUP BY who;
SELECT who, n, COLLATION(who) FROM said_exactly ORDER BY who;
SELECT land, people FROM per_country WHERE land = 'DE';
SET NAMES utf8mb4;
-- refused
SELECT who, n FROM said_exactly;
CREATE VIEW introduced AS SELECT country, _latin1'x' AS l, CONCAT(country, _utf8mb4' ', _utf8mb4'é') AS c, country = _utf8mb4'de' COLLATE utf8mb4_bin AS b, 'it''s' AS own, COUNT(*) AS n FROM users GROUP BY country;
SELECT * FROM introduced ORDER BY country;
SELECT COUNT(*), MIN(c), COLLATION(MIN(c)), COLLATION(MIN(l)) FROM introduced WHERE c LIKE '% é';
CREATE VIEW introduced_bytes AS SELECT country, _latin1'\xE9' AS l, _latin1 0xE9 AS h, COUNT(*) AS n FROM users GROUP BY country;
-- refused
SELECT * FROM introduced_bytes;
SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,ONLY_FULL_GROUP_BY';
SELECT "land" || '!' AS l, people FROM per_country ORDER BY l;
SELECT kind, n, odd FROM kinds_per ORDER BY kind;
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
SELECT kind FROM kinds ORDER BY id LIMIT 1;
-- refused
SELECT kind, n, odd FROM kinds_per ORDER BY kind;
SET sql_mode = DEFAULT;
SET NAMES latin1;
-- refused
SELECT kind, n FROM kinds_per;
SET NAMES utf8mb4;
