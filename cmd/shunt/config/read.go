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
	defaultStoreCache       = 64 << 20
	defaultKeptAnswers      = 64 << 20
	defaultStatementShapes  = 10_000
	defaultDrainTimeout     = 30 * time.Second
	defaultGatherMaxRows    = 1_000_000
	defaultGatherMaxBytes   = 1 << 30
	defaultCursorMaxBytes   = 4 << 30
	defaultSessionMaxBytes  = 128 << 20
	defaultSessionsMaxBytes = 1 << 30
)

// minPacket is the least max_allowed_packet: what Shunt and drivers send to
// begin with fits.
const minPacket = 64 << 10

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
		SessionMaxBytes:         defaultSessionMaxBytes,
		SessionsMaxBytes:        defaultSessionsMaxBytes,
		ShardConnections:        defaultShardConnections,
		ShardTimeout:            defaultShardTimeout,
		MaxReplicaLag:           defaultMaxReplicaLag,
		MinFreeDisk:             defaultMinFreeDisk,
		LookupCache:             defaultLookupCache,
		StoreCache:              defaultStoreCache,
		KeptAnswers:             defaultKeptAnswers,
		StatementShapes:         defaultStatementShapes,
		MaxPreparedStatements:   defaultMaxPrepared,
		MaxAllowedPacket:        wire.DefaultMaxPacket,
		ShardPreparedStatements: defaultShardPrepared,
		DrainTimeout:            defaultDrainTimeout,
		Timeouts:                Timeouts{8 * time.Hour, 8 * time.Hour, 30 * time.Second, time.Minute, 0, 30 * time.Second},
		GatherMaxRows:           defaultGatherMaxRows,
		GatherMaxBytes:          defaultGatherMaxBytes,
		CursorMaxBytes:          defaultCursorMaxBytes,
		Maintenance: Maintenance{
			Follow: FollowAuto, Delay: time.Second, ScanDuty: 0.1, MaxThreadsRunning: 50, ReconcileEvery: 24 * time.Hour, Workers: 2, Audit: 0.001,
		},
		VirtualColumns: VirtualColumns{ConsolidateEvery: 5 * time.Minute, ConsolidateAt: 10000, KeepFor: 24 * time.Hour, KeepMost: 1000000},
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
	r := &reader{c: c, http: root}
	seen := root.fields(r.top()...)
	for _, name := range []string{"users", "shards"} {
		if !seen[name] {
			root.errorf("key %s is missing: expected a list of at least one", name)
		}
	}
	if c.HTTP != "" && c.HTTP == c.Listen {
		root.errorf("listen and http are both %s: expected different addresses", c.Listen)
	}
	if c.HTTP != "" && c.HTTPToken == "" && !onLoopback(c.HTTP) {
		r.http.errorf("%s may be reached from other machines: expected an http_token, or an address like %s", c.HTTP, defaultHTTP)
	}
	for _, v := range r.tlsNeeded {
		if !seen["tls"] {
			v.errorf("there is no tls that could be required: expected a tls with cert and key at the top level")
		}
	}
	for _, check := range r.later {
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

func (r *reader) readHTTP(v value) {
	r.http = v
	// Tools that write YAML 1.1 make false of off.
	if s, ok := v.text("host:port, or off"); ok && (s == "" || s == "off" || s == "false") {
		r.c.HTTP = ""
	} else if ok {
		r.c.HTTP = v.address(r.c.HTTP)
	}
}

// readPacket returns otherwise where the value is wrong.
func readPacket(v value, otherwise int) int {
	wrong := len(v.doc.errors)
	n := v.bytes()
	if len(v.doc.errors) > wrong {
		return otherwise
	}
	if n < minPacket || n > wire.DefaultMaxPacket {
		v.errorf("is %d bytes: expected 64KiB to 64MiB", n)
		return otherwise
	}
	return int(n)
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

func (r *reader) users(v value) {
	const expected = "a list like [{name: app, password: secret}]"
	names := unique{}
	list := v.items(expected, func(_ int, item value) {
		var u User
		seen := item.fields(r.userKeys(&u, names)...)
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
		r.c.Users = append(r.c.Users, u)
	})
	if list && len(r.c.Users) == 0 {
		v.errorf("is empty: expected %s", expected)
	}
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

func (r *reader) shards(v value) {
	const expected = `a list like [{name: s0, addr: 127.0.0.1:3401, user: root, password: ""}]`
	names, addrs := unique{}, unique{}
	list := v.items(expected, func(_ int, item value) {
		var s Shard
		var replicas value
		seen := item.fields(shardKeys(&s, names, addrs, &replicas)...)
		item.require(seen, "name", "addr", "user")
		item.onePassword(seen)
		if seen["replicas"] { // last: they take over what is the shard's
			s.Replicas = readReplicas(replicas, s, addrs)
		}
		r.c.Shards = append(r.c.Shards, s)
	})
	switch n := len(r.c.Shards); {
	case list && n == 0:
		v.errorf("is empty: expected %s", expected)
	case n > catalog.MaxShards:
		v.errorf("has %d shards: expected at most %d", n, catalog.MaxShards)
	}
}

func (r *reader) schemas(v value) {
	v.pairs("a mapping of schema names like shop: {tables: {users: {shard_key: id}}}", func(name string, key ast.Node, child value) {
		s := Schema{Name: name}
		checkName(child, key, name, "a schema's name")
		if catalog.IsSystemSchema(name) {
			child.errorAt(key, child.key, "is the servers' own schema: expected a schema of yours")
		}
		child.fields(r.schemaKeys(&s)...)
		r.c.Schemas = append(r.c.Schemas, s)
	})
}

// placement reads {shard_key: id}, {placement: reference}, ...
func (r *reader) placement(v value) Table {
	t := new(Table)
	seen := v.fields(r.placementKeys(t)...)
	switch {
	case len(seen) == 0:
		if _, empty := v.plain().(*ast.MappingNode); empty {
			v.errorf("is empty: expected a shard_key or a placement")
		}
	case seen["shard_key"] && t.Placement != catalog.Hash:
		v.errorf("has both a shard_key and placement %s: expected only one, since a shard key spreads rows by hash", t.Placement)
	case seen["shard"] && t.Placement != catalog.Single:
		v.errorf("has a shard with placement %s: expected shard only with placement: single", t.Placement)
	case seen["check_unique"] && t.Placement != catalog.Anywhere:
		v.errorf("has check_unique with placement %s: expected it only with placement: anywhere, whose rows of one key may be on several shards", t.Placement)
	case t.Placement == catalog.Single && !seen["shard"]:
		v.errorf("has placement single without a shard: expected {placement: single, shard: NAME}")
	}
	return *t
}

func (r *reader) indexes(v value) {
	names := unique{}
	v.items("a list like [{name: idx_email, table: shop.users, columns: [email]}]", func(_ int, item value) {
		ix := Index{Partitions: 1}
		var table value
		item.require(item.fields(indexKeys(&ix, &table)...), "name", "table", "columns")
		if ix.Name != "" && ix.Table != "" {
			names.add(item, fmt.Sprintf("%s on %s.%s", strings.ToLower(ix.Name), ix.Schema, ix.Table))
			r.later = append(r.later, func() {
				t := r.c.Table(ix.Schema, ix.Table)
				if t.Placement == catalog.Reference || t.Placement == catalog.Single {
					table.errorf("%s.%s has placement %s, so every query has one shard already: expected a table with placement hash or anywhere",
						ix.Schema, ix.Table, t.Placement)
				}
			})
		}
		r.c.Indexes = append(r.c.Indexes, ix)
	})
}
