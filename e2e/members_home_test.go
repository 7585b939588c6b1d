package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestHomeOut: while the server with the shared store is away, reads by virtual index go to all
// shards, writes that need new entries are refused before they reach a shard, and everything
// else is served; afterwards all is as before.
func TestHomeOut(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		home := servers[2]
		p := start(t, f, setup{
			servers: servers[:2], tables: []string{"people: {shard_key: id}"},
			extra: fmt.Sprintf("store: {servers: [{addr: '%s', user: %s, password: '%s'}]}", home.Addr(), home.User, home.Password),
		})
		db := p.db()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), age INT)")
		for i := range 20 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', 1)", i, i))
		}
		p.createIndex(db, "idx_email", "people(email)")
		eventually(t, "reads go by the index", func() bool {
			return len(routeOf(t, db, "SELECT id FROM people WHERE email = 'p7@x'").shards) == 1
		})
		for _, away := range []struct {
			name       string
			begin, end func() error
		}{
			{"frozen", func() error { home.Pause(); return nil }, func() error { home.Resume(); return nil }},
			{"dead", func() error { home.Kill(); return nil }, func() error { return home.Start(t.Context()) }},
		} {
			if err := away.begin(); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				want(t, db, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", strconv.Itoa(i))
			}
			_, err := db.ExecContext(t.Context(), "INSERT INTO people VALUES (100, '"+away.name+"@x', 1)") // a value that it hasn't added lately
			wantError(t, err, 1429, home.Addr())
			mustExec(t, db, "UPDATE people SET age = age + 1 WHERE id = 3")
			mustExec(t, db, "DELETE FROM people WHERE id = 100")
			want(t, db, "SELECT COUNT(*) AS n FROM people", "n", "20")
			if err := away.end(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "entries can be made again", func() bool {
				_, err := db.ExecContext(t.Context(), "INSERT INTO people VALUES (100, '"+away.name+"-back@x', 1)")
				return err == nil
			})
			want(t, db, "SELECT id FROM people WHERE email = '"+away.name+"-back@x'", "id", "100")
			mustExec(t, db, "DELETE FROM people WHERE id = 100")
		}
	})
}

// TestAddsBeside: a transaction's statements don't wait for the server that has the index, its own reads and COMMIT do;
// where that server doesn't take what was added, nothing is committed.
func TestAddsBeside(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		home := servers[2]
		p := start(t, f, setup{
			servers: servers[:2], tables: []string{"people: {shard_key: id}"},
			extra: fmt.Sprintf("store: {servers: [{addr: '%s', user: %s, password: '%s'}]}", home.Addr(), home.User, home.Password),
		})
		db, c := p.db(), p.conn()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		p.createIndex(db, "idx_email", "people(email)")
		exact := func() bool {
			return len(routeOf(t, db, "SELECT id FROM people WHERE email = 'a@x'").shards) == 1
		}
		mustExec(t, db, "INSERT INTO people VALUES (1, 'a@x')")
		eventually(t, "reads go by the index", exact)
		insert := func(at string) {
			home.Pause()
			for _, statement := range []string{
				"BEGIN", "INSERT INTO people VALUES (2, 'b@x'), (3, 'c@x')", "INSERT INTO people VALUES (4, 'd@x')", "UPDATE people SET email = 'e@x' WHERE id = 1",
			} {
				mustExec(t, c, strings.ReplaceAll(statement, "@x", at))
			}
		}

		dirty := p.conn()
		mustExec(t, dirty, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
		insert("@x")
		want(t, dirty, "SELECT id FROM people WHERE email = 'e@x'", "id", "1") // goes by no index
		home.Resume()
		want(t, c, "SELECT id FROM people WHERE email = 'e@x'", "id", "1")
		mustExec(t, c, "COMMIT")
		for id, email := range map[string]string{"1": "e", "2": "b", "3": "c", "4": "d"} {
			want(t, db, "SELECT id FROM people WHERE email = '"+email+"@x'", "id", id)
		}
		mustExec(t, db, "DELETE FROM people WHERE id > 1")
		mustExec(t, db, "UPDATE people SET email = 'a@x' WHERE id = 1")
		p.settled(db)

		insert("@y") // none of these is known to be there
		_, err := c.ExecContext(t.Context(), "COMMIT")
		wantError(t, err, 1429, home.Addr())
		want(t, db, "SELECT GROUP_CONCAT(email) AS all_of_them FROM people", "all_of_them", "a@x")
		_, err = c.ExecContext(t.Context(), "INSERT INTO people VALUES (5, 'f@x')")
		wantError(t, err, 1429, home.Addr())
		mustExec(t, c, "ROLLBACK")
		home.Resume()
		eventually(t, "reads go by the index", exact)
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "INSERT INTO people VALUES (6, 'g@x')")
		mustExec(t, c, "COMMIT")
		want(t, db, "SELECT id FROM people WHERE email = 'g@x'", "id", "6")
		p.check()
	})
}
