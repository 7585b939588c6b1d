package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

const (
	shardTimeout = 3 * time.Second
	// slack is for a machine with more to do than it can.
	slack = soon
	// returnTime is how soon after its return a shard serves, and no statement fails any more.
	returnTime = 10 * time.Second
)

// outage is a way in which a shard fails.
type outage struct {
	name       string
	begin, end func(t *testing.T, s *throwaway.Server, v *throwaway.Valve)
}

var outages = []outage{
	{
		"killed",
		func(_ *testing.T, s *throwaway.Server, _ *throwaway.Valve) { s.Kill() },
		func(t *testing.T, s *throwaway.Server, _ *throwaway.Valve) {
			if err := s.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		"frozen",
		func(_ *testing.T, s *throwaway.Server, _ *throwaway.Valve) { s.Pause() },
		func(_ *testing.T, s *throwaway.Server, _ *throwaway.Valve) { s.Resume() },
	},
	{
		"cut off",
		func(_ *testing.T, _ *throwaway.Server, v *throwaway.Valve) { v.Shut() },
		func(_ *testing.T, _ *throwaway.Server, v *throwaway.Valve) { v.Open() },
	},
}

// sample is one statement, or transaction, of the load.
type sample struct {
	began time.Time
	took  time.Duration
	err   error
}

// load runs statements that need one shard each, until it is ended.
type load struct {
	shard   int
	kind    string
	mu      sync.Mutex
	samples []sample
}

func (l *load) run(ctx context.Context, db *sql.DB, ids []string, do func(context.Context, *sql.Conn, string) error) {
	for ctx.Err() == nil {
		began := time.Now()
		err := func() error {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return do(ctx, c, ids[rand.IntN(len(ids))])
		}()
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.samples = append(l.samples, sample{began, time.Since(began), err})
		l.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

// between are the samples that began in a span of time.
func (l *load) between(from, to time.Time) (out []sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.samples {
		if !s.began.Before(from) && s.began.Before(to) {
			out = append(out, s)
		}
	}
	return out
}

func p99(samples []sample) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	all := make([]time.Duration, len(samples))
	for i, s := range samples {
		all[i] = s.took
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

var statementsOfLoad = map[string]func(context.Context, *sql.Conn, string) error{
	"read by key": func(ctx context.Context, c *sql.Conn, id string) error {
		return oneRow(rowsOf(ctx, c, "SELECT id FROM people WHERE id = "+id))
	},
	"read by index": func(ctx context.Context, c *sql.Conn, id string) error {
		return oneRow(rowsOf(ctx, c, "SELECT id FROM people WHERE email = ?", "p"+id+"@x"))
	},
	"write": func(ctx context.Context, c *sql.Conn, id string) error {
		_, err := c.ExecContext(ctx, "UPDATE people SET age = age + 1 WHERE id = "+id)
		return err
	},
	"transaction": func(ctx context.Context, c *sql.Conn, id string) error {
		for _, q := range []string{"BEGIN", "UPDATE people SET city = 'Rome' WHERE id = " + id, "UPDATE people SET city = 'Oslo' WHERE id = " + id, "COMMIT"} {
			if _, err := c.ExecContext(ctx, q); err != nil {
				if _, rollbackErr := c.ExecContext(ctx, "ROLLBACK"); rollbackErr != nil {
					return fmt.Errorf("ROLLBACK after %w: %w", err, rollbackErr)
				}
				return err
			}
		}
		return nil
	},
	"read of a reference table": func(ctx context.Context, c *sql.Conn, _ string) error {
		return oneRow(rowsOf(ctx, c, "SELECT code FROM outage_country WHERE code = 'it'"))
	},
}

func oneRow(rows []row, err error) error {
	if err == nil && len(rows) != 1 {
		return fmt.Errorf("%d rows, want 1: a row was missed", len(rows))
	}
	return err
}

// TestOutages: under load each shard in turn is killed, frozen and cut off. What
// needs another goes on, what needs it fails within shard_timeout with its name,
// and all is well again soon after its return. SHUNT_E2E_OUTAGES=long has every
// shard fail in every way, for longer.
func TestOutages(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		const n = 3
		lasts, settle := shardTimeout+2*time.Second, 2*time.Second
		long := os.Getenv("SHUNT_E2E_OUTAGES") == "long"
		if long {
			lasts, settle = 20*time.Second, 15*time.Second
		}
		servers := f.own(t, n)
		valves, addrs := make([]*throwaway.Valve, n), make([]string, n)
		for i, s := range servers {
			v := valveTo(t, s)
			valves[i], addrs[i] = v, v.Addr()
		}
		p, c := startPeople(t, f, 300, setup{
			servers: servers, addrs: addrs, tables: []string{"outage_country: {placement: reference}"},
			extra: fmt.Sprintf("shard_timeout: %s", shardTimeout),
		})
		mustExec(t, c, "CREATE TABLE outage_country (code CHAR(2) PRIMARY KEY)")
		mustExec(t, c, "INSERT INTO outage_country VALUES ('it')")
		ids := make([][]string, n)
		for i := range n {
			for _, r := range mustRows(t, p.shard(i), "SELECT id FROM people") {
				ids[i] = append(ids[i], r["id"])
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var loads []*load
		run := func(shard int, kind string, ids []string) {
			l := &load{shard: shard, kind: kind}
			loads = append(loads, l)
			db := p.db()
			wg.Go(func() { l.run(ctx, db, ids, statementsOfLoad[kind]) })
		}
		for i := range n {
			for _, kind := range []string{"read by key", "read by index", "write", "transaction"} {
				run(i, kind, ids[i])
			}
		}
		run(-1, "read of a reference table", ids[0])
		time.Sleep(settle)

		for i := range n {
			for k, o := range outages {
				if long || k == i {
					suffer(t, f, p, o, i, ids, loads, lasts, settle, servers[i], valves[i])
				}
			}
		}
		cancel()
		wg.Wait()
		if log := p.log.String(); strings.Contains(log, "MISS") {
			t.Errorf("an audit found a miss:\n%s", log)
		}
	})
}

func suffer(t *testing.T, f *flavour, p *process, o outage, i int, ids [][]string, loads []*load, lasts, settle time.Duration, server *throwaway.Server, valve *throwaway.Valve) {
	t.Helper()
	name := fmt.Sprintf("s%d %s", i, o.name)
	dead := fmt.Sprintf("s%d", i)
	other := (i + 1) % len(ids)
	update := func(at int, n int) string {
		return "UPDATE people SET age = 7 WHERE id = " + ids[at][n]
	}
	exec := func(c *sql.Conn, q string) (time.Duration, error) {
		began := time.Now()
		_, err := c.ExecContext(t.Context(), q)
		return time.Since(began), err
	}
	names := func(what string, err error) {
		t.Helper()
		var e *mysql.MySQLError
		if !errors.As(err, &e) || !strings.Contains(e.Message, dead) || e.Number != 1429 && e.Number != 1430 && e.Number != 1180 {
			t.Errorf("%s: %s: %v: want an error that names the shard", name, what, err)
		}
	}
	// Two transactions: one has touched the shard that will fail. Rows that the
	// load doesn't use would be better; it waits for them.
	touched, untouched := p.conn(), p.conn()
	overSnapshots(t, f, untouched)
	mustExec(t, touched, "BEGIN")
	mustRows(t, touched, "SELECT id FROM people WHERE id = "+ids[i][0])
	mustExec(t, untouched, "BEGIN")
	mustRows(t, untouched, "SELECT id FROM people WHERE id = "+ids[other][0])

	before := time.Now().Add(-settle)
	began := time.Now()
	o.begin(t, server, valve)
	over := false
	defer func() {
		if !over {
			o.end(t, server, valve) // the checks at the test's end need it
		}
	}()
	if took, err := exec(untouched, update(i, 0)); true {
		names("a transaction that wants to join", err)
		if took > shardTimeout+slack {
			t.Errorf("%s: a transaction waited %v to join", name, took)
		}
	}
	db := p.db()
	eventually(t, name+" is seen", func() bool { return shardState(t, db, dead) == "down" })
	if took, err := exec(untouched, update(i, 0)); true {
		names("a statement for a shard that is known to be dead", err)
		if took > slack {
			t.Errorf("%s: a statement for a dead shard took %v", name, took)
		}
	}
	if _, err := exec(touched, update(other, 0)); err == nil {
		// It may not have noticed; the commit must.
		_, err = exec(touched, "COMMIT")
		names("a transaction that has touched it", err)
	}
	mustExec(t, touched, "ROLLBACK")
	mustExec(t, untouched, update(other, 1))
	mustExec(t, untouched, "COMMIT")
	status, body, err := p.get("/readyz")
	if err != nil || status != 200 || !strings.Contains(body, "degraded") || !strings.Contains(body, dead) {
		t.Errorf("%s: /readyz: %d %q %v", name, status, body, err)
	}
	if up, _ := p.metric("shunt_shard_up", dead); up != 0 {
		t.Errorf("%s: shunt_shard_up is %v", name, up)
	}
	time.Sleep(time.Until(began.Add(lasts)))
	o.end(t, server, valve)
	over = true
	ended := time.Now()
	eventually(t, name+" serves again", func() bool {
		_, err := rowsOf(t.Context(), p.db(), "SELECT id FROM people WHERE id = "+ids[i][0])
		return err == nil
	})
	back := time.Since(ended)
	time.Sleep(settle)
	if _, body, err := p.get("/readyz"); err != nil || strings.Contains(body, "degraded") {
		t.Errorf("%s: /readyz after its return: %q %v", name, body, err)
	}

	var affected, failed int
	var longest time.Duration
	var calm, later []sample
	for _, l := range loads {
		if l.shard != i {
			calm = append(calm, l.between(before, began)...)
			later = append(later, l.between(began.Add(time.Second), ended)...)
			all := l.between(began, time.Now())
			if len(all) == 0 {
				t.Errorf("%s: no %s on s%d went on", name, l.kind, l.shard)
			}
			for _, s := range all {
				if s.err != nil {
					t.Errorf("%s: a %s on s%d after %v: %v", name, l.kind, l.shard, s.began.Sub(began), s.err)
				}
			}
			continue
		}
		for _, s := range l.between(began, time.Now()) {
			affected++
			if s.err == nil {
				continue
			}
			failed++
			longest = max(longest, s.took)
			names(l.kind, s.err)
			if s.began.After(ended.Add(returnTime)) {
				t.Errorf("%s: a %s %v after its return: %v", name, l.kind, s.began.Sub(ended), s.err)
			}
		}
	}
	if failed == 0 {
		t.Errorf("%s: nothing failed", name)
	}
	if longest > shardTimeout+slack {
		t.Errorf("%s: a statement failed after %v, shard_timeout is %v", name, longest, shardTimeout)
	}
	t.Logf("%-11s %5d of %5d statements for it failed, after %v at most; it served again %v after its return; p99 of the others' %v before, %v during (%d statements)",
		name, failed, affected, longest.Round(time.Millisecond), back.Round(time.Millisecond), p99(calm).Round(10*time.Microsecond), p99(later).Round(10*time.Microsecond), len(later))
}

func shardState(t *testing.T, q queryer, name string) string {
	t.Helper()
	for _, r := range mustRows(t, q, "SHOW SHARDS") {
		if r["Name"] == name {
			return r["State"]
		}
	}
	return ""
}

// TestForgottenConnections: what is between Shunt and a shard has forgotten the
// idle connections, which shows only when something is sent. No client sees it.
func TestForgottenConnections(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		v := valveTo(t, servers[0])
		p, c := startPeople(t, f, 20, setup{servers: servers, addrs: []string{v.Addr(), servers[1].Addr()}})
		at := mustRows(t, p.shard(0), "SELECT id FROM people")[0]["id"]
		p.settled(c)
		prepared, err := p.db().PrepareContext(t.Context(), "SELECT id FROM people WHERE id = ?")
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		var id string
		for round := range 3 {
			for name, do := range map[string]func() error{
				"read":          func() error { return oneRow(rowsOf(t.Context(), c, "SELECT id FROM people WHERE id = "+at)) },
				"merged read":   func() error { return oneRow(rowsOf(t.Context(), c, "SELECT COUNT(*) FROM people")) },
				"prepared read": func() error { return prepared.QueryRowContext(t.Context(), at).Scan(&id) },
				"transaction": func() error {
					mustExec(t, c, "BEGIN")
					_, err := c.ExecContext(t.Context(), "UPDATE people SET age = age + 1 WHERE id = "+at)
					mustExec(t, c, "COMMIT")
					return err
				},
				"prepared write": func() error {
					_, err := c.ExecContext(t.Context(), "UPDATE people SET age = age + ? WHERE id = "+at, 1)
					return err
				},
				"setting": func() error {
					_, err := c.ExecContext(t.Context(), "SET @x = 1 + 1")
					return err
				},
			} {
				// A full pool of them: each of the others is as dead.
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() { _, _ = rowsOf(t.Context(), p.db(), "SELECT SLEEP(0.05), id FROM people WHERE id = "+at) })
				}
				wg.Wait()
				time.Sleep(100 * time.Millisecond)
				v.Forget()
				if err := do(); err != nil {
					t.Errorf("round %d: a %s over a forgotten connection: %v", round, name, err)
				}
			}
		}
	})
}
