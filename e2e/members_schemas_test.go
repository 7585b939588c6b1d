package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// aLine is of a table in the configuration of these tests, others go before it.
const aLine = "      people: {shard_key: id}\n"

// port ends a member's address, as others tell it.
func port(p *process) string { return p.addr[strings.LastIndex(p.addr, ":"):] }

// wentBy counts how often a member has gone by changed schemas.
func wentBy(p *process) int {
	return strings.Count(p.log.String(), "all members go by the schemas of the changed configuration")
}

// TestMembersSchemasChanged: schemas change while several Shunts serve, for tables that aren't there yet, once all have them.
func TestMembersSchemasChanged(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, city BIGINT)")
		orders := "      orders: {shard_key: user_id}\n" + aLine
		come := func(members []*process, from, to string) {
			t.Helper()
			before := map[*process]int{}
			for _, m := range members {
				before[m] = wentBy(m)
			}
			for n, m := range members {
				m.reload(from, to)
				if n == 0 && len(members) > 1 {
					eventually(t, "it says whom it waits for", func() bool {
						return strings.Contains(m.log.Tail(20), "waits_for") && strings.Contains(m.log.Tail(20), port(members[1]))
					})
				}
			}
			for n, m := range members {
				eventually(t, fmt.Sprintf("member %d goes by what all have", n), func() bool { return wentBy(m) > before[m] })
			}
		}
		come(members, aLine, orders)
		mustExec(t, members[0].db(), "CREATE TABLE orders (id BIGINT, user_id BIGINT, PRIMARY KEY (id, user_id))")
		for i := range 30 {
			mustExec(t, members[i%3].db(), fmt.Sprintf("INSERT INTO orders VALUES (%d, %d)", i, i*7))
		}
		for n, m := range members {
			for i := range 30 {
				one := fmt.Sprintf("SELECT id FROM orders WHERE user_id = %d", i*7)
				want(t, m.db(), one, "id", fmt.Sprint(i))
				if r := routeOf(t, m.db(), one); len(r.shards) != 1 {
					t.Fatalf("member %d: %s goes to %q", n, one, r.shards)
				}
			}
		}

		// A table that is there stays as it is.
		members[1].reload("people: {shard_key: id}", "people: {shard_key: city}")
		if log := members[1].log.Tail(5); !strings.Contains(log, "reload: nothing was changed") || !strings.Contains(log, p.schema+".people") {
			t.Errorf("it says\n%s", log)
		}
		members[1].edit("people: {shard_key: city}", "people: {shard_key: id}")

		// What one takes back doesn't come.
		items := "      items: {shard_key: no}\n" + orders
		members[0].reload(orders, items)
		members[1].reload(orders, items)
		members[0].reload(items, orders)
		members[2].reload(orders, items)
		eventually(t, "the others wait for it", func() bool {
			return strings.Contains(members[1].log.Tail(5), port(members[0])) && strings.Contains(members[2].log.Tail(5), port(members[0]))
		})
		mustExec(t, members[2].db(), "CREATE TABLE items (id BIGINT, no BIGINT, PRIMARY KEY (id, no))")
		for n, m := range members {
			mustExec(t, m.db(), fmt.Sprintf("INSERT INTO items VALUES (%d, %d)", n, 100-n))
			for _, m := range members {
				want(t, m.db(), fmt.Sprintf("SELECT no FROM items WHERE id = %d", n), "no", fmt.Sprint(100-n))
			}
		}
		mustExec(t, p.db(), "DROP TABLE items")
		members[1].reload(items, orders)
		members[2].reload(items, orders)

		// One that has died is in nobody's way, and comes back with what all have.
		members[0].reload(orders, items)
		members[1].reload(orders, items)
		members[2].kill()
		for _, m := range members[:2] {
			eventually(t, "the others go on", func() bool { return wentBy(m) == 2 })
		}
		members[2].run() // with what was so before
		if log := members[2].log.String(); !strings.Contains(log, "this one begins by theirs") || !strings.Contains(log, p.schema+".items") {
			t.Errorf("it says\n%s", log)
		}
		members[2].reload(orders, items)
		mustExec(t, members[2].db(), "CREATE TABLE items (id BIGINT, no BIGINT, PRIMARY KEY (id, no))")
		mustExec(t, members[0].db(), "INSERT INTO items VALUES (1, 2)")
		for _, m := range members {
			if r := routeOf(t, m.db(), "SELECT id FROM items WHERE no = 2"); len(r.shards) != 1 {
				t.Errorf("a read by the shard key goes to %q", r.shards)
			}
			want(t, m.db(), "SELECT id FROM items WHERE no = 2", "id", "1")
		}
	})
}

