package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Defaults of the keys that may be left out.
const (
	defaultListen           = "127.0.0.1:4000"
	defaultHTTP             = "127.0.0.1:4080"
	defaultDataDir          = "./data"
	defaultMaxConnections   = 10_000
	defaultShardConnections = 100
	defaultShardTimeout     = 5 * time.Second
	defaultMaxReplicaLag    = time.Second
	defaultMaxPrepared      = 16_382 // MySQL's max_prepared_stmt_count
	defaultShardPrepared    = 64
	defaultMinFreeDisk      = 256 << 20
	defaultLookupCache      = 32 << 20
	defaultDrainTimeout     = 30 * time.Second
	defaultGatherMaxRows    = 1_000_000
	defaultGatherMaxBytes   = 1 << 30
	defaultCursorMaxBytes   = 4 << 30
)

// minPacket is the least max_allowed_packet: what Shunt and drivers send to
// begin with fits.
const minPacket = 64 << 10

// maxPartitions bounds a virtual index's partitions.
const maxPartitions = 256

// maxName is the longest name that MySQL takes for a schema, table, column or
// index.
const maxName = 64

// Default is what an empty file would say, if that were enough.
func Default() *Config {
	return &Config{
		Listen:                  defaultListen,
		HTTP:                    defaultHTTP,
		DataDir:                 defaultDataDir,
		MaxConnections:          defaultMaxConnections,
		ShardConnections:        defaultShardConnections,
		ShardTimeout:            defaultShardTimeout,
		MaxReplicaLag:           defaultMaxReplicaLag,
		MinFreeDisk:             defaultMinFreeDisk,
		LookupCache:             defaultLookupCache,
		MaxPreparedStatements:   defaultMaxPrepared,
		MaxAllowedPacket:        wire.DefaultMaxPacket,
		ShardPreparedStatements: defaultShardPrepared,
		DrainTimeout:            defaultDrainTimeout,
		Timeouts:                Timeouts{8 * time.Hour, 8 * time.Hour, 30 * time.Second, time.Minute, 0},
		GatherMaxRows:           defaultGatherMaxRows,
		GatherMaxBytes:          defaultGatherMaxBytes,
		CursorMaxBytes:          defaultCursorMaxBytes,
		Maintenance: Maintenance{
			Delay: time.Second, ScanDuty: 0.1, ReconcileEvery: 24 * time.Hour, Workers: 2, Audit: 0.001,
		},
	}
}

