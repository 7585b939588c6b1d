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
// Clients and their sessions:
//
//	proxy            listening, accepting, draining; balancer: PROXY protocol
//	session          the command loop of one client; vanished: clients that are gone, or idle
//	rights, denied   what a user may do; log-ins that fail
//	settings         what the client has SET, and how a shard connection gets it;
//	                 variables: SET itself; user_variable: the values of @x;
//	                 own_variables: those that Shunt obeys itself; set_statement: MariaDB's
//	                 SET STATEMENT; select_limit: sql_select_limit
//	tracking         what the client is told of its session (SESSION_TRACK);
//	                 tracking_transaction: of its transaction; attributes: what it tells of itself
//	transaction      BEGIN to COMMIT over one or several shards; characteristics: isolation
//	                 level and access mode; deadlock: circles that no server sees
//	lock_tables      LOCK TABLES; lock_name: GET_LOCK; temporary: temporary tables; pinned: the
//	                 connections that sessions keep for these
//	processlist      SHOW PROCESSLIST and KILL; late: statements that take too long
//
// Statements:
//
//	statement        text of a COM_QUERY -> plan -> the right executor
//	prepared         COM_STMT_*; prepared_params: their parameters; cursor: COM_STMT_FETCH;
//	                 prepared_text: PREPARE as SQL
//	spool            answers that are set aside: cursors', and those of queries of ours
//	execute          a bound plan: by which of the ways below it is done
//	borrow, send     the shard connections that it goes over; shard_error: what their errors do
//	read             one shard's rows; replicas: from replicas, and on elsewhere when one is lost
//	write            the write protocol's steps around a write
//	answer, merge    several shards' answers become one: concatenated, or merged (package merge);
//	                 lookout, merge_late: without waiting for shards that are late
//	gather, gather_* rows are copied to be answered or written
//	increment        AUTO_INCREMENT for all shards together; last_insert_id: LAST_INSERT_ID()
//	constant, meet   rows that are placed by what a shard says; limit: writes with LIMIT
//	load, load_file, INSERTs of many rows for LOAD DATA and INSERT ... SELECT;
//	copy, collected  within: several statements of ours as one of the client's
//	returning, call, what a statement answers or leaves behind besides its rows
//	select_into, found_rows, warnings
//	ddl, ddl_tries   DDL on all shards, and what it does to virtual indexes
//	system, system_* SHOW and information_schema; show_values: SHOW VARIABLES
//	admin, explain   CREATE VIRTUAL INDEX, SHOW SHARDS, ...; EXPLAIN ROUTE
//
// What they share:
//
//	directory        the current catalog: when it is read again, who sees it
//	index            what is needed of the virtual indexes
//	errors           our errors <-> MySQL's
//	metrics, http    shunt_* figures; /metrics, /healthz, /readyz, the console, /v1
//
// Invariants:
//   - nothing is sent to a shard before the entries and marks of its statement
//     are in the store (session.mayWrite);
//   - a statement whose outcome is not known stays open in the Index
//     (Open.InDoubt) until it is settled;
//   - a shard connection goes back to its pool only with no unread bytes, no
//     open transaction, no temporary table, and its settings fingerprint true.
package proxy
