package config

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// field is one key of a mapping: how it is read, and what docs/configuration.md says of it.
// A new key is one more field here, and one in Config.
type field struct {
	name string
	// otherwise is what holds without the key, as it would be written; else a word in
	// brackets, as (none).
	otherwise string
	help      string
	read      func(value)
	// hot: SIGHUP takes it over.
	hot bool
}

// reader reads one file into c.
type reader struct {
	c *Config
	// later are checks of what refers to something that stands elsewhere in the file.
	later []func()
	// http is where http stands, tlsNeeded where TLS is asked for.
	http      value
	tlsNeeded []value
}

// top are the keys of the file itself, in the order of the reference.
func (r *reader) top() []field {
	c := r.c
	return []field{
		{name: "users", hot: true, otherwise: "(required)", help: "who may connect, see [users](#users)", read: r.users},
		{name: "shards", hot: true, otherwise: "(required)", help: "the servers, at most 256, see [shards](#shards). Their order and names are for ever: rows are placed by them", read: r.shards},
		{name: "schemas", hot: true, otherwise: "(all tables by hash of their primary keys)", help: "how tables are spread, see [schemas](#schemas)", read: r.schemas},
		{name: "indexes", hot: true, otherwise: "(none)", help: "virtual indexes that are made where they are missing, see [indexes](#indexes)", read: r.indexes},
		{name: "virtual_columns", otherwise: "(defaults)", help: "how the values of [virtual columns](virtual-columns.md) are kept, see [virtual_columns](#virtual_columns)", read: func(v value) { v.fields(virtualColumnsKeys(&c.VirtualColumns)...) }},
		{name: "maintenance", otherwise: "(defaults)", help: "upkeep of virtual indexes, see [maintenance](#maintenance)", read: func(v value) { v.fields(maintenanceKeys(&c.Maintenance)...) }},
		{name: "listen", otherwise: "127.0.0.1:4000", help: "address of the MySQL protocol", read: func(v value) { c.Listen = v.address(c.Listen) }},
		{name: "socket", otherwise: "(none)", help: "a Unix socket for clients of this machine, beside `listen`", read: func(v value) { c.Socket = readSocket(v) }},
		{name: "http", otherwise: "127.0.0.1:4080", help: "address of metrics, health and console; `off` turns HTTP off", read: r.readHTTP},
		{name: "http_token", otherwise: "(none)", help: "what HTTP asks for (`Authorization: Bearer TOKEN`; a browser is asked for it to log in), but for `/healthz` and `/readyz`; 16 characters or more. " +
			"Without a token there are no console, index entries and profiles. Required where `http` isn't on loopback", read: func(v value) { c.HTTPToken = readToken(v) }},
		{name: "data_dir", otherwise: "./data", help: "the store of the virtual indexes; for one process at a time", read: func(v value) {
			if c.DataDir = v.nonEmpty("a directory"); strings.HasPrefix(c.DataDir, "~") {
				v.errorf("%q begins with ~, which only a shell reads as a home directory: expected a path, which ${HOME} may begin", c.DataDir)
			}
		}},
		{name: "store", otherwise: "local", help: "`local`: in `data_dir`, for one Shunt. Else several Shunts have it together, see [store](#store)", read: func(v value) { c.Store = readStore(v) }},
		{name: "log_level", otherwise: "info", help: "debug, info, warn or error", read: func(v value) {
			if s, ok := v.text("debug, info, warn or error"); ok && c.LogLevel.UnmarshalText([]byte(s)) != nil {
				v.errorf("%q is no level: expected debug, info, warn or error", s)
			}
		}},
		{name: "tls", hot: true, otherwise: "(none)", help: "TLS toward clients, see [tls](#tls)", read: func(v value) { c.TLS = readTLS(v) }},
		{name: "proxy_protocol", hot: true, otherwise: "(none)", help: "networks of load balancers, `[10.0.0.0/8, 192.0.2.7]`. Connections from there must begin with a PROXY protocol header, v1 or v2, " +
			"whose address is the client's", read: func(v value) { c.ProxyProtocol = readNetworks(v) }},
		{
			name: "max_connections", hot: true, otherwise: "10000", help: "client connections; the next one gets error 1040. Fewer where `ulimit -n` leaves no room; below 256 Shunt doesn't start",
			read: func(v value) { c.MaxConnections = v.integer(1, 1_000_000) },
		},
		{name: "shard_connections", otherwise: "100", help: "connections to each shard; a statement waits for a free one", read: func(v value) { c.ShardConnections = v.integer(1, 100_000) }},
		{name: "shard_timeout", otherwise: "5s", help: "how long a shard may give no sign of life. Then what waits for the shard fails (1429, 1430, with its name), and what comes later at once, until the shard answers again. " +
			"A long statement on a shard that answers pings is not cut", read: func(v value) { c.ShardTimeout = v.duration(500 * time.Millisecond) }},
		{name: "wait_timeout", hot: true, otherwise: "8h", help: "idle clients are closed (4031 on MySQL) and rolled back; default of the session variable", read: func(v value) { c.Timeouts.Wait = v.duration(time.Second) }},
		{name: "interactive_timeout", hot: true, otherwise: "8h", help: "the same of interactive clients", read: func(v value) { c.Timeouts.Interactive = v.duration(time.Second) }},
		{name: "net_read_timeout", hot: true, otherwise: "30s", help: "for a client that stops in the middle of sending", read: func(v value) { c.Timeouts.NetRead = v.duration(time.Second) }},
		{name: "net_write_timeout", hot: true, otherwise: "1m", help: "for a client that stops in the middle of reading", read: func(v value) { c.Timeouts.NetWrite = v.duration(time.Second) }},
		{name: "query_timeout", hot: true, otherwise: "0s", help: "ends a statement that reads, with 3024 (MariaDB: 1969); 0s: never", read: func(v value) { c.Timeouts.Query = v.duration(0) }},
		{
			name: "commit_timeout", hot: true, otherwise: "30s", help: "how long a shard's server may have a COMMIT wait, as on a full disk. Then what waits ends with 1021 (it may be done yet), and writes there are refused; 0s: for ever",
			read: func(v value) { c.Timeouts.Commit = v.duration(0) },
		},
		{name: "max_prepared_statements", hot: true, otherwise: "16382", help: "statements that one client connection may have prepared (error 1461)", read: func(v value) { c.MaxPreparedStatements = v.integer(0, 1_000_000) }},
		{
			name: "session_max_bytes", hot: true, otherwise: "128MiB", help: "what a client connection may have kept between statements (error 3170): prepared statements at four times their text, their parameters, user variables",
			read: func(v value) { c.SessionMaxBytes = v.mebibytes() },
		},
		{name: "sessions_max_bytes", hot: true, otherwise: "1GiB", help: "the same of all client connections together; at most a quarter of a memory limit", read: func(v value) { c.SessionsMaxBytes = v.mebibytes() }},
		{name: "max_allowed_packet", hot: true, otherwise: "64MiB", help: "largest command of a client (error 1153); 64KiB to 64MiB", read: func(v value) { c.MaxAllowedPacket = readPacket(v, c.MaxAllowedPacket) }},
		{name: "shard_prepared_statements", otherwise: "64", help: "statements kept prepared on each connection to a shard; the oldest is closed first", read: func(v value) { c.ShardPreparedStatements = v.integer(1, 100_000) }},
		{
			name: "max_replica_lag", hot: true, otherwise: "1s", help: "how far a replica may be behind to be read from, see [reading from replicas](operating.md#reading-from-replicas); 100ms or more",
			read: func(v value) { c.MaxReplicaLag = v.duration(minReplicaLag) },
		},
		{name: "gather_max_rows", otherwise: "1000000", help: "rows that a query may copy to be answered, see [sql.md](sql.md); over it, error 1104", read: func(v value) { c.GatherMaxRows = int64(v.integer(0, 1_000_000_000)) }},
		{name: "gather_max_bytes", otherwise: "1GiB", help: "the same in bytes", read: func(v value) { c.GatherMaxBytes = int64(v.bytes()) }},
		{
			name: "scratch", otherwise: "(a shard)", help: "`{addr, user, password, tls}`: a server of its own for these copies, with the keys of a shard; each query takes the least busy shard without one",
			read: func(v value) { c.Scratch = readScratch(v) },
		},
		{
			name: "cursor_max_bytes", otherwise: "4GiB", help: "rows of all open cursors together, and of INSERT ... SELECT and CREATE TABLE ... SELECT that go to other shards (`data_dir/cursors`); beyond it error 1114",
			read: func(v value) { c.CursorMaxBytes = int64(v.bytes()) },
		},
		{name: "lookup_cache", otherwise: "32MiB", help: "memory for the virtual indexes' hot records; 0B for none", read: func(v value) { c.LookupCache = int64(v.bytes()) }},
		{name: "store_cache", otherwise: "64MiB", help: "memory for blocks of the store, of which SHOW VIRTUAL INDEXES says how large it is (`Bytes`); see [memory](operating.md#processors-and-memory); 8MiB or more", read: func(v value) {
			if c.StoreCache = int64(v.bytes()); c.StoreCache < 8<<20 {
				v.errorf("is less than 8MiB")
			}
		}},
		{name: "kept_answers", otherwise: "64MiB", help: "memory for answers of [covering indexes](covering-indexes.md); 0B for none", read: func(v value) { c.KeptAnswers = int64(v.bytes()) }},
		{
			name: "statement_shapes", otherwise: "10000", help: "statements that `SHOW STATEMENT STATISTICS` tells apart, by their text without literals; 10,000 take up to 32MiB. 0: nothing is counted",
			read: func(v value) { c.StatementShapes = v.integer(0, 1_000_000) },
		},
		{
			name: "statement_samples", otherwise: "false", help: "`SHOW STATEMENT STATISTICS` keeps a sample of each, with its values: the one that took longest",
			read: func(v value) { c.StatementSamples = v.boolean() },
		},
		{
			name: "statement_log", hot: true, otherwise: "(none)", help: "statements that take long are logged, see [statement_log](#statement_log)",
			read: func(v value) { c.StatementLog = readStatementLog(v) },
		},
		{
			name: "tracing", hot: true, otherwise: "(none)", help: "traces of statements go to an OpenTelemetry collector, see [tracing](#tracing)",
			read: func(v value) { c.Tracing = readTracing(v) },
		},
		{
			name: "min_free_disk", otherwise: "256MiB", help: "with less, writes to indexed tables are refused before they reach a shard; with less than about 16MiB Shunt doesn't start",
			read: func(v value) { c.MinFreeDisk = v.bytes() },
		},
		{name: "server_version", otherwise: "(the shards' lowest)", help: "what clients are told at log-in; `SELECT VERSION()` is a shard's answer", read: func(v value) { c.ServerVersion = readServerVersion(v) }},
		{name: "drain_timeout", otherwise: "30s", help: "how long a stop waits for open transactions", read: func(v value) { c.DrainTimeout = v.duration(0) }},
	}
}

