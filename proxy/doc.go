// Package proxy is the life of a client connection: the handshake, the command
// loop, the session's settings and transaction, the execution of plans on
// pooled shard connections, and Shunt's own SQL.
//
//	client ── wire.Conn ── session ── planner ── Bound ──┬── shard.Conn ── MySQL
//	                          │                          └── shard.Conn ── MySQL
//	                          └── Index (lookup, write protocol, maintenance)
//
// A session is one goroutine. Sessions share the immutable catalog behind an
// atomic pointer, the pools, and the Index; nothing else.
//
// Where does X happen?
//
//	proxy.go        listening, accepting, draining
//	session.go      the command loop of one client
//	settings.go     what the client has SET, and how a shard connection gets it;
//	                variables.go: SET itself; user_variable.go: the values of @x
//	tracking.go     what the client is told of its session (SESSION_TRACK);
//	                tracking_transaction.go: of its transaction
//	statement.go    text of a COM_QUERY -> plan -> the right executor
//	execute.go      a bound plan on its shards: the write protocol's steps around it
//	answer.go       several shards' answers become one
//	lookout.go      in which order they are read, and that a late one holds up nothing
//	increment.go    AUTO_INCREMENT for all shards together; last_insert_id.go:
//	                LAST_INSERT_ID(), which pooled connections don't keep
//	load.go         LOAD DATA LOCAL INFILE; load_file.go reads the file's fields
//	copy.go         INSERT ... SELECT whose rows go to other shards
//	within.go       several statements of ours as one of the client's
//	merge.go        answers that stream through a merge (package merge); merge_late.go:
//	                those of shards that are not waited for
//	found_rows.go   FOUND_ROWS(); select_limit.go: sql_select_limit; show_values.go: SHOW VARIABLES
//	returning.go    rows that a write answers
//	transaction.go  BEGIN to COMMIT over one or several shards; characteristics.go:
//	                isolation level and access mode, and how long they hold
//	lock_tables.go  LOCK TABLES; pinned.go: why sessions keep connections
//	replicas.go     reads from replicas: which statements, and on elsewhere when one is lost
//	temporary.go    temporary tables, and the connection that a session keeps for them
//	prepared.go     COM_STMT_*; cursor.go, spool.go: COM_STMT_FETCH
//	ddl.go          DDL on all shards, and what it does to virtual indexes
//	admin.go        CREATE VIRTUAL INDEX, SHOW SHARDS, EXPLAIN ROUTE, ...
//	directory.go    the current catalog: when it is read again, who sees it
//	errors.go       our errors <-> MySQL's
//	metrics.go      shunt_* figures
//	http.go         /metrics, /healthz, /readyz, the console, /v1
//
// Invariants:
//   - nothing is sent to a shard before the entries and marks of its statement
//     are in the store (execute.go, Index.Prepare);
//   - a statement whose outcome is not known stays open in the Index
//     (Open.InDoubt) until it is settled;
//   - a shard connection goes back to its pool only with no unread bytes, no
//     open transaction, no temporary table, and its settings fingerprint true.
package proxy
