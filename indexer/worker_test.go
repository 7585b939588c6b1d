package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

func TestBuildAndMaintain(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.shards[1].set(2, "bob")
	b.create()
	b.expect("ann", 0)
	b.expect("bob", 1)
	b.expect("eve")

	b.update(0, 1, "eve")
	b.expect("eve", 0)
	b.expect("ann", 0) // stale until the scan
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	b.expect("eve", 0)
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
}

func TestScanInIndexOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].change(func(s *fakeShard) { s.order = true })
	b.shards[0].set(1, "ann")
	b.create()
	b.update(0, 1, "eve")
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	if got := b.shards[0].statements("SELECT DISTINCT"); len(got) != 2 || !strings.HasSuffix(got[0], "FORCE INDEX (`by_k`)") {
		t.Errorf("scans: %q", got)
	}
}

func TestOpenTransactionHoldsRemovalsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	reader := b.x.Begin(catalog.Only(0))
	b.update(0, 1, "eve")
	b.until("the job was held back", func() bool { return b.happened("held back") })
	scans := len(b.shards[0].statements("START TRANSACTION"))
	b.pass(time.Hour)
	b.expect("ann", 0)
	if n := len(b.shards[0].statements("START TRANSACTION")); n != scans {
		t.Errorf("%d scans while the same transaction was open", n-scans)
	}
	jobs := b.x.Jobs()
	if len(jobs) != 1 || jobs[0].Error != "held back by an open transaction" {
		t.Errorf("jobs: %+v", jobs)
	}
	reader.End()
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
}

// TestOpenTransactionHoldsVerificationBack: a key that is looked for while it may not be removed is looked for again, once. One that
// the store doesn't have isn't.
func TestOpenTransactionHoldsVerificationBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	reader := b.x.Begin(catalog.Only(0))
	b.shards[0].set(1, "eve")
	verify := func(key string) {
		b.x.After(plan.Maintenance{Table: b.index().Table, Operation: "READ", Shards: catalog.Only(0), Keys: []plan.Probe{b.probe(key)}})
	}
	verify("nobody")
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
	verify("ann")
	b.until("the job was held back", func() bool { return b.happened("held back") })
	b.pass(time.Hour)
	b.expect("ann", 0)
	reader.End()
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
}

func TestBuildWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	writer := b.x.Begin(catalog.Only(0))
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 2, ""); err != nil {
		t.Fatal(err)
	}
	b.pass(time.Minute)
	s := b.x.Status()
	if len(s) != 1 || s[0].Def.Status != catalog.Building || s[0].Waiting != "waiting for open transactions" || s[0].Progress != 0 {
		t.Errorf("status: %+v", s)
	}
	b.shards[0].set(2, "bob") // planned without the index
	writer.End()
	b.ready()
	b.expect("bob", 0)
	if s := b.x.Status(); s[0].Waiting != "" || s[0].Progress != 1 {
		t.Errorf("status: %+v", s)
	}
}

// TestWaitingBuildsAndOtherJobs: builds that wait for a transaction, as many as there are
// workers, keep no other job from being done. They go on when that has ended, though
// younger ones are open.
func TestWaitingBuildsAndOtherJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.create()
	idle := b.x.Begin(catalog.Only(1))
	for _, name := range []string{"ix2", "ix3"} {
		if err := b.x.CreateIndex(t.Context(), "s", "t", name, []string{"k"}, 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	b.until("both builds wait", func() bool {
		s := b.x.Status()
		return s[1].Waiting == waiting && s[2].Waiting == waiting
	})
	b.mark(0)
	b.x.After(plan.Maintenance{Table: b.index().Table, Operation: "UPDATE", Shards: catalog.Only(0), Indexes: []*catalog.Index{b.index()}})
	b.until("the mark is cleared", func() bool { return len(b.store.Marks(b.index().ID)) == 0 })
	if _, err := b.store.Advance(); err != nil {
		t.Fatal(err)
	}
	younger := b.x.Begin(catalog.Only(1))
	defer younger.End()
	tried := b.x.Jobs()
	b.pass(time.Hour)
	for i, j := range b.x.Jobs() {
		if j.Attempts != tried[i].Attempts {
			t.Errorf("a build that waits was tried again: %+v", j)
		}
	}
	idle.End()
	b.until("the shard is read for both", func() bool { return len(b.shards[1].statements("SELECT `id`")) == 3 })
	if !b.happened("job: again") || b.happened("job: failed") {
		t.Errorf("a build that waits has failed: %q", b.events)
	}
	younger.End() // has a snapshot of before, maybe
	b.until("both are ready", func() bool { return !slices.ContainsFunc(b.x.Status(), func(s Status) bool { return s.Def.HasBuild }) })
	for _, s := range b.x.Status() {
		if set, err := b.store.Lookup(s.Def.ID, b.key("ann"), nil); err != nil || set.Shards != catalog.Only(0) {
			t.Errorf("%s looks on %v (%v)", s.Def.Name, set, err)
		}
	}
}

func TestBuildResumesAtItsCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.x.checkpointRows = 10
	for i := range 100 {
		b.shards[0].set(i, fmt.Sprint("a", i))
		b.shards[1].set(i, fmt.Sprint("b", i))
	}
	failed := 0
	b.shards[1].change(func(s *fakeShard) {
		s.row = func(pk int) error {
			if pk == 55 && failed < 3 {
				failed++
				return errors.New("connection lost")
			}
			return nil
		}
	})
	b.create()
	for i := range 100 {
		b.expect(fmt.Sprint("a", i), 0)
		b.expect(fmt.Sprint("b", i), 1)
	}
	if n := len(b.shards[0].statements("SELECT `id`")); n != 1 {
		t.Errorf("the shard that was done was scanned %d times", n)
	}
	got := b.shards[1].statements("SELECT `id`")
	if len(got) != 4 || !strings.Contains(got[3], "WHERE (`id` > 49) ORDER BY `id`") {
		t.Errorf("scans: %q", got)
	}
	if !b.happened("job: failed") {
		t.Errorf("no job is told to have failed: %q", b.events)
	}
}

