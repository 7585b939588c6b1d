package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

func TestHealthAndMetrics(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/", "/debug/pprof/"} {
			if status, body, err := p.get(path); err != nil || status != http.StatusOK {
				t.Errorf("%s: %d %v %.100q", path, status, err, body)
			}
		}
		if status, _, err := p.get("/no/such/path"); err != nil || status != http.StatusNotFound {
			t.Errorf("an unknown path: %d %v", status, err)
		}
		mustRows(t, c, "SELECT id FROM people WHERE email = 'p1@x'")
		_, body, err := p.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		// At least these subjects are measured, whatever their exact names.
		for _, subject := range []string{"statement", "shards", "seconds", "entries", "unknown", "jobs", "scan", "connections"} {
			found := false
			for line := range strings.Lines(body) {
				found = found || strings.HasPrefix(line, "shunt_") && strings.Contains(line, subject)
			}
			if !found {
				t.Errorf("no shunt_ metric has %q in its name", subject)
			}
		}
	})
}

// TestDeadShard: a shard that is down fails the statements that need it, with
// its name, and no others.
func TestDeadShard(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p, c := startPeople(t, f, 60, setup{servers: servers})
		at := map[string][]string{}
		for i := range servers {
			for _, r := range mustRows(t, p.shard(i), "SELECT id FROM people") {
				at[fmt.Sprintf("s%d", i)] = append(at[fmt.Sprintf("s%d", i)], r["id"])
			}
		}
		servers[1].Kill()
		for _, id := range append(at["s0"], at["s2"]...) {
			want(t, c, "SELECT id FROM people WHERE id = "+id, "id", id)
			want(t, c, "SELECT id FROM people WHERE email = 'p"+id+"@x'", "id", id)
		}
		for _, q := range []string{
			"SELECT id FROM people WHERE id = " + at["s1"][0],
			"SELECT id FROM people WHERE email = 'p" + at["s1"][1] + "@x'",
			"UPDATE people SET age = 1 WHERE id = " + at["s1"][0],
			"SELECT id FROM people",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			_, err := rowsOf(ctx, c, q)
			cancel()
			var e *mysql.MySQLError
			if !errors.As(err, &e) || !strings.Contains(e.Message, "s1") {
				t.Errorf("%s: %v: want a server error that names s1", q, err)
			}
		}
		down := false
		for _, r := range mustRows(t, c, "SHOW SHARDS") {
			down = down || r["Name"] == "s1" && r["Error"] != "" && r["Error"] != "NULL"
		}
		if !down {
			t.Errorf("SHOW SHARDS says nothing of s1: %v", mustRows(t, c, "SHOW SHARDS"))
		}
		if status, _, err := p.get("/healthz"); err != nil || status != http.StatusOK {
			t.Errorf("/healthz: %d %v", status, err)
		}
		// Shunt starts beside a dead shard if its store knows the tables, or
		// says which one it misses.
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := at["s1"][0]
		eventually(t, "s1 serves again", func() bool {
			rows, err := rowsOf(t.Context(), p.conn(), "SELECT id FROM people WHERE id = "+id)
			return err == nil && len(rows) == 1
		})
		want(t, p.conn(), "SELECT id FROM people WHERE email = 'p"+id+"@x'", "id", id)
	})
}

// TestTerm: SIGTERM lets an open transaction end, refuses new connections, and
// ends with status 0.
func TestTerm(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{extra: "drain_timeout: 20s"})
		idle := p.conn()
		want(t, idle, "SELECT id FROM people WHERE id = 1", "id", "1")
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE people SET email = 'drained@x' WHERE id = 1")
		code := make(chan int, 1)
		go func() { code <- p.stop() }()
		eventually(t, "/readyz fails while draining", func() bool {
			status, _, err := p.get("/readyz")
			return err != nil || status != http.StatusOK
		})
		mustExec(t, c, "COMMIT")
		if got := <-code; got != 0 {
			t.Errorf("exit status %d\n%s", got, p.log.Tail(20))
		}
		p.run()
		want(t, p.db(), "SELECT id FROM people WHERE email = 'drained@x'", "id", "1")
		want(t, p.db(), "SELECT id FROM people WHERE email = 'p1@x'", "id")
		// A graceful stop loses and marks nothing: no lookup is wide.
		wantRoute(t, p.db(), "SELECT id FROM people WHERE email = 'p2@x'", 1, "index:idx_email")
	})
}

