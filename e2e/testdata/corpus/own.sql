-- include: shop
-- kind: EXPLAIN ROUTE
-- own
EXPLAIN ROUTE SELECT * FROM users WHERE id = 5;
-- kind: CREATE VIRTUAL INDEX
-- own
CREATE VIRTUAL INDEX idx_name ON users (name);
-- kind: SHOW VIRTUAL INDEXES
-- own
SHOW VIRTUAL INDEXES FROM users;
-- kind: ALTER VIRTUAL INDEX
-- own
ALTER VIRTUAL INDEX idx_name ON users DISABLE;
-- own
ALTER VIRTUAL INDEX idx_name ON users ENABLE;
-- kind: REBUILD VIRTUAL INDEX
-- own
REBUILD VIRTUAL INDEX idx_name ON users;
-- kind: CHECK VIRTUAL INDEX
-- own
CHECK VIRTUAL INDEX idx_name ON users;
-- kind: DROP VIRTUAL INDEX
-- own
DROP VIRTUAL INDEX idx_name ON users;
-- kind: SHOW MAINTENANCE JOBS
-- own
SHOW MAINTENANCE JOBS;
-- kind: SHOW SHARDS
-- own
SHOW SHARDS;
-- kind: SHOW MEMBERS
-- own
SHOW MEMBERS;
-- kind: SHOW STATEMENT STATISTICS
-- own
SHOW STATEMENT STATISTICS;
-- kind: FLUSH STATEMENT STATISTICS
-- own
FLUSH STATEMENT STATISTICS;
-- kind: SHOW INDEX ADVICE
-- own
SHOW INDEX ADVICE;
-- kind: a hint that names the shard
-- own
/* shunt: shard=s0 */ SELECT COUNT(*) FROM users;
