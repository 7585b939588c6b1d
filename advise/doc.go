// Package advise says how an application that has one server would best be sharded: a pure function of
// the server's schema and of the statements that it has executed.
//
//	logs, digests ──▶ Workload ──▶ Shapes ──┐
//	schema ──▶ catalogs of designs ─────────┴─ search ──▶ placements ── choose ──▶ virtual indexes ──▶ Report
//	                                             │                       │
//	                                             └── the planner judges ─┘
//
// A Design places each table and has virtual indexes. What a statement costs under a design is what
// Shunt's own planner says of it: a Verdict is the route that EXPLAIN ROUTE would show. So shares are
// those of the Shunt that would run, and a construct that it refuses is refused here.
//
// # Search
//
// Tables that statements or foreign keys name together are one component. Within one, each table by
// each column is a seed: the tables beside it are placed as suits it best, and so on outward. From the
// cheapest of these, single tables and pairs that are joined are moved while that helps (search).
//
// Rule indexes are there while keys are sought: each column that a statement names has a virtual index
// meanwhile. Counter-example: users are found by email a thousand times a second, and joined by id
// with all else a hundred times. Without an index, email would be the better shard key.
//
// # What values are not known
//
// Digests have a ? for each literal. It is bound to values of the column beside it (values), some
// times, and the routes are averaged. Digests that were cut short, and what no parser reads, are counted as
// unread: nothing is guessed of them.
//
// # Samples
//
// A virtual index's fan-out and entries are those of the values of rows that were drawn from all of its table's:
// a Source looks where these are (`shunt advise`: would be). Without a sample they are by the server's statistics.
//
// # Not here
//
// No I/O: a Source has functions for what a server is asked. Statements of one transaction are not
// known to be of one; foreign keys and names that say the same of two columns decide where the
// planner sees no difference.
package advise