// Parse reads and checks the text of a file. env looks up a variable.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Config, error) {
	doc, body, err := parseDocument(file, data, env)
	if err != nil {
		return nil, err
	}
	c := Default()
	c.File = file
	root := value{doc, "", body}
	// What refers to something that stands elsewhere in the file is checked
	// once all of it is read.
	var later []func()
	httpAt, tlsNeeded := root, []value(nil)
	seen := root.fields(
		field{"listen", func(v value) { c.Listen = v.address(c.Listen) }},
		field{"http", func(v value) {
			httpAt = v
			// Tools that write YAML 1.1 make false of off.
			if s, ok := v.text("host:port, or off"); ok && (s == "" || s == "off" || s == "false") {
				c.HTTP = ""
			} else if ok {
				c.HTTP = v.address(c.HTTP)
			}
		}},
		field{"socket", func(v value) { c.Socket = readSocket(v) }},
		field{"proxy_protocol", func(v value) { c.ProxyProtocol = readNetworks(v) }},
		field{"server_version", func(v value) { c.ServerVersion = readServerVersion(v) }},
		field{"http_token", func(v value) { c.HTTPToken = readToken(v) }},
		field{"data_dir", func(v value) {
			if c.DataDir = v.nonEmpty("a directory"); strings.HasPrefix(c.DataDir, "~") {
				v.errorf("%q begins with ~, which only a shell reads as a home directory: expected a path, which ${HOME} may begin", c.DataDir)
			}
		}},
		field{"log_level", func(v value) {
			if s, ok := v.text("debug, info, warn or error"); ok && c.LogLevel.UnmarshalText([]byte(s)) != nil {
				v.errorf("%q is no level: expected debug, info, warn or error", s)
			}
		}},
		field{"tls", func(v value) { c.TLS = readTLS(v) }},
		field{"max_connections", func(v value) { c.MaxConnections = v.integer(1, 1_000_000) }},
		field{"shard_connections", func(v value) { c.ShardConnections = v.integer(1, 100_000) }},
		field{"shard_timeout", func(v value) { c.ShardTimeout = v.duration(500 * time.Millisecond) }},
		field{"max_replica_lag", func(v value) { c.MaxReplicaLag = v.duration(minReplicaLag) }},
		field{"max_prepared_statements", func(v value) { c.MaxPreparedStatements = v.integer(0, 1_000_000) }},
		field{"shard_prepared_statements", func(v value) { c.ShardPreparedStatements = v.integer(1, 100_000) }},
		field{"max_allowed_packet", func(v value) {
			wrong := len(doc.errors)
			n := v.bytes()
			if len(doc.errors) > wrong {
				return
			}
			if n < minPacket || n > wire.DefaultMaxPacket {
				v.errorf("is %d bytes: expected 64KiB to 64MiB", n)
				return
			}
			c.MaxAllowedPacket = int(n)
		}},
		field{"min_free_disk", func(v value) { c.MinFreeDisk = v.bytes() }},
		field{"lookup_cache", func(v value) { c.LookupCache = int64(v.bytes()) }},
		field{"drain_timeout", func(v value) { c.DrainTimeout = v.duration(0) }},
		field{"wait_timeout", func(v value) { c.Timeouts.Wait = v.duration(time.Second) }},
		field{"interactive_timeout", func(v value) { c.Timeouts.Interactive = v.duration(time.Second) }},
		field{"net_read_timeout", func(v value) { c.Timeouts.NetRead = v.duration(time.Second) }},
		field{"net_write_timeout", func(v value) { c.Timeouts.NetWrite = v.duration(time.Second) }},
		field{"query_timeout", func(v value) { c.Timeouts.Query = v.duration(0) }},
		field{"gather_max_rows", func(v value) { c.GatherMaxRows = int64(v.integer(0, 1_000_000_000)) }},
		field{"gather_max_bytes", func(v value) { c.GatherMaxBytes = int64(v.bytes()) }},
		field{"cursor_max_bytes", func(v value) { c.CursorMaxBytes = int64(v.bytes()) }},
		field{"scratch", func(v value) { c.Scratch = readScratch(v) }},
		field{"users", func(v value) { c.Users, tlsNeeded = readUsers(v) }},
		field{"shards", func(v value) { c.Shards = readShards(v) }},
		field{"schemas", func(v value) { c.Schemas, later = readSchemas(v, c, later) }},
		field{"indexes", func(v value) { c.Indexes, later = readIndexes(v, c, later) }},
		field{"maintenance", func(v value) { readMaintenance(v, &c.Maintenance) }},
	)
	for _, name := range []string{"users", "shards"} {
		if !seen[name] {
			root.errorf("key %s is missing: expected a list of at least one", name)
		}
	}
	if c.HTTP != "" && c.HTTP == c.Listen {
		root.errorf("listen and http are both %s: expected different addresses", c.Listen)
	}
	if c.HTTP != "" && c.HTTPToken == "" && !onLoopback(c.HTTP) {
		httpAt.errorf("%s may be reached from other machines: expected an http_token, or an address like %s", c.HTTP, defaultHTTP)
	}
	for _, v := range tlsNeeded {
		if !seen["tls"] {
			v.errorf("there is no tls that could be required: expected a tls with cert and key at the top level")
		}
	}
	for _, check := range later {
		check()
	}
	if len(doc.errors) > 0 {
		slices.SortStableFunc(doc.errors, func(a, b *Error) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, doc.errors
	}
	return c, nil
}

// onLoopback reports an address that only this machine reaches.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err != nil || host == "localhost" || net.ParseIP(host).IsLoopback()
}

// maxSocket is the longest path that the system takes.
const maxSocket = 107

func readSocket(v value) string {
	s := v.nonEmpty("a path like /run/shunt/shunt.sock")
	if len(s) > maxSocket {
		v.errorf("has %d bytes: expected a path of at most %d", len(s), maxSocket)
	}
	return s
}

const minToken = 16

func readToken(v value) string {
	s := v.nonEmpty("a token")
	if s != "" && len(s) < minToken {
		v.errorf("has %d characters, which can be guessed: expected at least %d", len(s), minToken)
	}
	return s
}

