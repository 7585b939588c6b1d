package e2e

import (
	"fmt"
	"strconv"
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