// TestBuildAfterAlteredDefinition: DDL comes between two runs of a build. What was done is of
// keys, or of an order of rows, that are no more.
func TestBuildAfterAlteredDefinition(t *testing.T) {
	for _, test := range []struct {
		name    string
		touches string
		alter   func(*bench)
		look    string
		shard   catalog.ShardID
	}{
		{"primary key", "id", func(b *bench) {
			b.primary.Type = "bigint"
			b.shards[1].change(func(s *fakeShard) { // its order is another one
				s.rows[5], s.rows[90] = s.rows[90], s.rows[5]
			})
		}, "b90", 1},
		{"indexed column, behind Shunt's back", "", func(b *bench) { b.column.Collation = "utf8mb4_general_ci" }, "A1", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 2, nil)
			b.x.checkpointRows = 10
			for i := range 100 {
				b.shards[0].set(i, fmt.Sprint("a", i))
				b.shards[1].set(i, fmt.Sprint("b", i))
			}
			var altered atomic.Bool
			b.shards[1].change(func(s *fakeShard) {
				s.row = func(pk int) error {
					if pk == 55 && !altered.Load() {
						return errors.New("connection lost")
					}
					return nil
				}
			})
			if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
				t.Fatal(err)
			}
			b.until("a shard is done, and half of the other", func() bool {
				jobs := b.x.Jobs()
				return len(jobs) == 1 && jobs[0].State == storage.Backoff && strings.Contains(string(jobs[0].Checkpoint), `"key"`)
			})
			change := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, Touches: []string{test.touches}}
			if test.touches != "" {
				if err := b.x.BeforeDDL(t.Context(), change); err != nil {
					t.Fatal(err)
				}
			}
			b.mu.Lock()
			test.alter(b)
			b.mu.Unlock()
			if err := b.publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			altered.Store(true)
			if test.touches != "" {
				if err := b.x.AfterDDL(t.Context(), change, false); err != nil {
					t.Fatal(err)
				}
			}
			b.ready()
			for i := range 100 {
				b.expect(fmt.Sprint("a", i), 0)
				b.expect(fmt.Sprint("b", i), 1)
			}
			b.expect(test.look, test.shard)
		})
	}
}

// A checkpoint of a Shunt that did not keep what it was made under says nothing.
func TestCheckpointOfBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.create()
	run := building{x: b.x, ix: b.index()}
	if err := run.restore([]byte(`{"since":7,"done":[1,0,0,0],"after":{"0":8},"shard":1,"key":["NQ=="],"rows":5}`)); err != nil {
		t.Fatal(err)
	}
	if run.ck.Began != nil || !run.ck.Done.Empty() || run.ck.Key != nil {
		t.Errorf("the build goes on from %+v", run.ck)
	}
	run.ck.Began = map[catalog.ShardID]storage.Epoch{0: 7}
	raw, err := encode(run.ck)
	if err != nil {
		t.Fatal(err)
	}
	again := building{x: b.x, ix: b.index()}
	if err := again.restore(raw); err != nil || again.ck.Began[0] != 7 {
		t.Errorf("the build goes on from %+v (%v)", again.ck, err)
	}
}

