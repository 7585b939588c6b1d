// Package virtual keeps the values of virtual columns: aggregates over the rows of a table, by a column of theirs.
//
// # Where a value is
//
// The durable part is a table beside the rows that have the column, on their shard: key, count, value. The hot part is
// in memory: what the shards' binary logs have told since, by key. Consolidate adds the hot part to the durable one.
//
//	write to child rows -> its shard's binary log -> stream -> hot part -> durable table <- joined by reads
//
// With the durable values lies the position of each log up to which they count, written in the same transaction
// (rule one transaction). So nothing of the hot part has to survive: who starts anew reads the logs from there.
//
// # An exact read
//
// Fresh returns when the durable values have all that was visible when it was called:
//
//  1. Each shard that may have rows of what is read is asked what may be visible there, and its stream passes that
//     (follow.Server.Seen). Where the child is spread by the column's key, that is one shard for each key: another one that is
//     down, or late, is of no concern.
//  2. Doubtful keys are measured, and the hot part is consolidated.
//
// The read that follows joins the durable table. Of keys that are read again and again the whole value is kept in memory,
// which needs neither: the statement is sent with it, while it is found out whether it is current (Guess).
//
// Where Fresh fails, or takes too long, the column's query is run in place of its value: it is right at any time, and slow.
//
// Of several processes one does all this. The others have whole values of some keys, which they measure, and follow (watch).
//
// # Rules, and what happens without them
//
// Rule one transaction: values and positions are written by one transaction of the parent's shard, which fails where
// other positions are there than the writer's last ones. Counter-example: the values are written, the process dies, and
// the next one counts the same changes again.
//
// Rule window: rows are measured between two positions, low and high. What low covers was visible to the query;
// what high doesn't cover was not, and is added. A key that a transaction in between has changed may have been seen
// with the change or without: it is measured again.
//
// Rule shown: low covers all that the stream has handed over before changes began to be noted. Counter-example: a
// transaction is in the log and not yet visible. The stream has passed it, the query doesn't see its rows, and nobody
// counts them.
//
// Rule doubt: what can't be computed from a row's images (the greatest row is gone; a WHERE that filter.go doesn't read) makes its
// key doubtful, until it is measured. A durable value of a doubtful key is marked. What is doubtful of all keys, as
// behind an Unknown of the log, has the column built anew.
//
// Rule XA: what an XA transaction has changed is in the log when it is prepared, and visible when another transaction
// commits it, without rows. Both have the columns built anew.
//
// Rule not in a snapshot: inside of a transaction reads run the query. Their snapshot may be older than what Fresh has
// consolidated, and has their own changes, which no log has yet. A fast read has a kept value there, until the
// transaction has written.
//
// Rule asked: how late a fast read may be is told from when a log was asked, and had been taken up to there. Counter-example:
// nothing is hot, since the log can't be read.
//
// Rule other server: a shard that has another server has the columns over its rows, and those whose durable values it has, built
// anew (Replaced).
//
// Rule gone: what is dropped or renamed has its columns built anew, also those of the table itself: another table may come
// in its place, of which no row is in the values.
package virtual
