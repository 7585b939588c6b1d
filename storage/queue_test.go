package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

func jobFor(typ string, shards ...catalog.ShardID) Job {
	return Job{Type: typ, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: set(shards...), Indexes: []catalog.IndexID{1}}
}

func openQueue(t *testing.T) (*Store, *testClock, Options) {
	clock := newTestClock()
	o := testOpts(t.TempDir())
	o.Now = clock.Now
	return openTest(t, o, testOptions{}), clock, o
}

func claim(t *testing.T, s *Store, worker string) *Job {
	t.Helper()
	j, err := s.Claim(worker, time.Minute, time.Time{}, nil)
	check(t, err)
	return j
}

func TestJobsMerge(t *testing.T) {
	t.Parallel()
	s, clock, o := openQueue(t)
	now := clock.Now()
	first := jobFor(MaintainIndex, 1, 2)
	first.NotBefore, first.UpdatedColumns = now.Add(time.Second), []string{"email"}
	must(s.Enqueue(first))
	second := jobFor(MaintainIndex, 2, 3)
	second.Operation, second.Indexes, second.UpdatedColumns = "DELETE", []catalog.IndexID{3, 2}, []string{"city"}
	second.NotBefore = now.Add(maxPutOff / 2)
	must(s.Enqueue(second))
	jobs := s.Jobs()
	if len(jobs) != 3 {
		t.Fatalf("%+v", jobs)
	}
	m := jobs[1]
	if m.Shards != set(2) || m.Operation != "DELETE+UPDATE" || !slices.Equal(m.Indexes, []catalog.IndexID{1, 2, 3}) ||
		!slices.Equal(m.UpdatedColumns, []string{"city", "email"}) || !m.NotBefore.Equal(first.NotBefore) || m.State != Waiting {
		t.Fatalf("%+v", m)
	}
	if !m.CreatedAt.Equal(now) {
		t.Fatalf("made at %s, merged at %s", now, m.CreatedAt)
	}
	// Jobs that differ in type or table don't merge; builds are one an index.
	must(s.Enqueue(jobFor(Reconcile, 2)))
	other := jobFor(MaintainIndex, 2)
	other.Table = "orders"
	must(s.Enqueue(other))
	build := jobFor(BuildIndex, 1, 2, 3)
	id := must(s.Enqueue(build))
	if must(s.Enqueue(build)) != id {
		t.Fatal("the same build twice")
	}
	build.Indexes = []catalog.IndexID{2}
	if must(s.Enqueue(build)) == id {
		t.Fatal("builds of two indexes merged")
	}
	drop := jobFor(DropIndexJob)
	id = must(s.Enqueue(drop))
	drop.Indexes = []catalog.IndexID{9}
	if must(s.Enqueue(drop)) != id {
		t.Fatal("drops did not merge")
	}
	if _, err := s.Enqueue(Job{Type: MaintainIndex}); err == nil {
		t.Fatal("a scan of no shard")
	}
	before := s.Jobs()
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	if after := s.Jobs(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("\n%+v\n%+v", before, after)
	}
	// Still merging.
	must(s.Enqueue(second))
	if len(s.Jobs()) != len(before) {
		t.Fatal("no merging after a restart")
	}
}

