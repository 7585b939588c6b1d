// Package follow reads a server's binary log as a replica does, and gives every change of a row in it.
//
// # Use
//
// A consumer begins at Now, reads the tables that it wants, and follows from that position:
//
//	from, err := follow.Now(ctx, source)
//	progress := follow.NewProgress(from)             // or Resume(ParsePlace of what was kept)
//	for {
//		stream, err := follow.Open(ctx, source, progress)
//		for err == nil {
//			var event follow.Event
//			event, err = stream.Next()               // *Begin, *Rows, *Unknown, *Schema, *Commit, *Heartbeat
//			...
//		}
//		// ErrPurged, ErrDiverged: read the tables, and begin anew at a position of before that.
//		// ErrUnfit: Check says what to set or GRANT.
//		// Any other: open again; source may be another server of the same data (a replica that was promoted).
//	}
//
// Progress.Passed and Wait tell whether a write has been seen, by its GTID (session tracking on MySQL,
// @@last_gtid on MariaDB) or by a position that Written has read behind it. Progress.Place is what to
// keep together with what was made of the events; it is text.
//
// # Invariants
//
//   - Every change that is in the log behind the position comes as Rows, or its table is named by an Unknown.
//     Nothing is guessed: what can't be read for sure is Unknown.
//   - Events come in the log's order. What was not consumed when a stream ended comes again, by whole
//     transactions: consumers are idempotent.
//   - An event may come before its transaction is visible on the server. So what it adds is safe to use,
//     and a SELECT that doesn't find it proves nothing.
//   - A transaction of any size takes bounded memory: one event of the log at a time, decompressed as it
//     is read. An event beyond 64 MiB (one row) is not read: its table is Unknown.
//   - A table's columns are those that it had when the row was written: the server names them in the log
//     (binlog_row_metadata = FULL). Where it doesn't, it is asked, and what comes before the answer counts
//     is Unknown (definition).
//
// # Not seen
//
// What a server doesn't write down: sessions with SET sql_log_bin = 0, files that are exchanged under a server.
// Servers that leave out databases (binlog_do_db, binlog_ignore_db) are refused. Row images of a table WITH
// SYSTEM VERSIONING are those of its history too: a DELETE there is an update of row_end.
//
// # Why not more of go-mysql
//
// Its BinlogSyncer takes a compressed transaction into memory as a whole, decodes each column of each row,
// doesn't tell an absent column from NULL where one asks by place, and reconnects by itself. So only its
// handshake and its readers of the log's smaller events are used.
package follow