// TakenOver are the keys of the file that SIGHUP takes over.
func TakenOver() map[string]bool {
	keys := map[string]bool{}
	for _, f := range (&reader{c: Default()}).top() {
		keys[f.name] = f.hot
	}
	return keys
}

// userKeys are those of one of users.
func (r *reader) userKeys(u *User, names unique) []field {
	return []field{
		{name: "name", otherwise: "(required)", help: "the user's name", read: func(v value) {
			u.Name = v.nonEmpty("a user name")
			names.add(v, u.Name)
		}},
		{name: "password", otherwise: "(this or one of the next two)", help: "the password", read: func(v value) {
			var ok bool
			if u.Password, ok = v.text("a password"); ok && u.Password == "" && v.variable() {
				v.errorf("its environment variable is empty: expected a password (password: '' is for a user without one)")
			}
			u.Credential = wire.PasswordCredential(u.Password)
		}},
		{name: "password_file", otherwise: "(none)", help: "a file that holds the password, in one line", read: func(v value) {
			u.Password = readPassword(v)
			u.Credential = wire.PasswordCredential(u.Password)
		}},
		{
			name: "password_hash", otherwise: "(none)", help: "hashes that `shunt password` prints, `['*14E6…', 'sha2:3881…']`: the first serves clients that use mysql_native_password, the second those of caching_sha2_password",
			read: func(v value) { u.Credential = readHashes(v) },
		},
		{name: "schemas", otherwise: "(all)", help: "no other schemas may be named or seen (1044, 1142). No hints, none of the servers' files, accounts and settings, nor what reaches them in a stored program (1227)", read: func(v value) {
			u.Schemas = []string{}
			list := v.items("a list of schemas", func(_ int, item value) { u.Schemas = append(u.Schemas, item.name("a schema's name")) })
			if list && len(u.Schemas) == 0 {
				v.errorf("is empty, so the user could see nothing: expected a list of schemas, or no such key for all")
			}
		}},
		{name: "read_only", otherwise: "false", help: "no writes, DDL, locking reads or LOCK TABLES (1290); mysqldump needs `--single-transaction`", read: func(v value) { u.ReadOnly = v.boolean() }},
		{name: "require_tls", otherwise: "false", help: "3159 without TLS, but for the socket", read: func(v value) {
			if u.RequireTLS = v.boolean(); u.RequireTLS {
				r.tlsNeeded = append(r.tlsNeeded, v)
			}
		}},
		{name: "read_from", otherwise: "primary", help: "`replica`: reads outside of transactions go to replicas that are fresh enough", read: func(v value) { u.ReadFromReplicas = v.either("primary", "replica") }},
		{name: "virtual_columns", otherwise: "exact", help: "`fast`: reads of [virtual columns](virtual-columns.md) wait for nothing, as behind `SET shunt_virtual_columns = 'fast'`", read: func(v value) { u.FastVirtualColumns = v.either("exact", "fast") }},
		{name: "index_reads", otherwise: "exact", help: "`fast`: answers of [covering indexes](covering-indexes.md) wait for no write, as behind `SET shunt_index_reads = 'fast'`", read: func(v value) { u.FastIndexReads = v.either("exact", "fast") }},
		{name: "max_connections", otherwise: "0", help: "the user's connections (1226); 0: no limit", read: func(v value) { u.MaxConnections = v.integer(0, 1_000_000) }},
		{name: "max_queries_per_second", otherwise: "0", help: "the user's statements a second (1226); 0: no limit", read: func(v value) { u.MaxRate = v.integer(0, 1_000_000) }},
		{name: "max_shard_connections", otherwise: "0", help: "connections to each shard that the user's statements hold. 0: a share of `shard_connections`, at most four fifths where there are several users. " +
			"Further statements wait, and fail after 10 s (1226), which the log tells", read: func(v value) { u.MaxShardConnections = v.integer(0, 100_000) }},
	}
}

