CREATE TABLE t (id INT NOT NULL PRIMARY KEY, i TINYINT, u BIGINT UNSIGNED, d DECIMAL(20,5), f FLOAT, g DOUBLE, c CHAR(5), v VARCHAR(20) COLLATE utf8mb4_bin, b VARBINARY(10), x BIT(10), e ENUM('b', 'a'), s SET('p', 'q'), da DATE, dt DATETIME(6), ti TIME(3), y YEAR, j JSON, tx TEXT);
-- @hash id
INSERT INTO t VALUES (1, -128, 18446744073709551615, 12345.67890, 1.5, 1e100, 'ab', 'Ab', x'00ff', b'1010101010', 'b', 'p,q', '2020-02-29', '2020-01-01 01:02:03.456789', '-838:59:59.000', 2020, '{"a": [1, 2]}', 'text');
INSERT INTO t VALUES (2, 127, 0, -0.00001, -0.25, -0.5, '', '', x'', b'0', 'a', '', '1000-01-01', '9999-12-31 23:59:59.999999', '00:00:00.001', 1901, '[]', ''), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, 0, 9223372036854775808, 99999999999999.99999, 0.1, 0.1, 'AB', 'ab', 'ab', b'1', 'b', 'q', '9999-12-31', '1970-01-01 00:00:00', '12:00:00', 2155, 'null', 'ÀÉ');
SELECT * FROM t;
SELECT * FROM t ORDER BY id DESC;
-- params: []
SELECT * FROM t ORDER BY id;
SELECT i, id FROM t ORDER BY i, id;
SELECT u, id FROM t ORDER BY u, id;
SELECT d, id FROM t ORDER BY d, id;
SELECT f, id FROM t ORDER BY f DESC, id;
SELECT g, id FROM t ORDER BY g, id;
SELECT c, id FROM t ORDER BY c, id;
SELECT v, id FROM t ORDER BY v, id;
SELECT b, id FROM t ORDER BY b, id;
SELECT x, id FROM t ORDER BY x, id;
SELECT e, id FROM t ORDER BY e, id;
SELECT s, id FROM t ORDER BY s, id;
SELECT da, id FROM t ORDER BY da, id;
SELECT dt, id FROM t ORDER BY dt, id;
SELECT ti, id FROM t ORDER BY ti, id;
SELECT y, id FROM t ORDER BY y, id;
SELECT tx, id FROM t ORDER BY tx, id;
SELECT MIN(i), MAX(u), SUM(d), MAX(f), MIN(g) FROM t;
SELECT MIN(v), MAX(v), MIN(b), MAX(b), MIN(da), MAX(dt), MIN(ti), MAX(y) FROM t;
SELECT MIN(e), MAX(e), MIN(s), MAX(s) FROM t;
SELECT SUM(u), AVG(u), SUM(i), AVG(i), SUM(f), AVG(f), SUM(g) FROM t;
SELECT x, COUNT(*) FROM t GROUP BY x;
SELECT e, COUNT(*) FROM t GROUP BY e ORDER BY e;
SELECT DISTINCT x FROM t;
SELECT a.id, b.id FROM t a JOIN t b ON a.e = b.e ORDER BY 1, 2;
SELECT a.id, b.x, b.s, b.j, b.ti FROM t a LEFT JOIN t b ON b.i = a.i ORDER BY 1, 2;
SELECT id FROM t WHERE u = 18446744073709551615;
SELECT id FROM t WHERE d = -0.00001;
SELECT id FROM t WHERE x = 682;
SELECT id, j FROM t WHERE JSON_LENGTH(j) > 0;
-- params: [1.5, "ab"]
SELECT id FROM t WHERE f = ? OR v = ? ORDER BY id;
