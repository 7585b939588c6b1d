package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// shunt runs a command that is a client of the process, and returns its output and exit status.
func (p *process) shunt(args ...string) (out string, status int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), binary(p.t), args...)
	cmd.Env = append(cmd.Environ(), fmt.Sprintf("SHUNT_DSN=app:secret@tcp(%s)/%s", p.addr, p.schema))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		p.t.Logf("shunt %v: %v: %s", args, err, stderr.String())
	}
	return stdout.String(), cmd.ProcessState.ExitCode()
}

// TestClientCommands: indexes are listed, checked, built anew, and made again from what was exported; top shows what
// is executed.
func TestClientCommands(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}})
		db := p.db()
		dsn := fmt.Sprintf("app:secret@tcp(%s)/%s", p.addr, p.schema)
		mustExec(t, db, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(50), city VARCHAR(20), KEY (email), KEY (city))")
		fill(t, p, "users", 300, func(i int) string { return fmt.Sprintf("(%d, 'u%d@x.de', 'c%d')", i, i, i%9) })
		p.createIndex(db, "by_email", "users(email)")
		p.createIndex(db, "by_city", "users(city, email)")
		table := p.schema + ".users"

		list := func() (names []string) {
			out, status := p.shunt("index", "list", dsn)
			if status != 0 {
				t.Fatal(status, out)
			}
			for line := range strings.Lines(out) {
				var r map[string]string
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r["Schema"] == p.schema {
					names = append(names, r["Name"]+" "+r["Columns"]+" "+r["Status"])
				}
			}
			return names
		}
		if got := strings.Join(list(), ", "); got != "by_city city,email ready, by_email email ready" && got != "by_email email ready, by_city city,email ready" {
			t.Errorf("list: %s", got)
		}
		if out, status := p.shunt("index", "check", dsn, "by_email", table); status != 0 || !strings.Contains(out, `"Missing":"0"`) {
			t.Errorf("check: %d %s", status, out)
		}
		if out, status := p.shunt("index", "rebuild", dsn, "by_email", "users"); status != 0 || !strings.Contains(out, `"Status":"ready"`) {
			t.Errorf("rebuild: %d %s", status, out)
		}
		if _, status := p.shunt("index", "rebuild", dsn, "by_nothing", table); status != 1 {
			t.Errorf("rebuild of none: %d", status)
		}
		exported, status := p.shunt("index", "export", dsn)
		if status != 0 {
			t.Fatal(exported)
		}
		for _, name := range []string{"by_email", "by_city"} {
			mustExec(t, db, "DROP VIRTUAL INDEX "+name+" ON users")
		}
		for line := range strings.Lines(exported) {
			if strings.Contains(line, p.schema) {
				mustExec(t, db, strings.TrimSuffix(strings.TrimSpace(line), ";"))
			}
		}
		p.waitIndex(db, "by_email")
		p.waitIndex(db, "by_city")
		if n := len(list()); n != 2 {
			t.Errorf("%d indexes were made again: %s", n, exported)
		}
		stop := keepBusy(t, db, func(i int) []string {
			return []string{fmt.Sprintf("SELECT id FROM users WHERE email = 'u%d@x.de'", i%300)}
		})
		out, status := p.shunt("top", dsn, "--every", "1s", "--by", "calls")
		stop()
		if first, _, _ := strings.Cut(out, "\n"); status != 0 || !strings.Contains(first, `"Access":"index:by_email"`) || !strings.Contains(first, "email = ?") {
			t.Errorf("top: %d %s", status, out)
		}
		if _, status := p.shunt("top", "app:wrong@tcp("+p.addr+")/"); status != 1 {
			t.Errorf("with a wrong password: %d", status)
		}
		if _, status := p.shunt("top", "no DSN"); status != 2 {
			t.Errorf("without an address: %d", status)
		}
	})
}
