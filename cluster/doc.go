// Package cluster says who else runs: what several Shunts before the same shards
// would have to agree on, and this process alone has in memory.
//
// Cluster is all of it, in parts; the proxy declares those that it needs. Local is a
// process that is alone, and the only place that may assume to be. Shared is one of several;
// nothing that takes the interfaces changes.
//
// # What the parts must keep, whoever else runs
//
//   - Register reads the epoch behind whatever a horizon is told by: none that is
//     computed later is later than the registration. indexer/doc.go has the proof that
//     needs it.
//   - Horizon, Passed and Wait are over the registrations of all processes, and of
//     earlier lives of each.
//   - A duty is done by one process of all, and free when that is gone. A gate is held by one job of
//     the process: two processes' jobs are kept apart by the store (its gates, and its queue).
//   - Fence returns when no process has a job at work on the tables.
//   - Adopted returns when every process goes by the catalog that was published.
//   - Numbers of connections differ over all processes.
//
// # Several members
//
// A member is one life of one process, by a random number. What members know of each other
// is in two places: the Seat of each shard, on the shard's own server, and the Board.
// Nothing rests on clocks or leases: what must not happen is prevented where it would
// happen.
//
//   - On each shard a member has a row, of a join: what it has open there, as the oldest
//     epoch of it (told), the version of the catalog that it goes by, and whether it was
//     fenced. What is told never falls. The horizon is the least of all rows.
//   - A join begins by a row that tells epoch 0, and only then reads the shard's epoch, and
//     the board (seated.go, joinShard).
//   - Each connection is noted before anything is sent over it. To fence a join is to mark
//     its row, then to end the connections that are noted, to see them gone, and to remove
//     the row (expel.go). Anybody may do so at any time; a member that lives joins anew.
//     Heartbeats come by a connection that has a lock in the join's name, so that others see, by
//     reads alone, whether a member lives.
//     A registration is of a join, and is sent over that join's connections only.
//   - A member adopts a version of the board, then tells it on its shards. What must be known
//     to all waits until all rows have the version (follow.go).
//   - A shard's server tells in which life of the shard it was taken in use. Once the board says that another one is
//     in use, all leave servers of earlier lives, and join none (replaced.go).
//   - Turns are on the board, and are taken over from who has no row on any shard (turns.go): one of DDL,
//     and one of each table that shards alter meanwhile (tables.go).
//
// What a call that waits waits for is in its error: the member, the shard, the version.
//
// # Proof and teeth
//
// explore_test.go runs two members as coroutines over the fakes of clustertest, visits all
// interleavings of a statement, a scan, a fence, a join and a new index, and finds a miss
// where one of the rules is taken away. explore_replaced_test.go does so for a shard that gets another server.
//
// # Non-goals
//
// What is kept on disk, or in a shared store, is package storage's. What a shard's
// threads tell of earlier lives the indexer asks (settle). Whether a shard's server has
// forgotten epochs is known where floors are: who takes part says so (Member.Admit), before each
// join. A board that has forgotten versions is noticed and not gone by (ErrWentBack).
package cluster
