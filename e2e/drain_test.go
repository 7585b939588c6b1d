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
	oneFlavourAlone(t, func(t *testing.T, f *flavour) {
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
		l := rollingLoad(t, a.schema, rows, a.addr, b.addr)
		for range 2 {
			for _, p := range [][2]*process{{a, b}, {b, a}} {
				l.goesOn()
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
		l.end()
		t.Logf("%d statements and transactions, %d failed, over 4 restarts", l.done.Load(), l.failed.Load())
	})
}

// rolling is a load over a pool of connections to several Shunts.
type rolling struct {
	t    *testing.T
	db   *sql.DB
	stop context.CancelFunc
	wg   sync.WaitGroup

	done, failed, added atomic.Int64
}

// rollingLoad reads and changes the table account. A connection goes to the next Shunt that accepts it, as balancers
// do; it is waited for where none serves while one drains.
func rollingLoad(t *testing.T, schema string, rows int, addrs ...string) *rolling {
	network := "rolling-" + schema
	var turn atomic.Int64
	mysql.RegisterDialContext(network, func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		for began := time.Now(); ; {
			nc, err := d.DialContext(ctx, "tcp", addrs[turn.Add(1)%int64(len(addrs))])
			if err == nil || time.Since(began) > patience {
				return nc, err
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	l := &rolling{t: t, db: open(t, "either:0", "app", "secret", schema, func(c *mysql.Config) { c.Net, c.Timeout = network, 40*time.Second })}
	l.db.SetMaxOpenConns(12)
	l.db.SetMaxIdleConns(12)
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	t.Cleanup(func() { // where the test has ended before
		cancel()
		l.wg.Wait()
	})
	for w := range 8 {
		l.wg.Go(func() { l.work(ctx, w, rows) })
	}
	return l
}

func (l *rolling) work(ctx context.Context, w, rows int) {
	for i := w; ctx.Err() == nil; i++ {
		id := i % rows
		var err error
		var n int
		switch w % 4 {
		case 0:
			err = l.db.QueryRowContext(l.t.Context(), "SELECT n FROM account WHERE id = ?", id).Scan(&n)
		case 1:
			if _, err = l.db.ExecContext(l.t.Context(), fmt.Sprintf("UPDATE account SET n = n + 1 WHERE id = %d", id)); err == nil {
				l.added.Add(1)
			}
		case 2:
			if err = rollingTransaction(l.t.Context(), l.db, id); err == nil {
				l.added.Add(2)
			}
		case 3: // long ones, with pauses
			err = l.db.QueryRowContext(l.t.Context(), fmt.Sprintf("SELECT n + SLEEP(0.2) FROM account WHERE id = %d", id)).Scan(&n)
			time.Sleep(time.Duration(i%3) * 700 * time.Millisecond)
		}
		if l.done.Add(1); err != nil {
			l.failed.Add(1)
			l.t.Errorf("worker %d, statement %d: %v", w, i, err)
		}
	}
}

// goesOn waits until each worker has had some statements more.
func (l *rolling) goesOn() {
	l.t.Helper()
	enough := l.done.Load() + 200
	eventually(l.t, "the load goes on", func() bool { return l.done.Load() >= enough })
}

// end ends the load, and looks whether all changes are there.
func (l *rolling) end() {
	l.t.Helper()
	l.stop()
	l.wg.Wait()
	var sum int64
	if err := l.db.QueryRowContext(l.t.Context(), "SELECT SUM(n) FROM account").Scan(&sum); err != nil {
		l.t.Fatal(err)
	}
	if sum != l.added.Load() {
		l.t.Errorf("the rows say %d changes, the clients %d", sum, l.added.Load())
	}
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
