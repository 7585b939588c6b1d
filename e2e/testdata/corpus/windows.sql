-- include: shop
-- kind: window function
SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS r FROM users;
SELECT id, country, RANK() OVER (PARTITION BY country ORDER BY age) AS r FROM users;
SELECT id, SUM(paid) OVER (ORDER BY id) AS s, AVG(age) OVER (PARTITION BY country) AS a FROM users ORDER BY id;
-- kind: window function partitioned by the shard key
SELECT user_id, id, LAG(total) OVER (PARTITION BY user_id ORDER BY id) AS l FROM orders;
SELECT user_id, id, SUM(total) OVER (PARTITION BY user_id ORDER BY id ROWS UNBOUNDED PRECEDING) AS s FROM orders ORDER BY user_id, id;
-- kind: window function of one shard
SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS r FROM orders WHERE user_id = 10;
SELECT country, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM users GROUP BY country;
SELECT id, NTILE(3) OVER w AS t, FIRST_VALUE(id) OVER w AS f FROM users WINDOW w AS (ORDER BY id);
SELECT * FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY country ORDER BY paid DESC, id) AS r FROM users) x WHERE r = 1 ORDER BY id;