func TestBackoffOfAFailingShard(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	var mu sync.Mutex
	var at []time.Time
	b.shards[0].change(func(s *fakeShard) {
		s.fail = func(sql string) error {
			if sql != "CONNECT" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			at = append(at, b.clock.Now())
			return errors.New("no route to host")
		}
	})
	b.update(0, 1, "eve")
	// What is due is tried before the clock goes on: on a busy machine the pauses would be the machine's. But for what rests,
	// since the shard is scanned for a part of the time only: that waits for the clock.
	for range 100 {
		b.tick(6 * time.Second)
		for n := 0; slices.ContainsFunc(b.store.Jobs(), func(j storage.Job) bool {
			return j.ClaimedBy != "" || n < 200 && !j.NotBefore.After(b.clock.Now())
		}); n++ {
			b.tick(0)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(at) < 6 || len(at) > 30 {
		t.Fatalf("%d attempts in 10 minutes", len(at))
	}
	if first, last := at[1].Sub(at[0]), at[len(at)-1].Sub(at[len(at)-2]); last < 10*first {
		t.Errorf("the pause grew from %v to %v only", first, last)
	}
	b.expect("eve", 0)
	b.shards[0].change(func(s *fakeShard) { s.fail = nil })
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
}

// fullStore gives out no jobs, as on a full disk.
type fullStore struct {
	Store
	full   atomic.Bool
	claims atomic.Int64
}

func (s *fullStore) Claim(worker string, lease time.Duration, now time.Time, runnable func(*storage.Job) bool) (*storage.Job, error) {
	if !s.full.Load() {
		return s.Store.Claim(worker, lease, now, runnable)
	}
	for _, j := range s.Jobs() {
		if runnable(&j) {
			s.claims.Add(1)
			break
		}
	}
	return nil, errors.New("no space left on device")
}

// TestPauseOfAFullStore: a job that is due and can't be had is asked for once a second.
func TestPauseOfAFullStore(t *testing.T) {
	t.Parallel()
	store := &fullStore{}
	b := newBench(t, 1, func(o *Options) { store.Store, o.Store = o.Store, store })
	b.shards[0].set(1, "ann")
	b.create()
	store.full.Store(true)
	b.update(0, 1, "eve")
	b.pass(time.Minute)
	if n := store.claims.Load(); n < 10 || n > 65 {
		t.Errorf("%d attempts in a minute", n)
	}
	store.full.Store(false)
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
}

// slowStore is of one of several processes: with some jobs another one is faster.
type slowStore struct {
	Store
	lost atomic.Int64
}

func (s *slowStore) Claim(worker string, lease time.Duration, now time.Time, runnable func(*storage.Job) bool) (*storage.Job, error) {
	if s.lost.Load() <= 0 {
		return s.Store.Claim(worker, lease, now, runnable)
	}
	for _, j := range s.Jobs() {
		if runnable(&j) {
			s.lost.Add(-1)
		}
	}
	return nil, nil
}

// dropping is a store in which somebody drops an index beside a scan.
type dropping struct {
	*storage.Store
	dropped atomic.Bool
}

func (d *dropping) OpenGate(id catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (storage.Gate, error) {
	if d.dropped.Load() {
		return storage.Gate{}, storage.ErrNoIndex
	}
	return d.Store.OpenGate(id, shard, e)
}

// TestJobOfADroppedIndex: a job whose index another process has dropped says nothing, and ends when
// this one hears of it.
func TestJobOfADroppedIndex(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var mu sync.Mutex
	d := &dropping{}
	b := newBench(t, 1, func(o *Options) {
		d.Store = o.Store.(*storage.Store) //nolint:forcetypeassert // newBench's
		o.Store = d
		o.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	})
	b.create()
	d.dropped.Store(true)
	b.update(0, 1, "a")
	tried := func() bool {
		return slices.ContainsFunc(b.store.Jobs(), func(j storage.Job) bool { return j.Attempts > 1 })
	}
	b.until("it was tried", tried)
	if err := b.store.DropIndex(b.index().ID); err != nil {
		t.Fatal(err)
	}
	b.until("the job has ended", func() bool { return len(b.store.Jobs()) == 0 })
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("%s", log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// TestLostClaim: a job with which another worker was faster runs here once it is free, and keeps
// nobody waiting until then.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	store := &slowStore{}
	b := newBench(t, 1, func(o *Options) { store.Store, o.Store = o.Store, store })
	b.shards[0].set(1, "ann")
	b.create()
	store.lost.Store(3)
	b.update(0, 1, "eve")
	b.until("claims are lost", func() bool { return store.lost.Load() <= 0 })
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
}

// Jobs of a shard that is down wait without being tried; those of others go on.
func TestJobsOfADeadShardWait(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	opened := make([]atomic.Int64, 2)
	b := newBench(t, 2, func(o *Options) {
		o.Down = func(id catalog.ShardID) bool { return id == 1 && down.Load() }
		inner := o.Shards
		o.Shards = openFunc(func(ctx context.Context, id catalog.ShardID) (Conn, error) {
			opened[id].Add(1)
			return inner.Open(ctx, id)
		})
	})
	b.shards[0].set(1, "ann")
	b.shards[1].set(2, "bob")
	b.create()
	b.ready()
	down.Store(true)
	before := opened[1].Load()
	b.update(0, 1, "amy")
	b.update(1, 2, "bea")
	b.until("the other's stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	b.pass(10 * time.Minute)
	if n := opened[1].Load() - before; n != 0 {
		t.Errorf("a shard that is down was connected to %d times", n)
	}
	b.expect("bob", 1)
	down.Store(false)
	b.x.Returned()
	b.until("its stale entry is gone too", func() bool { return len(b.shardsOf("bob")) == 0 })
}

type openFunc func(context.Context, catalog.ShardID) (Conn, error)

func (f openFunc) Open(ctx context.Context, id catalog.ShardID) (Conn, error) { return f(ctx, id) }

func TestDutyCycle(t *testing.T) {
	t.Parallel()
	const shards = 8
	for name, c := range map[string]struct {
		shards     int
		marks      bool
		processors int
		scanners   int
		least, max float64
	}{
		"a shard, clearing marks":     {1, true, 8, 1, 0.05, 0.12},
		"a shard, looking for stale":  {1, false, 8, 1, 0.003, 0.01},
		"a shard that four scan":      {1, true, 8, 4, 0.0125, 0.03},
		"all shards, clearing marks":  {shards, true, 2, 1, 0.1, 0.24},
		"all shards, looking for old": {shards, false, 2, 1, 0.006, 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.shards, func(o *Options) {
				o.ScanDuty, o.Processors, o.Scanners = 0.1, c.processors, func(catalog.ShardID) int { return c.scanners }
			})
			for i := range c.shards {
				b.shards[i].set(1, "ann")
			}
			b.create()
			for i := range c.shards {
				b.shards[i].change(func(s *fakeShard) { s.took = time.Second })
			}
			began := b.clock.Now()
			for i := range 4000 {
				id := catalog.ShardID(i % c.shards)
				if c.marks {
					b.mark(id)
				}
				b.update(id, 1, fmt.Sprint("ann", i))
				b.tick(100 * time.Millisecond)
			}
			scans := 0
			for i := range c.shards {
				scans += len(b.shards[i].statements("SELECT `k`"))
			}
			share := float64(scans) / b.clock.Now().Sub(began).Seconds()
			if share < c.least || share > c.max {
				t.Errorf("shards were scanned %.1f %% of the time", 100*share)
			}
		})
	}
}

// TestStaleAfterMarks: however long marks have been cleared, stale entries are looked
// for soon after.
func TestStaleAfterMarks(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, func(o *Options) { o.ScanDuty = 0.1 })
	b.shards[0].set(1, "ann")
	b.create()
	b.shards[0].change(func(s *fakeShard) { s.took = time.Second })
	for i := range 2000 {
		b.mark(0)
		b.update(0, 1, fmt.Sprint("ann", i))
		b.tick(100 * time.Millisecond)
	}
	b.until("the marks are cleared", func() bool { return len(b.store.Marks(b.index().ID)) == 0 && len(b.store.Jobs()) == 0 })
	b.update(0, 1, "eve")
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann1999")) == 0 })
}

func TestMaintenanceIsNotWithoutSnapshots(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].change(func(s *fakeShard) { s.engine = "MyISAM" })
	b.shards[0].set(1, "ann")
	b.create()
	b.update(0, 1, "eve")
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
	b.expect("ann", 0) // stale for good
	b.expect("eve", 0)
}

func TestReconcileByTheClock(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, func(o *Options) { o.ReconcileEvery = 24 * time.Hour })
	b.shards[0].set(1, "ann")
	b.create()
	b.shards[0].set(1, "eve") // behind the proxy's back
	b.pass(23 * time.Hour)
	b.expect("ann", 0)
	b.pass(2 * time.Hour)
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	b.expect("eve", 0)
	b.until("the time is noted", func() bool { return b.clock.Now().Sub(b.x.Status()[0].Def.LastScan) < 3*time.Hour })
}

