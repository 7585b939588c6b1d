package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestShardKeyChanged: rows are not looked for where a changed configuration
// would have placed them.
func TestShardKeyChanged(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		configure := func(placement string) {
			t.Helper()
			text, err := os.ReadFile(p.config)
			if err != nil {
				t.Fatal(err)
			}
			from := strings.Index(string(text), "users: {s")
			if from < 0 {
				from = strings.Index(string(text), "users: {p")
			}
			to := from + strings.Index(string(text[from:]), "\n")
			if err := os.WriteFile(p.config, []byte(string(text[:from])+"users: {"+placement+"}"+string(text[to:])), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		reload := func(placement, told string) {
			t.Helper()
			configure(placement)
			before := strings.Count(p.log.String(), told)
			p.signal(syscall.SIGHUP)
			eventually(t, told, func() bool { return strings.Count(p.log.String(), told) > before })
		}
		insert := func() {
			t.Helper()
			for i := range 20 {
				mustExec(t, p.db(), fmt.Sprintf("INSERT INTO users VALUES (%d, %d)", i, 100+i))
			}
		}
		wantAll := func() {
			t.Helper()
			for i := range 20 {
				want(t, p.db(), fmt.Sprintf("SELECT a FROM users WHERE a = %d", i), "a", fmt.Sprint(i))
				want(t, p.db(), fmt.Sprintf("SELECT a FROM users WHERE b = %d", 100+i), "a", fmt.Sprint(i))
			}
		}
		mustExec(t, p.db(), "CREATE TABLE users (a INT, b INT, PRIMARY KEY (a, b))")
		insert()
		message := "table " + p.schema + ".users: its rows were placed by hash of a, the configuration says hash of b"

		reload("shard_key: b", message)
		wantRoute(t, p.db(), "SELECT a FROM users WHERE a = 1", 1, "shard_key")
		wantAll()
		// An index change publishes a catalog, too.
		p.createIndex(p.db(), "idx_b", "users (b)")
		wantRoute(t, p.db(), "SELECT a FROM users WHERE a = 1", 1, "shard_key")
		wantAll()

		if code := p.stop(); code != 0 {
			t.Fatalf("exit status %d", code)
		}
		for _, placement := range []string{"shard_key: b", "placement: reference", "placement: single, shard: s1"} {
			configure(placement)
			if out, code := shunt(t, "serve", "--config", p.config); code != 1 || !strings.Contains(out, "its rows were placed by hash of a, the configuration says") {
				t.Errorf("%s: status %d\n%s", placement, code, out)
			}
		}
		// Put back, nothing has changed.
		configure("shard_key: a")
		p.run()
		wantAll()
		mustExec(t, p.db(), "DELETE FROM users")
		p.stop()
		configure("shard_key: b")
		p.run()
		insert()
		wantRoute(t, p.db(), "SELECT a FROM users WHERE b = 101", 1, "shard_key")
		wantAll()

		// Anywhere is right for any rows. There is a way back while all are where it looks for them, and nobody
		// writes whose rows can't be seen yet.
		reload("placement: anywhere", "reload: done")
		wantAll()
		reload("shard_key: b", "reload: done")
		wantRoute(t, p.db(), "SELECT a FROM users WHERE b = 101", 1, "shard_key")
		wantAll()
		reload("placement: anywhere", "reload: done")
		// Of eight rows by hash of a some aren't where hash of b has them.
		astray := "INSERT INTO users VALUES " + rowsFor(8, func(i int) string { return fmt.Sprintf("(%d, %d)", 1000+i, 2000+i) })
		writer := p.conn()
		mustExec(t, writer, "SET innodb_lock_wait_timeout = 100") // the servers' is short for a busy machine
		mustExec(t, writer, "BEGIN")
		mustExec(t, writer, astray)
		reload("shard_key: b", "its rows were placed as anywhere")
		mustExec(t, writer, "ROLLBACK")
		held := make([]*sql.Conn, len(p.servers))
		for i := range held {
			held[i] = connOf(t, p.shard(i))
			mustExec(t, held[i], "BEGIN")
			mustExec(t, held[i], astray)
		}
		written := later(writer, astray)
		eventually(t, "the INSERT waits on a shard", func() bool {
			return slices.Contains(p.onShards("SELECT id FROM information_schema.processlist WHERE db = '"+p.schema+"' AND info LIKE 'INSERT INTO users%'"), 1)
		})
		reload("shard_key: b", "not known: clients write")
		for _, c := range held {
			mustExec(t, c, "ROLLBACK")
		}
		ends(t, written, "INSERT")
		reload("shard_key: b", "its rows were placed as anywhere")
		wantAll()
		want(t, p.db(), "SELECT a FROM users WHERE b = 2003", "a", "1003")
		// A table that is made anew has no past.
		mustExec(t, p.db(), "DROP TABLE users")
		reload("shard_key: b", "reload: done")
		mustExec(t, p.db(), "CREATE TABLE users (a INT, b INT, PRIMARY KEY (a, b))")
		insert()
		wantRoute(t, p.db(), "SELECT a FROM users WHERE b = 101", 1, "shard_key")
		wantAll()
	})
}