// TestTermForces: a transaction that never ends does not hold the stop up.
func TestTermForces(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{extra: "drain_timeout: 1s"})
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE people SET email = 'never@x' WHERE id = 1")
		if code := p.stop(); code != 0 {
			t.Errorf("exit status %d\n%s", code, p.log.Tail(20))
		}
		p.run()
		want(t, p.db(), "SELECT id FROM people WHERE email = 'p1@x'", "id", "1")
	})
}

func TestKill9(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 50, setup{})
		for round := range 3 {
			for i := range 10 {
				mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'k%d-%d@x' WHERE id = %d", round, i, i))
			}
			p.kill()
			p.run()
			c = p.conn()
			for i := range 10 {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'k%d-%d@x'", round, i), "id", fmt.Sprint(i))
			}
			want(t, c, "SELECT id FROM people WHERE email = 'p42@x'", "id", "42")
		}
		// What the kill left behind goes by itself.
		eventually(t, "no stale entries", func() bool {
			for _, r := range mustRows(t, c, "CHECK VIRTUAL INDEX idx_email ON people") {
				if r["Stale"] != "0" {
					return false
				}
			}
			return true
		})
	})
}

// TestSecondProcess: one store, one process.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	p := start(t, flavours[0], setup{})
	text, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "second.yaml")
	changed := strings.NewReplacer(p.addr, freeAddress(t), p.http, freeAddress(t)).Replace(string(text))
	if err := os.WriteFile(second, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := shunt(t, "serve", "--config", second)
	if code != 1 || !strings.Contains(out, "data") {
		t.Errorf("a second process on the same store: status %d\n%s", code, out)
	}
	// The same ports: the message names the address.
	third := filepath.Join(t.TempDir(), "third.yaml")
	changed = strings.ReplaceAll(string(text), "data_dir: ", "data_dir: "+t.TempDir()+"/x")
	if err := os.WriteFile(third, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code = shunt(t, "serve", "--config", third)
	if code != 1 || !strings.Contains(out, "127.0.0.1:") {
		t.Errorf("a port in use: status %d\n%s", code, out)
	}
}

// TestRefusedCount: each refused statement counts, whoever refuses it: by its words, its values, or its table.
func TestRefusedCount(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		mustExec(t, c, "CREATE TABLE measured (a DOUBLE PRIMARY KEY)")
		before, _ := p.metric("shunt_refused_total")
		refused := []string{"HANDLER people OPEN", "UPDATE people SET id = 5 WHERE id = 4", "INSERT INTO measured VALUES (1.5)", "XA START 'x'", "SELECT @x := id FROM people"}
		for _, q := range refused {
			failsWith(t, c, q, 1235, "")
		}
		if n, _ := p.metric("shunt_refused_total"); int(n-before) != len(refused) {
			t.Errorf("%v statements count as refused, want %d", n-before, len(refused))
		}
	})
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shunt.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("users: [{name: a, password: b}]\nshards: [{name: s0, addr: '127.0.0.1:1', user: root}]\nlistn: x\nhttp: y\n")
	for _, command := range []string{"serve", "check"} {
		out, code := shunt(t, command, "--config", file)
		for _, s := range []string{"shunt.yaml:3:1: listn: unknown key (did you mean listen?)", "shunt.yaml:4:7: http:"} {
			if code != 1 || !strings.Contains(out, s) {
				t.Errorf("%s: status %d, want %q in\n%s", command, code, s, out)
			}
		}
	}
	out, code := shunt(t, "serve", "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if code != 1 || !strings.Contains(out, "none.yaml") {
		t.Errorf("status %d\n%s", code, out)
	}
	write("users: [{name: a, password: b}]\nshards: [{name: s0, addr: '127.0.0.1:1', user: root}]\ndata_dir: " + t.TempDir() + "\n")
	out, code = shunt(t, "check", "--config", file)
	if code != 1 || !strings.Contains(out, "shard s0 at 127.0.0.1:1") {
		t.Errorf("check of an unreachable shard: status %d\n%s", code, out)
	}
	if out, code := shunt(t, "version"); code != 0 || !strings.HasPrefix(out, "shunt ") {
		t.Errorf("version: status %d\n%s", code, out)
	}
	if out, code := shunt(t, "no-such-command"); code != 2 {
		t.Errorf("status %d\n%s", code, out)
	}
}

