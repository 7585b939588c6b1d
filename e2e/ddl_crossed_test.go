package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestDDLBesideCrossedTransactions: two transactions hold the table on a shard
// each, and want it on the other's, while DDL waits for both. No server sees
// the circle; all three must get through.
func TestDDLBesideCrossedTransactions(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 60, setup{})
		// The statement goes to the first shard alone, then to the others.
		var ids []string
		for i := 1; i <= 2; i++ {
			ids = append(ids, mustRows(t, p.shard(i), "SELECT id FROM people")[0]["id"])
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, b := p.conn(), p.conn()
		mustExec(t, a, "BEGIN")
		mustExec(t, b, "BEGIN")
		mustRows(t, a, "SELECT id FROM people WHERE id = "+ids[0])
		mustRows(t, b, "SELECT id FROM people WHERE id = "+ids[1])
		done := make(chan error, 3)
		go func() {
			_, err := c.ExecContext(ctx, "ALTER TABLE people ADD COLUMN more INT")
			done <- err
		}()
		for i := 1; i <= 2; i++ {
			eventually(t, fmt.Sprintf("the ALTER waits on s%d", i), func() bool {
				return len(mustRows(t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock' AND info LIKE 'ALTER TABLE people%'")) > 0
			})
		}
		go func() {
			_, err := rowsOf(ctx, a, "SELECT id FROM people WHERE id = "+ids[1])
			if err == nil {
				_, err = a.ExecContext(ctx, "COMMIT")
			}
			done <- err
		}()
		go func() {
			_, err := rowsOf(ctx, b, "SELECT id FROM people WHERE id = "+ids[0])
			if err == nil {
				_, err = b.ExecContext(ctx, "COMMIT")
			}
			done <- err
		}()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		mustRows(t, c, "SELECT more FROM people WHERE id = 1")
	})
}