// TestRowsOfAnotherRule: rows that Shunt hasn't placed are not looked for where it
// would have placed them. Those that it has are known again without its store.
func TestRowsOfAnotherRule(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"t0: {shard_key: k}", "other: {shard_key: id}"}})
		loseStore := func() {
			t.Helper()
			p.stop()
			if err := os.RemoveAll(filepath.Join(filepath.Dir(p.config), "data")); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range []struct{ of, literal string }{
			{"BIGINT", "%d"},
			{"DECIMAL(9,3)", "%d.5"},
			{"VARCHAR(20)", "'Äb %d '"},
			{"VARCHAR(20) CHARACTER SET latin1", "'é%d'"},
			{"CHAR(9)", "'c%d'"},
			{"VARBINARY(8)", "x'00%04d'"},
			{"DATETIME(3)", "'2026-01-01 00:00:%02d.5'"},
		} {
			mustExec(t, p.db(), fmt.Sprintf("CREATE TABLE t%d (k %s PRIMARY KEY)", i, c.of))
			for n := range 20 {
				mustExec(t, p.db(), fmt.Sprintf("INSERT INTO t%d VALUES ("+c.literal+")", i, n))
			}
		}
		loseStore()
		p.run()

		for table, column := range map[string]string{"other": "id INT PRIMARY KEY", "keyless": "id INT"} {
			for i := range p.servers {
				mustExec(t, p.shard(i), "CREATE TABLE "+table+" ("+column+")")
			}
			mustExec(t, p.shard(1), "INSERT INTO "+table+" VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)")
			loseStore()
			out, code := shunt(t, "serve", "--config", p.config)
			if code != 1 || !strings.Contains(out, "table "+p.schema+"."+table+": its rows are not where Shunt looks for them: shard s1 has ") {
				t.Errorf("%s: status %d\n%s", table, code, out)
			}
			for i := range p.servers {
				if table != "other" {
					mustExec(t, p.shard(i), "RENAME TABLE "+table+" TO other")
				}
			}
			text, err := os.ReadFile(p.config)
			if err != nil {
				t.Fatal(err)
			}
			anywhere := strings.Replace(string(text), "other: {shard_key: id}", "other: {placement: anywhere}", 1)
			if err := os.WriteFile(p.config, []byte(anywhere), 0o600); err != nil {
				t.Fatal(err)
			}
			p.run()
			for n := 1; n <= 10; n++ {
				want(t, p.db(), fmt.Sprintf("SELECT id FROM other WHERE id = %d", n), "id", fmt.Sprint(n))
			}
			mustExec(t, p.db(), "DROP TABLE other")
			if err := os.WriteFile(p.config, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestPlacedBehindBack: the rows of a table in a schema that isn't configured are found on all
// shards when somebody else has made it anew, or given it another primary key.
func TestPlacedBehindBack(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		other := p.schema + "_other"
		onShards := func(sql string) {
			t.Helper()
			for i := range p.servers {
				mustExec(t, p.shard(i), sql)
			}
		}
		wantAll := func(table string) {
			t.Helper()
			for i := range 20 {
				want(t, p.db(), fmt.Sprintf("SELECT b FROM %s.%s WHERE a = %d", other, table, i), "b", fmt.Sprint(100+i))
				want(t, p.db(), fmt.Sprintf("SELECT a FROM %s.%s WHERE b = %d", other, table, 100+i), "a", fmt.Sprint(i))
			}
			want(t, p.db(), "SELECT COUNT(*) AS n FROM "+other+"."+table, "n", "20")
		}
		mustExec(t, p.db(), "CREATE DATABASE "+other)
		mustExec(t, p.db(), "CREATE TABLE "+other+".notes (a INT, b INT)")
		mustExec(t, p.db(), "INSERT INTO "+other+".notes VALUES (1, 1)")
		for _, table := range []string{"spread", "turned"} {
			mustExec(t, p.db(), "CREATE TABLE "+other+"."+table+" (a INT, b INT, PRIMARY KEY (a, b))")
			for i := range 20 {
				mustExec(t, p.db(), fmt.Sprintf("INSERT INTO %s.%s VALUES (%d, %d)", other, table, i, 100+i))
			}
		}
		wantRoute(t, p.db(), "SELECT a FROM "+other+".notes WHERE a = 1", 1, "single")

		onShards("ALTER TABLE " + other + ".turned DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)")
		mustExec(t, p.db(), "CREATE TABLE "+other+".more (a INT PRIMARY KEY)") // reads the schema
		wantAll("turned")
		p.stop()
		mustExec(t, p.shard(0), "DROP TABLE "+other+".notes")
		onShards("RENAME TABLE " + other + ".spread TO " + other + ".notes")
		p.run()
		wantAll("notes")
		wantAll("turned")
		mustExec(t, p.db(), "INSERT INTO "+other+".turned VALUES (20, 120)")
		mustExec(t, p.db(), "REPLACE INTO "+other+".turned VALUES (7, 107)")
		mustExec(t, p.db(), "DELETE FROM "+other+".turned WHERE a = 20")
		wantAll("turned")
		onShards("DROP DATABASE " + other)
	})
}

// TestShardWithRows: a shard is added that has rows of a table placed anywhere.
func TestShardWithRows(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{servers: servers[:2], tables: []string{"legacy: {placement: anywhere}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE legacy (id INT PRIMARY KEY, ref VARCHAR(20))")
		p.createIndex(c, "by_ref", "legacy (ref)")
		for i := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO legacy VALUES (%d, 'r%d')", i, i))
		}
		p.settled(c)
		create := mustRows(t, p.shard(0), "SHOW CREATE TABLE legacy")[0]["Create Table"]
		mustExec(t, onShard(t, servers[2], ""), "CREATE DATABASE "+p.schema)
		added := onShard(t, servers[2], p.schema)
		mustExec(t, added, create)
		mustExec(t, added, "INSERT INTO legacy VALUES (100, 'r100'), (101, 'r3')")
		p.stop()
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		shard := fmt.Sprintf("- {name: s2, addr: '%s', user: %s, password: '%s'}\nschemas:", servers[2].Addr(), servers[2].User, servers[2].Password)
		if err := os.WriteFile(p.config, []byte(strings.Replace(string(text), "schemas:", shard, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.servers = servers
		p.run()
		c = p.conn()
		p.joined(c, "s2")
		for range 2 {
			want(t, c, "SELECT id FROM legacy WHERE ref = 'r100'", "id", "100")
			want(t, c, "SELECT id FROM legacy WHERE ref = 'r3'", "id", "3", "101")
			p.waitIndex(c, "by_ref")
		}
		wantRoute(t, c, "SELECT id FROM legacy WHERE ref = 'r100'", 1, "index:by_ref")
	})
}
