package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// endless is a gathered query that copies little and then runs for hours.
const endless = "SELECT COUNT(*) FROM users a, orders b, users c, orders d, users e, orders f WHERE a.id + b.id + c.id + d.id + e.id + f.id < 0"

// endlessTwice is endless over a copy that is read twice, which can't be a
// TEMPORARY table.
const endlessTwice = "WITH x AS (SELECT id, age FROM users) SELECT COUNT(*) FROM x a, x b, orders c, users d, orders e, users f WHERE a.id + b.age + c.id + d.id + e.id + f.id < 0"

// scratchStatements selects the ids of the statements that run on a process's scratch tables.
func scratchStatements(instance string) string {
	return "SELECT id FROM information_schema.processlist WHERE info LIKE '%g!_" + instance + "!_%' ESCAPE '!' AND id <> CONNECTION_ID()"
}

// onScratch counts the statements that run on this process's scratch tables.
func (g *gathering) onScratch() int {
	g.t.Helper()
	n := 0
	for i := range g.p.servers {
		n += len(mustRows(g.t, onShard(g.t, g.p.servers[i], ""), scratchStatements(g.instance())))
	}
	return n
}

// endsEndless ends what a test that fails leaves running: other tests' DDL would wait for it.
func (g *gathering) endsEndless() {
	statements := scratchStatements(g.instance())
	var pools []*sql.DB
	for _, s := range g.p.servers {
		pools = append(pools, onShard(g.t, s, ""))
	}
	g.t.Cleanup(func() {
		for _, db := range pools {
			left, err := rowsOf(context.Background(), db, statements)
			for _, r := range left {
				_, err = db.ExecContext(context.Background(), "KILL "+r["id"])
			}
			if err != nil {
				g.t.Logf("endless statements may be left: %v", err)
			}
		}
	})
}

// TestGatherCancelled: clients that go away in the middle leave nothing on any
// shard, neither tables nor running statements.
func TestGatherCancelled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		g.endsEndless()
		db := g.p.db()
		var clients sync.WaitGroup
		for i := range 50 {
			clients.Go(func() {
				// Some are cancelled while they copy, some while the query runs.
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+rand.IntN(40)*i)*time.Millisecond)
				defer cancel()
				query := endless
				if i%3 == 0 {
					query = endlessTwice
				}
				if _, err := rowsOf(ctx, db, query); err == nil {
					t.Error("a query of hours ended")
				}
			})
		}
		clients.Wait()
		eventually(t, "nothing is left of cancelled gathers", func() bool {
			return g.onScratch() == 0 && len(g.scratchLeft()) == 0
		})
		g.gathered("SELECT u.id, o.id FROM users u JOIN orders o ON o.user_id = u.id")
	})
}

// TestGatherKilled: a process that dies in the middle of gathers leaves running
// statements, and tables where copies can't be TEMPORARY; the next one on its
// store ends and drops them.
func TestGatherKilled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		g.endsEndless()
		for _, query := range []string{endless, endlessTwice} {
			db := g.p.db()
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() { _, _ = rowsOf(t.Context(), db, query) }) // it is cut off
			}
			eventually(t, "gathers run", func() bool { return g.onScratch() == 4 })
			g.p.kill()
			clients.Wait()
			left := len(g.scratchLeft())
			switch {
			case query == endlessTwice && g.mariaDB:
				// It opens a temporary table twice: what others leave is made here.
				mustExec(t, onShard(t, g.p.servers[0], ""), "CREATE DATABASE IF NOT EXISTS shunt_scratch")
				mustExec(t, onShard(t, g.p.servers[0], ""), "CREATE TABLE shunt_scratch.g_"+g.instance()+"_x_1_0 (a INT)")
			case query == endlessTwice && left == 0:
				t.Fatal("no scratch table survived a kill -9: the test says nothing")
			case query == endless && left > 0:
				t.Errorf("%d copies were no TEMPORARY tables", left)
			}
			if query == endless {
				g.p.run()
				eventually(t, "the next process ends what runs on temporary tables", func() bool { return g.onScratch() == 0 })
			}
		}
		// Somebody else's.
		server := onShard(t, g.p.servers[0], "")
		foreign := fmt.Sprintf("shunt_scratch.g_%s_x_1_0", strings.Repeat("f", 8))
		mustExec(t, server, "CREATE TABLE "+foreign+" (a INT)")
		defer mustExec(t, server, "DROP TABLE "+foreign)
		g.p.run()
		eventually(t, "the next process drops what is left", func() bool {
			return g.onScratch() == 0 && len(g.scratchLeft()) == 0
		})
		g.shunt = g.p.conn()
		g.gathered("SELECT u.id, o.id FROM users u JOIN orders o ON o.user_id = u.id")
		if code := g.p.stop(); code != 0 {
			t.Errorf("stopped with %d", code)
		}
		if len(mustRows(t, server, "SHOW TABLES FROM shunt_scratch LIKE 'g!_ffffffff%'")) == 0 && len(mustRows(t, server, "SELECT 1 FROM information_schema.tables WHERE table_schema = 'shunt_scratch' AND table_name LIKE 'g_ffffffff%'")) == 0 {
			t.Error("another instance's scratch table was dropped")
		}
	})
}

// TestGatherScratchServer has all copies on a server that is no shard.
func TestGatherScratchServer(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		server := f.servers(t)[3]
		g := startGathering(t, f, setup{extra: fmt.Sprintf("scratch: {addr: '%s', user: %s, password: '%s'}", server.Addr(), server.User, server.Password)})
		for _, q := range gatherQueries {
			g.gathered(strings.ReplaceAll(q, "{db}", g.p.schema))
		}
		for _, r := range mustRows(t, g.shunt, "EXPLAIN ROUTE SELECT u.id FROM users u JOIN orders o ON o.user_id = u.id") {
			if strings.Contains(r["Statement"], "copy_") && r["Shards"] != "scratch" {
				t.Errorf("the query runs on %s", r["Shards"])
			}
		}
	})
}
