// Package cover keeps answers of reads by covering virtual indexes, and gives one while it is current.
//
// # What is kept
//
// The first read of a key goes to the shards. Its answer is kept as it was sent, and the same statement is answered by
// it until a row with the key changes in a column that the index covers. So types, collations, order and LIMIT are the
// shards' own. Memory is bounded: what was used longest ago goes.
//
// # When it is current
//
// An answer depends on gates: those of its keys, its index, its table's shards, and of all definitions. It keeps their
// states as of before the read began (Begin), and is given while they are the same. No list of answers is kept: what
// has lost a gate is found so when it is asked for, or goes for lack of room.
//
//	change in a shard's log  -> the key's gate changes; it is shut until the change is visible to reads
//	Unknown in a log, DDL    -> so does the index's
//	a log isn't read         -> so does the shard's
//	write through Shunt      -> the index's gate is written behind: exact reads don't pass
//
// # Rules, and what happens without them
//
// Rule changes: counter-example: a row is written directly on its shard; its key's answer stays for ever.
//
// Rule before: states are taken before the index is asked and the read is sent. Counter-example: a read is sent and sees
// the row as it was; the row changes, and its change is passed; the state is taken now, and the answer stays.
//
// Rule shown: a key's gate stays shut until its change is visible. Counter-example: a transaction is in the log and not
// yet visible. Its change is passed, a read sees the row as it was, and no other change comes.
//
// Rule written: from before a write is sent until it has ended and the shards' logs have been read up to there, exact
// reads don't pass. Counter-example: an UPDATE is acknowledged, and its change hasn't come yet.
//
// Rule ended, then passed: the place in the logs is asked for when the write has ended. Counter-example: it was
// asked for before; the write commits later.
//
// Rule doubt: a write whose end isn't known has not ended (Writes.Share). Counter-example: its connection breaks, the
// log is passed, and then the server commits it.
//
// Rule gap: while a log isn't read nothing is kept or given, and what was kept is void. Behind the gap nothing is kept
// until what was handed over before is visible.
//
// A write that was passed while its shard's log wasn't read needs no waiting: all answers since see it.
//
// # Not seen
//
// Writes straight to a shard are seen when its log has them, a few milliseconds later.
package cover