// serverKeys are where a server is, and the account there. Two of addrs must not
// be the same: two shards on one server would hold each row twice.
func serverKeys(s *Shard, account string, addrs unique) []field {
	return []field{
		{name: "addr", otherwise: "(required)", help: "host:port, or the path of a Unix socket. It names one server, and may change to a replica that has taken over", hot: true, read: func(v value) {
			s.Addr = v.serverAddress()
			addrs.add(v, s.Addr)
		}},
		{name: "user", otherwise: "(required)", help: "Shunt's account there, which must be Shunt's alone", read: func(v value) { s.User = v.nonEmpty(account) }, hot: true},
		{name: "password", otherwise: "(empty)", help: "its password", read: func(v value) { s.Password, _ = v.text("the account's password") }, hot: true},
		{name: "password_file", otherwise: "(none)", help: "a file that holds it, in one line", read: func(v value) { s.Password = readPassword(v) }, hot: true},
		{name: "tls", otherwise: "(none)", help: "TLS toward the server, see [tls of a shard](#tls-of-a-shard)", read: func(v value) { s.TLS = readShardTLS(v) }, hot: true},
	}
}

// shardKeys are those of one of shards; replicas are set to where they stand.
func shardKeys(s *Shard, names, addrs unique, replicas *value) []field {
	return slices.Concat(
		[]field{{name: "name", otherwise: "(required)", help: "the shard's name, for ever", read: func(v value) {
			s.Name = v.name("a shard's name")
			names.add(v, s.Name)
		}}},
		serverKeys(s, "the shard's account", addrs),
		[]field{{name: "replicas", otherwise: "(none)", help: "servers that replicate from it: `addr`, and `user`, `password`, `tls` where they aren't the shard's", read: func(v value) { *replicas = v }, hot: true}},
	)
}

