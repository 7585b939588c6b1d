package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// Replicas that die, freeze or stop while many sessions read from them: each read
// is answered, by another replica or the primary, and whole.
func TestReplicasLost(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := replicatedServers(t, f, 2, 2)
		p, db := startReplicated(t, f, servers, "max_replica_lag: 15s\nshard_timeout: 1500ms")
		a, b, c, d := servers.replicas[0][0], servers.replicas[0][1], servers.replicas[1][0], servers.replicas[1][1]
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer func() { stop(); wg.Wait() }()
		var reads atomic.Int64
		readers := []func(context.Context, queryer) error{
			counts("SELECT id, email FROM users", 40),
			counts("SELECT id FROM users WHERE email LIKE ?", 40, "u%"),
			counts("SELECT email FROM users WHERE id = ?", 1, 7),
			counts("SELECT id FROM users ORDER BY email DESC LIMIT 35", 35),
			counts("SELECT n, COUNT(*) FROM users GROUP BY n", 7),
			// Long, with its row at the end: once a client has rows of an answer it can't
			// be read elsewhere.
			counts("SELECT COUNT(*) FROM users WHERE id < 20 AND SLEEP(0.01) = 0", 1),
		}
		for i, read := range readers {
			conn := p.conn()
			mustExec(t, conn, "SET shunt_read_from = 'replica'")
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := read(ctx, conn); err != nil && ctx.Err() == nil {
						t.Errorf("reader %d: %v", i, err)
						return
					}
					reads.Add(1)
				}
			})
		}
		more := func(what string) {
			t.Helper()
			before := reads.Load()
			eventually(t, "reads go on: "+what, func() bool { return reads.Load() > before+100 || t.Failed() })
		}
		probe := p.conn()
		mustExec(t, probe, "SET shunt_read_from = 'replica'")
		readBy := func(what string, some, none []*throwaway.Server) {
			t.Helper()
			seen := map[string]bool{}
			eventually(t, what, func() bool {
				rows, err := rowsOf(t.Context(), probe, "SELECT id, @@port FROM users")
				if err != nil {
					return false // a primary may be needed that is not back yet
				}
				for _, r := range rows {
					port := r["@@port"]
					if slices.Contains(portsOf(none...), port) {
						return false // it is not known yet
					}
					seen[port] = true
				}
				for _, port := range portsOf(some...) {
					if !seen[port] {
						return false
					}
				}
				return true
			})
		}
		readBy("all replicas", []*throwaway.Server{a, b, c, d}, servers.primaries)

		more("before")
		a.Kill()
		more("one was killed")
		readBy("the others", []*throwaway.Server{b, c, d}, servers.primaries)
		b.Shutdown()
		more("a shard's last one was stopped")
		readBy("s0's primary", []*throwaway.Server{servers.primaries[0], c, d}, nil)
		if r := p.replica(b); r["State"] != "down" || r["Error"] == "NULL" {
			t.Errorf("%v", r)
		}
		c.Pause()
		more("one of the other shard's froze")
		c.Resume()
		for _, s := range []*throwaway.Server{a, b} {
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []*throwaway.Server{a, b, c, d} {
			p.waitReplica(s, "up")
		}
		readBy("all replicas again", []*throwaway.Server{a, b, c, d}, servers.primaries)
		more("all are back")

		// Without its primary a replica is read for as long as it can't be too far
		// behind; then the shard can't be read.
		servers.primaries[1].Kill()
		more("a primary was killed")
		stop()
		wg.Wait()
		eventually(t, "the replicas are not known to be near any more", func() bool {
			_, err := rowsOf(t.Context(), probe, "SELECT id, @@port FROM users")
			return err != nil
		})
		_, err := rowsOf(t.Context(), probe, "SELECT id FROM users")
		wantError(t, err, 1429, "s1")
		if err := servers.primaries[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		readBy("all replicas, when the primary is back", []*throwaway.Server{a, b, c, d}, servers.primaries)
		mustExec(t, db, "UPDATE users SET n = 99")
		eventually(t, "and they replicate", func() bool {
			return len(mustRows(t, probe, "SELECT 1 FROM users WHERE n = 99")) == 40
		})
	})
}

// counts reads a query's rows and says if there are not as many as expected.
func counts(query string, want int, args ...any) func(context.Context, queryer) error {
	return func(ctx context.Context, q queryer) error {
		rows, err := rowsOf(ctx, q, query, args...)
		if err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		if len(rows) != want {
			return fmt.Errorf("%s: %d rows, want %d", query, len(rows), want)
		}
		return nil
	}
}
