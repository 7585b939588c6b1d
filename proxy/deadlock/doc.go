// Package deadlock ends deadlocks over several shards. Such a one is seen by none of them: on each, one transaction
// waits for another that, there, waits for nobody.
//
//	A: UPDATE row 1 of s0        B: UPDATE row 2 of s1
//	A: UPDATE row 2 of s1        B: UPDATE row 1 of s0      both until innodb_lock_wait_timeout
//
// So while several transactions over several shards wait, the shards are asked who
// waits there for whom. A circle that is there at two looks, between which each of its
// transactions was at the same statement, was there all the time between: its youngest
// transaction gets the error that a server gives, and is rolled back.
//
// Asked are, some five times a second and by a connection outside of the pool, MySQL's
// performance_schema.data_lock_waits or MariaDB's INNODB_LOCK_WAITS, with INNODB_TRX. The
// threads of a transaction of Shunt's are one node of the graph, any other thread is one by
// itself. The youngest transaction's waiting statements are ended by KILL QUERY, and answered
// with 1213.
//
// Two writes over several shards that would wait for each other on one server must not fail
// here. Of a reference table the first copy is written before the others, so that writes wait
// for each other there (rule first copy in the proxy's write.go). Elsewhere a victim that is a transaction
// of its own is done again. For ten seconds (Fear) writes of the table then ask their shards one
// after the other.
//
// Not seen are waits for table locks (metadata, GET_LOCK): they end by their timeouts.
//
// A Spread has the transactions of several shards and looks for their circles. What ends a
// statement is the proxy's: Transaction.End.
package deadlock
