package e2e

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestResetUnderTableLocks: a session that begins anew has no table locks, as on a
// server; what waited for them goes on, and its connections to the shards are
// everybody's again.
func TestResetUnderTableLocks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, db := startPeople(t, f, 20, setup{tables: []string{"other: {shard_key: id}"}})
		mustExec(t, db, "CREATE TABLE other (id INT PRIMARY KEY)")
		anew := map[string]func(t *testing.T, c *wireConn){
			"COM_RESET_CONNECTION": func(t *testing.T, c *wireConn) { c.reset(t) },
			"COM_CHANGE_USER": func(t *testing.T, c *wireConn) {
				if header, err := c.changeUser("app", "secret", p.schema); header != mysql.OK_HEADER || err != nil {
					t.Fatalf("change user: %#x %v", header, err)
				}
			},
		}
		for name, begin := range anew {
			for _, locks := range []string{"people WRITE", "people READ, other WRITE"} {
				t.Run(name+" "+locks, func(t *testing.T) {
					c, err := dialWire(p.addr, "app", "secret", p.schema)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					c.must(t, "LOCK TABLES "+locks)
					c.must(t, "SELECT COUNT(*) FROM people")
					c.must(t, "SET autocommit = 0")
					changed := "UPDATE people SET age = 77 WHERE id = 5"
					if locks == "people WRITE" {
						c.must(t, changed)
						if o := c.do("SELECT * FROM other", nil, false); o.code != 1100 {
							t.Errorf("a table that isn't locked: %s", o)
						}
					}
					waiting := later(p.conn(), "UPDATE people SET email = 'later@x' WHERE id IN (5, 6, 7, 8)")
					waits(t, waiting, "UPDATE")
					begin(t, c)
					ends(t, waiting, "UPDATE")
					c.must(t, "SELECT COUNT(*) FROM other")
					c.must(t, "INSERT INTO other VALUES (1), (2), (3), (4)")
					c.must(t, "DELETE FROM other")
					// What was not committed is undone.
					want(t, db, "SELECT COUNT(*) AS n FROM people WHERE age = 77", "n", "0")
					if n, _ := p.metric("shunt_pinned_connections", `reason="lock tables"`); n != 0 {
						t.Errorf("%v connections are pinned by LOCK TABLES", n)
					}
				})
			}
		}
	})
}
