-- Shunt's account on each shard: docs/install.md and docs/several.md say what for.
CREATE USER shunt@'%' IDENTIFIED BY 'shunt';
GRANT ALL ON shop.* TO shunt@'%';
GRANT PROCESS, CONNECTION_ADMIN ON *.* TO shunt@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO shunt@'%';
GRANT SELECT ON performance_schema.data_lock_waits TO shunt@'%';
GRANT SELECT ON performance_schema.data_locks TO shunt@'%';
GRANT SELECT ON performance_schema.threads TO shunt@'%';
GRANT CREATE, CREATE TEMPORARY TABLES, DROP, INSERT, SELECT ON shunt_scratch.* TO shunt@'%';
GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON shunt_store.* TO shunt@'%';
