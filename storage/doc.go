// Package storage keeps what Shunt knows: virtual indexes with their entries
// and unknown marks, write-intents, jobs, and a few names and numbers. Keys
// are bytes to it, shards are numbers, and it knows no SQL.
//
// A Store is a Pebble database in one directory, opened by one process, and two
// logs of what is on its way there. All of its methods may be called by any
// number of goroutines.
//
// # What a call promises
//
// "Process" means that the effect survives kill -9: a commit returns when Pebble's
// log is written, so what is committed is in the page cache and needs no fsync
// (files.go). "Power" means that it survives a power loss.
//
//	Add, Mark, Remove, ClearMarks            process
//	Enqueue, Claim, ..., Finish, Fail        process
//	EnqueueSoon                              process, or the pair's write-intent
//	                                         is found by the next Open
//	NoteThread, ForgetThread                 process
//	KeepPosition                             process; without a position power
//	KeepUnfinished, ForgetUnfinished         process, or power where it is asked for
//	CreateIndex, UpdateIndex, StartBuild,
//	FinishBuild, DropIndex, Repartition      power, each one transaction
//	Intend (first write after a quiet time)  power
//	Advance                                  power (epochs never repeat)
//	JumpSerial                               power (serials never repeat)
//	NextSerial                               process, and a life after a power loss
//	                                         knows it all the same
//	ShardID, KeepSlotMap, SetPlacements, Sync power
//	TakeNumbers (numbers never repeat)       power
//	Close                                    power, for everything before
//
// A power loss takes away some of the commits since the last sync. What it took is found by the write-intents: for
// each (table, shard) written to since it was last quiet there is a synced
// record. It covers all that Add and Mark wrote, since both set it themselves
// where the caller has not. Open finds
// those records and tells them apart by the boot ID in them: Lost names pairs
// that a power loss came over, Unclean those of a process that died. The
// caller marks and rescans the former, rescans the latter, and calls
// Recovered. intents.go has the protocol. In steady state no call waits for
// an fsync.
//
// # Never miss
//
// The store's part in the promise of finding every row (the indexer's doc.go
// has the whole protocol):
//
//   - Lookup loads the marks before it reads the entries. A scan adds what it
//     found before it clears the mark that covered it; the other order could
//     see neither.
//   - An entry's epoch never falls, and Remove takes it away only if its epoch
//     is less than the given one. The check is made by the partition's writer,
//     so nothing comes between it and the removal. ClearMarks checks likewise,
//     under the mutex that Mark writes under.
//   - Lookup and Range look at the recent entries before they look at Pebble:
//     those that a flush has moved by then are there. All else that reads or
//     removes entries flushes first (recent.go).
//   - Lookup reads hot records and the published snapshot; see "Hot records".
//   - Add finds an entry in place without asking the writer. That is safe
//     because of what it requires: the caller's statement is registered in an
//     epoch no later than the entry's, so no horizon (and no Remove goes past
//     one) can exceed the stored epoch while the statement is open.
//   - A generation is shown to readers only when complete, and deleted only
//     after it is no longer shown. Readers compare the view before and after
//     reading (or taking their snapshot); writers compare it after their write and write
//     again to generations that came meanwhile. index.go has the details.
//   - What is read from a table is checked, be it at Open or for a lookup; an error is
//     never "there is no record", so the caller asks all shards. Logs and manifests, of which
//     Pebble reads as much as is whole, are compared with an account of what was written
//     (account.go). From the first damage on no lookup is answered (ErrDamaged) until the
//     database has been made anew, which Open and the store itself do (damage.go). All that is
//     written meanwhile, by whom the damage may be met, is taken. A damaged log of recent entries
//     is as a power loss (Lost).
//   - A write that can't be made is refused before anything is lost:
//     ErrStoreFull while free space is under the limit (what is under way on a
//     disk that is full all the same waits for room), ErrReadOnly after a failed write
//     or sync, and while the directory is gone or can't be written. Lookups go on.
//
// # Hot records
//
// Lookup asks the recent entries, then the cache of hot records (hot.go), then
// the published snapshot of Pebble (published.go), which all lookups share until
// the next commit of entries. What it read there it puts into the cache, keys
// without a record too. Records are cached by their whole key, generation and
// partition included, as Pebble has them: without recent entries and marks,
// which each lookup adds for itself.
//
// Invariant: a cached record has the shards that the record has in the published
// snapshot.
//
// The writers of partitions are all that changes records (Add, Remove, the flush
// of recent entries and Repartition all go through them; garbage is not read any
// more), and they commit so:
//
//	1 change    the keys' records leave the cache, their stripes are closed:
//	            nothing is put into them
//	2 commit    new snapshots of Pebble show the change
//	3 publish   a new snapshot, taken now, is what lookups read
//	4 changed   the stripes are open again, and have the records as they are now if
//	            they were added with many others, as an index is built, and there
//	            was always room for all
//	5 the callers are told
//
// and who fills the cache does so:
//
//	1 get       the cache hasn't the record; the ticket is the stripe's version,
//	            which every change raises
//	2 acquire   the published snapshot, and read the record
//	3 put       if the ticket was given by an open stripe, and that is of the
//	            same version still
//
// What would go wrong otherwise: a lookup reads that k has no record; Add(k, s1)
// commits, finds nothing to take out of the cache, and returns; the lookup puts
// "none" into it; the statement runs, and every later lookup of k misses s1. With
// the ticket, a put comes before change, which then takes it out, or is refused.
// One whose get came after changed acquired a snapshot that has s1.
//
// What changed keeps is right because a record has one writer, its partition's: the
// snapshot of step 3 has what it wrote, and nobody changes that before step 4. It keeps
// it only as long as no record has ever had to go for another one, so that
// what is written doesn't push out what is read.
//
// Records leave before the commit, not after: another partition may publish
// between commit and changed, and so show s1. An Add of the same entry finds it in
// place then, and returns at once, without asking the writer. It must not do so
// while the cache says "none". For the same reason Add looks for entries in
// place in the published snapshot: in one of its own it might find what is
// committed and not yet published.
//
// An entry that was recent when its Add returned has left recent only after step
// 5 of its flush, so a lookup that doesn't find it there finds it in the cache or
// the snapshot. Where the generation was retired instead, the view has changed,
// and the lookup begins anew. A new generation's records have keys of their own,
// so a switch leaves nothing to take out.
//
// A crash leaves nothing: the cache begins empty, and the snapshot with what
// Pebble has, after the recent entries were moved there.
//
// hot_test.go runs every interleaving of these steps, and finds a miss when one
// of them is left out.
//
// The cache takes LookupCache bytes at most, by default 32 MiB: 400,000 text keys.
// With 5 million keys of Zipf-distributed popularity (s = 1.01, hardly skewed)
// that answers 77 % of the lookups, 16 MiB 72 %, 64 MiB 82 %; with s = 1.1 88 %,
// where 64 MiB bring 1 % more. A hit takes 70 ns and a miss 3 µs, so that twice
// the memory saves 0.15 µs at best.
//
// # Generations
//
// The entries of an index live in generations, each with its own number of
// partitions. Up to two are live at a time, plus what a Repartition fills:
//
//	CreateIndex            building
//	FinishBuild            building, if it is the caller's -> readable, old readable -> garbage
//	StartBuild             (readable) + building, old building -> garbage
//	Repartition            readable + moving; moving -> readable, old -> garbage
//	DropIndex              all -> garbage
//
// Add, Remove and Mark go to all live ones; Lookup reads the readable one.
// Building survives a restart, as its job does; moving becomes garbage then.
// Garbage is a record per generation, deleted in slices by DeleteGarbage, since
// a range deletion would have each lookup look at it until it is compacted.
//
// REQUIRES of callers that build: an entry added before StartBuild is not in
// the building generation. A statement or transaction that was open when
// StartBuild returned may create rows that the scan's snapshot doesn't show.
// So either the snapshots are opened after those have ended, or the shards on
// which some are open get a mark.
//
// Each partition has one writer at a time: the goroutine that asks while
// nobody writes, which leaves what comes meanwhile to one of the store's. It
// does all read-modify-write of the partition's records and commits whatever
// waits for it in one commit (several where it is large; then an error is told to
// all, which is right since all changes are idempotent). So there are no conflicts to detect.
//
// # Records
//
// All numbers of fixed size are big-endian; uvarint is encoding/binary's. JSON
// is used where records are few. The first byte of a key is its kind:
//
//	'f'                                      format version, uvarint (1)
//	'c' name                                 counter, uvarint: "epoch" (the ceiling: no epoch
//	                                         at or over it was handed out), "index" and
//	                                         "generation" (the next number); "serial": the last
//	                                         one, the highest that is paid for, both uvarint,
//	                                         boot ID; "identity": text, see identity.go
//	's' shard name                           shard number, 1 byte
//	't'                                      slot map, a shard number for each slot
//	'a' name                                 the shard is not among those that serve, and why (Apart)
//	'u' schema 0 table                       the copies of a reference table differ (Unlike)
//	'r' schema 0 table                       what the table's rows are placed by, text
//	'q' schema 0 table                       sequence: no number at or over it was handed out, uvarint
//	'x' index(4)                             definition, JSON; read, build, move: generations
//	'e' generation(4) partition(2) key       (shard uvarint, epoch uvarint)*, shards rising
//	'g' generation(4)                        empty: generation to delete
//	'm' index(4) shard(1)                    marks: (epoch uvarint, components uvarint,
//	                                         (0 | length+1 uvarint, bytes)*)*
//	'p' schema 0 table 0 shard(1)            write-intent: boot ID
//	'j' job(8)                               job without its keys, JSON
//	'k' job(8) seq(4)                        key of a job, JSON
//	'h' shard(1) thread(4)                   connection to a shard: opened, varint of Unix seconds
//	'd' key                                  DDL that may be done on some shards only, JSON
//	'l' shard(1)                             up to where in the shard's log the entries are, text
//	'n'                                      entry counts at the last graceful stop, JSON;
//	                                         deleted by Open
//
// A key's partition is FNV-1a 32 of the key modulo the number of partitions.
// All pairs of a key are in one record, so that a lookup is one exact Get,
// which bloom filters serve (a prefix iteration costs ten times as much).
// A store with another format version is refused.
//
// # Jobs
//
// The queue is held in memory; each change is committed before it shows. A
// job is claimed with a lease; the store is open in one process only, so Open
// releases all claims. Enqueue merges into a job that is neither claimed nor
// in the middle of its work, and costs no write where that covers it already.
// EnqueueSoon commits what it changes with all else that comes within 100 ms, as
// long as the pair's write-intent is set; what lifts that syncs, and so commits
// it before.
//
// # Entry counts
//
// Counted in memory by the writers, kept at Close, and counted anew in the
// background after an unclean stop. Stats says while they are approximate.
//
// # Goroutines
//
// The Store owns all: those that write what came while others wrote, one that
// flushes recent entries, one that commits what EnqueueSoon has changed, one for the free space (each second), one that renews
// the published snapshot (each 10 s, so that it doesn't keep old records), one
// that lifts intents, one that counts, one that makes a damaged database anew. Close ends and awaits them after the calls under
// way; it ends a Repartition.
//
// # Non-goals
//
// No transactions over several calls, no order between keys of different
// partitions but what Entries merges, no history of entries.
//
// Several proxies over one shared store is where this may go: epochs, leases,
// marks and lookups all pass through this package, workers' names are unique
// over processes, and no caller may assume that it is alone. What is then to
// change is in here: the mirrors in memory (marks, jobs, views) and the rule
// that Open releases claims.
package storage
