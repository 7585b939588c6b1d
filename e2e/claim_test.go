package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestClaims: transactions that lock rows by the same keys wait in Shunt, where a circle over shards is seen as it
// closes. MySQL's servers don't tell who waits for whom here (performance_schema is off): a circle that only
// they know would last for innodb_lock_wait_timeout.
func TestClaims(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, code INT NOT NULL, v INT NOT NULL, KEY (code))")
		mustExec(t, p.db(), "CREATE VIRTUAL INDEX by_code ON n (code)")
		p.waitIndex(p.db(), "by_code")
		fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, %d, 0)", id, id) })
		on := idsOn(t, p)
		ctx := t.Context() // what waits in vain ends by the servers' lock timeout, an error in each of these
		t.Run("swaps", func(t *testing.T) { claimedSwaps(ctx, t, p, on[0][0], on[1][0]) })
		t.Run("lists", func(t *testing.T) { claimedLists(ctx, t, p) })
		t.Run("no rows", func(t *testing.T) { claimedNothing(ctx, t, p) })
		t.Run("who has it sleeps", func(t *testing.T) { claimedBySleeper(ctx, t, p, on[0][0]) })
	})
}

// claimedSwaps: rows of different shards that all lock in a random order, by primary key or by an index. Each victim
// is one that Shunt chose, and all the others' changes are there.
func claimedSwaps(ctx context.Context, t *testing.T, p *process, rows ...int) {
	before, _ := p.metric("shunt_deadlocks_total")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const clients, times = 8, 25
	began := time.Now()
	var mu sync.Mutex
	victims := 0
	var all sync.WaitGroup
	for client := range clients {
		conn := p.conn()
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		all.Go(func() {
			for done := 0; done < times; {
				var err error
				mustExec(t, conn, "BEGIN")
				by := []string{"id", "code"}[r.IntN(2)]
				for _, i := range r.Perm(len(rows)) {
					if err == nil {
						_, err = rowsOf(ctx, conn, fmt.Sprintf("SELECT v FROM n WHERE code = %d FOR UPDATE", rows[i]))
					}
					if err == nil {
						_, err = conn.ExecContext(ctx, fmt.Sprintf("UPDATE n SET v = v + 1 WHERE %s = %d", by, rows[i]))
					}
				}
				if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == 1213 {
					mu.Lock()
					victims++
					mu.Unlock()
					continue
				}
				if err == nil {
					_, err = conn.ExecContext(ctx, "COMMIT")
				}
				if err != nil {
					t.Error(err)
					return
				}
				done++
			}
		})
	}
	all.Wait()
	after, _ := p.metric("shunt_deadlocks_total")
	t.Logf("%d swaps in %v, %d victims", clients*times, time.Since(began), victims)
	if victims == 0 || int(after-before) != victims {
		t.Errorf("%d victims, shunt_deadlocks_total has %v more", victims, after-before)
	}
	for _, id := range rows {
		want(t, p.db(), fmt.Sprintf("SELECT v FROM n WHERE id = %d", id), "v", fmt.Sprint(clients*times))
	}
	mustExec(t, p.db(), "UPDATE n SET v = 0")
}

