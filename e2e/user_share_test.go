package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestUserShare: one user's statements that sleep leave the others connections to every
// shard. SHUNT_E2E_SLEEPERS=120 for the full number.
func TestUserShare(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		sleepers := envInt(t, "SHUNT_E2E_SLEEPERS", 24)
		connections := sleepers * 5 / 6
		p, _ := startPeople(t, f, 100, setup{
			users: []string{"{name: hog, password: pw, schemas: [SCHEMA]}"},
			extra: fmt.Sprintf("shard_connections: %d", connections),
		})
		db := p.db()
		db.SetMaxIdleConns(8)
		rate := func() int {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var n atomic.Int64
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for k := i; ctx.Err() == nil; k++ {
						if _, err := rowsOf(t.Context(), db, fmt.Sprintf("SELECT age FROM people WHERE id = %d", k%100)); err != nil {
							t.Errorf("a point select: %v", err)
							return
						}
						n.Add(1)
					}
				})
			}
			wg.Wait()
			return int(n.Load())
		}
		rate() // all connections are open
		before := rate()

		// sleep begins statements of the user's; their errors come over the channel.
		sleep := func(n int) (codes chan error, end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			codes = make(chan error, n)
			db := p.as("hog", p.schema)
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					_, err := rowsOf(ctx, db, "SELECT SLEEP(200) FROM people WHERE id > 0 LIMIT 1")
					codes <- err
				})
			}
			return codes, func() { cancel(); wg.Wait() }
		}
		held := func(state string) int { // on each shard
			n, _ := p.metric("shunt_user_shard_connections", `user="hog"`, `shard="s0"`, `state="`+state+`"`)
			all, _ := p.metric("shunt_user_shard_connections", `user="hog"`, `state="`+state+`"`)
			if state == "in_use" && int(all) != int(n)*len(p.servers) {
				return -1
			}
			return int(n)
		}
		codes, end := sleep(sleepers)
		defer end()
		most := connections * 4 / 5
		eventually(t, "the user has his share", func() bool { return held("in_use") == most && held("waiting") == sleepers-most })
		during := rate()
		for range 2 { // what the machine does beside is over some time; the statements sleep on
			if during*2 < before {
				during = max(during, rate())
			}
		}
		for range sleepers - most {
			wantError(t, <-codes, 1226, fmt.Sprintf("User 'hog' has exceeded the 'max_shard_connections' resource (current value: %d)", most))
		}
		if log := fmt.Sprintf("user=hog shard=s0 held=%d of=%d", most, connections); strings.Count(p.log.String(), log) != 1 {
			t.Errorf("the log has no single %q", log)
		}
		if n, _ := p.metric("shunt_user_shard_connections_refused_total", `user="hog"`); int(n) != sleepers-most {
			t.Errorf("%v statements were refused by the metric, want %d", n, sleepers-most)
		}
		end()
		eventually(t, "the statements have ended", func() bool { return held("in_use") == 0 })
		after := rate()
		t.Logf("%d point selects in a second before, %d while %d statements of another user hold %d of %d connections, %d after", before, during, sleepers, most, connections, after)
		if during*2 < min(before, after) {
			t.Errorf("%d point selects in a second, want half of %d", during, min(before, after))
		}

		// A bound of his own.
		p.reload("schemas: ["+p.schema+"]}", "schemas: ["+p.schema+"], max_shard_connections: 3}")
		_, end = sleep(5)
		defer end()
		eventually(t, "the user has his bound", func() bool { return held("in_use") == 3 && held("waiting") == 2 })
	})
}
