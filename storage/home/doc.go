// Package home keeps a part of the store that several Shunts share: tables of InnoDB on a MySQL or
// MariaDB server, the home. It has what package storage has for one Shunt alone: the entries and
// marks of virtual indexes. Keys are bytes to it too.
//
// A Home is a pool of connections to one server. Of several (package shared), the first has the
// records, turns, jobs, numbers and places in logs, and each has the indexes that were placed there. Any number of
// Shunts (members) may use the same tables, and each may die at any moment. In memory are only the
// marks and floors that were read last (indexKeys); each lookup reads whether they still are those
// of the index.
//
// What callers ask for or add at the same time is one statement (together).
//
// # What a call promises
//
// A call that returns without an error has been committed: it is as durable as the server makes
// commits (innodb_flush_log_at_trx_commit, sync_binlog). Each is one transaction, so that a member
// or a connection that dies in it leaves all of it or nothing:
//
//	Lookup                  reads as of one moment
//	Entries, EntriesOf      reads in slices; ends where the generation does
//	Add                     all entries in all live generations
//	Mark                    each 500 marks; too many are then put together, in another transaction
//	OpenGate                all indexes, then reads what there is
//	Retire                  entries, marks, floor and removals
//	CreateIndex, PlaceIndex, StartBuild,
//	FinishBuild, DropIndex,
//	NewLife                 all of it
//	DeleteGarbage           each slice
//	Read                    as of one moment
//	Write                   all records, as the next version
//	TakeTurn, GiveTurn,
//	TakeOver                the turn
//	Ask                     all members' questions
//	Withdraw, TakeUp,
//	Answer                  each question
//	Enqueue                 each (table, shard), with the jobs that it merges into or replaces
//	Claim, Renew, Fail,
//	SaveCheckpoint, Finish  the job
//	TakeNumbers, StartSequence,
//	..., RenameSequence     the sequence: numbers never repeat, those that a lost answer took are left out
//	KeepPlace               the shard's place
//
// After an error it isn't known whether the call was done: its last answer may have been lost. To
// call Add, Mark, OpenGate, Retire, DeleteGarbage or NewLife again does no harm. What a build has
// come to is in Heads. Deadlocks and long waits for others' locks are no errors: the call begins
// anew. Contexts end calls, by ending the connection. Where the home didn't answer the error is an OutError.
//
// # The tables
//
//	home      one row: the tables' version, the cluster, the home's life, the server in use
//	heads     for each index: the readable and the building generation, the highest one there
//	          was, the life, removals, and marked: how often something was marked
//	shards    for each index and shard: floor and gate
//	marks     what is known (encodeMark) of a shard's keys that couldn't be computed, and the epoch
//	entries   for each live generation, kept key (Kept) and shard: the epoch
//	garbage   generations whose entries are to be deleted
//	head      one row: the records' version, and its random ID
//	records   the catalog and all else that members go by: JSON by kind and name, with the
//	          version that wrote it; without a body where it was removed
//	turns     for each turn that somebody has: the holder, and since when
//	asks      questions of members to members: a row each, until the asker has the answer
//
//	numbers   sequences of AUTO_INCREMENT columns: numbers.go
//	jobs      what a scan, a build or a check is to do: jobs.go
//	places    for each shard: up to where in its binary log the entries have what it tells
//
// Clocks decide nothing but when a job may be claimed, and that is the server's; the times of jobs
// are taken from callers, and given to them, as spans from now. A worker that is late finds its
// claim gone.
//
// # Never miss
//
// Invariant: what is added, marked, removed or built of an index locks its head row first, shared
// (Add, Mark, OpenGate) or alone (all others). So the generations and the life that a call sees are
// the ones that there are when it commits. Lookups lock nothing.
//
// Rules, each with its counter-example where it is kept:
//
//	one moment                  Lookup: marks, entries, generations and floors in one snapshot
//	add under the head's lock   Add: no build begins or ends meanwhile
//	gate                        Retire: the scan's evidence is checked where the removal is made
//
// A floor says up to which epoch something has been taken away from (index, shard): who has had a
// snapshot of that shard since before asks it too, whatever a lookup says. removals says that
// anything was: several answers are of one moment if it hasn't changed since before the first.
//
// # Another server
//
// A server that isn't the one in use (a replica that was promoted, a copy) may lack what a call has
// promised. Each connection looks which one it is before anything else, and isn't used (ErrOtherServer)
// until NewLife, which belongs behind a barrier. A store that went back on the same server is for its
// operators to tell of: NewLife.
//
// A cluster (Group Replication, Galera) is one home, whichever of its nodes is used: cluster.go.
//
// # Statements
//
// The optimizer must read by primary key whatever its statistics say; they are those of an empty
// table while an index is built. So keys are joined as a table (flavour.table), not listed by IN:
// with eq_range_index_dive_limit = 1, and without it from 200 keys on, IN is judged by statistics
// alone, and becomes a scan of the index. TestConformance/Plans counts the rows read.
//
// # Non-goals
//
// No cache of entries, no background work: callers call DeleteGarbage. No transaction over several
// homes.
package home
