package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

func noEnv(string) (string, bool) { return "", false }

const full = `
listen: 127.0.0.1:4000            # MySQL protocol
http: 127.0.0.1:4080
proxy_protocol: [10.0.0.0/8, "2001:db8::1"]
server_version: 8.4.0-shop
data_dir: ./data
log_level: debug
max_connections: 500
max_allowed_packet: 1MiB
max_prepared_statements: 1000
session_max_bytes: 32MiB
sessions_max_bytes: 2GiB
shard_prepared_statements: 30
shard_connections: 20
shard_timeout: 3s
max_replica_lag: 250ms
min_free_disk: 2GiB
lookup_cache: 8MiB
store_cache: 128MiB
kept_answers: 16MiB
statement_shapes: 500
statement_samples: true
statement_log: {file: statements.log, slow: 200ms, share: 0.5, literals: true}
tracing: {endpoint: "https://collector:4318", sample: 0.5, headers: {X-Key: abc}, service: shop}
drain_timeout: 5s
wait_timeout: 1h
interactive_timeout: 2h
net_read_timeout: 10s
net_write_timeout: 20s
query_timeout: 500ms
commit_timeout: 40s
gather_max_rows: 5000
gather_max_bytes: 64MiB
cursor_max_bytes: 1GiB
scratch: {addr: 127.0.0.1:3499, user: root, password: pw}
users:
  - {name: app, password: "${PW}", schemas: [shop, x], read_only: true, max_connections: 5, max_queries_per_second: 100, max_shard_connections: 7}
  - {name: '1', password: 12345, read_from: replica, virtual_columns: fast, index_reads: fast}
shards:
  - {name: s0, addr: 127.0.0.1:3401, user: root, password: ""}
  - name: s1
    addr: "${HOST}:3402"
    replicas: [{addr: h:1}, {addr: h:2, user: ro, password: x}]
    user: root
    password: "a$${b}"
schemas:
  shop:
    tables:
      users:     {shard_key: id}
      countries: {placement: reference}
      settings:  {placement: single, shard: s0}
      legacy:    {placement: anywhere}
    default: {placement: hash}
indexes:
  - {name: idx_email, table: shop.users, columns: [email], partitions: 1024}
maintenance: {delay: 2s, scan_duty: 0.2, max_threads_running: 20, reconcile_every: 12h, workers: 3, audit: 0.5}
`

func TestFull(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PW": "se:cret", "HOST": "db"}
	got, err := Parse("f.yaml", []byte(full), func(n string) (string, bool) { v, ok := env[n]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: "f.yaml", Listen: "127.0.0.1:4000", HTTP: "127.0.0.1:4080", DataDir: "./data", LogLevel: -4,
		ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}, ServerVersion: "8.4.0-shop",

		MaxConnections: 500, SessionMaxBytes: 32 << 20, SessionsMaxBytes: 2 << 30, MaxAllowedPacket: 1 << 20, ShardConnections: 20, ShardTimeout: 3 * time.Second, MaxReplicaLag: 250 * time.Millisecond, MaxPreparedStatements: 1000, ShardPreparedStatements: 30, MinFreeDisk: 2 << 30, LookupCache: 8 << 20, StoreCache: 128 << 20, KeptAnswers: 16 << 20, StatementShapes: 500, StatementSamples: true, StatementLog: &StatementLog{"statements.log", 200 * time.Millisecond, 0.5, true}, Tracing: &Tracing{"https://collector:4318", 0.5, map[string]string{"X-Key": "abc"}, "shop"}, DrainTimeout: 5 * time.Second,
		GatherMaxRows: 5000, GatherMaxBytes: 64 << 20, CursorMaxBytes: 1 << 30,
		Timeouts: Timeouts{time.Hour, 2 * time.Hour, 10 * time.Second, 20 * time.Second, 500 * time.Millisecond, 40 * time.Second},
		Scratch:  &Shard{Name: "scratch", Addr: "127.0.0.1:3499", User: "root", Password: "pw"},
		Users:    []User{{Name: "app", Password: "se:cret", Credential: wire.PasswordCredential("se:cret"), Schemas: []string{"shop", "x"}, ReadOnly: true, MaxConnections: 5, MaxRate: 100, MaxShardConnections: 7}, {Name: "1", Password: "12345", Credential: wire.PasswordCredential("12345"), ReadFromReplicas: true, FastVirtualColumns: true, FastIndexReads: true}},
		Shards: []Shard{{Name: "s0", Addr: "127.0.0.1:3401", User: "root"}, {
			Name: "s1", Addr: "db:3402", User: "root", Password: "a${b}",
			Replicas: []Shard{{Name: "s1", Addr: "h:1", User: "root", Password: "a${b}"}, {Name: "s1", Addr: "h:2", User: "ro", Password: "x"}},
		}},
		Schemas: []Schema{{Name: "shop", Tables: []Table{
			{Name: "users", ShardKey: "id"},
			{Name: "countries", Placement: catalog.Reference},
			{Name: "settings", Placement: catalog.Single, Shard: "s0"},
			{Name: "legacy", Placement: catalog.Anywhere},
		}}},
		Indexes:        []Index{{Name: "idx_email", Schema: "shop", Table: "users", Columns: []string{"email"}, Partitions: 1024}},
		Maintenance:    Maintenance{"auto", 2 * time.Second, 0.2, 20, 12 * time.Hour, 3, 0.5},
		VirtualColumns: Default().VirtualColumns,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if p := got.Table("shop", "other"); p.Placement != catalog.Hash || p.Name != "other" {
		t.Errorf("default placement %+v", p)
	}
}

// TestErrors holds every message; rewrite with -rewrite.
func TestErrors(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, filepath.Join("testdata", "errors.txt"), func(t *testing.T, d *datadriven.TestData) string {
		const minimal = "users: [{name: a, password: b}]\nshards: [{name: s0, addr: h:1, user: u}]\n"
		input := d.Input
		if d.Cmd == "with-minimal" {
			input = minimal + input
		}
		c, err := Parse("shunt.yaml", []byte(input), noEnv)
		if err == nil {
			return fmt.Sprintf("ok: %d users, %d shards\n", len(c.Users), len(c.Shards))
		}
		if !errors.As(err, new(Errors)) {
			t.Errorf("%T is not Errors", err)
		}
		return err.Error() + "\n"
	})
}

