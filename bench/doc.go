// Command bench measures what Shunt costs, on throwaway shards of this machine,
// beside other proxies, and writes a Markdown report:
//
//	go run ./bench -shunt bin/shunt -o docs/benchmarks.md
//	go run ./bench -shunt bin/shunt -o docs/benchmarks.md -tpch 0.05
//	go run ./bench -shunt bin/shunt -only 'one/point_select/text/8$' -rounds 5 -sessions
//
// The second replaces the report's part about TPC-H only. The third prints some
// cases: their names are those of the lines that a run prints. With -sessions each
// program is a session of its own, between which Linux shares the processors first.
//
// Compared things are measured in turns (ABAB...), and what is reported is the
// median of the rounds' ratios: a machine that is slow for a while slows all
// of a round. Load, proxy and shards share the machine, so ratios say more than
// absolute figures. The load is sysbench's over one shard, and this process's
// (go-sql-driver) over four; a proxy's processor time is its process's, read
// from the scheduler's count, without the load's.
//
// Another proxy than those that bench finds has to stand before the one shard:
//
//	tiproxy ... & go run ./bench -shunt bin/shunt -port 3306 -peer tiproxy=127.0.0.1:6000/$!
//
// # What is measured
//
//	one shard      oneshard, sysbench: straight to a server, through haproxy and MySQL Router
//	               (peers; scripts/peers.sh gets them), through what -peer names, and through
//	               Shunt, whose table is sharded. stream: a GiB in one answer
//	four shards    sharded, load. Four servers cost more than one, so the yardstick is the same
//	               load from a client that is told each row's shard. It has tables of its own
//	               (twin) with the same rows on the same shards: of what it writes Shunt's
//	               index knows nothing. Each statement's rows are counted. Before each half all
//	               maintenance jobs have ended
//	inside Shunt   the same load with virtual indexes and without, and by index and by the
//	               scatter that it replaces
//	compared       one load by two configurations, each with servers of its own: the store of several
//	               Shunts, followed logs, statistics of statements, traces
//	build          statements beside builds of virtual indexes
//	percentiles    those of SHOW STATEMENT STATISTICS beside the load's own
//	one connection pairs: single statements; scan: what a maintenance scan reads
//	tpch           TPC-H's queries; contention: swaps whose transactions wait for each other in
//	               circles; ddl: DDL beside
//	               many tables
//
// In each round every target is measured once, the order changing from round to round
// (target). Processor time is the scheduler's count of a proxy's process (process) from the
// end of the warm-up on, by statement: it moves least with what else runs. wanted has the
// figures that are wanted; report sets what was measured beside them, and names the cases
// that failed.
//
// # What tests guard
//
// Nothing fails by time. Tests guard allocations (TestAllocations, TestBindAllocations and
// others), and instructions of planning, lookup and relay (Test...Instructions), which
// package instructions counts. The same build counts the same, to one in a hundred; another
// version of Go may ask for other limits.
//
// # Profiles
//
// make pgo merges the profiles that Shunt gives of itself in some cases (profile) into the
// one that builds are optimised by.
package main
