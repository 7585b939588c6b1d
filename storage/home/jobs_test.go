package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

func maintain(shards ...catalog.ShardID) storage.Job {
	return storage.Job{Type: storage.MaintainIndex, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: set(shards...), Indexes: []catalog.IndexID{7}}
}

// verify asks shard 1 about n keys.
func verify(from, n int) storage.Job {
	j := storage.Job{Type: storage.VerifyKeys, Schema: "shop", Table: "users", Shards: set(1)}
	for i := range n {
		j.Keys = append(j.Keys, storage.JobKey{Index: 7, Key: fmt.Appendf(nil, "\x00\xff%d", from+i), Values: json.RawMessage(`["a"]`)})
	}
	return j
}

var jobConformance = []conformanceCase{
	{"Leases", func(t *testing.T, p *place) {
		ctx := t.Context()
		must[uint64](t)(p.Enqueue(ctx, maintain(1, 2)))
		left := must[*storage.Job](t)(p.Claim(ctx, "gone/1", time.Hour, nil))
		kept := must[*storage.Job](t)(p.Claim(ctx, "lives/1", time.Hour, nil))
		workers := must[[]string](t)(p.Workers(ctx))
		if slices.Sort(workers); !slices.Equal(workers, []string{"gone/1", "lives/1"}) {
			t.Fatal(workers)
		}
		if n := must[int64](t)(p.EndLeases(ctx, "gone/1")); n != 1 {
			t.Fatal(n)
		}
		if workers := must[[]string](t)(p.Workers(ctx)); !slices.Equal(workers, []string{"lives/1"}) {
			t.Fatal(workers)
		}
		if j := must[*storage.Job](t)(p.Claim(ctx, "lives/1", time.Hour, nil)); j == nil || j.ID != left.ID || j.Attempts != 2 {
			t.Fatalf("%+v", j)
		}
		if err := p.Finish(ctx, left.ID, "gone/1"); !errors.Is(err, storage.ErrLeaseLost) {
			t.Fatal(err)
		}
		check(t, p.Finish(ctx, kept.ID, "lives/1"))
	}},
	{"Jobs", func(t *testing.T, p *place) {
		ctx := t.Context()
		if j := must[*storage.Job](t)(p.Claim(ctx, "w", time.Hour, nil)); j != nil {
			t.Fatal(j)
		}
		if _, ok, err := p.NextJob(ctx); ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := p.Enqueue(ctx, maintain()); err == nil {
			t.Fatal("a job for no shard")
		}
		j := maintain(1, 2)
		j.UpdatedColumns, j.CreatedAt = []string{"b", "a", "b"}, time.Now().Add(-time.Hour)
		first := must[uint64](t)(p.Enqueue(ctx, j))
		before := p.tables(t)
		j.Shards, j.CreatedAt = set(1), time.Time{}
		if id := must[uint64](t)(p.Enqueue(ctx, j)); id != first || p.tables(t) != before {
			t.Fatal("what is covered was written")
		}
		j.Operation, j.Indexes = "DELETE", []catalog.IndexID{3}
		if id := must[uint64](t)(p.Enqueue(ctx, j)); id != first {
			t.Fatal(id)
		}
		jobs := must[[]storage.Job](t)(p.Jobs(ctx))
		if len(jobs) != 2 || jobs[0].ID != first || jobs[0].Operation != "DELETE+UPDATE" || !slices.Equal(jobs[0].Indexes, []catalog.IndexID{3, 7}) ||
			!slices.Equal(jobs[0].UpdatedColumns, []string{"a", "b"}) || jobs[0].Shards != set(1) || jobs[1].Shards != set(2) || jobs[0].State != storage.Waiting ||
			!jobs[0].NotBefore.IsZero() || time.Since(jobs[0].CreatedAt) < 59*time.Minute || time.Since(jobs[0].CreatedAt) > 61*time.Minute {
			t.Fatalf("%+v", jobs)
		}
		// The runnable one is claimed, and what is claimed merges no more.
		got := must[*storage.Job](t)(p.Claim(ctx, "w", time.Hour, func(j *storage.Job) bool { return j.Shards == set(2) }))
		if got == nil || got.Shards != set(2) || got.Attempts != 1 || got.ClaimedBy != "w" || got.State != storage.Running {
			t.Fatalf("%+v", got)
		}
		if again := must[*storage.Job](t)(p.Claim(ctx, "v", time.Hour, func(j *storage.Job) bool { return j.Shards == set(2) })); again != nil {
			t.Fatalf("%+v", again)
		}
		j.Shards = set(2)
		third := must[uint64](t)(p.Enqueue(ctx, j))
		if third == got.ID || third == first {
			t.Fatal("merged into a claimed job")
		}
		// It waits for the one that runs.
		if j := must[*storage.Job](t)(p.Claim(ctx, "v", time.Hour, func(j *storage.Job) bool { return j.ID != first })); j != nil {
			t.Fatalf("%+v", j)
		}
		check(t, p.SaveCheckpoint(ctx, got.ID, "w", json.RawMessage(`{"at":  1}`), 0.25))
		check(t, p.Renew(ctx, got.ID, "w", 2*time.Hour))
		for _, worker := range []string{"v", ""} {
			if err := errors.Join(p.Renew(ctx, got.ID, worker, time.Hour)); !errors.Is(err, storage.ErrLeaseLost) {
				t.Fatal(err)
			}
			if err := p.Fail(ctx, got.ID, worker, nil, time.Time{}); !errors.Is(err, storage.ErrLeaseLost) {
				t.Fatal(err)
			}
			if err := p.Finish(ctx, got.ID, worker); !errors.Is(err, storage.ErrLeaseLost) {
				t.Fatal(err)
			}
		}
		check(t, p.Fail(ctx, got.ID, "w", errors.New("no route"), time.Now().Add(time.Hour)))
		jobs = must[[]storage.Job](t)(p.Jobs(ctx))
		f := jobs[slices.IndexFunc(jobs, func(j storage.Job) bool { return j.ID == got.ID })]
		if f.State != storage.Backoff || f.Error != "no route" || string(f.Checkpoint) != `{"at":  1}` || f.Progress != 0.25 || f.ClaimedBy != "" || time.Until(f.NotBefore) < 59*time.Minute {
			t.Fatalf("%+v", f)
		}
		if next := must[*storage.Job](t)(p.Claim(ctx, "v", time.Hour, func(j *storage.Job) bool { return j.ID != first })); next == nil || next.ID != third {
			t.Fatalf("%+v", next)
		}
		check(t, p.Finish(ctx, third, "v"))
		if err := p.Finish(ctx, third, "v"); !errors.Is(err, storage.ErrLeaseLost) {
			t.Fatal(err)
		}
		if jobs = must[[]storage.Job](t)(p.Jobs(ctx)); len(jobs) != 2 {
			t.Fatalf("%+v", jobs)
		}
	}},
	{"JobLeases", func(t *testing.T, p *place) {
		ctx := t.Context()
		id := must[uint64](t)(p.Enqueue(ctx, maintain(1)))
		// A lease that ran out is the worker's until another takes the job over.
		if j := must[*storage.Job](t)(p.Claim(ctx, "one", 0, nil)); j == nil || j.ID != id {
			t.Fatal(j)
		}
		check(t, p.Renew(ctx, id, "one", 0))
		if j := must[*storage.Job](t)(p.Claim(ctx, "two", 0, nil)); j == nil || j.ID != id || j.Attempts != 2 {
			t.Fatal(j)
		}
		if err := p.Renew(ctx, id, "one", time.Hour); !errors.Is(err, storage.ErrLeaseLost) {
			t.Fatal(err)
		}
		// One that excludes it takes its place, too.
		other := maintain(1)
		other.Type = storage.Reconcile
		rec := must[uint64](t)(p.Enqueue(ctx, other))
		if j := must[*storage.Job](t)(p.Claim(ctx, "three", time.Hour, func(j *storage.Job) bool { return j.ID == rec })); j == nil || j.ID != rec {
			t.Fatal(j)
		}
		if err := p.Renew(ctx, id, "two", time.Hour); !errors.Is(err, storage.ErrLeaseLost) {
			t.Fatal(err)
		}
		if j := must[*storage.Job](t)(p.Claim(ctx, "four", time.Hour, nil)); j != nil {
			t.Fatal(j)
		}
		if at, ok, err := p.NextJob(ctx); err != nil || !ok || time.Until(at) < 59*time.Minute {
			t.Fatal(at, ok, err)
		}
		check(t, p.Finish(ctx, rec, "three"))
		if at, ok, err := p.NextJob(ctx); err != nil || !ok || time.Until(at) > time.Minute {
			t.Fatal(at, ok, err)
		}
	}},
	{"JobTimes", func(t *testing.T, p *place) {
		ctx := t.Context()
		late, later := maintain(1), maintain(2)
		late.NotBefore, later.NotBefore = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		must[uint64](t)(p.Enqueue(ctx, later))
		id := must[uint64](t)(p.Enqueue(ctx, late))
		if j := must[*storage.Job](t)(p.Claim(ctx, "w", time.Hour, nil)); j != nil {
			t.Fatal(j)
		}
		if at, ok, err := p.NextJob(ctx); err != nil || !ok || time.Until(at) > time.Hour || time.Until(at) < 59*time.Minute {
			t.Fatal(at, ok, err)
		}
		// Who can't wait doesn't.
		late.NotBefore = time.Time{}
		must[uint64](t)(p.Enqueue(ctx, late))
		if j := must[*storage.Job](t)(p.Claim(ctx, "w", time.Hour, nil)); j == nil || j.ID != id {
			t.Fatal(j)
		}
		// A job that failed keeps its pause.
		check(t, p.Fail(ctx, id, "w", nil, time.Now().Add(time.Hour)))
		if got := must[uint64](t)(p.Enqueue(ctx, late)); got != id {
			t.Fatal("not merged into a job that was given back")
		}
		if j := must[*storage.Job](t)(p.Claim(ctx, "w", time.Hour, nil)); j != nil {
			t.Fatal(j)
		}
	}},
	{"JobKeys", func(t *testing.T, p *place) {
		ctx := t.Context()
		id := must[uint64](t)(p.Enqueue(ctx, verify(0, 3)))
		if got := must[uint64](t)(p.Enqueue(ctx, verify(2, 3))); got != id {
			t.Fatal(got)
		}
		jobs := must[[]storage.Job](t)(p.Jobs(ctx))
		if len(jobs) != 1 || len(jobs[0].Keys) != 5 || string(jobs[0].Keys[4].Key) != "\x00\xff4" || string(jobs[0].Keys[4].Values) != `["a"]` {
			t.Fatalf("%+v", jobs)
		}
		// Too many become a scan, which stands for more of them.
		scan := must[uint64](t)(p.Enqueue(ctx, verify(5, 1000)))
		if more := must[uint64](t)(p.Enqueue(ctx, verify(5000, 1))); more != scan {
			t.Fatal(more)
		}
		jobs = must[[]storage.Job](t)(p.Jobs(ctx))
		if len(jobs) != 1 || jobs[0].ID != scan || jobs[0].Type != storage.MaintainIndex || !slices.Equal(jobs[0].Indexes, []catalog.IndexID{7}) || len(jobs[0].Keys) != 0 {
			t.Fatalf("%+v", jobs)
		}
		must[*storage.Job](t)(p.Claim(ctx, "w", time.Hour, nil))
		if more := must[uint64](t)(p.Enqueue(ctx, verify(5000, 1))); more == scan {
			t.Fatal("a scan that has begun stands for a later key")
		}
	}},
	{"JobsBeside", func(t *testing.T, p *place) {
		// Whatever is enqueued is done once by somebody after it, and never by two at a time.
		ctx := t.Context()
		var all, workers sync.WaitGroup
		var mu sync.Mutex
		running := map[catalog.ShardSet]bool{}
		done := map[string]bool{}
		stop := make(chan struct{})
		for w := range 3 {
			workers.Go(func() {
				for over := false; ; {
					j, err := p.Claim(ctx, fmt.Sprint("w", w), time.Hour, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if j == nil {
						if over {
							return
						}
						select {
						case <-stop:
							over = true
						default:
						}
						continue
					}
					mu.Lock()
					if running[j.Shards] {
						t.Errorf("two jobs of shard %v run", list(j.Shards))
					}
					running[j.Shards] = true
					for _, c := range j.UpdatedColumns {
						done[c] = true
					}
					mu.Unlock()
					mu.Lock()
					running[j.Shards] = false
					mu.Unlock()
					if err := p.Finish(ctx, j.ID, fmt.Sprint("w", w)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		const enqueuers, jobs = 4, 15
		for e := range enqueuers {
			all.Go(func() {
				for i := range jobs {
					j := maintain(catalog.ShardID(i % 2))
					j.UpdatedColumns = []string{fmt.Sprint(e, ".", i)}
					if _, err := p.Enqueue(ctx, j); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		close(stop)
		workers.Wait()
		if left := must[[]storage.Job](t)(p.Jobs(ctx)); len(left) != 0 || len(done) != enqueuers*jobs {
			t.Fatalf("%d done, left %+v", len(done), left)
		}
	}},
}