// schemaKeys are those of one of schemas.
func (r *reader) schemaKeys(s *Schema) []field {
	return []field{
		{name: "tables", otherwise: "(none)", help: "the placement of each table by its name", read: func(v value) {
			v.pairs("a mapping of table names like users: {shard_key: id}", func(name string, key ast.Node, t value) {
				checkName(t, key, name, "a table's name")
				table := r.placement(t)
				table.Name = name
				s.Tables = append(s.Tables, table)
			})
		}},
		{name: "default", otherwise: "{placement: hash}", help: "the placement of the tables that aren't named", read: func(v value) {
			s.Default = r.placement(v)
			if s.Default.ShardKey != "" {
				v.errorf("has a shard_key: expected it on a table, since tables that aren't named go by their primary keys")
			}
		}},
	}
}

// placementKeys are those of a table, or of a schema's default.
func (r *reader) placementKeys(t *Table) []field {
	return []field{
		{name: "placement", otherwise: "hash", help: "`hash`: Shunt places rows by the shard key. `reference`: a full copy on every shard. `single`: all on one shard. " +
			"`anywhere`: rows are where they are, new ones go by hash of the primary key", read: func(v value) {
			const expected = "hash, reference, single or anywhere"
			s, ok := v.text(expected)
			if !ok {
				return
			}
			for _, p := range []catalog.Placement{catalog.Hash, catalog.Reference, catalog.Single, catalog.Anywhere} {
				if p.String() == s {
					t.Placement = p
					return
				}
			}
			v.errorf("%q is no placement: expected %s", s, expected)
		}},
		{name: "shard_key", otherwise: "(first column of the primary key)", help: "the column that `hash` goes by. Tables of equal shard keys live together, and join on the shards", read: func(v value) { t.ShardKey = v.name("a column") }},
		{name: "shard", otherwise: "(required with single)", help: "the shard of a `single` table", read: func(v value) {
			t.Shard = v.nonEmpty("a shard's name")
			r.later = append(r.later, func() {
				if len(r.c.Shards) > 0 && !slices.ContainsFunc(r.c.Shards, func(s Shard) bool { return s.Name == t.Shard }) {
					v.errorf("there is no shard %q: expected one of %s", t.Shard, shardNames(r.c))
				}
			})
		}},
		{name: "check_unique", otherwise: "true", help: "false: unique keys of an `anywhere` table hold on each shard only, and writes don't ask the others", read: func(v value) { t.UniqueByShard = !v.boolean() }},
	}
}

