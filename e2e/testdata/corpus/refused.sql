-- include: shop
-- kind: SELECT ... INTO OUTFILE
-- refused
SELECT * FROM users INTO OUTFILE '/tmp/x';
-- kind: GET_LOCK with tables
-- refused
SELECT GET_LOCK('a', 1) FROM users;
-- kind: FLUSH TABLES WITH READ LOCK
-- refused
FLUSH TABLES WITH READ LOCK;
-- kind: FLUSH TABLES ... FOR EXPORT
-- refused
FLUSH TABLES users FOR EXPORT;
-- kind: XA
-- refused
XA START 'x';
-- kind: HANDLER
-- refused
HANDLER users OPEN;
-- kind: LOAD DATA
-- refused
LOAD DATA INFILE '/tmp/x' INTO TABLE users;
-- kind: GRANT, CREATE USER
-- refused
GRANT ALL ON *.* TO a;
-- kind: assignment of a user variable inside of a statement over several shards
-- refused
SELECT @x := id FROM users;
