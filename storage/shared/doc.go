// Package shared is a store that several processes have together: entries, marks and
// generations in homes (package home), everything else as records that all go by.
//
// It does what storage.Store does, for indexer and cmd/shunt, with these differences:
//
//   - What a call has done is durable when it returns, so there are no write-intents: Lost,
//     Unclean and Told have nothing to say.
//   - Definitions, placements, the numbers of shards and the slot map are records. Each process
//     has those of the version that it has read last (Refresh), and a change that was made by
//     another one meanwhile is seen by its author (compare-and-set).
//   - Which generations are live a home says itself, in the transaction that adds, reads or
//     removes: nobody needs to know of a build there.
//   - A home that can't be reached fails its lookups, so that these reads are wide, and its adds, so
//     that these writes are refused before they are sent.
//
// # What lies where
//
// There are one or more homes, in an order that the records keep:
//
//	the first          the records, turns, the numbers of sequences, the jobs, and the places in logs
//	an index's home    its entries, marks, generations, floors, gates and removals
//
// A new index goes to the home of its table's others, or to the one that has the fewest tables. Jobs
// stay together, since one is of (table, shard), whose indexes may have several homes, and what it
// merges with is told by unique keys. An index lies on one home as a whole, or has partitions (partitions.go): then a lookup of a
// range asks all of them, and a mark takes a commit on each.
//
// # Which home is read
//
// The index's record says so. It has up to three homes, which have nothing of each other:
//
//	Home      is read and added to
//	Target    is added to: it has the generation that is being built
//	Former    is added to: some may still read it
//
// Each of them is by itself a store that keeps the promise, for who reads it: what is written is
// added to all, by all that go by the record; and a scan takes away at the home that it has opened
// its gate at, by what it has loaded from there. A move is a build (indexer/doc.go, A build):
//
//	Move          Target = b           all add to b, before the build's first epoch begins
//	FinishBuild   Home = b, Former = a    some read a, some b
//	EndMove       Former = ""          behind a barrier: nobody reads a
//
// Rule both: until all go by a record, what both records read is added to. Counter-examples: b is
// added to by who has built it alone, another process inserts, and the row is in no snapshot of the
// build's; or a is no longer added to as b is read, and a process that is late reads a.
//
// Rule own gate: Retire refuses a gate of another home than the one that is read (ErrSuperseded).
// Counter-example: b has a stale entry that was removed from a. A scan opens a's gate; the index moves;
// a row gets the stale entry's key, by a mark; the scan finds that b has the key, adds nothing, and
// clears a's mark. Who is late reads a, which has neither.
//
// Rule forsake: where Home is lost (Away), first all stop reading there (the status, and a barrier), and
// then adding (Forsake, or a Move with forsake). Counter-example: one process inserts a row without an
// entry; another one, which is late, reads at the home, which answers it, or is back. Generations that are made later have higher numbers
// than all of before, so nothing of an old one is taken for new when the server is back.
// One that nobody reads needs no barrier: see rule unread (outage.go).
//
// # One moment
//
// What one statement asks of several homes is asked at once. The answers hold everything that was
// there as it began if nothing was removed from the indexes between then and the answer: each answer tells
// its index's count of removals, which has to be one that was heard of before (several.go). Else all is
// asked again, and in the end the statement goes to all shards.
//
// # Guesses
//
// A round trip to a home takes as long as the read itself. So a read may be sent to the shards that the homes
// named the last time, and the homes are asked beside it (guess.go, rule guess). What was answered is kept for
// that: a bounded part of it, in memory, of any age. It is right or wrong, and wrong costs the read once
// more. So behind a wrong guess an index isn't guessed for the next reads.
//
// Non-goals: who else runs, and since when (package cluster).
package shared
