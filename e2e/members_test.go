package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMembers: three Shunts over one shared store find each other's rows by virtual index, while
// rows move, an index is made and dropped, and one of the three is killed and comes back.
func TestMembers(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		dbs := []queryer{}
		for _, m := range members {
			dbs = append(dbs, m.db())
		}
		mustExec(t, dbs[0], "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), age INT)")
		for i := range 60 {
			mustExec(t, dbs[i%3], fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', %d)", i, i, i))
		}
		p.createIndex(dbs[1], "idx_email", "people(email)")
		for n, db := range dbs {
			eventually(t, fmt.Sprintf("member %d goes by the index", n), func() bool {
				return len(routeOf(t, db, "SELECT id FROM people WHERE email = 'p7@x'").shards) == 1
			})
			for i := range 60 {
				want(t, db, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", strconv.Itoa(i))
			}
		}
		for _, asks := range []string{"SELECT DISTINCT TABLE_SCHEMA AS s FROM information_schema.TABLES", "SHOW DATABASES"} {
			for _, r := range mustRows(t, dbs[0], asks) {
				for _, name := range r {
					if strings.HasPrefix(name, "shunt_") {
						t.Errorf("%s: clients see %s", asks, name)
					}
				}
			}
		}
		// Rows get other keys by any, and are found by all at once.
		var failed atomic.Bool
		var writers sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		for n := range dbs {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil && !failed.Load(); i++ {
					id := (i*3+n)%20*3 + n // each its own rows
					key := fmt.Sprintf("m%d-%d@x", n, i)
					if _, err := dbs[n].ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET email = '%s' WHERE id = %d", key, id)); err != nil {
						t.Error(err)
						failed.Store(true)
						return
					}
					other := dbs[(n+1+i%2)%3]
					rows, err := rowsOf(t.Context(), other, "SELECT id FROM people WHERE email = '"+key+"'")
					if err != nil || len(rows) != 1 || rows[0]["id"] != strconv.Itoa(id) {
						t.Errorf("member %d doesn't find what %d has written: %v %v", (n+1+i%2)%3, n, rows, err)
						failed.Store(true)
						return
					}
				}
			})
		}
		writers.Wait()
		p.settled(dbs[2])
		eventually(t, "each member tells of all", func() bool {
			for _, db := range dbs {
				joined := map[string]bool{}
				for _, r := range mustRows(t, db, "SHOW MEMBERS") {
					if r["State"] == "joined" && strings.HasPrefix(r["Told"], "s0: ") && strings.Contains(r["Told"], ", s2: ") {
						joined[r["Member"]] = true
					}
				}
				if len(joined) != len(members) {
					return false
				}
			}
			return true
		})
		for _, r := range mustRows(t, dbs[0], "CHECK VIRTUAL INDEX idx_email ON people") {
			if r["Missing"] != "0" {
				t.Errorf("%v", r)
			}
		}
	})
}
