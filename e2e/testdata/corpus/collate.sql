-- Collations that the parser doesn't know.
CREATE TABLE words (id INT NOT NULL PRIMARY KEY, w VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci);
-- @hash id
-- @virtual by_word w
INSERT INTO words VALUES (1, 'a'), (2, 'B'), (3, 'A'), (4, 'ä'), (5, 'b '), (6, 'b');
-- only: mariadb
SELECT id FROM words WHERE w = 'a' COLLATE utf8mb4_uca1400_as_cs;
-- only: mariadb
SELECT id FROM words WHERE w COLLATE `utf8mb4_uca1400_ai_ci` = 'a' ORDER BY id;
-- only: mariadb
SELECT id, w FROM words ORDER BY w COLLATE utf8mb4_uca1400_as_cs DESC, id LIMIT 3;
-- only: mariadb
SELECT w COLLATE utf8mb4_nopad_bin AS x, COUNT(*) FROM words GROUP BY x ORDER BY x;
-- only: mariadb
INSERT INTO words VALUES (20, 'q' COLLATE utf8mb4_uca1400_as_cs), (21, 'collate uca1400_as_cs');
-- only: mariadb
UPDATE words SET w = CONCAT(w, 'x') COLLATE utf8mb4_uca1400_as_cs WHERE w COLLATE utf8mb4_uca1400_as_cs = 'A';
-- only: mysql
SELECT id FROM words WHERE w = 'a' COLLATE utf8mb4_ja_0900_as_cs;
-- only: mysql
SELECT id, w FROM words ORDER BY w COLLATE utf8mb4_zh_0900_as_cs DESC, id LIMIT 3;
-- only: mysql
INSERT INTO words VALUES (20, 'q' COLLATE utf8mb4_zh_0900_as_cs), (21, 'collate uca1400_as_cs');
SELECT * FROM words ORDER BY id;
SELECT id FROM words WHERE w = 'q' OR w = 'ax' ORDER BY id;
