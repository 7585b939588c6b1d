package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestMembersCheck: what the account lacks for a store of several Shunts is told by check and by
// serve, and with the rights that docs/several.md names all works. Nothing of data_dir's store is
// needed, or made.
func TestMembersCheck(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || !strings.Contains(out, "whether the ports are free is not checked") {
			t.Errorf("beside a member: status %d\n%s", code, out)
		}
		p.stop()
		for _, srv := range p.servers {
			mustExec(t, onShard(t, srv, ""), "DROP DATABASE shunt_store")
		}
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		// docs/install.md's rights.
		account := "several"
		process := "PROCESS, CONNECTION_ADMIN"
		if f.name == throwaway.MariaDB {
			process = "PROCESS, CONNECTION ADMIN"
		}
		grant := func(rights ...string) {
			t.Helper()
			for _, srv := range p.servers {
				for _, right := range rights {
					mustExec(t, onShard(t, srv, ""), fmt.Sprintf("GRANT %s TO %s@'%%'", right, account))
				}
			}
		}
		for _, srv := range p.servers {
			mustExec(t, onShard(t, srv, ""), fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'pw'", account))
			text = []byte(strings.ReplaceAll(string(text), fmt.Sprintf("user: %s, password: '%s'", srv.User, srv.Password), "user: "+account+", password: 'pw'"))
		}
		if err := os.WriteFile(p.config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		grant("ALL ON "+p.schema+".*", process+" ON *.*", "CREATE, CREATE TEMPORARY TABLES, DROP, INSERT, SELECT ON shunt_scratch.*")
		if f.name == throwaway.MySQL {
			for _, table := range []string{"data_lock_waits", "data_locks", "threads"} {
				grant("SELECT ON performance_schema." + table)
			}
		}
		refused := func(rights string) {
			t.Helper()
			told := "the account lacks " + rights + " on shunt_store.*, which several Shunts need (store): GRANT " + rights + " ON shunt_store.* TO it"
			if out, code := shunt(t, "check", "--config", p.config); code != 1 || strings.Count(out, told) != len(p.servers) {
				t.Errorf("check: status %d, want 1 and %q for each shard\n%s", code, told, out)
			}
			p.refuses(told)
		}
		refused("CREATE, SELECT, INSERT, UPDATE, DELETE")
		grant("SELECT, INSERT, UPDATE ON shunt_store.*")
		refused("CREATE, DELETE")
		grant("CREATE, DELETE ON shunt_store.*")
		for _, right := range []string{"CREATE", "SELECT", "INSERT", "UPDATE", "DELETE"} {
			for _, srv := range p.servers {
				mustExec(t, onShard(t, srv, ""), "REVOKE "+right+" ON shunt_store.* FROM "+account+"@'%'")
			}
			if right == "SELECT" { // without which no table can be made like another
				refused("CREATE, SELECT")
			} else {
				refused(right)
			}
			grant(right + " ON shunt_store.*")
		}
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || strings.Contains(out, "note: the account") {
			t.Errorf("with all rights: status %d\n%s", code, out)
		}
		p.run()
		q := p.beside()
		q.run()
		for i := range 20 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		p.createIndex(q.db(), "idx_email", "people(email)")
		mustExec(t, q.db(), "UPDATE people SET email = 'q7@x' WHERE id = 7")
		want(t, p.db(), "SELECT id FROM people WHERE email = 'q7@x'", "id", "7")
		p.settled(p.db())
		mustExec(t, q.db(), "DROP VIRTUAL INDEX idx_email ON people")
		// One that dies is fenced by the other, with these rights.
		q.kill()
		mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_email ON people(email)")
		eventually(t, "the dead one's rows are gone", func() bool { return len(mustRows(t, p.db(), "SHOW MEMBERS")) == 1 })
		p.waitIndex(p.db(), "idx_email")
		want(t, p.db(), "SELECT id FROM people WHERE email = 'q7@x'", "id", "7")
		// A Shunt with a store of its own, whose account doesn't see the member.
		for _, srv := range p.servers {
			mustExec(t, onShard(t, srv, ""), "CREATE USER alone@'%' IDENTIFIED BY 'pw'")
			for _, right := range []string{"ALL ON " + p.schema + ".*", process + " ON *.*", "CREATE, CREATE TEMPORARY TABLES, DROP, INSERT, SELECT ON shunt_scratch.*"} {
				mustExec(t, onShard(t, srv, ""), "GRANT "+right+" TO alone@'%'")
			}
		}
		q.edit("user: "+account, "user: alone")
		q.edit("store: {shards: true}", "store: local")
		const told = "shard s0: several Shunts have, or had, the shard by another account, and this one may not see whether they serve: GRANT SELECT ON shunt_store.*"
		q.refuses(told)
		if out, code := shunt(t, "check", "--config", q.config); code != 1 || !strings.Contains(out, told) {
			t.Errorf("check: status %d\n%s", code, out)
		}
		q.edit("user: alone", "user: "+account) // by which its tables are removed
	})
}
