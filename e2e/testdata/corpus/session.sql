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
SELECT GET_LOCK('corpus', 1), RELEASE_LOCK('corpus');
-- kind: assignment of a user variable inside of a SELECT of one shard
SELECT @x := id, name FROM users WHERE id = 5;
SELECT @x;
-- only: mysql
SET SESSION transaction_isolation = 1;
-- only: mysql
SELECT @@transaction_isolation;
-- only: mysql
SET SESSION transaction_isolation = DEFAULT;
-- only: mysql
SELECT @@transaction_isolation;
-- only: mysql
SET SESSION transaction_isolation = 4;
-- only: mysql
SET SESSION transaction_isolation = '1';
-- only: mysql
SET @@transaction_isolation = 0;
-- only: mysql
SET @@transaction_isolation = DEFAULT;
-- only: mysql
SET SESSION transaction_read_only = DEFAULT;
SET autocommit = DEFAULT;
SELECT @@autocommit;
-- kind: SET to what a query answers
SET @n = (SELECT COUNT(*) FROM users), @m = 1 + (SELECT MAX(id) FROM users);
SELECT @n, @m;
SET @name = (SELECT name FROM users WHERE id = 3), @none = (SELECT name FROM users WHERE id = 99);
SELECT @name, @none IS NULL;
SET @v = (SELECT id FROM users);
SET @v = (SELECT id, name FROM users WHERE id = 1);
SET SESSION sort_buffer_size = (SELECT MAX(id) * 100000 FROM users);
SELECT @@sort_buffer_size;
SET SESSION sort_buffer_size = DEFAULT;
-- kind: DO with a query
DO (SELECT COUNT(*) FROM users);
DO 1, (SELECT id FROM users WHERE id = 3);
DO (SELECT id FROM users);
SHOW WARNINGS;
-- kind: SET CHARACTER SET
SET CHARACTER SET latin1;
SELECT @@character_set_client, @@character_set_connection, @@collation_connection = @@collation_database, @@character_set_results;
SET CHARACTER SET 'utf8mb4';
SELECT @@character_set_client, @@character_set_connection, @@collation_connection = @@collation_database, @@character_set_results;
SET CHARSET DEFAULT;
SET CHARACTER SET nonsense;
SET NAMES utf8mb4;
-- only: mariadb
SET SESSION tx_isolation = 1;
-- only: mariadb
SELECT @@tx_isolation;
-- only: mariadb
SET SESSION tx_isolation = DEFAULT;
-- only: mariadb
SELECT @@tx_isolation;
-- only: mariadb
SET SESSION tx_read_only = DEFAULT;
UPDATE users SET name = 'Ann' WHERE id = 1;