// TestMembersSchemasRolled: members are restarted with changed schemas, one after the other, as an orchestrator does. Each goes by
// what the others have until the last one is there. One whose change would place a table otherwise doesn't start.
func TestMembersSchemasRolled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, city BIGINT)")
		orders := "      orders: {shard_key: user_id}\n" + aLine
		for n, m := range members {
			m.stop()
			m.edit(aLine, orders)
			m.run()
			if n == 0 { // by what the others have
				mustExec(t, m.db(), "CREATE TABLE early (id BIGINT PRIMARY KEY, n BIGINT)")
				mustExec(t, members[1].db(), "INSERT INTO early VALUES (1, 2)")
				want(t, m.db(), "SELECT n FROM early WHERE id = 1", "n", "2")
				members[2].stop()
				members[2].edit("people: {shard_key: id}", "people: {shard_key: city}")
				members[2].refuses("places the rows of " + p.schema + ".people otherwise")
				members[2].edit("people: {shard_key: city}", "people: {shard_key: id}")
				members[2].run()
			}
		}
		for n, m := range members[:2] { // maybe while the last one was away
			eventually(t, fmt.Sprintf("member %d goes by what all have", n), func() bool { return wentBy(m) == 1 })
		}
		mustExec(t, members[1].db(), "CREATE TABLE orders (id BIGINT, user_id BIGINT, PRIMARY KEY (id, user_id))")
		for n, m := range members {
			mustExec(t, m.db(), fmt.Sprintf("INSERT INTO orders VALUES (%d, 7)", n))
			for _, m := range members {
				if r := routeOf(t, m.db(), "SELECT id FROM orders WHERE user_id = 7"); len(r.shards) != 1 {
					t.Errorf("a read by the shard key goes to %q", r.shards)
				}
				want(t, m.db(), "SELECT COUNT(*) AS n FROM orders WHERE user_id = 7", "n", fmt.Sprint(n+1))
			}
		}
	})
}

// TestMembersSchemasStoodStill: one that stood still until it was taken off the shards comes back to schemas that it doesn't have. It
// serves nothing until it has them.
func TestMembersSchemasStoodStill(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		q.signal(syscall.SIGSTOP)
		line := "      orders: {shard_key: user_id}\n" + aLine
		p.reload(aLine, line)
		eventually(t, "the other one goes by what it has", func() bool { return wentBy(p) == 1 })
		mustExec(t, p.db(), "CREATE TABLE orders (id BIGINT, user_id BIGINT, PRIMARY KEY (id, user_id))")
		q.signal(syscall.SIGCONT)
		eventually(t, "it says why it serves nothing", func() bool {
			status, _, err := q.get("/readyz")
			return err == nil && status == http.StatusServiceUnavailable && strings.Contains(q.log.Tail(20), "members serve by other schemas meanwhile")
		})
		for i := range 20 { // by the other way they would go elsewhere
			if _, err := q.db().ExecContext(t.Context(), fmt.Sprintf("INSERT INTO orders VALUES (%d, %d)", i, i*7)); err == nil {
				t.Fatal("it writes")
			}
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO orders VALUES (%d, %d)", i, i*7))
		}
		mustExec(t, p.db(), "CREATE TABLE more (id BIGINT PRIMARY KEY)") // which waits for nobody
		q.reload(aLine, line)
		eventually(t, "it serves on all shards", func() bool {
			_, err := rowsOf(t.Context(), q.db(), "SELECT COUNT(*) FROM orders")
			return err == nil
		})
		for i := range 20 {
			want(t, q.db(), fmt.Sprintf("SELECT id FROM orders WHERE user_id = %d", i*7), "id", fmt.Sprint(i))
		}
	})
}

// TestMembersSchemasContest: a table is made by any member while others come to place it otherwise. Rows are found by
// all, whichever was first.
func TestMembersSchemasContest(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		dbs := make([]queryer, 3)
		for n, m := range members {
			dbs[n] = m.db()
		}
		came, had := 0, aLine
		for round := range 8 {
			table := fmt.Sprintf("t%d", round)
			line := fmt.Sprintf("      %s: {shard_key: b}\n", table) + aLine
			pause := time.Duration(random.IntN(1200)) * time.Millisecond
			maker := random.IntN(3)
			before := wentBy(members[maker])
			var running sync.WaitGroup
			running.Go(func() {
				time.Sleep(pause) // when it is made is what differs
				if _, err := dbs[maker].ExecContext(t.Context(), "CREATE TABLE "+table+" (a BIGINT, b BIGINT, PRIMARY KEY (a, b))"); err != nil {
					t.Error(err)
				}
			})
			// Rows come as soon as there is a table, by any.
			ctx, stop := context.WithCancel(t.Context())
			written := make([]int, 3)
			for n := range members {
				running.Go(func() {
					for ctx.Err() == nil {
						a := written[n]*3 + n
						if _, err := dbs[n].ExecContext(t.Context(), fmt.Sprintf("INSERT INTO %s VALUES (%d, %d)", table, a, a*7)); err == nil {
							written[n]++
						} else if written[n] > 0 {
							t.Error(err)
							return
						}
					}
				})
			}
			for _, n := range random.Perm(3) {
				members[n].edit(had, line)
				members[n].signal(syscall.SIGHUP)
				time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			}
			had = line
			eventually(t, "all have written", func() bool {
				rows, err := rowsOf(t.Context(), dbs[0], "SELECT COUNT(DISTINCT a % 3) AS n FROM "+table)
				return err == nil && rows[0]["n"] == "3"
			})
			stop()
			running.Wait()
			for m := range members {
				by := routeOf(t, dbs[m], "SELECT a FROM "+table+" WHERE b = 1")
				for n := range members {
					for i := range written[n] {
						a := i*3 + n
						for _, column := range []string{fmt.Sprintf("a = %d", a), fmt.Sprintf("b = %d", a*7)} {
							if rows := mustRows(t, dbs[m], "SELECT a FROM "+table+" WHERE "+column); len(rows) != 1 {
								t.Fatalf("round %d: by member %d %s finds %d rows (b goes to %q)", round, m, column, len(rows), by.shards)
							}
						}
					}
				}
			}
			if wentBy(members[maker]) > before {
				came++
			}
			mustExec(t, dbs[maker], "DROP TABLE "+table)
		}
		t.Logf("in %d of 8 rounds they came to it before the table was made", came)
	})
}