// readUsers returns the places that ask for TLS, too.
func readUsers(v value) (users []User, tlsNeeded []value) {
	const expected = "a list like [{name: app, password: secret}]"
	names := unique{}
	list := v.items(expected, func(_ int, item value) {
		var u User
		seen := item.fields(
			field{"name", func(v value) {
				u.Name = v.nonEmpty("a user name")
				names.add(v, u.Name)
			}},
			field{"password", func(v value) {
				var ok bool
				if u.Password, ok = v.text("a password"); ok && u.Password == "" && v.variable() {
					v.errorf("its environment variable is empty: expected a password (password: '' is for a user without one)")
				}
				u.Credential = wire.PasswordCredential(u.Password)
			}},
			field{"password_file", func(v value) {
				u.Password = readPassword(v)
				u.Credential = wire.PasswordCredential(u.Password)
			}},
			field{"password_hash", func(v value) { u.Credential = readHashes(v) }},
			field{"schemas", func(v value) {
				u.Schemas = []string{}
				list := v.items("a list of schemas", func(_ int, item value) { u.Schemas = append(u.Schemas, item.name("a schema's name")) })
				if list && len(u.Schemas) == 0 {
					v.errorf("is empty, so the user could see nothing: expected a list of schemas, or no such key for all")
				}
			}},
			field{"read_only", func(v value) { u.ReadOnly = v.boolean() }},
			field{"require_tls", func(v value) {
				if u.RequireTLS = v.boolean(); u.RequireTLS {
					tlsNeeded = append(tlsNeeded, v)
				}
			}},
			field{"read_from", func(v value) { u.ReadFromReplicas = readFrom(v) }},
			field{"max_connections", func(v value) { u.MaxConnections = v.integer(0, 1_000_000) }},
			field{"max_queries_per_second", func(v value) { u.MaxRate = v.integer(0, 1_000_000) }},
		)
		item.require(seen, "name")
		ways := 0
		for _, key := range []string{"password", "password_file", "password_hash"} {
			if seen[key] {
				ways++
			}
		}
		if ways != 1 {
			item.errorf("has %d passwords: expected one of password, password_file and password_hash", ways)
		}
		users = append(users, u)
	})
	if list && len(users) == 0 {
		v.errorf("is empty: expected %s", expected)
	}
	return users, tlsNeeded
}

