-- include: shop
-- kind: SET of a session variable
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SELECT @@sql_mode;
-- kind: SET of a user variable
SET @a = 5, @b = 'x';
SELECT @a, @b, @nothing;
SELECT id FROM users WHERE id = @a;
SET NAMES utf8mb4;
SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SELECT "id", "name" FROM "users" WHERE "id" = 5;
SET SESSION sql_mode = 'PIPES_AS_CONCAT,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SELECT name || '-' || country FROM users ORDER BY id;
SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO';
SELECT 'a\b';
SET SESSION sql_mode = DEFAULT;
SET SESSION group_concat_max_len = 8;
SELECT GROUP_CONCAT(name ORDER BY id) FROM users WHERE id < 3;
SET SESSION group_concat_max_len = DEFAULT;
SET time_zone = '+05:00';
SELECT @@time_zone, FROM_UNIXTIME(0);
SET time_zone = DEFAULT;
SET nothing = 1;
-- kind: DO
DO 1;
-- kind: GET_LOCK, RELEASE_LOCK
SELECT GET_LOCK('corpus', 1);
SELECT IS_FREE_LOCK('corpus'), IS_FREE_LOCK('other');
SELECT GET_LOCK('corpus', 1) AS again;
SELECT RELEASE_LOCK('corpus');
SELECT RELEASE_LOCK('corpus') AS r;
SELECT RELEASE_LOCK('corpus');
SELECT IS_FREE_LOCK('corpus');
DO GET_LOCK('corpus', 1);
SELECT RELEASE_ALL_LOCKS();
SELECT GET_LOCK(NULL, 1);
SELECT GET_LOCK('a', 1), RELEASE_LOCK('a');
-- kind: assignment of a user variable inside of a SELECT of one shard
SELECT @x := id, name FROM users WHERE id = 5;
SELECT @x;