// TestReconcileAfterClockAhead: a scan that was noted with a time to come puts the next one off
// no longer.
func TestReconcileAfterClockAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, func(o *Options) { o.ReconcileEvery = 24 * time.Hour })
	b.shards[0].set(1, "ann")
	b.create()
	b.shards[0].set(1, "eve") // behind the proxy's back
	ahead := b.clock.Now().Add(1000 * time.Hour)
	if err := b.store.UpdateIndex(b.x.Status()[0].Def.ID, func(d *storage.IndexRecord) { d.LastScan = ahead }); err != nil {
		t.Fatal(err)
	}
	b.pass(25 * time.Hour)
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	b.until("the time is noted", func() bool { return b.x.Status()[0].Def.LastScan.Before(ahead) })
}

func TestReadRepair(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.create()
	b.shards[0].set(1, "eve")
	only := catalog.Only(0)
	for range 100 {
		b.x.Observe(b.probe("ann"), only, only, only)
	}
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	if n := len(b.shards[0].statements("(SELECT 1 FROM")); n != 1 {
		t.Errorf("the shard was asked %d times", n)
	}
}

func TestAuditFindsAMiss(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, func(o *Options) { o.Audit = 1 })
	b.shards[0].set(1, "ann")
	b.create()
	b.x.Observe(b.probe("ann"), catalog.Only(0), catalog.Only(0), catalog.ShardSet{})
	b.until("the audit is done", func() bool { return b.happened("audited false") })

	b.shards[1].set(2, "ann") // behind the proxy's back
	b.x.Observe(b.probe("ann"), catalog.Only(0), catalog.Only(0), catalog.ShardSet{})
	b.until("the miss is found", func() bool { return b.happened("audited true") })
	b.until("the index has the row", func() bool { return len(b.shardsOf("ann")) == 2 })
	b.ready()
	if s := b.x.Status()[0].Def; s.Error != "" {
		t.Errorf("error after the rebuild: %s", s.Error)
	}
}