func TestJobLife(t *testing.T) {
	t.Parallel()
	s, clock, o := openQueue(t)
	later := jobFor(MaintainIndex, 1)
	later.NotBefore = clock.Now().Add(time.Second)
	id := must(s.Enqueue(later))
	<-s.JobsChanged()
	if claim(t, s, "w1") != nil {
		t.Fatal("claimed before its time")
	}
	if at, ok := s.NextJob(); !ok || !at.Equal(later.NotBefore) {
		t.Fatal(at, ok)
	}
	clock.add(time.Second)
	if j, _ := s.Claim("w1", time.Minute, time.Time{}, func(j *Job) bool { return j.ID != id }); j != nil {
		t.Fatal("claimed what is not runnable")
	}
	j := claim(t, s, "w1")
	if j == nil || j.ID != id || j.State != Running || j.Attempts != 1 || j.ClaimedBy != "w1" {
		t.Fatalf("%+v", j)
	}
	// A claimed job is not merged into, and holds the next one up.
	next := must(s.Enqueue(later))
	if next == id || claim(t, s, "w2") != nil {
		t.Fatal("merged into, or claimed beside, a running job")
	}
	must(s.Enqueue(jobFor(Reconcile, 1)))
	if claim(t, s, "w2") != nil {
		t.Fatal("two scans of a table on a shard")
	}
	if v := must(s.Enqueue(Job{Type: VerifyKeys, Schema: "shop", Table: "users", Shards: set(1)})); claim(t, s, "w2").ID != v {
		t.Fatal("a verification waits for a scan")
	}
	if err := s.Finish(id, "w2"); !errors.Is(err, ErrLeaseLost) {
		t.Fatal(err)
	}
	// The lease is renewed, then runs out, and the job is taken over.
	clock.add(50 * time.Second)
	check(t, s.Renew(id, "w1", time.Minute))
	check(t, s.SaveCheckpoint(id, "w1", []byte(`{"at":5}`), 0.5))
	clock.add(50 * time.Second)
	if s.Jobs()[0].State != Running {
		t.Fatal("not renewed")
	}
	clock.add(11 * time.Second)
	j, err := s.Claim("w2", time.Minute, time.Time{}, func(j *Job) bool { return j.ID == id })
	check(t, err)
	if j == nil || string(j.Checkpoint) != `{"at":5}` || j.Progress != 0.5 || j.Attempts != 2 {
		t.Fatalf("%+v", j)
	}
	if err := s.Renew(id, "w1", time.Minute); !errors.Is(err, ErrLeaseLost) {
		t.Fatal(err)
	}
	// It fails and backs off; with a checkpoint it is not merged into.
	check(t, s.Fail(id, "w2", errors.New("shard is down"), clock.Now().Add(time.Hour)))
	if j := s.Jobs()[0]; j.State != Backoff || j.Error != "shard is down" || j.ClaimedBy != "" {
		t.Fatalf("%+v", j)
	}
	if must(s.Enqueue(later)) != next {
		t.Fatal("merged into a job that resumes in its middle")
	}
	if j := claim(t, s, "w1"); j == nil || j.ID == id {
		t.Fatalf("%+v", j)
	}
	// A restart releases the claims.
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	for _, j := range s.Jobs() {
		if j.ClaimedBy != "" {
			t.Fatalf("%+v", j)
		}
	}
	for {
		j := claim(t, s, "w3")
		if j == nil {
			break
		}
		check(t, s.Finish(j.ID, "w3"))
	}
	if left := s.Jobs(); len(left) != 1 || left[0].ID != id {
		t.Fatalf("%+v", left)
	}
}

func TestBackoffIsKept(t *testing.T) {
	t.Parallel()
	s, clock, _ := openQueue(t)
	id := must(s.Enqueue(jobFor(MaintainIndex, 1)))
	claim(t, s, "w")
	until := clock.Now().Add(time.Hour)
	check(t, s.Fail(id, "w", errors.New("no"), until))
	wider := jobFor(MaintainIndex, 1)
	wider.Indexes = []catalog.IndexID{5}
	if must(s.Enqueue(wider)) != id {
		t.Fatal("not merged")
	}
	if j := s.Jobs()[0]; !j.NotBefore.Equal(until) || len(j.Indexes) != 2 {
		t.Fatalf("%+v", j)
	}
}

// TestResumedJobIsNotMergedInto: it has read part of the table already.
func TestResumedJobIsNotMergedInto(t *testing.T) {
	t.Parallel()
	s, clock, o := openQueue(t)
	id := must(s.Enqueue(jobFor(MaintainIndex, 1)))
	claim(t, s, "w")
	check(t, s.SaveCheckpoint(id, "w", []byte(`1`), 0))
	check(t, s.Fail(id, "w", errors.New("no"), clock.Now()))
	fresh := must(s.Enqueue(jobFor(MaintainIndex, 1)))
	if fresh == id {
		t.Fatal("merged")
	}
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	if must(s.Enqueue(jobFor(MaintainIndex, 1))) != fresh {
		t.Fatal("not merged into the one that has not begun")
	}
}