// readPassword reads a file that holds a password and nothing else, but for a
// line's end.
func readPassword(v value) string {
	name := v.nonEmpty("a file that holds the password")
	if name == "" {
		return ""
	}
	b, err := os.ReadFile(name)
	if err != nil {
		v.errorf("can't be read: %v", err)
		return ""
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if password == "" || strings.ContainsAny(password, "\r\n\x00") {
		v.errorf("%s holds no single line: expected the password and nothing else", name)
	}
	return password
}

// readHashes reads one hash of a password or a list of them.
func readHashes(v value) wire.Credential {
	var hashes []string
	const expected = "a hash as shunt password prints them, or a list"
	if _, list := v.plain().(*ast.SequenceNode); list {
		v.items(expected, func(_ int, item value) { hashes = append(hashes, item.nonEmpty(expected)) })
	} else {
		hashes = append(hashes, v.nonEmpty(expected))
	}
	c, err := wire.HashCredential(hashes...)
	if err != nil {
		v.errorf("is no hash of a password: %v", err)
	}
	return c
}

// serverFields are where a server is, and the account there. Two of addrs must not
// be the same: two shards on one server would hold each row twice.
func serverFields(s *Shard, account string, addrs unique) []field {
	return []field{
		{"addr", func(v value) {
			s.Addr = v.serverAddress()
			addrs.add(v, s.Addr)
		}},
		{"user", func(v value) { s.User = v.nonEmpty(account) }},
		{"password", func(v value) { s.Password, _ = v.text("the account's password") }},
		{"password_file", func(v value) { s.Password = readPassword(v) }},
		{"tls", func(v value) { s.TLS = readShardTLS(v) }},
	}
}

func readShards(v value) []Shard {
	const expected = `a list like [{name: s0, addr: 127.0.0.1:3401, user: root, password: ""}]`
	var shards []Shard
	names, addrs := unique{}, unique{}
	list := v.items(expected, func(_ int, item value) {
		var s Shard
		var replicas value
		seen := item.fields(slices.Concat(
			[]field{{"name", func(v value) {
				s.Name = v.name("a shard's name")
				names.add(v, s.Name)
			}}},
			serverFields(&s, "the shard's account", addrs),
			[]field{{"replicas", func(v value) { replicas = v }}},
		)...)
		item.require(seen, "name", "addr", "user")
		item.onePassword(seen)
		if seen["replicas"] { // last: they take over what is the shard's
			s.Replicas = readReplicas(replicas, s, addrs)
		}
		shards = append(shards, s)
	})
	switch {
	case list && len(shards) == 0:
		v.errorf("is empty: expected %s", expected)
	case len(shards) > catalog.MaxShards:
		v.errorf("has %d shards: expected at most %d", len(shards), catalog.MaxShards)
	}
	return shards
}

func readSchemas(v value, c *Config, later []func()) ([]Schema, []func()) {
	var schemas []Schema
	v.pairs("a mapping of schema names like shop: {tables: {users: {shard_key: id}}}", func(name string, key ast.Node, child value) {
		s := Schema{Name: name}
		checkName(child, key, name, "a schema's name")
		if catalog.IsSystemSchema(name) {
			child.errorAt(key, child.key, "is the servers' own schema: expected a schema of yours")
		}
		child.fields(
			field{"tables", func(v value) {
				v.pairs("a mapping of table names like users: {shard_key: id}", func(name string, key ast.Node, t value) {
					checkName(t, key, name, "a table's name")
					var table Table
					table, later = readPlacement(t, c, later)
					table.Name = name
					s.Tables = append(s.Tables, table)
				})
			}},
			field{"default", func(v value) {
				s.Default, later = readPlacement(v, c, later)
				if s.Default.ShardKey != "" {
					v.errorf("has a shard_key: expected it on a table, since tables that aren't named go by their primary keys")
				}
			}},
		)
		schemas = append(schemas, s)
	})
	return schemas, later
}

// readPlacement reads {shard_key: id}, {placement: reference}, ...
func readPlacement(v value, c *Config, later []func()) (Table, []func()) {
	var t Table
	seen := v.fields(
		field{"placement", func(v value) {
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
		field{"shard_key", func(v value) { t.ShardKey = v.name("a column") }},
		field{"shard", func(v value) {
			t.Shard = v.nonEmpty("a shard's name")
			later = append(later, func() {
				if len(c.Shards) > 0 && !slices.ContainsFunc(c.Shards, func(s Shard) bool { return s.Name == t.Shard }) {
					v.errorf("there is no shard %q: expected one of %s", t.Shard, shardNames(c))
				}
			})
		}},
	)
	switch {
	case len(seen) == 0:
		if _, empty := v.plain().(*ast.MappingNode); empty {
			v.errorf("is empty: expected a shard_key or a placement")
		}
	case seen["shard_key"] && t.Placement != catalog.Hash:
		v.errorf("has both a shard_key and placement %s: expected only one, since a shard key spreads rows by hash", t.Placement)
	case seen["shard"] && t.Placement != catalog.Single:
		v.errorf("has a shard with placement %s: expected shard only with placement: single", t.Placement)
	case t.Placement == catalog.Single && !seen["shard"]:
		v.errorf("has placement single without a shard: expected {placement: single, shard: NAME}")
	}
	return t, later
}

func readIndexes(v value, c *Config, later []func()) ([]Index, []func()) {
	var indexes []Index
	names := unique{}
	v.items("a list like [{name: idx_email, table: shop.users, columns: [email]}]", func(_ int, item value) {
		ix := Index{Partitions: 1}
		var table value
		seen := item.fields(
			field{"name", func(v value) { ix.Name = v.name("an index's name") }},
			field{"table", func(v value) {
				table = v
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
			field{"columns", func(v value) {
				columns := unique{}
				list := v.items("a list of columns like [email]", func(_ int, item value) {
					name := item.name("a column")
					columns.add(item, strings.ToLower(name))
					ix.Columns = append(ix.Columns, name)
				})
				switch {
				case list && len(ix.Columns) == 0:
					v.errorf("is empty: expected at least one column")
				case len(ix.Columns) > 16:
					v.errorf("has %d columns: expected at most 16", len(ix.Columns))
				}
			}},
			field{"partitions", func(v value) { ix.Partitions = v.integer(1, maxPartitions) }},
		)
		item.require(seen, "name", "table", "columns")
		if ix.Name != "" && ix.Table != "" {
			names.add(item, fmt.Sprintf("%s on %s.%s", strings.ToLower(ix.Name), ix.Schema, ix.Table))
			later = append(later, func() {
				t := c.Table(ix.Schema, ix.Table)
				if t.Placement == catalog.Reference || t.Placement == catalog.Single {
					table.errorf("%s.%s has placement %s, so every query has one shard already: expected a table with placement hash or anywhere",
						ix.Schema, ix.Table, t.Placement)
				}
			})
		}
		indexes = append(indexes, ix)
	})
	return indexes, later
}

func readMaintenance(v value, m *Maintenance) {
	v.fields(
		field{"delay", func(v value) { m.Delay = v.duration(0) }},
		field{"scan_duty", func(v value) {
			m.ScanDuty = v.share()
			if m.ScanDuty == 0 {
				v.errorf("is 0, which would never scan: expected a share above 0, up to 1")
			}
		}},
		field{"reconcile_every", func(v value) { m.ReconcileEvery = v.duration(0) }},
		field{"workers", func(v value) { m.Workers = v.integer(1, 64) }},
		field{"audit", func(v value) { m.Audit = v.share() }},
	)
}
