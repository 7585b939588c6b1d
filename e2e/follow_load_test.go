package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestFollowedLoad measures what reads by index meet beside SHUNT_FOLLOW_RATE updates a second whose keys can't be
// computed, for SHUNT_FOLLOW_TIME, with scans and with followed logs: how many shards they go to on the mean (one
// has the row), and how long an update is until the index knows its shard alone. It only runs when asked to:
// make follow-load.
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
	var lives sync.Map // of sampled updates, in milliseconds
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
			for ctx.Err() == nil {
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
				lives.Store(since, time.Since(since))
				since = time.Time{}
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	running.Wait()
	var longest time.Duration
	lives.Range(func(_, v any) bool { longest = max(longest, v.(time.Duration)); return true })
	sum, _ := p.metric("shunt_statement_shards_sum")
	count, _ := p.metric("shunt_statement_shards_count")
	t.Logf("%s, %s: %d updates and %d reads in %s; a read by index goes to %.2f shards on the mean of %d looks (all statements: %.2f); longest time with a wide index %s; misses %d",
		f.name, how, updates.Load(), reads.Load(), duration, float64(shards.Load())/float64(max(1, samples.Load())), samples.Load(), sum/max(1, count), longest.Round(time.Millisecond), misses.Load())
	if misses.Load() > 0 {
		t.Error("rows were missed")
	}
}