// A probe's text is the client's packet, which the next one overwrites.
func TestObserveKeepsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, func(o *Options) { o.Audit = 1 })
	b.shards[0].set(1, "ann")
	b.shards[1].set(2, "eve")
	b.create()
	packet := []byte("ann")
	p := b.probe("ann")
	p.Values[0] = keys.Text(unsafe.String(&packet[0], len(packet)), "utf8mb4")
	b.x.Observe(p, catalog.Only(0), catalog.Only(0), catalog.ShardSet{})
	copy(packet, "eve")
	b.until("the audit is done", func() bool { return b.happened("audited false") || b.happened("audited true") })
	if b.happened("audited true") {
		t.Error("another value was asked for")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.shards[1].set(2, "bob")
	b.create()
	b.shards[0].set(3, "eve") // missing
	b.shards[1].set(2, "ida") // missing, and bob is stale
	var rows []plan.CheckRow
	err := b.x.Check(t.Context(), "s", "t", "IX", func(r plan.CheckRow) error {
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.CheckRow{{Shard: 0, Checked: 2, Missing: 1}, {Shard: 1, Checked: 1, Missing: 1, Stale: 1}}
	if !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
}

// TestCheckAltered: a column is altered and its index built again during a check, which then
// has the keys of before.
func TestCheckAltered(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.shards[1].set(2, "bob")
	b.create()
	err := b.x.Check(t.Context(), "s", "t", "IX", func(r plan.CheckRow) error {
		if r != (plan.CheckRow{Checked: 1}) {
			t.Errorf("got %v", r)
		}
		b.mu.Lock()
		b.column.Collation = "utf8mb4_general_ci"
		b.mu.Unlock()
		if err := b.publish(t.Context()); err != nil {
			return err
		}
		b.until("it is built again", func() bool { return b.store.Indexes()[0].Keyed == b.index().Definition(false) })
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "is being built") {
		t.Errorf("got %v", err)
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	ctx := t.Context()
	b.shards[0].set(1, "ann")
	for _, bad := range []struct{ table, column string }{{"u", "k"}, {"t", "z"}} {
		if err := b.x.CreateIndex(ctx, "s", bad.table, "ix", []string{bad.column}, 0, ""); err == nil {
			t.Errorf("index on %s (%s) was made", bad.table, bad.column)
		}
	}
	b.create()
	if err := b.x.CreateIndex(ctx, "s", "t", "ix", []string{"k"}, 0, ""); !errors.Is(err, storage.ErrIndexExists) {
		t.Errorf("second index of the name: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(b.x.DisableIndex(ctx, "s", "t", "ix"))
	if b.index().Usable() {
		t.Error("a disabled index is used")
	}
	b.update(0, 1, "eve") // maintained all the same
	must(b.x.RebuildIndex(ctx, "s", "t", "ix", ""))
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
	if b.index().Usable() {
		t.Error("a rebuild enabled the index")
	}
	must(b.x.EnableIndex(ctx, "s", "t", "ix"))
	b.ready()
	b.expect("eve", 0)
	b.expect("ann")
	must(b.x.RepartitionIndex(ctx, "s", "t", "ix", 4))
	b.expect("eve", 0)
	if s := b.x.Status(); s[0].Def.Partitions != 4 || s[0].Entries != 1 {
		t.Errorf("status: %+v", s[0])
	}
	must(b.x.DropIndex(ctx, "s", "t", "ix"))
	if err := b.x.DropIndex(ctx, "s", "t", "ix"); !errors.Is(err, ErrUnknownIndex) {
		t.Errorf("second drop: %v", err)
	}
	b.until("the entries are deleted", func() bool { return len(b.store.Jobs()) == 0 && b.store.Stats().Garbage == 0 })
}

// TestMissBesideDDL: DDL takes the place of the build that an audit's find has begun.
func TestMissBesideDDL(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	b.shards[0].set(1, "eve")
	open := b.x.Begin(catalog.Only(0)) // the build waits
	b.x.missed(t.Context(), plan.Probe{Index: b.index()}, 0)
	if b.index().Usable() {
		t.Error("an index that misses a row is used")
	}
	change := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, Touches: []string{"k"}}
	if err := errors.Join(b.x.BeforeDDL(t.Context(), change), b.x.AfterDDL(t.Context(), change, false)); err != nil {
		t.Error(err)
	}
	open.End()
	b.ready()
	b.expect("eve", 0)
}

func TestDDL(t *testing.T) {
	change := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, Touches: []string{"k"}}
	renamed := &plan.DDL{Op: "RENAME TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, Renamed: []catalog.TableName{{Schema: "s", Name: "u"}}}
	for _, test := range []struct {
		name   string
		change *plan.DDL
		do     func(*bench)
		check  func(*testing.T, *bench)
	}{
		{"collation", change, func(b *bench) { b.column.Collation = "utf8mb4_general_ci" }, func(t *testing.T, b *bench) {
			b.ready()
			b.expect("ANN", 0)
		}},
		{"a type without keys", change, func(b *bench) { b.column.Type = "json" }, func(t *testing.T, b *bench) {
			if s := b.x.Status(); len(s) != 1 || s[0].Def.Status != catalog.Failed || s[0].Def.Error == "" {
				t.Errorf("status: %+v", s)
			}
		}},
		{"column dropped", change, func(b *bench) { b.column.Name = "z" }, func(t *testing.T, b *bench) {
			if s := b.x.Status(); len(s) != 0 {
				t.Errorf("status: %+v", s)
			}
		}},
		{"it failed", change, func(b *bench) {}, func(t *testing.T, b *bench) {
			b.ready()
			b.expect("ann", 0)
		}},
		{"another column", &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, Touches: []string{"z"}}, func(b *bench) {}, func(t *testing.T, b *bench) {
			if !b.index().Usable() {
				t.Error("the index is not used")
			}
		}},
		{"rename", renamed, func(b *bench) { b.table = "u" }, func(t *testing.T, b *bench) {
			b.ready()
			b.expect("ann", 0)
			b.update(0, 1, "eve")
			b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
			b.until("no job is left, under the old name neither", func() bool { return len(b.store.Jobs()) == 0 })
		}},
		{"truncate", &plan.DDL{Op: "TRUNCATE TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}}, func(b *bench) { b.shards[0].change(func(s *fakeShard) { clear(s.rows) }) }, func(t *testing.T, b *bench) {
			b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
			b.ready()
			b.expect("ann")
		}},
		{"drop", &plan.DDL{Op: "DROP TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}}, func(b *bench) { b.table = "" }, func(t *testing.T, b *bench) {
			b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
			if s := b.x.Status(); len(s) != 0 {
				t.Errorf("status: %+v", s)
			}
		}},
		{"drop database", &plan.DDL{Op: "DROP DATABASE", Schema: "s"}, func(b *bench) { b.table = "" }, func(t *testing.T, b *bench) {
			if s := b.x.Status(); len(s) != 0 {
				t.Errorf("status: %+v", s)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, nil)
			b.shards[0].set(1, "ann")
			b.create()
			b.update(0, 1, "ann") // a job that is due during the DDL
			if err := b.x.BeforeDDL(t.Context(), test.change); err != nil {
				t.Fatal(err)
			}
			if b.index() != nil && b.index().Usable() && unsettles(test.change, b.x.Status()[0].Def) {
				t.Error("reads use the index during the DDL")
			}
			scans := len(b.shards[0].statements("START TRANSACTION"))
			b.pass(time.Minute)
			if n := len(b.shards[0].statements("START TRANSACTION")); n != scans {
				t.Error("a scan ran during the DDL")
			}
			test.do(b)
			if err := b.publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.x.AfterDDL(t.Context(), test.change, false); err != nil {
				t.Fatal(err)
			}
			test.check(t, b)
		})
	}
}

// A rebuild that comes while another runs must not be finished by it.
func TestRebuildSupersedesABuild(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.shards[1].set(1, "bob")
	writer := b.x.Begin(catalog.Only(1)) // the build stops after the first shard
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
		t.Fatal(err)
	}
	b.until("the first shard is scanned", func() bool { return len(b.shards[0].statements("COMMIT")) == 1 })
	if err := b.x.RebuildIndex(t.Context(), "s", "t", "ix", ""); err != nil {
		t.Fatal(err)
	}
	writer.End()
	b.ready()
	b.expect("ann", 0)
	b.expect("bob", 1)
	if n := len(b.shards[0].statements("COMMIT")); n != 2 {
		t.Errorf("the first shard was scanned %d times", n)
	}
}

// heldBuild is a store whose first FinishBuild is late.
type heldBuild struct {
	Store
	begun, goOn chan struct{}
	once        sync.Once
}

func (h *heldBuild) FinishBuild(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) error {
	h.once.Do(func() {
		close(h.begun)
		<-h.goOn
	})
	return h.Store.FinishBuild(id, generation, floors)
}

// waits: the first FinishBuild has been called.
func (h *heldBuild) waits() bool {
	select {
	case <-h.begun:
		return true
	default:
		return false
	}
}

// Renew fails as on a full disk.
func (*heldBuild) Renew(uint64, string, time.Duration) error { return storage.ErrStoreFull }

// A build that goes on when its lease has run out is waited for by what supersedes it.
func TestRebuildWhileALeaseRunsOut(t *testing.T) {
	t.Parallel()
	held := &heldBuild{begun: make(chan struct{}), goOn: make(chan struct{})}
	b := newBench(t, 1, func(o *Options) { held.Store, o.Store = o.Store, held })
	b.shards[0].set(1, "ann")
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
		t.Fatal(err)
	}
	b.until("the build has read the shard", held.waits)
	b.pass(2 * leaseTime)
	if jobs := b.x.Jobs(); len(jobs) != 1 || jobs[0].Attempts != 1 {
		t.Errorf("jobs: %+v", jobs)
	}
	b.shards[0].change(func(s *fakeShard) { s.took = time.Hour })
	rebuilt := make(chan error)
	go func() { rebuilt <- b.x.RebuildIndex(t.Context(), "s", "t", "ix", "") }()
	b.until("REBUILD has looked for the build", func() bool {
		b.x.work.mu.Lock()
		defer b.x.work.mu.Unlock()
		return b.x.cluster.Dismissed(1) && len(b.x.work.runs) == 1
	})
	close(held.goOn)
	if err := <-rebuilt; err != nil {
		t.Fatal(err)
	}
	b.until("the next build reads the shard", func() bool { return len(b.shards[0].statements("SELECT `id`")) == 2 })
	b.expect("ann", 0)
}

// A job whose lease can't be renewed ends before somebody else may claim it.
func TestLeaseThatRunsOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, func(o *Options) { o.Store = &heldBuild{Store: o.Store} })
	b.shards[0].set(1, "ann")
	b.shards[0].change(func(s *fakeShard) { s.took = time.Hour })
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
		t.Fatal(err)
	}
	b.until("the job is given back", func() bool {
		jobs := b.x.Jobs()
		return len(jobs) == 1 && strings.HasSuffix(jobs[0].Error, errLease.Error())
	})
}