// TestOtherTools: files as Windows' editors and tools of YAML 1.1 write them.
func TestOtherTools(t *testing.T) {
	t.Parallel()
	const minimal = "users: [{name: a, password: b}]\r\nshards: [{name: s0, addr: h:1, user: u, password: ''}]\r\n"
	for _, off := range []string{"off", "false"} {
		c, err := Parse("f.yaml", []byte("\ufeff"+minimal+"http: "+off+"\r\n"), noEnv)
		if err != nil {
			t.Fatal(err)
		}
		if c.HTTP != "" || c.Users[0].Name != "a" {
			t.Errorf("http: %s: %q, %v", off, c.HTTP, c.Users)
		}
	}
}

func TestTooManyShards(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("users: [{name: a, password: b}]\nshards:\n")
	for i := range 257 {
		fmt.Fprintf(&b, "- {name: s%d, addr: h:%d, user: u}\n", i, i+1)
	}
	_, err := Parse("shunt.yaml", []byte(b.String()), noEnv)
	if err == nil || !strings.Contains(err.Error(), "has 257 shards: expected at most 256") {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shunt.yaml")
	if _, err := Load(file); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("users: [{name: a, password: b}]\nshards: [{name: s0, addr: h:1, user: u}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil || c.Listen != defaultListen || c.MinFreeDisk != defaultMinFreeDisk {
		t.Error(c, err)
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"unix": "secret\n", "windows": "secret\r\n", "bare": "secret", "two": "a\nb\n", "none": "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hashes := wire.PasswordCredential("secret").Hashes()
	for entry, want := range map[string]string{
		"password_file: " + dir + "/unix":                           "",
		"password_file: " + dir + "/windows":                        "",
		"password_file: " + dir + "/bare":                           "",
		"password_file: " + dir + "/two":                            "holds no single line",
		"password_file: " + dir + "/none":                           "holds no single line",
		"password_file: " + dir + "/missing":                        "can't be read",
		"password_hash: '" + hashes[0] + "'":                        "",
		"password_hash: '" + hashes[1] + "'":                        "",
		"password_hash: ['" + hashes[0] + "', '" + hashes[1] + "']": "",
		"password_hash: ['" + hashes[0] + "', '" + hashes[0] + "']": "is no hash of a password",
		"password_hash: '" + hashes[0][1:] + "'":                    "is no hash of a password",
		"password_hash: []":                                         "is no hash of a password",
		"password: '${EMPTY}'":                                      "its environment variable is empty",
		"password_hash: '*zz'":                                      "is no hash of a password",
		"password_hash: ''":                                         "is no hash of a password",
		"password_hash: '" + hashes[0] + "', password: secret":      "has 2 passwords",
		"password: secret, password_file: " + dir + "/bare":         "has 2 passwords",
	} {
		c, err := Parse("f", []byte("users: [{name: a, "+entry+"}]\nshards: [{name: s0, addr: h:1, user: u}]\n"), func(name string) (string, bool) { return "", name == "EMPTY" })
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", entry, err, want)
			}
		case err != nil || !c.Users[0].Credential.Is("secret") || c.Users[0].Credential.Is("other"):
			t.Errorf("%s: %v", entry, err)
		}
	}
	c, err := Parse("f", []byte("users: [{name: a, password: ''}]\nshards: [{name: s0, addr: h:1, user: u, password_file: "+dir+"/unix}]\n"), noEnv)
	if err != nil || c.Shards[0].Password != "secret" || !c.Users[0].Credential.Is("") {
		t.Errorf("%v", err)
	}
	if _, err := Parse("f", []byte("users: [{name: a}]\nshards: [{name: s0, addr: h:1, user: u, password: x, password_file: "+dir+"/unix}]\n"), noEnv); err == nil ||
		!strings.Contains(err.Error(), "has 0 passwords") || !strings.Contains(err.Error(), "has 2 passwords") {
		t.Errorf("%v", err)
	}
}

// TestTwoPasswordsOfAccounts: the accounts on servers, replicas and the scratch
// server have one password each.
func TestTwoPasswordsOfAccounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := "password: x, password_file: " + file
	for place, text := range map[string]string{
		"shards[0]":             "shards: [{name: s0, addr: h:1, user: u, " + two + "}]\n",
		"shards[0].replicas[1]": "shards: [{name: s0, addr: h:1, user: u, replicas: [{addr: h:2}, {addr: h:3, user: r, " + two + "}]}]\n",
		"scratch":               "shards: [{name: s0, addr: h:1, user: u}]\nscratch: {addr: h:9, user: u, " + two + "}\n",
	} {
		_, err := Parse("f", []byte("users: [{name: a, password: b}]\n"+text), noEnv)
		if err == nil || !strings.Contains(err.Error(), "has 2 passwords") || !strings.Contains(err.Error(), place) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", place, err)
		}
		one := strings.Replace(text, two, "password_file: "+file, 1)
		if _, err := Parse("f", []byte("users: [{name: a, password: b}]\n"+one), noEnv); err != nil {
			t.Errorf("%s with one: %v", place, err)
		}
	}
}
