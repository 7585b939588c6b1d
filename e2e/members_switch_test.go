package e2e

import (
	"fmt"
	"testing"
)

// TestStoreSharedAndBack: a Shunt that had its store alone has it with another from a restart on,
// and alone again from a later one: rows stay where they are, and are found by virtual index
// whoever has written in between; numbers are not handed out twice.
func TestStoreSharedAndBack(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"people: {shard_key: id}"}, extra: "store: local"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY AUTO_INCREMENT, email VARCHAR(50))")
		p.createIndex(p.db(), "idx_email", "people(email)")
		n := 0
		insert := func(by *process) {
			t.Helper()
			n++
			mustExec(t, by.db(), fmt.Sprintf("INSERT INTO people (email) VALUES ('p%d@x')", n))
		}
		found := func(by ...*process) {
			t.Helper()
			for _, q := range by {
				for i := 1; i <= n; i++ {
					if rows := mustRows(t, q.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i)); len(rows) != 1 {
						t.Errorf("p%d@x: %v", i, rows)
					}
				}
			}
		}
		routed := func(by *process) {
			t.Helper()
			eventually(t, "the index is built", func() bool {
				return len(routeOf(t, by.db(), "SELECT id FROM people WHERE email = 'p1@x'").shards) == 1
			})
		}
		for range 20 {
			insert(p)
		}
		p.stop()
		p.edit("store: local", "store: {shards: true}")
		p.run()
		other := p.beside()
		other.run()
		for range 10 {
			insert(p)
			insert(other)
		}
		found(p, other)
		routed(p)
		routed(other)
		found(p, other)

		// data_dir has what it had, and knows that others have served since.
		other.stop()
		p.stop()
		p.edit("store: {shards: true}", "store: local")
		p.run()
		insert(p)
		found(p)
		p.settled(p.db())
		routed(p)
		found(p)
		mustExec(t, p.db(), "UPDATE people SET email = CONCAT('q', id, '@x') WHERE id < 5")

		// And so does the shared store.
		p.stop()
		p.edit("store: local", "store: {shards: true}")
		p.run()
		want(t, p.db(), "SELECT id FROM people WHERE email = 'q3@x'", "id", "3")
		p.settled(p.db())
		routed(p)
		want(t, p.db(), "SELECT id FROM people WHERE email = 'q3@x'", "id", "3")

		// One with an empty data_dir begins with what the shared store has, which knows of it.
		p.stop()
		other.edit("store: {shards: true}", "store: local")
		other.run()
		want(t, other.db(), "SELECT id FROM people WHERE email = 'q3@x'", "id", "3")
		routed(other)
		want(t, other.db(), "SELECT id FROM people WHERE email = 'q3@x'", "id", "3")
		insert(other)
		other.stop()
		p.run()
		last := fmt.Sprintf("SELECT COUNT(*) AS n FROM people WHERE email = 'p%d@x'", n)
		want(t, p.db(), last, "n", "1")
		p.settled(p.db())
		want(t, p.db(), last, "n", "1")
	})
}