// A job that others' scans have ended again and again, and that fails once, is tried again soon.
func TestBackoffBehindSuperseded(t *testing.T) {
	t.Parallel()
	gate := &gateTaken{}
	b := newBench(t, 1, func(o *Options) { gate.Store, o.Store = o.Store, gate })
	b.shards[0].set(1, "ann")
	b.create()
	gate.taken.Store(12)
	b.update(0, 1, "eve")
	b.until("it was superseded", func() bool { return gate.taken.Load() <= 0 })
	b.until("it has failed", func() bool { return gate.failed.Load() })
	began := b.clock.Now()
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	if took := b.clock.Now().Sub(began); took > 30*time.Second {
		t.Errorf("after %v", took)
	}
}

// gateTaken has OpenGate be superseded some times, and then fail once.
type gateTaken struct {
	Store
	taken  atomic.Int64
	failed atomic.Bool
}

func (g *gateTaken) OpenGate(id catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (storage.Gate, error) {
	switch left := g.taken.Add(-1); {
	case left >= 0:
		return storage.Gate{}, storage.ErrSuperseded
	case left == -1 && !g.failed.Swap(true):
		return storage.Gate{}, errors.New("no route to host")
	}
	return g.Store.OpenGate(id, shard, e)
}

// A build that others were in the way of goes on soon, however late scans may come.
func TestBuildGoesOnSoon(t *testing.T) {
	t.Parallel()
	late := &lateOnce{}
	b := newBench(t, 1, func(o *Options) { late.Store, o.Store, o.Delay = o.Store, late, 24*time.Hour })
	b.shards[0].set(1, "ann")
	began := b.clock.Now()
	b.create()
	if took := b.clock.Now().Sub(began); !late.was.Load() || took > time.Minute {
		t.Errorf("it is ready after %v", took)
	}
	b.expect("ann", 0)
}

// lateOnce has the first end of a build be superseded.
type lateOnce struct {
	Store
	was atomic.Bool
}

func (l *lateOnce) FinishBuild(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) error {
	if !l.was.Swap(true) {
		return storage.ErrSuperseded
	}
	return l.Store.FinishBuild(id, generation, floors)
}

// A power loss may bring the job of a superseded build back: its checkpoint says nothing of
// the generation that was opened since.
func TestBuildOfASupersededGeneration(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[0].set(1, "ann")
	b.shards[1].set(1, "bob")
	var back atomic.Bool
	b.shards[1].change(func(s *fakeShard) {
		s.row = func(int) error {
			if back.Load() {
				return nil
			}
			return errors.New("connection lost")
		}
	})
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
		t.Fatal(err)
	}
	b.until("a shard is done", func() bool {
		jobs := b.x.Jobs()
		return len(jobs) == 1 && jobs[0].State == storage.Backoff && jobs[0].Checkpoint != nil
	})
	if err := b.store.StartBuild(b.index().ID, 0); err != nil {
		t.Fatal(err)
	}
	back.Store(true)
	b.ready()
	b.expect("ann", 0)
	b.expect("bob", 1)
}

