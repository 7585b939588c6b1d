package e2e

import (
	"database/sql"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestGatherLocks: a locking read that is gathered locks the rows that it reads
// on their shards, until the transaction's end.
func TestGatherLocks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		other := g.p.conn()
		mustExec(t, other, "SET innodb_lock_wait_timeout = 1")
		// By the boss's country: no shard has all pairs.
		const pairs = "SELECT u.id, COUNT(DISTINCT o.tag) AS n FROM users u JOIN orders o ON o.user_id = u.age WHERE u.id < 30 GROUP BY u.id ORDER BY u.id"
		wantRoute(t, g.shunt, pairs+" FOR UPDATE", 3, "scatter")
		// Orders that the answer is made of; others need not be locked.
		orders := flat(mustRows(t, g.plain, "SELECT o.id FROM users u JOIN orders o ON o.user_id = u.age WHERE u.id < 30 ORDER BY 1 LIMIT 2"), "id")
		if len(orders) != 2 {
			t.Fatal("no orders to lock")
		}
		locked := func(want bool) {
			t.Helper()
			for _, write := range []string{
				"UPDATE users SET country = 'DE' WHERE id = 11", "UPDATE users SET country = 'DE' WHERE id = 12", "UPDATE users SET country = 'DE' WHERE id = 13",
				"UPDATE orders SET tag = 'x' WHERE id = " + orders[0], "UPDATE orders SET tag = 'x' WHERE id = " + orders[1],
			} {
				_, err := other.ExecContext(t.Context(), write)
				switch {
				case want:
					wantError(t, err, 1205, "")
				case err != nil:
					t.Errorf("%s: %v", write, err)
				}
			}
		}
		for _, clause := range []string{" FOR UPDATE", " LOCK IN SHARE MODE"} {
			mustExec(t, g.shunt, "BEGIN")
			mustExec(t, g.plain, "BEGIN")
			g.same(pairs + clause)
			locked(true)
			// A locking read of what another session has locked waits; NOWAIT doesn't.
			wantError(t, fail(t, other, pairs+" FOR UPDATE"), 1205, "")
			nowait := uint16(3572)
			if g.mariaDB {
				nowait = 1205
			}
			wantError(t, fail(t, other, pairs+" FOR UPDATE NOWAIT"), nowait, "")
			if rows := mustRows(t, other, pairs+" FOR UPDATE SKIP LOCKED"); len(rows) != 0 {
				t.Errorf("SKIP LOCKED answers %d rows that are locked", len(rows))
			}
			mustExec(t, g.shunt, "COMMIT")
			mustExec(t, g.plain, "COMMIT")
			locked(false)
			mustExec(t, g.plain, "UPDATE users SET country = 'DE' WHERE id IN (11, 12, 13)")
			mustExec(t, g.plain, "UPDATE orders SET tag = 'x' WHERE id IN ("+orders[0]+", "+orders[1]+")")
		}
		// Its own transaction ends with the statement, and what another has
		// committed since the snapshot began is seen.
		g.same(pairs + " FOR UPDATE")
		locked(false)
		overSnapshots(t, f, g.shunt)
		mustExec(t, g.shunt, "BEGIN")
		mustRows(t, g.shunt, "SELECT COUNT(*) FROM users")
		mustExec(t, other, "UPDATE users SET age = 77 WHERE id = 5")
		mustExec(t, g.plain, "UPDATE users SET age = 77 WHERE id = 5")
		const ages = "SELECT age, RANK() OVER (ORDER BY age) FROM users WHERE id IN (4, 5, 6) ORDER BY age"
		g.same(ages + " FOR UPDATE")
		mustExec(t, g.shunt, "ROLLBACK")
		// The rows of a subquery are not locked.
		mustExec(t, g.shunt, "BEGIN")
		mustRows(t, g.shunt, "SELECT COUNT(DISTINCT country) FROM users WHERE age IN (SELECT user_id FROM orders) FOR UPDATE")
		mustExec(t, other, "UPDATE orders SET tag = 'y' WHERE id = 21")
		mustExec(t, g.shunt, "COMMIT")
		if g.mariaDB {
			wantError(t, fail(t, g.shunt, pairs+" FOR UPDATE OF u"), 1064, "")
			return
		}
		// Only those of the tables that OF names.
		mustExec(t, g.plain, "UPDATE orders SET tag = 'y' WHERE id = 21")
		mustExec(t, g.shunt, "BEGIN")
		g.same(pairs + " FOR UPDATE OF u")
		mustExec(t, other, "UPDATE orders SET tag = 'z' WHERE id = "+orders[0])
		wantError(t, fail(t, other, "UPDATE users SET country = 'AT' WHERE id = 11"), 1205, "")
		if rows := mustRows(t, other, pairs+" FOR UPDATE OF u SKIP LOCKED"); len(rows) != 0 {
			t.Errorf("SKIP LOCKED answers %d rows that are locked", len(rows))
		}
		mustExec(t, g.shunt, "COMMIT")
	})
}

// overSnapshots lets a session's transactions lock rows that have changed since their
// snapshot, which is an error (1020) on MariaDB from 11.6.2 on.
func overSnapshots(t *testing.T, f *flavour, c *sql.Conn) {
	t.Helper()
	if f.name == throwaway.MariaDB {
		mustExec(t, c, "SET innodb_snapshot_isolation = OFF")
	}
}
