package e2e

import (
	"database/sql"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// TestReadLock: under FLUSH TABLES WITH READ LOCK nothing is written or committed on any shard, so
// snapshots that begin meanwhile are of one moment, as mydumper's threads want them.
func TestReadLock(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"accounts: {shard_key: id}", "other: {placement: reference}"}})
		holder, open, begun := p.conn(), p.conn(), p.conn()
		mustExec(t, holder, "CREATE TABLE accounts (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)")
		mustExec(t, holder, "CREATE TABLE other (id INT NOT NULL PRIMARY KEY)")
		mustExec(t, holder, "INSERT INTO accounts VALUES (1, 100), (2, 100), (3, 100), (4, 100), (5, 100), (6, 100), (7, 100), (8, 100)")

		t.Run("snapshots", func(t *testing.T) {
			stop := make(chan struct{})
			var group errgroup.Group
			for n := range 3 { // who moves amounts between shards
				c := p.conn()
				group.Go(func() error {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return nil
						default:
						}
						from, to := (i+n)%8+1, (i+n+3)%8+1
						if from > to {
							from, to = to, from // no circle of waits
						}
						for _, statement := range []string{
							"BEGIN", fmt.Sprintf("UPDATE accounts SET n = n - 1 WHERE id = %d", from),
							fmt.Sprintf("UPDATE accounts SET n = n + 1 WHERE id = %d", to), "COMMIT",
						} {
							if _, err := c.ExecContext(t.Context(), statement); err != nil {
								return fmt.Errorf("%s: %w", statement, err)
							}
						}
					}
				})
			}
			readers := []*sql.Conn{p.conn(), p.conn(), p.conn()}
			for range 10 {
				mustExec(t, holder, "FLUSH TABLES WITH READ LOCK")
				for _, c := range readers {
					mustExec(t, c, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
					mustExec(t, c, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
				}
				mustExec(t, holder, "UNLOCK TABLES")
				var all []string
				for _, c := range readers {
					want(t, c, "SELECT SUM(n) AS n FROM accounts", "n", "800")
					all = append(all, fmt.Sprint(mustRows(t, c, "SELECT * FROM accounts ORDER BY id")))
					mustExec(t, c, "COMMIT")
				}
				if all[0] != all[1] || all[0] != all[2] {
					t.Errorf("snapshots of different moments: %q", all)
				}
			}
			close(stop)
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
		})

		t.Run("who waits", func(t *testing.T) {
			mustExec(t, open, "BEGIN")
			mustExec(t, open, "UPDATE accounts SET n = 1 WHERE id = 1")
			mustExec(t, begun, "BEGIN")
			mustExec(t, begun, "UPDATE accounts SET n = 7 WHERE id = 7")
			mustExec(t, holder, "FLUSH TABLES WITH READ LOCK")
			mustExec(t, holder, "FLUSH LOCAL TABLES WITH READ LOCK") // once more is the same
			for _, statement := range []string{"UPDATE accounts SET n = 5 WHERE id = 2", "INSERT INTO other VALUES (1)", "CREATE TABLE third (id INT NOT NULL PRIMARY KEY)", "DELETE FROM accounts"} {
				_, err := holder.ExecContext(t.Context(), statement)
				wantError(t, err, 1223, "conflicting read lock")
			}
			mustExec(t, holder, "CREATE TEMPORARY TABLE mine (id INT)")
			mustExec(t, holder, "INSERT INTO mine VALUES (1)")
			mustExec(t, holder, "DROP TEMPORARY TABLE mine")
			// What waits is ended by lock_wait_timeout and KILL QUERY, or goes on when the lock is released.
			limited, killed := p.conn(), p.conn()
			mustExec(t, limited, "SET lock_wait_timeout = 1")
			_, err := limited.ExecContext(t.Context(), "DELETE FROM accounts WHERE id = 8")
			wantError(t, err, 1205, "Lock wait timeout")
			var group errgroup.Group
			waits := []*sql.Conn{open, p.conn(), p.conn(), killed, begun}
			results := make([]error, len(waits))
			for i, statement := range []string{"COMMIT", "UPDATE accounts SET n = 2 WHERE id = 2", "ALTER TABLE other ADD COLUMN v INT", "UPDATE accounts SET n = 9 WHERE id = 3", "UPDATE accounts SET n = 6 WHERE id = 6"} {
				group.Go(func() error {
					_, results[i] = waits[i].ExecContext(t.Context(), statement)
					if waits[i] == begun { // what the ALTER TABLE waits for
						_, err := begun.ExecContext(t.Context(), "COMMIT")
						return err
					}
					return nil
				})
			}
			waiting := func(n int) {
				t.Helper()
				eventually(t, fmt.Sprintf("%d statements wait", n), func() bool {
					return fmt.Sprint(mustRows(t, holder, "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE command = 'Query' AND id <> CONNECTION_ID()")[0]["n"]) == fmt.Sprint(n)
				})
			}
			waiting(5)
			var id int
			row := mustRows(t, holder, "SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE accounts SET n = 9%'")
			if _, err := fmt.Sscan(fmt.Sprint(row[0]["id"]), &id); err != nil {
				t.Fatal(err)
			}
			mustExec(t, holder, fmt.Sprintf("KILL QUERY %d", id))
			waiting(4)
			mustExec(t, holder, "START TRANSACTION WITH CONSISTENT SNAPSHOT") // doesn't release it
			waiting(4)
			mustExec(t, holder, "UNLOCK TABLES")
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			wantError(t, results[3], 1317, "interrupted")
			for _, i := range []int{0, 1, 2, 4} {
				if results[i] != nil {
					t.Errorf("statement %d: %v", i, results[i])
				}
			}
			mustExec(t, holder, "COMMIT")
			want(t, holder, "SELECT id, n FROM accounts WHERE id < 3 ORDER BY id", "id n", "1 1", "2 2")
		})

		t.Run("tables locked for writing", func(t *testing.T) {
			mustExec(t, open, "LOCK TABLES accounts WRITE")
			mustExec(t, holder, "SET lock_wait_timeout = 1")
			_, err := holder.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
			wantError(t, err, 1205, "Lock wait timeout")
			mustExec(t, open, "UPDATE accounts SET n = n + 0 WHERE id = 1")
			mustExec(t, open, "UNLOCK TABLES")
			mustExec(t, holder, "FLUSH TABLES WITH READ LOCK")
			_, err = holder.ExecContext(t.Context(), "LOCK TABLES accounts WRITE")
			wantError(t, err, 1223, "conflicting read lock")
			mustExec(t, holder, "UNLOCK TABLES")
			mustExec(t, holder, "LOCK TABLES accounts READ")
			_, err = holder.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
			wantError(t, err, 1192, "")
			mustExec(t, holder, "UNLOCK TABLES")
			mustExec(t, holder, "SET lock_wait_timeout = DEFAULT")
		})

		t.Run("ends with its session", func(t *testing.T) {
			gone := p.conn()
			mustExec(t, gone, "FLUSH TABLES WITH READ LOCK")
			var id int64
			if err := gone.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			mustExec(t, holder, fmt.Sprintf("KILL %d", id))
			mustExec(t, open, "UPDATE accounts SET n = 3 WHERE id = 3")
			// A transaction that waits for its next statement or its COMMIT holds up no statement that the
			// lock waits for, and what comes new waits.
			mustExec(t, open, "BEGIN")
			mustExec(t, open, "UPDATE accounts SET n = 4 WHERE id = 4")
			var group errgroup.Group
			writer := p.conn()
			group.Go(func() error {
				_, err := writer.ExecContext(t.Context(), "UPDATE accounts SET n = n + 1 WHERE id = 4")
				return err
			})
			runs := func(statement string) {
				t.Helper()
				eventually(t, statement+" runs", func() bool {
					return len(mustRows(t, open, "SELECT id FROM information_schema.processlist WHERE info LIKE '"+statement+"%'")) > 0
				})
			}
			runs("UPDATE accounts SET n = n + 1")
			group.Go(func() error {
				_, err := holder.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
				return err
			})
			runs("FLUSH TABLES")
			mustExec(t, open, "UPDATE accounts SET n = 4 WHERE id = 5")
			fresh := make(chan error, 1)
			go func() {
				_, err := p.db().ExecContext(t.Context(), "UPDATE accounts SET n = n + 2 WHERE id = 5")
				fresh <- err
			}()
			runs("UPDATE accounts SET n = n + 2")
			mustExec(t, open, "COMMIT")
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			want(t, holder, "SELECT id, n FROM accounts WHERE id IN (4, 5) ORDER BY id", "id n", "4 5", "5 4")
			mustExec(t, holder, "UNLOCK TABLES")
			if err := <-fresh; err != nil {
				t.Fatal(err)
			}
			want(t, holder, "SELECT n FROM accounts WHERE id = 5", "n", "6")
		})
		p.check()
	})
}