// A build that ends just when DDL comes makes its index ready: with the keys of
// before the DDL, which reads would use until it is built again.
func TestDDLWhileABuildEnds(t *testing.T) {
	t.Parallel()
	held := &heldBuild{begun: make(chan struct{}), goOn: make(chan struct{})}
	b := newBench(t, 1, func(o *Options) { held.Store, o.Store = o.Store, held })
	b.shards[0].set(1, "ann")
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
		t.Fatal(err)
	}
	b.until("the build has read all shards", held.waits)
	change := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, Touches: []string{"k"}}
	before := make(chan error)
	go func() { before <- b.x.BeforeDDL(t.Context(), change) }()
	b.until("the DDL has looked at the index", func() bool {
		return b.x.cluster.Fencing()
	})
	close(held.goOn)
	if err := <-before; err != nil {
		t.Fatal(err)
	}
	if b.index().Usable() {
		t.Error("reads use the index during the DDL")
	}
	b.shards[0].set(1, "bob")
	if err := b.x.AfterDDL(t.Context(), change, false); err != nil {
		t.Fatal(err)
	}
	if b.index().Usable() {
		b.expect("bob", 0)
	}
	b.ready()
	b.expect("bob", 0)
}

func TestInDoubtHoldsRemovalsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	b.shards[0].change(func(s *fakeShard) { s.threads = [][]string{{"7", "shunt", "", "", "Query", "1"}} })
	o := b.x.Begin(catalog.Only(0))
	if err := b.x.Prepare(context.Background(), o, []plan.Entry{{Index: b.index(), Key: b.key("eve"), Shard: 0}}, nil, nil, catalog.ShardSet{}); err != nil {
		t.Fatal(err)
	}
	m := plan.Maintenance{Table: b.index().Table, Operation: "UPDATE", Shards: catalog.Only(0), Indexes: []*catalog.Index{b.index()}}
	o.InDoubt(0, storage.Thread{ID: 7}, m)
	b.x.After(m)
	b.pass(time.Minute)
	b.expect("eve", 0)
	b.shards[0].set(1, "eve")
	b.shards[0].change(func(s *fakeShard) { s.threads = nil })
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
	b.expect("eve", 0)
}

