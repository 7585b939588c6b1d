package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestCheckRights: what the shards' account lacks is told before a statement
// fails for it.
func TestCheckRights(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		mustExec(t, p.db(), "CREATE TABLE users (a INT PRIMARY KEY)")
		// Tables of other tests, on the same servers, may be noted. These servers write no binary log.
		noted := func(out string) bool {
			for line := range strings.Lines(out) {
				if strings.Contains(line, "note:") && !strings.Contains(line, "start it with --log-bin") && (!strings.Contains(line, ": table ") || strings.Contains(line, p.schema+".")) {
					return true
				}
			}
			return false
		}
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || noted(out) {
			t.Errorf("all rights: status %d\n%s", code, out)
		}
		process := "PROCESS, CONNECTION_ADMIN"
		if f.name == throwaway.MariaDB {
			process = "PROCESS, CONNECTION ADMIN"
		}
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		account := p.schema + "_r"
		for _, srv := range p.servers {
			db := onShard(t, srv, "")
			mustExec(t, db, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'pw'", account))
			t.Cleanup(func() { _, _ = db.Exec("DROP USER " + account + "@'%'") })
			mustExec(t, db, fmt.Sprintf("GRANT SELECT ON %s.* TO %s@'%%'", p.schema, account))
			text = []byte(strings.ReplaceAll(string(text), fmt.Sprintf("user: %s, password: '%s'", srv.User, srv.Password), "user: "+account+", password: 'pw'"))
		}
		if err := os.WriteFile(p.config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := shunt(t, "check", "--config", p.config)
		if waits := strings.Count(out, "lacks SELECT on performance_schema.data_lock_waits"); (waits > 0) != (f.name == throwaway.MySQL) {
			t.Errorf("data_lock_waits is noted %d times:\n%s", waits, out)
		}
		for _, told := range []string{"lacks CREATE, CREATE TEMPORARY TABLES, DROP, INSERT, SELECT on shunt_scratch.*", "lacks PROCESS, CONNECTION_ADMIN"} {
			if n := strings.Count(out, told); code != 0 || n != len(p.servers) {
				t.Errorf("status %d, %q %d times:\n%s", code, told, n, out)
			}
		}
		// docs/install.md's are all.
		for _, srv := range p.servers {
			db := onShard(t, srv, "")
			mustExec(t, db, fmt.Sprintf("GRANT %s ON *.* TO %s@'%%'", process, account))
			if f.name == throwaway.MySQL {
				mustExec(t, db, fmt.Sprintf("GRANT SELECT ON performance_schema.data_lock_waits TO %s@'%%'", account))
				if out, _ := shunt(t, "check", "--config", p.config); !strings.Contains(out, "lacks SELECT on performance_schema.data_locks or threads") {
					t.Errorf("what is missing beside data_lock_waits isn't noted:\n%s", out)
				}
				mustExec(t, db, fmt.Sprintf("GRANT SELECT ON performance_schema.data_locks TO %s@'%%'", account))
				mustExec(t, db, fmt.Sprintf("GRANT SELECT ON performance_schema.threads TO %s@'%%'", account))
			}
			mustExec(t, db, fmt.Sprintf("GRANT CREATE, CREATE TEMPORARY TABLES, DROP, INSERT, SELECT ON shunt_scratch.* TO %s@'%%'", account))
		}
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || noted(out) {
			t.Errorf("the rights that docs/install.md names: status %d\n%s", code, out)
		}
	})
}
