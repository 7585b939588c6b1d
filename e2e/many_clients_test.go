package e2e

import (
	"context"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestManyClients: idle clients cost little memory, and active ones among them
// share few shard connections. SHUNT_E2E_CLIENTS=10000 for the full number, which
// needs as many open files.
func TestManyClients(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	idle := envInt(t, "SHUNT_E2E_CLIENTS", 1000)
	active := max(idle/50, 20)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(idle+active+1000) {
		t.Fatalf("%d open files are allowed (%v): expected %d, raise ulimit -n", limit.Cur, err, idle+active+1000)
	}
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", encrypted), func(t *testing.T) {
			f := flavours[len(flavours)-1]
			authority, err := throwaway.NewAuthority(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := authority.Issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}); err != nil {
				t.Fatal(err)
			}
			p, c := startPeople(t, f, 1000, setup{extra: fmt.Sprintf("shard_connections: 32\nmax_connections: 20000\ntls: {cert: '%s', key: '%s'}", authority.File("server.pem"), authority.File("server.key"))})
			change := func(c *mysql.Config) {
				if encrypted {
					c.TLSConfig = "skip-verify"
				}
			}
			ask := func(ctx context.Context, q queryer, id int) error {
				var n int
				rows, err := rowsOf(ctx, q, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id%1000))
				if err != nil {
					return err
				}
				if len(rows) != 1 || rows[0]["id"] != fmt.Sprint(id%1000) {
					return fmt.Errorf("%v, %d for %d", rows, n, id%1000)
				}
				return nil
			}
			// What a first wave costs once (pools, plans, the heap's size) is no
			// connection's.
			warm := p.db(change)
			warm.SetMaxOpenConns(100)
			each(100, 100, func(i int) { _ = ask(t.Context(), warm, i) })
			warm.Close()
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "1000")
			base := p.settledStats()

			db := p.db(change)
			db.SetMaxOpenConns(idle)
			db.SetMaxIdleConns(idle)
			conns := make([]*sql.Conn, idle)
			began := time.Now()
			each(idle, 32, func(i int) {
				conn, err := db.Conn(t.Context())
				if err == nil {
					err = ask(t.Context(), conn, i) // its buffers have been in use
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				conns[i] = conn
			})
			if t.Failed() {
				return
			}
			connected := time.Since(began)
			peak := p.stats()
			full := p.settledStats()
			cost := float64(full.memory-base.memory) / float64(idle) / 1024
			t.Logf("%d idle clients (connected in %v): %.1f KiB each (%.1f right after the last one came), %d goroutines",
				idle, connected.Round(time.Millisecond), cost, float64(peak.memory-base.memory)/float64(idle)/1024, full.goroutines)
			if cost >= 40 && !race {
				t.Errorf("an idle client costs %.1f KiB, want less than 40", cost)
			}

			// Others work among them.
			busy := p.db(change)
			busy.SetMaxOpenConns(active)
			var done atomic.Int64
			stop := time.Now().Add(5 * time.Second)
			each(active, active, func(i int) {
				conn, err := busy.Conn(t.Context())
				if err != nil {
					t.Errorf("active client %d: %v", i, err)
					return
				}
				for n := i; time.Now().Before(stop); n += active {
					if err := ask(t.Context(), conn, n); err != nil {
						t.Errorf("active client %d: %v", i, err)
						return
					}
					done.Add(1)
				}
			})
			t.Logf("%d active clients: %d statements in 5s over 32 connections a shard", active, done.Load())
			if n, _ := p.metric("shunt_shard_connections", `state="in_use"`); n > 4*32 {
				t.Errorf("%v shard connections are in use", n)
			}
			each(idle, 32, func(i int) {
				if err := ask(t.Context(), conns[i], i+1); err != nil {
					t.Errorf("idle client %d: %v", i, err)
				}
			})
			if n, _ := p.metric("shunt_errors_total"); n != 0 {
				t.Errorf("%v errors", n)
			}
			// The next run needs the files.
			each(idle, 32, func(i int) { _ = conns[i].Close() })
			_ = db.Close()
			_ = busy.Close()
		})
	}
}