// DDL that can't begin leaves the table to the jobs again, and the index that
// it took out of use is built.
func TestDDLThatCannotBegin(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	broken := errors.New("no catalog today")
	publish := b.x.opts.Publish
	failing := true
	b.x.opts.Publish = func(ctx context.Context) error {
		if failing {
			failing = false
			return broken
		}
		return publish(ctx)
	}
	c := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "s", Name: "t"}}, AllColumns: true}
	if err := b.x.BeforeDDL(t.Context(), c); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	b.ready()
	b.expect("ann", 0)
	b.update(0, 1, "eve")
	b.until("the stale entry is gone", func() bool { return len(b.shardsOf("ann")) == 0 })
}

// TestRemovedShard: a shard that was taken out of the configuration is asked for nothing, and
// keeps its marks for the time when it is put back.
func TestRemovedShard(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.create()
	b.until("no job of the build is left", func() bool { return len(b.store.Jobs()) == 0 })
	b.mark(1)
	b.x.Close()
	removed := b.shards[1]
	b.shards = b.shards[:1]
	if err := b.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start() // makes a job of the mark
	b.until("nothing is left to do", func() bool { return len(b.store.Jobs()) == 0 })
	b.x.Close()
	removed.set(1, "ann")
	b.shards = append(b.shards, removed)
	if err := b.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.expect("ann", 1)
	b.until("it is scanned", func() bool { return len(b.shardsOf("bob")) == 0 })
	b.expect("ann", 1)
}

// TestAlteredBehind: an index whose column has another collation since a catalog was published
// is built again, at once and not when the next minute ends.
func TestAlteredBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[1].set(1, "ann")
	b.create()
	b.until("no job of the build is left", func() bool { return len(b.store.Jobs()) == 0 })
	b.mu.Lock()
	b.column.Collation = "utf8mb4_general_ci"
	b.mu.Unlock()
	if err := b.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.x.Published()
	altered := b.clock.Now()
	b.until("it is built again", func() bool { return b.store.Indexes()[0].Keyed == b.index().Definition(false) })
	if took := b.clock.Now().Sub(altered); took >= mendEvery {
		t.Errorf("it was built %s later", took)
	}
	b.ready()
	b.expect("ANN", 1)
}
