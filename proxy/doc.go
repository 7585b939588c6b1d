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
//	rights           what a user may do
//	settings         what the client has SET, and how a shard connection gets it;
//	                 variables: SET itself; user_variable: the values of @x;
//	                 variables_own: those that Shunt obeys itself; set_statement: MariaDB's
//	                 SET STATEMENT; select_limit: sql_select_limit
//	tracking         what the client is told of its session (SESSION_TRACK);
//	                 tracking_transaction: of its transaction; attributes: what it tells of itself
//	transaction      BEGIN to COMMIT over one or several shards; characteristics: isolation
//	                 level and access mode; deadlock: what of it package deadlock needs; claim: which
//	                 rows it changes, for who else would
//	lock_tables      LOCK TABLES; lock_name: GET_LOCK; read_lock: FLUSH TABLES WITH READ LOCK; temporary:
//	                 temporary tables; pinned: the connections that sessions keep for these
//	processlist      SHOW PROCESSLIST; kill: KILL; others: both of other members; late: statements that
//	                 take too long
//
// Statements:
//
//	statement        text of a COM_QUERY -> plan -> the right executor
//	prepared         COM_STMT_*; prepared_params: their parameters; cursor: COM_STMT_FETCH, answers set aside;
//	                 prepared_text: PREPARE as SQL
//	execute          a plan is bound, and done in one of the ways below; ways: their table
//	borrow, send     the shard connections that it goes over; shard_error: what their errors do
//	read             one shard's rows; replicas: from replicas, and on elsewhere when one is lost;
//	                 guess: while the virtual indexes are asked where the rows are
//	covered, virtual what Shunt keeps for reads: covering indexes' answers, virtual columns' values;
//	                 freshness: whether these wait for it to be current
//	write            the write protocol's steps around a write; keyed: writes of rows that are found first;
//	                 unique: unique keys over shards
//	answer, merge    several shards' answers become one: concatenated, or merged (package merge);
//	                 lookout, merge_late: without waiting for shards that are late
//	gather, gather_* rows are copied to be answered or written
//	increment        AUTO_INCREMENT for all shards together; increment_taken: values that others have used
//	constant, meet   rows that are placed by what a shard says; limit: writes with LIMIT
//	load, copy,      INSERTs of many rows for LOAD DATA and INSERT ... SELECT; create_as: CREATE TABLE
//	collected        ... SELECT; stored: rows as columns take them; within: several statements
//	                 of ours as one of the client's
//	returning, call, what a statement answers or leaves behind besides its rows
//	diagnostics      what SHOW WARNINGS, ROW_COUNT(), FOUND_ROWS() and LAST_INSERT_ID() tell, which
//	                 own_conditions answers: rules are in warnings, set_warnings, found_rows and
//	                 last_insert_id; select_into: INTO @x
//	ddl              DDL on all shards, and what it does to virtual indexes; ddl_turn: who waits for whose;
//	                 ddl_idle: that changes nothing; ddl_empty: for empty tables alone; ddl_unfinished: that
//	                 some shards lack
//	stalled          shards whose disk is full: commits wait there
//	system, system_* SHOW and information_schema; show_values: SHOW VARIABLES
//	own, own_*       Shunt's own SQL: the table of its statements; explain: EXPLAIN ROUTE
//
// Shards and what all have a copy of:
//
//	join, join_*     a shard that is added
//	copies           who writes reference tables; unlike: copies that differ
//
// What they share:
//
//	index            what is needed of the virtual indexes
//	errors           our errors <-> MySQL's
//	metrics, served  shunt_* figures, histogram; what the console tells
//	measured         what a statement costs; statement_log: the log of statements
//	planning, held   bounds: of plans that are made at once; of what a session keeps in memory
//
// In packages beside, which know no session:
//
//	tracing          OpenTelemetry's traces of statements: trace says what they tell
//	deadlock         circles of transactions that no server sees
//	console          HTTP: /metrics, /healthz, /readyz, the page about a running Shunt, /v1
//	scratch          the tables that gathers copy rows into
//	spool            answers that are set aside: cursors', and those of queries of ours
//	infile           lines and fields of a file that LOAD DATA reads
//	door             log-ins that fail, and connections that aren't logged in yet
//
// # What a statement for one shard costs
//
// Two writes, two reads and a wait or two of the kernel, or with io_uring one system
// call (wire.Ring). All else is kept small:
//
//   - The session itself sends, waits and copies: nothing is handed from goroutine to
//     goroutine. It sends and waits for the answer in one step (wire.Exchange), since a
//     read between the two would find nothing.
//   - Nothing is allocated, which TestAllocations guards end to end. Shape, binding,
//     values, parameters, buffers and payloads are room that is used again. A SELECT
//     whose plan is known is run from its text in the client's buffer (view); what is to
//     outlive the command clones that. Any other statement's text is copied once.
//   - Connections to shards are handed out last in, first out. Counters are found by
//     their labels once.
//
// # Who waits for whom
//
// No wait outlives its cause. Each ends as stands behind it:
//
//	waits            for                              until                                   test
//	any statement    a connection to a shard          one is put back, 10 s: 1040             shard.TestPoolQueue
//	DDL              the turn of all                  its holder has planned or published;    e2e.TestDDLTurns
//	                                                  a holder that is fenced has lost it
//	DDL              the turn of its tables           the DDL before has ended, as shards     e2e.TestDDLTurns,
//	                                                  let it; lock_wait_timeout: 1205; a      TestDDLOfLocked,
//	                                                  member that is fenced has lost it       TestMembersDDLTurns
//	DDL, indexes     statements that are registered   they are answered; lost ones: their     indexer.TestAwaitOpen
//	                                                  threads are gone from the server
//	a write          another's claim of a value       that transaction ends; a circle: 1213   TestClaimsCircle
//	a write of       a shard's joining, or copies     they are alike, or the joining fails    TestCopiesAlone
//	reference tables that are being compared
//	a write          FLUSH TABLES WITH READ LOCK      UNLOCK TABLES, or the session's end     e2e.TestReadLock
//	a write          a shard that is told             it is told, or judged dead              e2e.TestShardsDiskFull
//	COMMIT           a shard whose disk is full       timeouts.commit                         e2e.TestShardsDiskFull
//	an exact read    a follower of the binary log     it has read so far; else all shards     indexer.TestPassingLate
//
// Invariants:
//   - nothing is sent to a shard before the entries and marks of its statement
//     are in the store (session.mayWrite);
//   - a statement whose outcome is not known stays open in the Index
//     (Open.InDoubt) until it is settled;
//   - a shard connection goes back to its pool only with no unread bytes, no
//     open transaction, no temporary table, and its settings fingerprint true.
package proxy
