-- The tables and rows that the corpus is about, one or more for each placement.
CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(50), country CHAR(2), name VARCHAR(40), age INT, born DATE, paid DECIMAL(10,2), score DOUBLE, UNIQUE KEY (id, email));
-- @hash id
-- @virtual idx_email email
-- @virtual idx_age age
CREATE TABLE orders (user_id BIGINT NOT NULL, id INT NOT NULL, code VARCHAR(20), total DECIMAL(10,2), placed DATETIME, PRIMARY KEY (user_id, id));
-- @hash user_id
-- @virtual idx_code code
CREATE TABLE items (user_id BIGINT NOT NULL, order_id INT NOT NULL, sku VARCHAR(20) NOT NULL, qty INT UNSIGNED, PRIMARY KEY (user_id, order_id, sku));
-- @hash user_id
CREATE TABLE countries (code CHAR(2) NOT NULL PRIMARY KEY, name VARCHAR(50), region VARCHAR(20));
-- @reference
CREATE TABLE settings (k VARCHAR(50) NOT NULL PRIMARY KEY, v TEXT);
-- @single s0
CREATE TABLE legacy (id INT NOT NULL PRIMARY KEY, ref VARCHAR(50), note TEXT);
-- @anywhere
-- @virtual idx_ref ref
INSERT INTO users (id, email, country, name, age, born, paid, score) VALUES (1, 'ann@x', 'DE', 'Ann', 30, '1990-01-02', 10.50, 1.5), (2, 'bob@x', 'FR', 'bob', 41, '1979-05-06', 0.00, 2.25), (3, 'cid@x', 'DE', 'Cid', NULL, NULL, NULL, NULL), (4, 'dee@x', 'US', 'Dée', 25, '1995-12-31', 99.99, -0.5), (5, 'eve@x', 'US', 'Eve', 30, '1990-03-04', 20.00, 3), (6, NULL, NULL, 'Fay', 19, '2001-02-28', 5.25, 0), (7, 'gus@x', 'FR', 'Gus', 52, '1968-07-08', 7.00, 1.5), (8, 'hal@x', 'JP', 'hal', 30, '1990-01-02', 10.50, 8.75), (9, 'ida@x', 'DE', 'Ida', 41, '1979-05-06', -3.10, 2.25), (10, 'jon@x', 'XX', 'Jon', 63, '1957-10-11', 1000.00, 100);
INSERT INTO orders (user_id, id, code, total, placed) VALUES (1, 1, 'A1', 10.00, '2024-01-01 10:00:00'), (1, 2, 'A2', 20.50, '2024-01-02 11:00:00'), (2, 1, 'B1', 5.00, '2024-01-01 10:00:00'), (4, 1, 'D1', 99.90, '2024-02-01 00:00:00'), (4, 2, 'D2', NULL, NULL), (5, 1, 'A1', 1.25, '2024-03-01 08:30:00'), (7, 1, 'G1', 7.00, '2024-01-15 12:00:00'), (8, 3, 'H3', 30.00, '2024-01-31 23:59:59'), (10, 1, 'J1', 500.00, '2023-12-31 23:59:59'), (10, 2, 'J2', 250.00, '2024-01-01 00:00:00'), (10, 3, 'J3', 125.00, '2024-02-29 00:00:00');
INSERT INTO items (user_id, order_id, sku, qty) VALUES (1, 1, 'pen', 2), (1, 1, 'ink', 1), (1, 2, 'pad', 3), (2, 1, 'pen', 1), (4, 1, 'ink', 5), (5, 1, 'cup', NULL), (7, 1, 'pen', 7), (8, 3, 'pad', 1), (10, 1, 'pen', 100), (10, 2, 'ink', 10), (10, 3, 'cup', 1);
INSERT INTO countries (code, name, region) VALUES ('DE', 'Germany', 'EU'), ('FR', 'France', 'EU'), ('US', 'United States', 'NA'), ('JP', 'Japan', 'AS'), ('BR', 'Brazil', 'SA');
INSERT INTO settings (k, v) VALUES ('theme', 'dark'), ('limit', '30'), ('empty', NULL);
INSERT INTO legacy (id, ref, note) VALUES (1, 'r1', 'one'), (2, 'r2', NULL), (3, 'r1', 'three');
