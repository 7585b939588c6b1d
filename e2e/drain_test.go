package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// TestRollingRestart: of two Shunts before the same shards one serves, and the other
// takes over when it is stopped, in turn. A pool of connections that tries both until
// one accepts sees nothing of it: no statement fails, in a transaction or not.
//
// It runs beside no other test: a client that gets no processor for seconds,
// between its look at a connection and its statement, looks idle to Shunt, and no
// server can tell it that the connection ends.
func TestRollingRestart(t *testing.T) {
	eachFlavourAlone(t, func(t *testing.T, f *flavour) {
		a := start(t, f, setup{tables: []string{"account: {shard_key: id}"}, extra: "drain_timeout: 20s"})
		c := a.db()
		mustExec(t, c, "CREATE TABLE account (id INT PRIMARY KEY, n INT NOT NULL)")
		const rows = 40
		for i := range rows {
			mustExec(t, c, "INSERT INTO account VALUES (?, 0)", i)
		}
		c.Close()
		b := a.beside()
		b.standsBy()
		network := "rolling-" + a.schema
		var turn atomic.Int64
		mysql.RegisterDialContext(network, func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			addrs := []string{a.addr, b.addr}
			// As balancers do: none serves while the one drains.
			for began := time.Now(); ; {
				nc, err := d.DialContext(ctx, "tcp", addrs[turn.Add(1)%2])
				if err == nil || time.Since(began) > 30*time.Second {
					return nc, err
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
		db := open(t, "either:0", "app", "secret", a.schema, func(c *mysql.Config) { c.Net, c.Timeout = network, 40*time.Second })
		db.SetMaxOpenConns(12)
		db.SetMaxIdleConns(12)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var done, failed, added atomic.Int64
		for w := range 8 {
			wg.Go(func() {
				for i := w; ctx.Err() == nil; i++ {
					id := i % rows
					var err error
					switch w % 4 {
					case 0:
						var n int
						err = db.QueryRowContext(t.Context(), "SELECT n FROM account WHERE id = ?", id).Scan(&n)
					case 1:
						if _, err = db.ExecContext(t.Context(), fmt.Sprintf("UPDATE account SET n = n + 1 WHERE id = %d", id)); err == nil {
							added.Add(1)
						}
					case 2:
						if err = rollingTransaction(t.Context(), db, id); err == nil {
							added.Add(2)
						}
					case 3: // long ones, with pauses
						var n int
						err = db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT n + SLEEP(0.2) FROM account WHERE id = %d", id)).Scan(&n)
						time.Sleep(time.Duration(i%3) * 700 * time.Millisecond)
					}
					if done.Add(1); err != nil {
						failed.Add(1)
						t.Errorf("worker %d, statement %d: %v", w, i, err)
					}
				}
			})
		}
		for range 2 {
			for _, p := range [][2]*process{{a, b}, {b, a}} {
				time.Sleep(500 * time.Millisecond)
				began := time.Now()
				if code := p[0].stop(); code != 0 {
					t.Errorf("exit status %d", code)
				}
				drained := time.Now()
				p[1].takesOver()
				t.Logf("drained in %v, taken over %v later", drained.Sub(began).Round(time.Millisecond), time.Since(drained).Round(time.Millisecond))
				p[0].standsBy()
			}
		}
		cancel()
		wg.Wait()
		var sum int64
		if err := db.QueryRowContext(t.Context(), "SELECT SUM(n) FROM account").Scan(&sum); err != nil {
			t.Fatal(err)
		}
		if sum != added.Load() {
			t.Errorf("the rows say %d changes, the clients %d", sum, added.Load())
		}
		t.Logf("%d statements and transactions, %d failed, over 4 restarts", done.Load(), failed.Load())
	})
}

// rollingTransaction moves on a row twice, with a pause in between.
func rollingTransaction(ctx context.Context, db *sql.DB, id int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	for range 2 {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET n = n + 1 WHERE id = %d", id)); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return tx.Commit()
}
