package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestDDLLost: the connection breaks, or Shunt dies, while DDL waits on a shard, which
// does it later. What the schema was right after that isn't what it becomes.
func TestDDLLost(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		v := valveTo(t, servers[0])
		p := start(t, f, setup{servers: servers, addrs: []string{v.Addr(), servers[1].Addr()}, tables: []string{"people: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, n INT, KEY (email)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin")
		for i := range 40 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', 0)", i, i))
		}
		p.createIndex(c, "idx_email", "people (email)")
		s0 := p.shard(0)
		waits := func() bool {
			return len(mustRows(t, s0, "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock' AND info NOT LIKE 'SELECT%'")) > 0
		}
		// inFlight has a statement wait on s0 while its connection is lost.
		inFlight := func(sql string, lose func()) {
			t.Helper()
			hold := connOf(t, s0)
			mustExec(t, hold, "BEGIN")
			mustRows(t, hold, "SELECT id FROM people")
			failed := make(chan error, 1)
			db := p.db()
			go func() {
				_, err := db.ExecContext(context.Background(), sql)
				failed <- err
			}()
			eventually(t, "it waits on s0", waits)
			lose()
			if err := <-failed; err == nil {
				t.Fatalf("%s was done", sql)
			}
			c = p.conn()
			time.Sleep(3 * time.Second) // time to build by what is known
			mustExec(t, hold, "ROLLBACK")
			eventually(t, "it doesn't wait any more", func() bool { return !waits() })
		}
		cut := func() { v.Cut() }
		die := func() {
			p.kill()
			p.run()
		}
		for _, lose := range []func(){cut, die} {
			// Keys of the old collation don't find what is equal under the new one.
			inFlight("ALTER TABLE people MODIFY email VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", lose)
			// MariaDB gives it up when its client has gone.
			eventually(t, "s0 has done it", func() bool {
				return f.name == throwaway.MariaDB || len(mustRows(t, s0, "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND column_name = 'email' AND collation_name LIKE '%_ci'")) > 0
			})
			equal := func(what string) {
				t.Helper()
				for _, r := range mustRows(t, s0, "SELECT id FROM people WHERE id < 40") {
					if len(mustRows(t, s0, "SELECT id FROM people WHERE email = 'P"+r["id"]+"@X'")) == 0 {
						continue
					}
					want(t, c, "SELECT id FROM people WHERE email = 'P"+r["id"]+"@X'", "id", r["id"])
				}
				if t.Failed() {
					t.Fatal(what)
				}
			}
			equal("at once")
			time.Sleep(2 * time.Second)
			p.settled(c)
			equal("later")
			// The same statement finishes it.
			mustExec(t, c, "ALTER TABLE people MODIFY email VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
			p.waitIndex(c, "idx_email")
			for i := range 40 {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'P%d@X'", i), "id", fmt.Sprint(i))
			}
			mustExec(t, c, "ALTER TABLE people MODIFY email VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
			p.waitIndex(c, "idx_email")

			// Keys that nobody foresaw.
			inFlight("CREATE TRIGGER changed BEFORE UPDATE ON people FOR EACH ROW SET NEW.email = CONCAT('t', NEW.n, '-', NEW.id)", lose)
			eventually(t, "s0 has done it", func() bool {
				return f.name == throwaway.MariaDB || len(mustRows(t, s0, "SELECT 1 FROM information_schema.triggers WHERE trigger_schema = DATABASE()")) > 0
			})
			ids := mustRows(t, s0, "SELECT id FROM people WHERE id < 40")
			if len(mustRows(t, s0, "SELECT 1 FROM information_schema.triggers WHERE trigger_schema = DATABASE()")) == 0 {
				continue
			}
			change := func(n int) {
				t.Helper()
				for _, r := range ids {
					mustExec(t, c, fmt.Sprintf("UPDATE people SET n = %d WHERE id = %s", n, r["id"]))
					want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 't%d-%s'", n, r["id"]), "id", r["id"])
				}
			}
			change(1)
			time.Sleep(2 * time.Second)
			p.settled(c)
			change(2)
			p.settled(c)
			for _, r := range ids {
				want(t, c, "SELECT id FROM people WHERE email = 't2-"+r["id"]+"'", "id", r["id"])
			}
			mustExec(t, s0, "DROP TRIGGER changed")
			p.restart()
			c = p.conn()
			for _, r := range ids {
				mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'p%s@x', n = 0 WHERE id = %s", r["id"], r["id"]))
			}
			p.settled(c)
		}
	})
}
