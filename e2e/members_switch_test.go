package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
		if !strings.Contains(p.log.String(), "another data_dir was the last to serve these shards") {
			t.Error("it isn't said that another data_dir has what was defined last")
		}
		last := fmt.Sprintf("SELECT COUNT(*) AS n FROM people WHERE email = 'p%d@x'", n)
		want(t, p.db(), last, "n", "1")
		p.settled(p.db())
		want(t, p.db(), last, "n", "1")
	})
}

// TestStoreSwitchedAgain: whichever way the store is switched, and however often on one data_dir, what was defined last is
// there: virtual indexes, and numbers that were handed out, be it to rows that are gone.
func TestStoreSwitchedAgain(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		const local, several = "store: local", "store: {shards: true}"
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: tenant}"}, extra: local})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT AUTO_INCREMENT, tenant INT, email VARCHAR(50), city VARCHAR(50), PRIMARY KEY (tenant, id), KEY (id))")
		highest := 0
		number := func() {
			t.Helper()
			db := p.db()
			for range 3 {
				mustExec(t, db, "INSERT INTO people (tenant, email, city) VALUES (1, 'a@x', 'Rome')")
			}
			ids := flat(mustRows(t, db, "SELECT id FROM people ORDER BY id"), "id")
			first, err := strconv.Atoi(ids[0])
			if err != nil || first <= highest {
				t.Errorf("number %v of a row is not above %d, %v", ids, highest, err)
			}
			if highest, err = strconv.Atoi(ids[2]); err != nil {
				t.Fatal(err)
			}
			mustExec(t, db, "DELETE FROM people")
		}
		defined := func(names ...string) {
			t.Helper()
			var is []string
			for _, r := range mustRows(t, p.db(), "SHOW VIRTUAL INDEXES") {
				is = append(is, r["Name"])
			}
			slices.Sort(is)
			if !slices.Equal(is, names) {
				t.Errorf("virtual indexes are %q, want %q", is, names)
			}
		}
		p.createIndex(p.db(), "idx_1", "people (email)")
		number()
		is, next, names := local, several, []string{"idx_1"}
		for n := 2; n <= 5; n++ {
			p.stop()
			p.edit(is, next)
			is, next = next, is
			p.run()
			defined(names...)
			if n%2 == 0 { // before anything else is written
				p.kill()
				p.run()
				defined(names...)
			}
			number()
			mustExec(t, p.db(), "DROP VIRTUAL INDEX "+names[0]+" ON people")
			names = []string{fmt.Sprintf("idx_%d", n)}
			p.createIndex(p.db(), names[0], "people (city, email)")
		}

		// Another member, which had no part in that, has changed them before the way back.
		if is != local {
			t.Fatal(is)
		}
		p.stop()
		p.edit(local, several)
		p.run()
		other := p.beside()
		other.run()
		p.stop()
		mustExec(t, other.db(), "DROP VIRTUAL INDEX "+names[0]+" ON people")
		other.stop()
		p.edit(several, local)
		p.run()
		defined()
		number()

		// From a data_dir that is new to them.
		p.createIndex(p.db(), "idx_last", "people (email)")
		p.stop()
		p.edit(local, several)
		p.run()
		defined("idx_last")
		p.stop()
		p = other
		p.edit(several, local)
		p.run()
		defined("idx_last")
		number()
	})
}

// TestStoreBehind: a data_dir that served alone long ago has members take nothing over that is old, and says so where it can't
// tell what they have.
func TestStoreBehind(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		homeless := fmt.Sprintf("store: {servers: [{name: h, addr: '%s', user: '%s', password: '%s'}]}", servers[2].Addr(), servers[2].User, servers[2].Password)
		p := start(t, f, setup{servers: servers[:2], tables: []string{"people: {shard_key: id}"}, extra: "store: local"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		p.createIndex(p.db(), "idx_old", "people (email)")
		p.stop()
		p.edit("store: local", homeless)
		p.run()
		mustExec(t, p.db(), "DROP VIRTUAL INDEX idx_old ON people")
		p.createIndex(p.db(), "idx_new", "people (email)")
		p.stop()

		// Alone again, it can't reach what they had.
		p.edit(homeless, "store: local")
		p.run()
		if text := p.log.String(); !strings.Contains(text, "which virtual indexes and placements they made isn't known") {
			t.Errorf("nothing is said of the other store")
		}
		mustExec(t, p.db(), "INSERT INTO people VALUES (1, 'a@x')")
		p.stop()
		p.edit("store: local", homeless)
		p.run()
		p.waitIndex(p.db(), "idx_new")
		want(t, p.db(), "SELECT id FROM people WHERE email = 'a@x'", "id", "1")
	})
}