// columns reads a list of columns, each once; false: it is none.
func (v value) columns(into *[]string) bool {
	once := unique{}
	return v.items("a list of columns like [email]", func(_ int, item value) {
		name := item.name("a column")
		once.add(item, strings.ToLower(name))
		*into = append(*into, name)
	})
}

// indexKeys are those of one of indexes; table is set to where its table stands.
func indexKeys(ix *Index, table *value) []field {
	return []field{
		{name: "name", otherwise: "(required)", help: "the virtual index's name", read: func(v value) { ix.Name = v.name("an index's name") }},
		{name: "table", otherwise: "(required)", help: "schema.table", read: func(v value) {
			*table = v
			s, ok := v.text("schema.table")
			if !ok {
				return
			}
			var found bool
			ix.Schema, ix.Table, found = strings.Cut(s, ".")
			if !found || ix.Schema == "" || ix.Table == "" || strings.Contains(ix.Table, ".") {
				v.errorf("%q is no table: expected schema.table", s)
			}
		}},
		{name: "columns", otherwise: "(required)", help: "1 to 16 columns, in the order in which conditions may name a prefix of them", read: func(v value) {
			list := v.columns(&ix.Columns)
			switch {
			case list && len(ix.Columns) == 0:
				v.errorf("is empty: expected at least one column")
			case len(ix.Columns) > 16:
				v.errorf("has %d columns: expected at most 16", len(ix.Columns))
			}
		}},
		{name: "include", otherwise: "(none)", help: "further columns: answers of reads that need no others are kept ([covering indexes](covering-indexes.md))", read: func(v value) { v.columns(&ix.Include) }},
		{name: "partitions", otherwise: "1", help: "writers of the index: more where one processor can't keep up with its writes; with several Shunts: servers that it is spread over", read: func(v value) { ix.Partitions = v.integer(1, catalog.MaxPartitions) }},
	}
}

