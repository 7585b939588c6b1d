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

// TestRollingRestart: two Shunts serve the same shards and are stopped and
// started in turn. A pool of connections that goes to the other one when one
// doesn't accept sees nothing of it: no statement fails, in a transaction or not.
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
		network := "rolling-" + a.schema
		var turn atomic.Int64
		mysql.RegisterDialContext(network, func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			addrs := []string{a.addr, b.addr}
			first := int(turn.Add(1) % 2)
			nc, err := d.DialContext(ctx, "tcp", addrs[first])
			if err != nil {
				nc, err = d.DialContext(ctx, "tcp", addrs[1-first])
			}
			return nc, err
		})
		db := open(t, "either:0", "app", "secret", a.schema, func(c *mysql.Config) { c.Net = network })
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
			for _, p := range []*process{a, b} {
				time.Sleep(500 * time.Millisecond)
				began := time.Now()
				if code := p.stop(); code != 0 {
					t.Errorf("exit status %d", code)
				}
				t.Logf("drained in %v", time.Since(began).Round(time.Millisecond))
				p.run()
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
