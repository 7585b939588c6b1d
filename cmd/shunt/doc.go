// Command shunt is a MySQL sharding proxy with virtual indexes: one MySQL over
// many. See README.md, and docs/ for its configuration and SQL.
//
// It wires the other packages together, and does what takes the store, the configuration
// and the shards at once.
//
// Where does X happen?
//
// Commands:
//
//	main             the command line: flags -> run(ctx, args) error
//	serve, options   shunt serve: what starts in which order, and stops in the reverse
//	reload           SIGHUP: what of the configuration a running process takes over
//	check, check_*   shunt check; rights: which rights the shards' account lacks
//	explain, demo, password
//
// Between proxy, indexer and storage, which don't know each other:
//
//	index            the indexer as the proxy sees it; configured_indexes: those of the file
//	sequences, unfinished, scratch, replicas, apart
//	                 the same for AUTO_INCREMENT, DDL, gathers, replicas, shards that don't serve
//	metrics          shunt_* figures of all; website, ports: HTTP and listeners
//
// What must hold before a shard is used:
//
//	layout           shards' numbers, and which slot is whose
//	placement        that each table's rows are where the configuration has them
//	servers          that an address leads to the server that it did
//	claims, claim    that no other Shunt serves; lock_names: its locks
//	record, teller   who served last, and which state of the store
//	health           whether a server answers (proxy/shard)
//
// The process:
//
//	processors       GOMAXPROCS by load; ring: io_uring while there is one processor
//	memory, files    within the container's limits
//	certificates, connections, kept, log
package main
