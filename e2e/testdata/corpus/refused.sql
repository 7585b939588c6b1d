-- include: shop
-- kind: SELECT ... INTO OUTFILE
-- refused
SELECT * FROM users INTO OUTFILE '/tmp/x';
-- kind: GET_LOCK with tables
-- refused
SELECT GET_LOCK('a', 1) FROM users;
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
-- kind: CREATE SPATIAL REFERENCE SYSTEM
-- refused
CREATE SPATIAL REFERENCE SYSTEM 990001 NAME 'x' DEFINITION 'y';
-- kind: JSON DUALITY VIEW
-- refused
CREATE JSON DUALITY VIEW v AS SELECT JSON_DUALITY_OBJECT('_id' : id, 'name' : name) FROM users;
-- kind: RESOURCE GROUP
-- refused
CREATE RESOURCE GROUP g TYPE = USER;
-- kind: assignment of a user variable inside of a statement over several shards
-- refused
SELECT @x := id FROM users;
-- kind: UPDATE of several tables that are not joined on their shard keys
-- refused
UPDATE users u JOIN items i ON i.qty = u.age SET u.name = 'x', i.qty = 5;
-- kind: information_schema joined with sharded tables
-- refused
SELECT t.TABLE_NAME, u.id FROM (SELECT TABLE_NAME FROM information_schema.TABLES) t JOIN users u ON u.name = t.TABLE_NAME;