// each calls f with 0 to n-1, some at a time.
func each(n, atOnce int, f func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range atOnce {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// settledStats are those of a process that has collected its garbage and given
// back what it doesn't use.
func (p *process) settledStats() stats {
	p.t.Helper()
	best := p.stats()
	for range 12 {
		// The profile collects garbage first.
		if _, _, err := p.get("/debug/pprof/heap?gc=1"); err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // the runtime gives memory back bit by bit
		if now := p.stats(); now.memory < best.memory {
			best = now
		}
	}
	return best
}

// TestSharedConnections: sessions with settings and variables of their own over
// few shard connections never see each other's. SHUNT_E2E_SESSIONS=1000 for the
// full number.
func TestSharedConnections(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		sessions := envInt(t, "SHUNT_E2E_SESSIONS", 150)
		p, _ := startPeople(t, f, 100, setup{extra: "shard_connections: 16"})
		zones := []string{"+00:00", "+05:30", "-08:00"}
		modes := []string{"", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT"}
		// state asks on a shard for all that the session has SET.
		state := func(ctx context.Context, c *sql.Conn, i, round int) error {
			rows, err := rowsOf(ctx, c, fmt.Sprintf("SELECT @mine AS mine, @other AS other, @@time_zone AS zone, @@sql_mode AS mode, @@innodb_lock_wait_timeout AS wait, @@wait_timeout AS idle, @@group_concat_max_len AS len, @@character_set_results AS cs, DATABASE() AS d FROM people WHERE id = %d", (i+round)%100))
			if err != nil {
				return err
			}
			if len(rows) != 1 {
				return fmt.Errorf("%d rows", len(rows))
			}
			charset := "utf8mb4"
			if i%5 == 0 {
				charset = "latin1"
			}
			r := rows[0]
			other := "NULL"
			if i%2 == 0 {
				other = fmt.Sprint("x", round)
			}
			got := fmt.Sprintln(r["mine"], r["other"], r["zone"], r["mode"], r["wait"], r["idle"], r["len"], r["cs"], r["d"])
			want := fmt.Sprintln(i, other, zones[i%3], modes[i%4], 20+i%30, 100+i, 1024+i, charset, p.schema)
			if got != want {
				return fmt.Errorf("has %s, want %s", got, want)
			}
			return nil
		}
		conns := make([]*sql.Conn, sessions)
		db := p.db()
		db.SetMaxOpenConns(sessions)
		each(sessions, 16, func(i int) {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Errorf("session %d: %v", i, err)
				return
			}
			conns[i] = conn
			statements := []string{
				fmt.Sprintf("SET @mine = %d", i), "SET time_zone = '" + zones[i%3] + "'", "SET sql_mode = '" + modes[i%4] + "'",
				fmt.Sprintf("SET innodb_lock_wait_timeout = %d, wait_timeout = %d, group_concat_max_len = %d", 20+i%30, 100+i, 1024+i),
			}
			if i%5 == 0 {
				statements = append(statements, "SET NAMES latin1")
			}
			for _, sql := range statements {
				if _, err := conn.ExecContext(t.Context(), sql); err != nil {
					t.Errorf("session %d: %s: %v", i, sql, err)
				}
			}
		})
		if t.Failed() {
			return
		}
		const rounds = 5
		for round := range rounds {
			each(sessions, 64, func(i int) {
				ctx := t.Context()
				if i%2 == 0 {
					if _, err := conns[i].ExecContext(ctx, fmt.Sprintf("SET @other = 'x%d'", round)); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				}
				if i%7 == 0 { // in a transaction too
					_, err := conns[i].ExecContext(ctx, "BEGIN")
					if err == nil {
						_, err = conns[i].ExecContext(ctx, "SAVEPOINT a")
					}
					if err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				}
				if err := state(ctx, conns[i], i, round); err != nil {
					t.Errorf("session %d, round %d: %v", i, round, err)
				}
				if i%7 == 0 {
					if _, err := conns[i].ExecContext(ctx, "COMMIT"); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				}
				if i%11 == 0 { // LAST_INSERT_ID(expr) and ROW_COUNT leave nothing to others
					rows, err := rowsOf(ctx, conns[i], "SELECT @nobodys AS n, LAST_INSERT_ID() AS l FROM people WHERE id = 3")
					if err != nil || rows[0]["n"] != "NULL" || rows[0]["l"] != "0" {
						t.Errorf("session %d: %v, %v", i, rows, err)
					}
				}
			})
		}
		for i := range p.servers {
			n := len(mustRows(t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE db = '"+p.schema+"' AND id <> CONNECTION_ID()"))
			if n > 17 { // one of the index's own
				t.Errorf("server %d has %d connections, want at most 16", i, n)
			}
		}
		if n, _ := p.metric("shunt_sessions_pinned"); n != 0 {
			t.Errorf("%v sessions are pinned", n)
		}
	})
}