func TestVerifyKeysMergeAndOverflow(t *testing.T) {
	t.Parallel()
	s, _, o := openQueue(t)
	verify := func(n int) Job {
		j := Job{Type: VerifyKeys, Schema: "shop", Table: "users", Operation: "DELETE", Shards: set(1)}
		j.Keys = []JobKey{{Index: 4, Key: fmt.Append(nil, n), Values: []byte(`["v"]`)}}
		return j
	}
	id := must(s.Enqueue(verify(0)))
	for i := range maxJobKeys {
		if must(s.Enqueue(verify(i))) != id {
			t.Fatal("not merged")
		}
	}
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	if j := s.Jobs(); len(j) != 1 || len(j[0].Keys) != maxJobKeys || string(j[0].Keys[7].Key) != "7" || string(j[0].Keys[7].Values) != `["v"]` {
		t.Fatalf("%d jobs", len(j))
	}
	must(s.Enqueue(verify(3)))
	scan := must(s.Enqueue(verify(maxJobKeys)))
	jobs := s.Jobs()
	if len(jobs) != 1 || jobs[0].ID != scan || jobs[0].Type != MaintainIndex || !slices.Equal(jobs[0].Indexes, []catalog.IndexID{4}) ||
		jobs[0].Shards != set(1) || len(jobs[0].Keys) != 0 {
		t.Fatalf("%+v", jobs)
	}
	// The scan will see to further keys too, until it begins.
	if must(s.Enqueue(verify(5))) != scan {
		t.Fatal("a key beside the scan")
	}
	claim(t, s, "w")
	if must(s.Enqueue(verify(5))) == scan {
		t.Fatal("merged into a running scan")
	}
	n := 0
	check(t, s.scan([]byte{kindJobKey}, func([]byte, []byte) (bool, error) { n++; return true, nil }))
	if n != 1 {
		t.Fatalf("%d key records left", n)
	}
}

// TestWorkersAreWoken: one wake reaches all workers that have something to do.
func TestWorkersAreWoken(t *testing.T) {
	t.Parallel()
	s, _, _ := openQueue(t)
	must(s.Enqueue(jobFor(MaintainIndex, 1, 2, 3)))
	for i := range 3 {
		<-s.JobsChanged()
		j := claim(t, s, fmt.Sprint(i))
		if j == nil {
			t.Fatal("woken for nothing")
		}
	}
}

