// Package replica follows the replicas of the shards: which of them may be read
// from, and how far behind their primaries they are at most.
//
//	Set       the replicas of all shards, which can change; Pick chooses one
//	Replica   one of them: its pool, and what is known of it
//
// # How far behind
//
// Servers tell a replica's lag badly: Seconds_Behind_Source is in whole seconds,
// and 0 while a replica waits for a source that is cut off. So it is measured from
// end to end, by Shunt's own clock and without writing anything:
//
//	t0   note the time, then ask the primary for its position P
//	     (GTIDs that are executed, or file and offset of its binary log)
//	     ... whatever was committed before t0 is within P
//	t1   ask the replica for its position R
//	     R holds P: the replica has all that was committed before t0, so
//	     at any later time t it is behind by t - t0 at most
//
// Positions of the past are kept, so that a replica that lags is told from one that
// stands still. A bound is never too small: where anything fails it grows with the
// time, until the replica isn't used any more.
//
// # What else keeps a replica from being used
//
//   - its threads are stopped, or it replicates from another server than its
//     shard's primary;
//   - filters, which leave rows out: within what a replica has nothing may be
//     missing;
//   - settings that give statements another meaning or answer than on the
//     primary (settings);
//   - tables that have other columns than its primary's (columns);
//   - its primary's schema has changed in the meantime (Pick's since).
//
// # Invariants
//
//   - What is read from a replica never decides where something is written, nor
//     does a virtual index decide which replicas are read: an entry that has gone
//     on the primary may still be needed by a replica's rows. This is for the
//     session to keep (package proxy).
//   - Each goroutine belongs to a Set, which waits for it in Close or when what it
//     follows is taken out.
package replica
