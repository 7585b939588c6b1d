-- include: shop
-- params: [5]
SELECT * FROM users WHERE id = ?;
-- params: ["eve@x"]
SELECT * FROM users WHERE email = ?;
-- params: [30]
SELECT COUNT(*), SUM(paid), AVG(score) FROM users WHERE age = ?;
-- params: ["DE", 2]
SELECT id, name FROM users WHERE country = ? ORDER BY name LIMIT ?;
-- params: [1, 4, 8]
SELECT id, age FROM users WHERE id IN (?, ?, ?);
-- params: [10]
SELECT u.id, o.code FROM users u JOIN orders o ON o.total > u.paid + ? ORDER BY u.id, o.code;
-- params: [200, "p200", 20, 201, "p201", null]
INSERT INTO users (id, email, age) VALUES (?, ?, ?), (?, ?, ?);
-- params: [77, "p200"]
UPDATE users SET age = ? WHERE email = ?;
-- params: [77]
DELETE FROM users WHERE age = ?;
-- params: []
SELECT id, email, age, paid, born, score FROM users ORDER BY id;
-- params: [null]
SELECT id FROM users WHERE email <=> ?;
-- params: [2.5]
SELECT id, paid * ? AS p FROM users ORDER BY id;
-- params: []
SELECT country, COUNT(*) AS n, AVG(paid) AS a, MAX(born) AS m FROM users GROUP BY country ORDER BY country;
-- params: [1]
SELECT id, SUM(paid) OVER (ORDER BY id) + ? AS s FROM users ORDER BY id;
-- params: [500, "p501", 7]
INSERT INTO users (id, name) VALUES (? + 1, ?) ON DUPLICATE KEY UPDATE age = ?;
-- params: [500, "p501", 7]
INSERT INTO users (id, name) VALUES (? + 1, ?) ON DUPLICATE KEY UPDATE age = ?;
-- params: [501]
SELECT id, name, age FROM users WHERE id = ?;
