package e2e

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestMemberDead: a member that has died is gone from SHOW MEMBERS though nothing waits for it, and
// DDL takes its turn over without patience, whatever it had sent.
func TestMemberDead(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		one, two := p.db(), q.db()
		mustExec(t, one, "CREATE TABLE people (id BIGINT PRIMARY KEY, a INT)")
		mustExec(t, two, "INSERT INTO people VALUES (1, 1), (2, 2), (3, 3)")
		alone := func() bool {
			rows, err := rowsOf(t.Context(), one, "SHOW MEMBERS")
			return err == nil && len(rows) == 1
		}
		within := func(limit time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			t.Cleanup(cancel)
			return ctx
		}
		const impatience = 25 * time.Second // a member that may live is waited for half a minute

		q.kill()
		began := time.Now()
		eventually(t, "the dead one is gone", alone)
		if took := time.Since(began); took > impatience {
			t.Errorf("after %v", took)
		}

		q.run()
		hold := connOf(t, p.shard(1))
		mustExec(t, hold, "BEGIN")
		mustExec(t, hold, "SELECT * FROM people")
		const ddl = "ALTER TABLE people ADD COLUMN b INT"
		sent := make(chan error, 1)
		go func() {
			_, err := q.db().ExecContext(context.WithoutCancel(t.Context()), ddl)
			sent <- err
		}()
		eventually(t, "s1 holds it up", func() bool {
			return len(mustRows(t, hold, "SELECT id FROM information_schema.processlist WHERE info LIKE ? AND id <> CONNECTION_ID()", ddl[:20]+"%")) > 0
		})
		r := p.beside()
		r.run()
		if text := r.shardError("s1"); text != "" || strings.Contains(r.log.String(), "DDL is not known to be done") {
			t.Errorf("one that starts meanwhile tells of it: %s", text)
		}
		r.stop()
		q.kill()
		if <-sent == nil {
			t.Error("it was answered")
		}
		// It had the turn, and s1 holds up what it had sent.
		if _, err := one.ExecContext(within(impatience), "CREATE TABLE other (id BIGINT PRIMARY KEY, a INT)"); err != nil {
			t.Error(err)
		}
		mustExec(t, hold, "ROLLBACK")
		if _, err := one.ExecContext(t.Context(), ddl); err != nil { // one shard has the column
			t.Error(err)
		}
		want(t, one, "SELECT COUNT(b) AS n FROM people", "n", "0")
		eventually(t, "the dead one is gone", alone)
	})
}