func TestCheckAndExplain(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		out, code := shunt(t, "check", "--config", p.config)
		if code != 0 || !strings.Contains(out, "all 4 shards answer") {
			t.Errorf("check: status %d\n%s", code, out)
		}
		const q = "SELECT id FROM people WHERE email = 'p7@x'"
		out, code = shunt(t, "explain", "--config", p.config, q)
		if code != 0 || !strings.Contains(out, "index:idx_email") {
			t.Errorf("explain beside a running proxy: status %d\n%s", code, out)
		}
		out, code = shunt(t, "explain", "--config", p.config, "--json", q)
		if code != 0 || !strings.HasPrefix(out, "{") || !strings.Contains(out, `"Access":"index:idx_email"`) {
			t.Errorf("explain as JSON: status %d\n%s", code, out)
		}
		out, code = shunt(t, "explain", "--config", p.config, "UPDATE people SET id = id + 1")
		if code != 1 || !strings.Contains(out, "(docs/errors.md#1235)") {
			t.Errorf("explain what is refused: status %d\n%s", code, out)
		}
		if code := p.stop(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		out, code = shunt(t, "explain", "--config", p.config, q)
		if code != 0 || !strings.Contains(out, "index:idx_email") {
			t.Errorf("explain without one: status %d\n%s", code, out)
		}
	})
}

// TestCheckSchema: what serve wouldn't start with, for the shards' tables, check tells as well.
func TestCheckSchema(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		mustExec(t, c, "ALTER TABLE people ADD COLUMN weight FLOAT")
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		check := func(from, to string, status int, told ...string) {
			t.Helper()
			file := filepath.Join(t.TempDir(), "shunt.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			out, code := shunt(t, "check", "--config", file)
			if code != status {
				t.Errorf("%s: status %d, want %d\n%s", to, code, status, out)
			}
			for _, x := range told {
				if !strings.Contains(out, strings.ReplaceAll(x, "SCHEMA", p.schema)) {
					t.Errorf("%s: no %q in\n%s", to, x, out)
				}
			}
		}
		check("people: {shard_key: id}", "people: {shard_key: idd}", 1, `table SCHEMA.people: shard_key: the table has no column "idd"`)
		index := func(table, column string) string {
			return fmt.Sprintf("indexes: [{name: ix, table: %s, columns: [%s]}]\nusers:", strings.ReplaceAll(table, "SCHEMA", p.schema), column)
		}
		check("users:", index("SCHEMA.people", "emall"), 1, "indexes: ix: table people has no column emall")
		check("users:", index("SCHEMA.people", "weight"), 1, "indexes: ix: column weight can't be in a virtual index: type FLOAT")
		check("users:", index("SCHEMA.people", "email"), 0)
		check("users:", index("SCHEMA.persons", "email"), 0, "note: on no shard yet, or mistyped: ", "table SCHEMA.persons\n")
		check("schemas:", "schemas:\n  none_such: {}", 0, "note: on no shard yet, or mistyped: schema none_such")
	})
}

// TestIndexFromConfiguration: made at start if missing.
func TestIndexFromConfiguration(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		mustExec(t, c, "DROP VIRTUAL INDEX idx_email ON people")
		p.stop()
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		text = fmt.Appendf(text, "indexes:\n- {name: idx_configured, table: %s.people, columns: [email], partitions: 2}\n", p.schema)
		if err := os.WriteFile(p.config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p.run()
		c = p.conn()
		p.waitIndex(c, "idx_configured")
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'p3@x'", 1, "index:idx_configured")
		want(t, c, "SELECT id FROM people WHERE email = 'p3@x'", "id", "3")
	})
}

// TestIndexEntriesAPI reads entries as JSON.
func TestIndexEntriesAPI(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		status, body, err := p.get("/v1/indexes/" + p.schema + "/people/idx_email?limit=5")
		if err != nil || status != http.StatusOK || !strings.HasPrefix(strings.TrimSpace(body), "{") && !strings.HasPrefix(strings.TrimSpace(body), "[") {
			t.Errorf("%d %v %.200s", status, err, body)
		}
		if status, _, err := p.get("/v1/indexes/" + p.schema + "/people/nope"); err != nil || status != http.StatusNotFound {
			t.Errorf("an unknown index: %d %v", status, err)
		}
	})
}
