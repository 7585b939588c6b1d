// Package indexer keeps virtual indexes right: the write protocol that every
// statement follows, and the jobs that repair the index behind it.
//
// # The promise
//
// For every read, the route holds every shard that has a matching row which the
// read can see and whose write was acknowledged, or became visible, before the
// read began. One shard too many is slow; one too few is a wrong answer.
//
// A lookup gives entries(key) ∪ marks(index). So the promise is that at any
// time, for each shard, each key of a row that is committed there, or that an
// open transaction's snapshot shows, is covered by an entry or a mark.
// Adding is done before rows exist; everything else in this package is about
// when an entry or mark may go.
//
// # Words
//
//   - An epoch is a number of the store's clock. Opening a snapshot moves it.
//   - A statement or transaction is open on a shard from Begin to End. It is
//     registered in the epoch of its Begin (package cluster). Transactions register on
//     a shard with their first statement there, whatever it is. Autocommit
//     reads need not; see below.
//   - The horizon of a shard is the oldest epoch in which something still open
//     there was registered; the current epoch if nothing is.
//   - To retire is to remove entries and clear marks.
//   - The floor of (index, shard) is the epoch by whose evidence something was retired there
//     last. The gate is the epoch of the scan that may retire.
//
// # A write
//
//	step                                   a crash right after it leaves
//	1 Begin on the statement's shards      nothing
//	2 check that the catalog it was        nothing
//	  planned with is still published;
//	  if not: End, plan anew
//	3 Add the entries of the new keys,     stale entries; they survive the death
//	  in the epoch of step 1               of the process
//	4 Mark what can't be computed, in      marks without a row: wide
//	  the same epoch
//	5 Intend: (table, shard) has a         a record that makes the next start
//	  durable write-intent; the shard      look after the pair
//	  is told of the first one after
//	  a quiet time
//	6 send the statement                   a statement that may still commit
//	7 End, when its outcome is known       nothing to undo; its job is missing,
//	  (of a transaction: COMMIT's,         the intent makes up for that
//	  ROLLBACK's)
//	8 After: enqueue its jobs              nothing for up to 100 ms, the intent makes
//	                                       up for it; then a job
//
// Prepare does 3 to 5. If one fails the statement is not sent. An entry or mark
// that is there with an equal or later epoch costs no write.
//
// Step 2 after step 1: whoever publishes a new index waits for all that was
// registered before it was published. A statement that planned earlier and
// registers later would escape; this check catches it.
//
// Step 5 after 3 and 4, though the intent is what a power loss is told by: the
// store lifts an intent that was idle, by taking it out of the active set,
// syncing, and deleting its record. If the intent came first, it could be
// lifted between 5 and 3, and the entry would be written, unsynced, without
// one. Coming last, it is either set anew, or found active, and then lifted
// only after a sync that covers the entries.
//
// Step 7: a statement without an answer (the connection to the shard broke) is
// not ended. It is in doubt: it may commit at any later time. It stays
// registered until the server's thread is gone (settle), which is ended for that
// when it sleeps; then its jobs follow.
//
// # A scan
//
// Of (table, shard), for some indexes of the table:
//
//	1 E = Advance; open the gate in E;     the horizon can be later than what
//	  load what the index has              ended just now
//	2 H = the horizon
//	3 open a consistent snapshot
//	4 A = Advance
//	5 read; Add what is missing, in A
//	6 mark values that have no key, in A; Intend
//	7 unless the gate is another's, or a generation has begun since 1:
//	  raise the floor to A, count a removal, then remove the shard's entries that
//	  are absent in the snapshot and older than H; clear its marks older than H
//
// It waits for nobody. Each limit is needed:
//
// H (step 7) protects writers. A writer W whose row is not in the snapshot
// commits after step 3. If W was open at step 2, it was registered in an epoch
// >= H; if it began later, it was registered in an epoch >= the current one of
// step 2 >= H. Its entry or mark has that epoch or a later one, and stays. So H
// must be computed before the snapshot opens, and the epoch must be read inside
// the lock of the shard's registrations.
//
// The floor protects readers of the past, and H alone does not: an entry of
// epoch 3; a REPEATABLE READ transaction T opens its snapshot in epoch 5; the
// row is deleted in 6; a scan in 7 has H = 5 and finds no row. 3 < 5, so the
// entry goes, but T still sees the row. A snapshot older than the scan's belongs to a
// transaction that was registered before A, since a transaction registers before it opens
// a snapshot and A begins after step 3. So a transaction adds to what it finds the
// shards whose floor is later than its registration there (Open.Lookup). It reads the floor
// after the entries, and the scan raises it before they go. The same is true of marks.
//
// Autocommit reads need not register. Their lookup comes before their snapshot.
// If an entry is retired before the lookup, the snapshot of the read is younger than the
// scan's, and a row that it shows and the scan's did not was written by a W as above, whose
// entry stays. If it is retired after the lookup, the lookup had it. One that looks up several
// keys, any of which a row may have, must do so as of one moment, or the row could go from a
// key that is yet to be looked up to one that was: it looks again if something was retired
// meanwhile (Removals), or be one question (Ask).
//
// An autocommit read may also be sent on a guess before its lookup (Guess). Then it goes by what the lookup says
// behind it, and only where nothing was retired since before it was sent: all that a lookup would have had
// by then this one has.
//
// What a scan adds carries A, which is later than every horizon of any scan
// whose snapshot is older, so no other scan takes it away on older evidence.
// But a scan also relies on entries that it finds, without touching them (it
// would rewrite the whole index each time), and clears marks on the strength
// of them. Therefore only the scan that has opened the gate last retires anything; another
// one's evidence is void (storage.ErrSuperseded), and its job is done again. So that this is
// rare, one maintain or verify of (table, shard) runs at a time (retireGate). A table too large
// for an exact ledger of what the store has hands every key to the store, in
// epoch 0: an entry that is there stays as it is; behind the gate that suffices.
//
// verify_keys does the same for single keys: 1, 2, a SELECT for each, 4, 7.
// The SELECTs' snapshots lie between 2 and 4, which is all that is used.
//
// Where the engine has no snapshots (MyISAM), scans add and never retire.
//
// # A build
//
// The store opens a building generation; from then on every Add goes to it too.
//
//  1. Began = Advance, after the index is published (or the generation opened).
//  2. For each shard: wait until nothing registered before Began is open. Such
//     a statement may have been planned, or have added, without the new
//     generation, and commit after the scan. Then scan as above, steps 1 to 6.
//  3. The building generation becomes the readable one, and each shard's floor its scan's
//     A; publish. A transaction that opened its snapshot between Began and the scan
//     may see a row that was gone when the scan came: it looks there by the floor.
//
// The wait is bounded, or builds could take all workers: Began is in the checkpoint by then,
// so that the next run waits for the same.
//
// A build retires nothing and clears no mark. It can be resumed behind the last
// primary key of its checkpoint, in another snapshot. A row whose primary key
// moves from behind that point to before it in between is in neither: hence an
// UPDATE of a primary key's column sets an unknown mark for every index of the
// table, though it changes no indexed value, and only a scan that reads the
// shard in one snapshot clears it. A checkpoint is void where the primary key's or
// the index's columns are defined otherwise than when it was made. Before each
// checkpoint the entries that it vouches for are under a write-intent.
//
// A maintenance scan beside a build hands every key that it sees to the store,
// since what the readable generation has the building one may lack, and marks
// belong to both.
//
// A build that is superseded (rebuilt, DDL) is ended before the next generation
// is opened. What its checkpoint says is of its own generation alone, and so is
// step 3: else it could finish one that it has not filled, where its end, or the
// removal of its job, was lost.
//
// A move to another server (REBUILD ... HOME) is a build there: 1 comes when all processes add to that
// one too, and after 3 they add to the former one until none reads it (endMove). Each of the two is a
// store of its own: a scan takes away where it has opened its gate (package storage/shared).
//
// # DDL
//
// Before a statement that changes an indexed column, or renames the table, is
// sent, the index gets a building generation and the status building, durably;
// reads scatter. Afterwards it is built again, moved or dropped. Scans keep off
// the table from BeforeDDL to AfterDDL: a snapshot holds a metadata lock that
// the DDL would wait for, and every query behind it.
//
// # Recovery
//
// Entries, marks and jobs survive the death of the process. At the start:
//
//   - Pairs with a write-intent from before a power loss: mark all indexes of
//     the table there, then a scan. Unsynced entries and marks may be lost.
//   - Pairs with a write-intent otherwise: a scan. Only a job may be lost.
//   - Marks: a scan each.
//   - Indexes with an open building generation: a build.
//   - A shard whose log is followed: on from the place that was kept (follower.keep), else a scan of all.
//   - On each shard a registration in epoch 0 stands for what the previous life
//     left running. It ends when every thread that the store knows from then is
//     gone, and every other older one of our user is gone or has been idle since
//     some seconds after the start. Until then scans add, and nothing is retired.
//
// # Jobs
//
// The queue is in the store. One dispatcher claims jobs and runs each in a
// goroutine, Workers at a time. All are idempotent. A failing shard's job is
// tried again with exponential backoff. A shard is scanned for maintenance at
// most ScanDuty of the time, by all processes, and all together take no more than that share of
// the processors; where no marks are to be cleared and no reconciliation is due, or the log
// is followed, at most a sixteenth of that.
// Builds are exempt, and take their turn with other scans of the shard. They, and scans that clear no
// marks, rest while the shard is busy (sparing.go).
//
// # Proof and teeth
//
// sim_*_test.go runs this code (cluster.Local, prepare, maintain, verify, build,
// recover, settle) over a model of the store and of a shard, and visits every
// reachable interleaving of a few writers, readers, scans, builds and one
// crash. In every state every read that could begin, and every open
// transaction, must be covered. For each rule above there is a variant without
// without it, for which the simulation must find a miss.
//
// sim_members_test.go does the same with two members: each runs this code over a cluster.Shared of
// its own, and they have the shard, its seat, the board and the store in common. What is done by
// several is then one's after the other: a writer or reader on one and the scan, verify or build
// of the other, which know nothing of each other's gates (package cluster) but the store's; and
// one that is paused, joins, is fenced, or dies with a statement under way. Where rules
// matter that only several need, their counter-examples are in package cluster.
//
// sim_homes_test.go moves the index of two members from one server to another. That one statement asks
// several homes as of one moment is simulated in package shared (several_test.go).
//
// All have one shard and one index, up to two writers, and one crash, power loss, fence or
// death. Not in them, with tests of their own: several shards and indexes at a time, jobs and
// leases, DDL, repartitioning; and not with members: a store that fails over, DROP.
// proxy/write_test.go does the like for the sessions' part, with each of their steps disturbed.
//
// # What else could miss a row
//
// The rules that other packages keep, each with its counter-example there:
//
//   - A trigger or foreign key reaches an indexed table by way of one without an index, or
//     by a column that no statement names: all of them are followed (planner/effects.go;
//     proxy/schema/programs.go, rule on the way).
//   - DDL of a trigger, a foreign key or the columns' order gives keys that statements
//     planned before don't foresee. It marks the indexes before it is sent, and again when
//     the new catalog is out (proxy/ddl.go). An order in which the shard key has another
//     place is refused (planner/ddl_order.go).
//   - Several keys are looked up one after the other (IN, OR), and a row goes from the last
//     to the first meanwhile: they are looked up as of one moment (plan.Indexes.Removals).
//   - A VIRTUAL column is computed otherwise by each session: it has no keys
//     (proxy/schema/varies.go). Dates with zeros are '0000-00-00' in some modes, so a range
//     of such a column needs a lower bound (planner/lookup.go). A session whose modes compute
//     other values looks none of them up (modeDoubt).
//   - A catalog has other columns, or shards, than the index's keys were made under
//     (IndexDef.Keyed): it doesn't use the index, which is built again.
//   - A replica behind has rows whose entries are gone: reads from replicas use no index
//     (proxy/replicas.go).
//   - Another Shunt has written: cmd/shunt/claims.go and record.go.
//
// # Known to be weak
//
//   - A scan of one shard reads the whole index, the other shards' entries too: only so it
//     knows what need not be added and what is stale. With many shards that is most of a
//     scan's time, and counts for the duty cycle.
//   - The horizon is of one moment: a short statement that is open just then keeps the
//     marks of the last epoch, and the scan is done again.
//   - A program that uses Shunt's account, and is always busy, puts off removals after a
//     start: the registration in epoch 0 stays until each of its threads was seen idle.
//   - Last_scan is set by builds and reconciliations, not by the scans behind writes.
//
// # What this package does not do
//
// It does not see rows that are changed behind Shunt's back until the next
// scan. It does not make reads over several shards one snapshot. It does not know
// whether the process is alone: package cluster does.
package indexer
