// Package seat keeps what the server of one shard keeps of the members (cluster.Seat), in
// tables of the schema shunt_store on that server: MySQL or MariaDB.
//
//	self     one row: which shard of which cluster the server is, and which server took
//	         that over last, in which life
//	epoch    one row: the shard's epoch
//	members  a row for each join
//	threads  a note for each connection of a join
//
// # What a call leaves
//
// Each is one statement that commits by itself, or several that may be done in part; then
// doing it again does the rest. A process that dies in Note leaves a note of a thread that
// ends with it; in Join a row that tells epoch 0, which holds removals on the shard back
// until somebody fences it; in Remove notes of no row, which the next Remove takes.
// An epoch is as durable as the server's commits are: innodb_flush_log_at_trx_commit = 1.
//
// # Threads
//
// A thread is known by its number, its user, and its host with the port, as the server lists
// them (SHOW PROCESSLIST): Note asks the server, whose view of a client's
// address may be another than the client's own. Over a Unix socket there is no port: there
// one thread is taken for another one of the same user with the same number, after the
// server was restarted.
//
// A server shows other users' threads to whom has the right PROCESS. Without it a thread of
// another user is never taken for gone (ErrBlind).
//
// # Another server
//
// A server that isn't the one which wrote self last (a replica that was promoted, a copy) may
// lack epochs, rows and notes. It isn't used (ErrOtherServer) until Renew, which belongs
// behind cluster.Replace: nobody uses the former one any more. Each connection looks, before
// anything else. A server that was in use before still says so of itself, in its earlier life.
package seat
