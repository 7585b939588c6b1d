package e2e

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMemberLost: while one of three members is killed, or stands still, in the midst of its load, the statements of
// the others are answered, and soon.
func TestMemberLost(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 300, setup{servers: f.own(t, 3), tables: []string{"outage_country: {placement: reference}"}, extra: "store: {shards: true}"})
		mustExec(t, c, "CREATE TABLE outage_country (code CHAR(2) PRIMARY KEY)")
		mustExec(t, c, "INSERT INTO outage_country VALUES ('it')")
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		// Each has rows of its own, so that none waits for a lock of the lost one's on a row.
		ids := make([][]string, len(members))
		for i, r := range mustRows(t, c, "SELECT id FROM people") {
			ids[i%len(ids)] = append(ids[i%len(ids)], r["id"])
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var loads []*load
		for n, m := range members {
			for kind, do := range statementsOfLoad {
				l := &load{shard: n, kind: kind}
				loads = append(loads, l)
				db := m.db()
				wg.Go(func() { l.run(ctx, db, ids[n], do) })
			}
		}
		lost := members[2]
		for _, how := range []string{"killed", "standing still"} {
			time.Sleep(time.Second)
			began := time.Now()
			if how == "killed" {
				lost.kill()
			} else {
				lost.signal(syscall.SIGSTOP)
			}
			time.Sleep(5 * time.Second)
			if how == "killed" {
				lost.run()
			} else {
				lost.signal(syscall.SIGCONT)
			}
			n, longest := 0, time.Duration(0)
			for _, l := range loads {
				if members[l.shard] == lost {
					continue
				}
				for _, s := range l.between(began, time.Now()) {
					if n++; s.err != nil {
						t.Errorf("%s: member %d: %s: %v", how, l.shard, l.kind, s.err)
					}
					longest = max(longest, s.took)
				}
			}
			t.Logf("%s: %d answers of the others, the last after %s", how, n, longest.Round(time.Millisecond))
			if limit := 3*time.Second + slack; n == 0 || longest > limit {
				t.Errorf("%s: %d answers of the others, the last after %s, want %s", how, n, longest, limit)
			}
		}
		cancel()
		wg.Wait()
		want(t, p.db(), "SELECT COUNT(*) AS n FROM people", "n", "300")
	})
}
