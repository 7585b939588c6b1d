CREATE TABLE users (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(80), name VARCHAR(40) CHARACTER SET latin1, bits BIT(12), raw VARBINARY(40), doc JSON, price DECIMAL(12,3), f DOUBLE, at DATETIME(6), ts TIMESTAMP NULL, kind ENUM('a','b'), s SET('x','y','z'), len INT GENERATED ALWAYS AS (CHAR_LENGTH(email)) VIRTUAL, y YEAR, t TIME(3), KEY (email)) COMMENT='the users';
CREATE INDEX by_email ON users (email) COMMENT 'virtual';
CREATE TABLE orders (id BIGINT NOT NULL, user_id BIGINT UNSIGNED NOT NULL, total DECIMAL(10,2) DEFAULT 0, note TEXT, PRIMARY KEY (user_id, id));
CREATE TABLE kinds (code VARCHAR(10) NOT NULL PRIMARY KEY, name VARCHAR(40));
CREATE TABLE settings (name VARCHAR(20) NOT NULL PRIMARY KEY, value BLOB);
CREATE TABLE audit (n INT, what VARCHAR(100));
CREATE TABLE blank (id INT NOT NULL PRIMARY KEY, n INT);
INSERT INTO users (email, name, bits, raw, doc, price, f, at, ts, kind, s, y, t) VALUES ('ada@x', 'Äda', b'101010101010', X'00FF27225C0A0D1A', '{"a": [1, null, "x"]}', 1234.567, 0.1, '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00', 'a', 'x,z', 2024, '-12:34:56.789'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), ('it''s "q" \\ % \n\t\0 end', 'x', 0, '', '[]', -1, 1e300, '1000-01-01', NULL, 'b', '', 1901, '838:59:59');
INSERT INTO users (email, name, price) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 300) SELECT CONCAT('u', i, '@x'), CONCAT('n', i), i / 8 FROM s;
INSERT INTO orders SELECT id * 2, id, id / 4, IF(id % 3, NULL, REPEAT('note ', id)) FROM users WHERE id <= 100;
INSERT INTO kinds VALUES ('one', 'Eins 🐬'), ('two', NULL), ('tri', '');
INSERT INTO settings VALUES ('a', X'00010203'), ('b', NULL);
INSERT INTO audit VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
CREATE VIEW rich AS SELECT id, email FROM users WHERE price > 100;
CREATE VIEW spent AS SELECT u.id, u.email, SUM(o.total) AS total FROM users u JOIN orders o ON o.user_id = u.id GROUP BY u.id, u.email;
CREATE PROCEDURE two() SELECT 1 AS a;
DELIMITER //
CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC NO SQL BEGIN RETURN n * 2; END//
CREATE TRIGGER blank_check BEFORE INSERT ON blank FOR EACH ROW BEGIN IF NEW.n < 0 THEN SET NEW.n = 0; END IF; END//
DELIMITER ;
CREATE EVENT never ON SCHEDULE EVERY 1 YEAR DISABLE DO SELECT 1;
