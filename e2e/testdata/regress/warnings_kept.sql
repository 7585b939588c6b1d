-- To look for rows of the unique key elsewhere, the engine is asked for first, and warned in place of the INSERT.
SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY';
CREATE TABLE w (id BIGINT NOT NULL, v0 DECIMAL(8,0), v1 VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, v2 VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci, v3 VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci, v4 VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci, v5 DATE, PRIMARY KEY (id));
-- @anywhere
-- @virtual ix_w_0 v5
INSERT INTO w VALUE (19, '2021-01-01', 'x_y', 'emile', 'X', 'emile', '2020-02-29');
INSERT INTO w VALUE (20, '2021-01-01', 'x_y', 'emile', 'X', 'emile', '2020-02-29');
INSERT INTO w VALUE (21, '2021-01-01', 'x_y', 'emile', 'X', 'emile', '2020-02-29');
