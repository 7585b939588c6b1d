-- include: shop
-- kind: COUNT, SUM, MIN, MAX, AVG
SELECT COUNT(*), COUNT(age), SUM(age), MIN(age), MAX(age), AVG(age) FROM users;
SELECT SUM(paid), AVG(paid), MIN(paid), MAX(paid) FROM users;
SELECT SUM(score), AVG(score), MIN(score), MAX(score) FROM users;
SELECT MIN(born), MAX(born), MIN(placed), MAX(placed) FROM users JOIN orders ON user_id = users.id;
SELECT COUNT(*), SUM(age), AVG(paid), MIN(name) FROM users WHERE id > 1000;
SELECT MIN(email), MAX(email) FROM users;
-- kind: COUNT(DISTINCT)
SELECT COUNT(DISTINCT age), COUNT(DISTINCT country) FROM users;
SELECT SUM(DISTINCT age), AVG(DISTINCT age) FROM users;
-- kind: GROUP BY
SELECT country, COUNT(*) AS n, SUM(paid) AS s FROM users GROUP BY country ORDER BY country;
SELECT age, COUNT(*), MAX(name) FROM users GROUP BY age;
-- kind: GROUP BY the shard key
SELECT user_id, COUNT(*), SUM(total), AVG(total) FROM orders GROUP BY user_id;
-- kind: GROUP BY an expression
SELECT YEAR(born) AS y, COUNT(*) FROM users GROUP BY YEAR(born) ORDER BY y;
-- kind: GROUP BY with HAVING
SELECT country, COUNT(*) AS n FROM users GROUP BY country HAVING COUNT(*) > 1 ORDER BY n DESC, country;
SELECT country, AVG(age) AS a FROM users GROUP BY country HAVING a > 30 ORDER BY a, country;
SELECT country, COUNT(*) AS n FROM users GROUP BY country ORDER BY n DESC, country LIMIT 2;
-- kind: GROUP BY of a join
SELECT c.region, COUNT(*) AS n, SUM(u.paid) FROM users u JOIN countries c ON c.code = u.country GROUP BY c.region ORDER BY c.region;
SELECT u.country, SUM(o.total) FROM users u JOIN orders o ON o.user_id = u.id GROUP BY u.country;
-- kind: GROUP BY ... WITH ROLLUP
SELECT country, age, COUNT(*) FROM users GROUP BY country, age WITH ROLLUP;
-- kind: GROUP_CONCAT
SELECT country, GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '-') FROM users GROUP BY country;
-- kind: statistical and bit aggregates
-- check: approximate=1,2
SELECT STDDEV_POP(age), VAR_SAMP(paid), BIT_OR(age), BIT_AND(id), BIT_XOR(id) FROM users;
SELECT SUM(age) / COUNT(*) AS a, SUM(paid) + 1, ROUND(AVG(paid), 1) FROM users;
SELECT COUNT(*) FROM countries;
SELECT COUNT(*) FROM legacy;
SELECT COUNT(*) FROM users WHERE email = 'eve@x';
-- only: mysql
SELECT country, name FROM users GROUP BY country;
SELECT (SELECT COUNT(u.id)) AS n FROM users u;
SELECT (SELECT MAX(u.age) FROM countries c WHERE c.code = 'DE') AS m FROM users u;
SELECT 1 FROM users u HAVING (SELECT MAX(u.age)) > 5;
SELECT COUNT(*) FROM (SELECT (SELECT COUNT(u.id)) AS n FROM users u) t;
SELECT u.country, (SELECT SUM(u.age)) AS s FROM users u GROUP BY u.country ORDER BY u.country;
SELECT (SELECT COUNT(u.id)) AS n FROM users u UNION ALL SELECT id FROM users WHERE id < 3;
SELECT u.id, (SELECT SUM(o.total + u.age) FROM orders o WHERE o.user_id = u.id) AS s FROM users u ORDER BY u.id;
-- only: mariadb
-- check: total
SELECT user_id, COUNT(*) FROM orders GROUP BY user_id;
-- only: mariadb
-- check: total
SELECT COUNT(*), id, user_id FROM items JOIN orders USING (user_id) GROUP BY user_id, id LIMIT 4;
-- only: mariadb
CREATE AGGREGATE FUNCTION total_of(x INT) RETURNS INT BEGIN DECLARE s INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR NOT FOUND RETURN s; LOOP FETCH GROUP NEXT ROW; SET s = s + x; END LOOP; END;
-- only: mariadb
SELECT total_of(total) FROM orders WHERE user_id = 10;
-- only: mariadb
-- refused
SELECT total_of(id) FROM users;
-- only: mariadb
-- refused
SELECT COUNT(*) FROM (SELECT total_of(id) FROM users) t;
-- only: mariadb
DROP FUNCTION total_of;
SELECT COUNT(*) FROM users ORDER BY name;
SELECT COUNT(*) FROM users ORDER BY nosuch;
SELECT COUNT(*), MAX(age) FROM users ORDER BY 3;
-- only: mariadb
-- check: total
SELECT user_id, COUNT(*) FROM orders GROUP BY user_id DESC;
-- only: mariadb
-- check: total
SELECT user_id, COUNT(*) FROM orders GROUP BY user_id ASC LIMIT 3;
SELECT COUNT(*) FROM users GROUP BY TRUE;
SET sql_mode = 'ONLY_FULL_GROUP_BY';
SELECT COUNT(*) FROM users GROUP BY NULLIF(age, 30);
SELECT COUNT(*), MAX(age) FROM users GROUP BY INTERVAL(id, 1, 3, 9), IF((age, id) < (paid, 5), age, id);
SET sql_mode = 'HIGH_NOT_PRECEDENCE';
SELECT country, COUNT(*) FROM users GROUP BY country HAVING NOT COUNT(*) > 1 ORDER BY country;
SELECT country, COUNT(*) FROM users GROUP BY country HAVING NOT (COUNT(*) > 1) ORDER BY country;
-- kind: GROUP BY ROLLUP
-- only: mysql
SELECT country, age, COUNT(*), SUM(paid) FROM users GROUP BY ROLLUP (country, age) ORDER BY country, age, 3, 4;
-- only: mariadb
SELECT GROUP_CONCAT(id ORDER BY id LIMIT 2) FROM users;
-- only: mariadb
SELECT GROUP_CONCAT(DISTINCT age ORDER BY age DESC SEPARATOR '-' LIMIT 2 OFFSET 1), GROUP_CONCAT(id ORDER BY id LIMIT 2, 3) FROM users;
-- only: mariadb
SELECT country, GROUP_CONCAT(id ORDER BY id LIMIT 1) FROM users GROUP BY country ORDER BY country;
-- only: mariadb
SELECT JSON_ARRAYAGG(id ORDER BY age DESC, id), JSON_ARRAYAGG(DISTINCT age ORDER BY age LIMIT 2) FROM users;
-- only: mariadb
SELECT user_id, JSON_ARRAYAGG(code ORDER BY total DESC, id) FROM orders GROUP BY user_id ORDER BY user_id;