// storeKeys are those of store.
func storeKeys(s *Store) []field {
	return []field{
		{name: "shards", otherwise: "false", help: "in schema `shunt_store` of the shards, for all Shunts that have them", read: func(v value) { s.Shards = v.boolean() }},
		{name: "servers", otherwise: "(none)", help: "`[{name, addr, nodes, user, password, tls}]`: in this schema of servers of their own; the first, for ever, has what is of no virtual index; others may be added. What the members tell each other stays on the shards", read: func(v value) { s.Servers = readStoreServers(v) }},
	}
}

// storeServerKeys are those of one of a store's servers.
func storeServerKeys(s *Shard, names, addrs unique) []field {
	return append([]field{
		{name: "name", otherwise: "(addr)", help: "the server's name, for ever", read: func(v value) {
			s.Name = v.name("a server's name")
			names.add(v, s.Name)
		}},
		{name: "nodes", otherwise: "(none)", help: "the addresses of the other nodes, where it is a cluster: Group Replication with a single primary, or Galera", read: func(v value) {
			v.items("a list like [10.0.0.9:3306, 10.0.0.10:3306]", func(_ int, item value) {
				s.Nodes = append(s.Nodes, item.serverAddress())
				addrs.add(item, s.Nodes[len(s.Nodes)-1])
			})
		}},
	}, serverKeys(s, "the server's account", addrs)...)
}

// maintenanceKeys are those of maintenance.
func maintenanceKeys(m *Maintenance) []field {
	return []field{
		{name: "follow", otherwise: "auto", help: "`binlog`: virtual indexes follow the shards' binary logs, which shows each change at once, and those that others make; see [operating](operating.md#following-the-binary-logs). `auto`: those that can be followed; the others' tables " +
			"are scanned behind what can't be computed. `scan`: all are", read: func(v value) {
			const expected = "binlog, auto or scan"
			if m.Follow = v.nonEmpty(expected); m.Follow != "" && !slices.Contains([]string{FollowBinlog, FollowAuto, FollowScan}, m.Follow) {
				v.errorf("is %q: expected %s", m.Follow, expected)
			}
		}},
		{name: "delay", otherwise: "1s", help: "from a write to the scan that follows it", read: func(v value) { m.Delay = v.duration(0) }},
		{name: "scan_duty", otherwise: "0.1", help: "largest share of a shard's time, and of Shunt's processors, for scans", read: func(v value) {
			m.ScanDuty = v.share()
			if m.ScanDuty == 0 {
				v.errorf("is 0, which would never scan: expected a share above 0, up to 1")
			}
		}},
		{name: "max_threads_running", otherwise: "50", help: "builds of indexes and virtual columns, and scans that no read waits for, rest while more threads run on the shard (`Threads_running`), or one of its replicas is more than `max_replica_lag` behind: for half a minute at most, then they read for a second, and so on; SHOW VIRTUAL INDEXES says so. 0: they never rest", read: func(v value) { m.MaxThreadsRunning = v.integer(0, 100_000) }},
		{name: "reconcile_every", otherwise: "24h", help: "each table is scanned so often without any cause, and the more slowly where its log is followed; 0s: never", read: func(v value) { m.ReconcileEvery = v.duration(0) }},
		{name: "workers", otherwise: "2", help: "jobs at the same time", read: func(v value) { m.Workers = v.integer(1, 64) }},
		{name: "audit", otherwise: "0.001", help: "share of index-routed reads that are also asked of the skipped shards", read: func(v value) { m.Audit = v.share() }},
	}
}

