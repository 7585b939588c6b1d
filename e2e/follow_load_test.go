package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestFollowedLoad measures what reads by index meet beside SHUNT_FOLLOW_RATE updates a second whose keys can't be
// computed, for SHUNT_FOLLOW_TIME, with scans and with followed logs: how many shards they go to, and how many have the
// row; and for how long the index was wide at once. It only runs when asked to: make follow-load.
func TestFollowedLoad(t *testing.T) {
	rate, err := strconv.Atoi(os.Getenv("SHUNT_FOLLOW_RATE"))
	if err != nil {
		t.Skip("SHUNT_FOLLOW_RATE is not set")
	}
	duration, err := time.ParseDuration(os.Getenv("SHUNT_FOLLOW_TIME"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flavours {
		for _, how := range []string{"scan", "binlog"} {
			t.Run(string(f.name)+"/"+how, func(t *testing.T) { followedLoad(t, f, how, rate, duration) })
		}
	}
}

func followedLoad(t *testing.T, f *flavour, how string, rate int, duration time.Duration) {
	const rows, connections = 20000, 16
	p := start(t, f, setup{
		servers: f.own(t, 4, f.binlogs()...), tables: []string{"people: {shard_key: id}"},
		maintenance: "{follow: " + how + ", audit: 0.01}",
	})
	db := p.db()
	db.SetMaxIdleConns(connections + 3) // else it dials for each statement
	mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, n BIGINT, email VARCHAR(50), KEY (email))")
	for from := 0; from < rows; from += 1000 {
		mustExec(t, db, "INSERT INTO people VALUES "+rowsFor(1000, func(i int) string { return fmt.Sprintf("(%d, 0, 'p%d-0@x')", from+i-1, from+i-1) }))
	}
	p.createIndex(db, "idx_email", "people(email)")
	p.settled(db)
	allKnown(t, db)

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var running sync.WaitGroup
	var updates, reads, misses, shards, samples atomic.Int64
	var wide []time.Duration
	var version, begun [rows]atomic.Int64
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for w := range connections {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for ctx.Err() == nil {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				// Each writer has rows of its own.
				id := random.IntN(rows/connections)*connections + w
				n := begun[id].Add(1)
				if _, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE people SET n = %d, email = CONCAT('p', id, '-', %d, '@x') WHERE id = %d", n, n, id)); err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				version[id].Store(n)
				updates.Add(1)
			}
		})
	}
	for w := range 2 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(w)))
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) { // the updates need the processors
				id := random.IntN(rows)
				n := version[id].Load()
				if begun[id].Load() != n {
					continue
				}
				var got int
				err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d-%d@x'", id, n)).Scan(&got)
				if err != nil && begun[id].Load() == n && ctx.Err() == nil {
					misses.Add(1)
				}
				reads.Add(1)
			}
		})
	}
	running.Go(func() {
		var since time.Time // that a shard is unknown, seen from time to time
		for ctx.Err() == nil {
			route, err := rowsOf(ctx, db, "EXPLAIN ROUTE SELECT id FROM people WHERE email = 'p1-0@x'")
			if err != nil {
				return
			}
			samples.Add(1)
			asked := map[string]bool{}
			for _, r := range route {
				for s := range strings.FieldsFuncSeq(r["Shards"], func(c rune) bool { return c == ',' || c == ' ' }) {
					asked[s] = true
				}
			}
			n := len(asked)
			shards.Add(int64(n))
			if n > 1 && since.IsZero() {
				since = time.Now()
			} else if n <= 1 && !since.IsZero() {
				wide = append(wide, time.Since(since))
				since = time.Time{}
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	running.Wait()
	index := mustRows(t, db, "SHOW VIRTUAL INDEXES")[0]
	t.Logf("%s, %s: %d updates and %d reads in %s; a read by index went to %s shards (%s have the row); %d looks without a wait: %.2f shards, wide %d times, p99 %s, longest %s; misses %d",
		f.name, how, updates.Load(), reads.Load(), duration, index["Mean_shards"], index["Ideal_shards"], samples.Load(), float64(shards.Load())/float64(max(1, samples.Load())),
		len(wide), share(wide, 0.99), share(wide, 1), misses.Load())
	if wanted := int64(duration.Seconds()) * int64(rate); updates.Load() < wanted*9/10 {
		t.Errorf("%d updates, of %d: this machine is too slow for that rate", updates.Load(), wanted)
	}
	if misses.Load() > 0 {
		t.Error("rows were missed")
	}
}

// share is the duration that such a share of all are no longer than.
func share(of []time.Duration, share float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[int(share*float64(len(of)-1))].Round(time.Millisecond)
}

// TestFollowedDirectly: rows that are written straight to the shards are found by index, and it is told how soon behind
// their commit.
func TestFollowedDirectly(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		const rows, batch = 100_000, 100
		p := start(t, f, setup{
			servers: f.own(t, 4, f.binlogs()...), tables: []string{"people: {shard_key: id}"},
			maintenance: "{follow: binlog, reconcile_every: 0s, audit: 0}",
		})
		db := p.db()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))")
		p.createIndex(db, "idx_email", "people(email)")
		p.settled(db)
		allKnown(t, db)
		scanned, _ := p.metric("shunt_scan_rows_total")
		var running sync.WaitGroup
		found := make([][]time.Duration, 4)
		for shard := range found {
			running.Go(func() {
				direct := p.shard(shard)
				for from := shard; from < rows/batch; from += len(found) {
					if _, err := direct.ExecContext(t.Context(), "INSERT INTO people VALUES "+rowsFor(batch, func(i int) string { return fmt.Sprintf("(%d, 'p%d@x')", from*batch+i, from*batch+i) })); err != nil {
						t.Error(err)
						return
					}
					last, committed := from*batch+batch, time.Now()
					for {
						got, err := rowsOf(t.Context(), db, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", last))
						if err != nil || time.Since(committed) > patience {
							t.Errorf("%v isn't found: %v", last, err)
							return
						}
						if len(got) == 1 {
							break
						}
					}
					found[shard] = append(found[shard], time.Since(committed))
				}
			})
		}
		running.Wait()
		all := slices.Concat(found...)
		t.Logf("%d rows in %d transactions: found behind the commit within %s (p50), %s (p99), %s (all)", rows, len(all), share(all, 0.5), share(all, 0.99), share(all, 1))
		if now, _ := p.metric("shunt_scan_rows_total"); now != scanned {
			t.Errorf("scans have read %v rows, and %v before", now, scanned)
		}
		if !missesNone(t, db, "idx_email", "people") {
			t.Error("entries are missing")
		}
	})
}