// claimedLists: statements that lock the same rows on several shards, named in any order, wait for each other;
// none fails, unless one of them has kept the others waiting for longer than these have patience: then they ask the shards.
func claimedLists(ctx context.Context, t *testing.T, p *process) {
	before, _ := p.metric("shunt_deadlocks_total")
	const clients, times, patience = 6, 8, 100 * time.Millisecond
	var all sync.WaitGroup
	var longest atomic.Int64 // from BEGIN to COMMIT
	for client := range clients {
		conn := p.conn()
		all.Go(func() {
			for done := 0; done < times; {
				var list []string
				for _, id := range rand.Perm(10) {
					list = append(list, fmt.Sprint(id+1))
				}
				in := " WHERE id IN (" + strings.Join(list, ", ") + ")"
				began := time.Now()
				mustExec(t, conn, "BEGIN")
				var err error
				if client%2 == 0 {
					_, err = rowsOf(ctx, conn, "SELECT id, v FROM n"+in+" ORDER BY v FOR UPDATE")
				}
				if err == nil {
					_, err = conn.ExecContext(ctx, "UPDATE n SET v = v + 1"+in)
				}
				if err == nil {
					_, err = conn.ExecContext(ctx, "COMMIT")
				}
				took := int64(time.Since(began))
				for was := longest.Load(); took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
				}
				var e *mysql.MySQLError
				if err != nil && (!errors.As(err, &e) || e.Number != 1213) {
					t.Error(err)
					return
				}
				if err == nil {
					done++
				}
			}
		})
	}
	all.Wait()
	if after, _ := p.metric("shunt_deadlocks_total"); after != before && time.Duration(longest.Load()) < patience {
		t.Errorf("%v deadlocks where there is none", after-before)
	}
	want(t, p.db(), "SELECT MIN(v) AS least, MAX(v) AS most FROM n WHERE id <= 10", "least most", fmt.Sprintf("%d %[1]d", clients*times))
	mustExec(t, p.db(), "UPDATE n SET v = 0")
}

// claimedNothing: who has found no row has locked none, so that nobody waits for him, nor is in a circle.
func claimedNothing(ctx context.Context, t *testing.T, p *process) {
	a, b := p.conn(), p.conn()
	for _, verb := range []string{"SELECT v FROM n WHERE %s = %d FOR UPDATE", "UPDATE n SET v = 1 WHERE %s = %d", "DELETE FROM n WHERE %s = %d"} {
		for _, by := range []string{"id", "code"} {
			first, second := fmt.Sprintf(verb, by, 1001), fmt.Sprintf(verb, by, 1002)
			began := time.Now()
			for _, c := range []*sql.Conn{a, b} {
				mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
				mustExec(t, c, "BEGIN")
			}
			for _, x := range []struct {
				c     *sql.Conn
				query string
			}{{a, first}, {b, second}, {a, second}, {b, first}} {
				if _, err := rowsOf(ctx, x.c, x.query); err != nil {
					t.Errorf("%s: %v", x.query, err)
				}
			}
			mustExec(t, a, "COMMIT")
			mustExec(t, b, "COMMIT")
			if took := time.Since(began); took > soon {
				t.Errorf("%s: %v", first, took)
			}
		}
	}
}

// claimedBySleeper: others ask the shard soon, and have its timeouts; what ends a statement ends its wait in Shunt too.
func claimedBySleeper(ctx context.Context, t *testing.T, p *process, id int) {
	sleeper, other := p.conn(), p.conn()
	update := fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", id)
	mustExec(t, sleeper, "BEGIN")
	mustExec(t, sleeper, update)

	mustExec(t, other, "SET innodb_lock_wait_timeout = 1")
	mustExec(t, other, "BEGIN")
	_, err := other.ExecContext(ctx, update)
	wantError(t, err, 1205, "Lock wait timeout exceeded")
	mustExec(t, other, "ROLLBACK")

	limit, code := "SET max_execution_time = 20", uint16(3024)
	if p.flavour == throwaway.MariaDB {
		limit, code = "SET max_statement_time = 0.02", 1969
	}
	mustExec(t, other, limit)
	mustExec(t, other, "BEGIN")
	_, err = rowsOf(ctx, other, fmt.Sprintf("SELECT v FROM n WHERE id = %d FOR UPDATE", id))
	wantError(t, err, code, "interrupted")
	mustExec(t, other, "ROLLBACK")
	mustExec(t, other, strings.Replace(limit, "0.02", "0", 1))

	// The sleeper goes, and leaves all to others.
	third := p.conn()
	mustExec(t, third, "SET innodb_lock_wait_timeout = 50")
	mustExec(t, third, "BEGIN")
	done := make(chan error, 1)
	go func() {
		_, err := third.ExecContext(ctx, update)
		done <- err
	}()
	number := mustRows(t, sleeper, "SELECT CONNECTION_ID() AS id")[0]["id"]
	mustExec(t, p.db(), "KILL "+number)
	if err := <-done; err != nil {
		t.Error(err)
	}
	mustExec(t, third, "ROLLBACK")
}