// virtualColumnsKeys are those of virtual_columns.
func virtualColumnsKeys(o *VirtualColumns) []field {
	return []field{
		{name: "consolidate_every", otherwise: "5m", help: "what the shards' logs have told is added to the durable values so often", read: func(v value) { o.ConsolidateEvery = v.duration(time.Second) }},
		{name: "consolidate_at", otherwise: "10000", help: "and where so many values of a column have changed", read: func(v value) { o.ConsolidateAt = v.integer(1, 10_000_000) }},
		{name: "keep_for", otherwise: "24h", help: "a value that is read by its key stays in memory until it wasn't read for so long", read: func(v value) { o.KeepFor = v.duration(time.Second) }},
		{name: "keep_most", otherwise: "1000000", help: "so many values stay in memory at most, of all columns; some 200 bytes each", read: func(v value) { o.KeepMost = v.integer(0, 1_000_000_000) }},
	}
}

// tlsKeys are those of tls toward clients; key is set to where the key's file stands.
func tlsKeys(t *TLS, key *value) []field {
	return []field{
		pemField("cert", "(required, or self_signed)", "PEM file: Shunt's certificate, and those between it and its authority", &t.Cert, "with Shunt's certificate"),
		{name: "key", otherwise: "(required with cert)", help: "PEM file: its private key", read: func(v value) { *key, t.Key = v, v.file() }},
		pemField("client_ca", "(none)", "PEM file: clients need a certificate that one of these authorities has signed", &t.ClientCA, "with the certificates of authorities"),
		{name: "required", otherwise: "false", help: "clients without TLS are refused", read: func(v value) { t.Required = v.boolean() }},
		{name: "self_signed", otherwise: "false", help: "a certificate that nobody has signed, made at start. MariaDB's clients from 11.4 on trust it by their password before MariaDB shards; " +
			"before MySQL shards from 127.0.0.1 only", read: func(v value) { t.SelfSigned = v.boolean() }},
	}
}

// shardTLSKeys are those of a shard's tls; at is where those stand that were given.
func shardTLSKeys(t *ShardTLS, at map[string]value) []field {
	fields := []field{
		pemField("ca", "(the system's)", "PEM file: authorities that may have signed the server's certificate", &t.CA, "with the certificates of authorities"),
		pemField("cert", "(none)", "PEM file: Shunt's own certificate, for accounts with `REQUIRE X509`", &t.Cert, "with Shunt's certificate"),
		{name: "key", otherwise: "(required with cert)", help: "PEM file: its private key", read: func(v value) { t.Key = v.file() }},
		{name: "server_name", otherwise: "(the host of addr)", help: "the name that the server's certificate must have", read: func(v value) { t.ServerName = v.nonEmpty("the name in the server's certificate") }},
		{name: "verify", otherwise: "identity", help: "`identity` (MySQL's VERIFY_IDENTITY): authority and name must be right. `ca` (VERIFY_CA): the name is left out, as it must be for the certificates that MySQL makes for itself " +
			"(`ca.pem` in its data directory). `none` (REQUIRED): any certificate will do, so whoever is in between can read all; for tests", read: func(v value) {
			const expected = "identity, ca or none"
			s, ok := v.text(expected)
			t.Verify = Verify(s)
			if ok && !slices.Contains([]Verify{VerifyIdentity, VerifyCA, VerifyNone}, t.Verify) {
				v.errorf("is %q: expected %s", s, expected)
			}
		}},
	}
	for i, f := range fields {
		fields[i].read = func(v value) {
			at[f.name] = v
			f.read(v)
		}
	}
	return fields
}