// TestEnqueueSoon: jobs behind writes are gathered in memory as long as a
// write-intent stands for them, and are in the store after anything that relies
// on it.
func TestEnqueueSoon(t *testing.T) {
	t.Parallel()
	verify := func(from, to int) Job {
		j := jobFor(VerifyKeys, 1)
		for i := from; i < to; i++ {
			j.Keys = append(j.Keys, JobKey{Index: 1, Key: fmt.Appendf(nil, "k%d", i)})
		}
		return j
	}
	type world struct {
		s     *Store
		clock *testClock
		dir   string
	}
	// crashed are the jobs, with their numbers of keys, and the unclean pairs that
	// the next process finds.
	crashed := func(t *testing.T, w world) string {
		o := testOpts(copyStore(t, w.dir))
		s := openTest(t, o, testOptions{manual: true})
		var jobs []string
		for _, j := range s.Jobs() {
			jobs = append(jobs, fmt.Sprint(j.Type, len(j.Keys)))
		}
		return fmt.Sprint(jobs, len(s.Unclean()))
	}
	for name, test := range map[string]struct {
		do   func(t *testing.T, w world)
		want string
	}{
		"not yet": {func(*testing.T, world) {}, "[] 1"},
		"after a moment": {func(t *testing.T, w world) {
			commits := w.s.db.commits.Load()
			check(t, w.s.queue.save(w.s))
			check(t, w.s.queue.save(w.s))
			if n := w.s.db.commits.Load() - commits; n != 1 {
				t.Errorf("%d commits", n)
			}
		}, "[maintain_index0 verify_keys40] 1"},
		"saved twice": {func(t *testing.T, w world) {
			check(t, w.s.queue.save(w.s))
			check(t, w.s.EnqueueSoon(verify(30, 50)))
			check(t, w.s.queue.save(w.s))
		}, "[maintain_index0 verify_keys50] 1"},
		"by a sync": {func(t *testing.T, w world) { check(t, w.s.Sync()) }, "[maintain_index0 verify_keys40] 1"},
		"before the intent is lifted": {func(t *testing.T, w world) {
			w.clock.add(time.Minute)
			check(t, w.s.lift())
		}, "[maintain_index0 verify_keys40] 0"},
		"Enqueue of what is covered": {func(t *testing.T, w world) {
			must(w.s.Enqueue(jobFor(MaintainIndex, 1)))
		}, "[maintain_index0 verify_keys40] 1"},
		"Claim": {func(t *testing.T, w world) { claim(t, w.s, "w") }, "[maintain_index0 verify_keys40] 1"},
		"Finish": {func(t *testing.T, w world) {
			for range 2 {
				j := claim(t, w.s, "w")
				check(t, w.s.EnqueueSoon(verify(0, 1)))
				check(t, w.s.Finish(j.ID, "w"))
			}
			n := 0
			check(t, w.s.scan([]byte{kindJobKey}, func(_, _ []byte) (bool, error) { n++; return true, nil }))
			if n != 1 {
				t.Errorf("%d keys of jobs in the store", n)
			}
		}, "[verify_keys1] 1"},
		"too many keys": {func(t *testing.T, w world) {
			check(t, w.s.EnqueueSoon(verify(40, 40+maxJobKeys)))
			check(t, w.s.queue.save(w.s))
		}, "[maintain_index0] 1"},
		"without an intent": {func(t *testing.T, w world) {
			j := jobFor(MaintainIndex, 2)
			check(t, w.s.EnqueueSoon(j))
		}, "[maintain_index0 verify_keys40 maintain_index0] 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{clock: newTestClock(), dir: t.TempDir()}
			o := testOpts(w.dir)
			o.Now = w.clock.Now
			w.s = openTest(t, o, testOptions{manual: true})
			intendPairs(t, w.s, []Pair{{"shop", "users", 1}})
			commits := w.s.db.commits.Load()
			check(t, w.s.EnqueueSoon(jobFor(MaintainIndex, 1)))
			for i := range 40 {
				check(t, w.s.EnqueueSoon(verify(i, i+1)))
			}
			if n := w.s.db.commits.Load() - commits; n != 0 {
				t.Errorf("%d commits at once", n)
			}
			if jobs := w.s.Jobs(); len(jobs) != 2 || len(jobs[1].Keys) != 40 {
				t.Errorf("not seen at once: %v", jobs)
			}
			test.do(t, w)
			if got := crashed(t, w); got != test.want {
				t.Errorf("after a crash: %s, want %s", got, test.want)
			}
			before := w.s.Jobs()
			check(t, w.s.Close())
			s := openTest(t, o, testOptions{})
			if n := len(s.Jobs()); n != len(before) {
				t.Errorf("%d jobs after a restart, %d before", n, len(before))
			}
		})
	}
}

// TestEnqueueSoonIsSaved: nobody has to ask for it.
func TestEnqueueSoonIsSaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{})
	intendPairs(t, s, []Pair{{"shop", "users", 1}})
	for i := range 3 {
		j := jobFor(VerifyKeys, 1)
		j.Keys = []JobKey{{Index: 1, Key: []byte{byte(i)}}}
		check(t, s.EnqueueSoon(j))
		for saved := false; !saved; time.Sleep(time.Millisecond) {
			s.queue.mu.Lock()
			saved = len(s.queue.unsaved) == 0
			s.queue.mu.Unlock()
		}
		if jobs := openTest(t, testOpts(copyStore(t, dir)), testOptions{}).Jobs(); len(jobs) != 1 || len(jobs[0].Keys) != i+1 {
			t.Fatal(jobs)
		}
	}
}
