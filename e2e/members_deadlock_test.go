package e2e

import (
	"context"
	"fmt"
	"testing"
)

// TestMembersDeadlock: a deadlock of transactions of two members, over two shards, ends by
// innodb_lock_wait_timeout with MySQL's error. The statement is undone, as on a server, and the
// transaction goes on.
func TestMembersDeadlock(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		mustExec(t, p.db(), "CREATE TABLE people (id INT PRIMARY KEY, v INT)")
		fill(t, p, "people", 20, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		// Rows of two shards.
		on := map[string]int{}
		for id := range 20 {
			on[routeOf(t, p.db(), fmt.Sprintf("SELECT v FROM people WHERE id = %d", id)).shards[0]] = id
		}
		one, other := on["s0"], on["s1"]
		a, b := p.conn(), q.conn()
		update := func(id int) string { return fmt.Sprintf("UPDATE people SET v = v + 1 WHERE id = %d", id) }
		mustExec(t, a, "SET innodb_lock_wait_timeout = 3")
		mustExec(t, b, "SET innodb_lock_wait_timeout = 30")
		mustExec(t, a, "BEGIN")
		mustExec(t, b, "BEGIN")
		mustExec(t, a, update(one))
		mustExec(t, b, update(other))
		told := later(b, update(one))
		waits(t, told, "the lock of the other member's transaction")
		_, err := a.ExecContext(context.WithoutCancel(t.Context()), update(other))
		wantError(t, err, 1205, "Lock wait timeout exceeded; try restarting transaction")
		want(t, a, fmt.Sprintf("SELECT v FROM people WHERE id = %d", one), "v", "1") // its transaction is as it was
		mustExec(t, a, "ROLLBACK")
		ends(t, told, "the other one")
		mustExec(t, b, "COMMIT")
		want(t, a, "SELECT SUM(v) AS s FROM people", "s", "2")
	})
}
