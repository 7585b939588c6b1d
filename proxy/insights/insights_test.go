package insights

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestQuantiles: they are within 3 % of those of the times themselves.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(*rand.Rand) float64{
		"uniform":     func(r *rand.Rand) float64 { return 1e5 + r.Float64()*1e7 },
		"exponential": func(r *rand.Rand) float64 { return 5e4 + r.ExpFloat64()*3e5 },
		"log-normal":  func(r *rand.Rand) float64 { return 2e5 * math.Exp(r.NormFloat64()) },
		"pareto":      func(r *rand.Rand) float64 { return 1e5 / math.Pow(1-r.Float64(), 1/1.5) },
		"two humps": func(r *rand.Rand) float64 {
			if r.IntN(100) < 97 {
				return 1e5 * (1 + r.Float64())
			}
			return 4e8 * (1 + r.Float64())
		},
		"always the same": func(*rand.Rand) float64 { return 123456 },
		"seconds":         func(r *rand.Rand) float64 { return 1e9 + r.Float64()*6e11 },
	} {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		f := figures{}
		var all []float64
		for range 200_000 {
			x := math.Floor(draw(r))
			all = append(all, x)
			f.observe(&Execution{Took: time.Duration(x), Parts: []Part{{Shard: 0, Took: time.Duration(x)}}})
		}
		slices.Sort(all)
		row := f.row()
		row.Whole.percentiles(&f.whole)
		row.Part.percentiles(&f.part)
		for _, q := range []struct {
			share       float64
			whole, part time.Duration
		}{{0.5, row.Whole.P50, row.Part.P50}, {0.95, row.Whole.P95, row.Part.P95}, {0.99, row.Whole.P99, row.Part.P99}, {0.999, row.Whole.P999, row.Part.P999}} {
			want := all[int(math.Ceil(q.share*float64(len(all))))-1]
			if off := math.Abs(float64(q.whole)-want) / want; off > 0.02 || q.part != q.whole {
				t.Errorf("%s, seed %d: p%g is %v, should be %v: %.1f %% off; part %v", name, seed, q.share*100, q.whole, time.Duration(want), off*100, q.part)
			}
		}
		if row.Whole.Max != time.Duration(all[len(all)-1]) || row.Calls != uint64(len(all)) {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

// TestTimesOutOfRange: what is too short or too long to be told apart counts all the same.
func TestTimesOutOfRange(t *testing.T) {
	t.Parallel()
	var h histogram
	for _, d := range []time.Duration{-1, 0, 1, 100 * time.Hour, math.MaxInt64} {
		h.observe(d)
	}
	if q := h.quantiles(0.5, 1); q[0] > 2*time.Microsecond || q[1] < 2*time.Hour {
		t.Error(q)
	}
}

// TestHalve: a counter that is full changes no quantile.
func TestHalve(t *testing.T) {
	t.Parallel()
	var h, more histogram
	for _, x := range []*histogram{&h, &more} {
		for i := range 1000 {
			x.observe(time.Duration(i+1) * time.Millisecond)
		}
		for i := range x.counts {
			for j := range x.counts[i] {
				x.counts[i][j] *= 1 << 22
			}
		}
	}
	before := h.quantiles(0.5, 0.9)
	for i := range h.counts {
		for j := range h.counts[i] {
			if h.counts[i][j] > 0 {
				h.counts[i][j] |= 1
			}
		}
	}
	for range 3 {
		h.add(&more)
		if after := h.quantiles(0.5, 0.9); !slices.Equal(before, after) {
			t.Fatal(before, after)
		}
	}
	h = histogram{}
	h.observe(time.Second)
	h.counts[0][slices.IndexFunc(h.counts[0][:], func(n uint32) bool { return n > 0 })] = math.MaxUint32 - 1
	h.observe(time.Second)
	h.observe(time.Second)
	if q := h.quantiles(0.5); q[0] < 980*time.Millisecond || q[0] > 1020*time.Millisecond {
		t.Error(q)
	}
}

// TestBounded: shapes that come once push neither memory nor what is used over the bound, and all
// executions are in some row.
func TestBounded(t *testing.T) {
	t.Parallel()
	s := New(100)
	often := s.Name(1, "shop", "often")
	n := uint64(0)
	for i := range 20_000 {
		s.Observe(s.Name(uint64(i+2), "shop", fmt.Sprint("once ", i)), &Execution{Took: time.Millisecond, Rows: 1, Parts: []Part{{Shard: i % 4, Took: time.Millisecond}}})
		if i%10 == 0 {
			often = s.Observe(often, &Execution{Took: time.Millisecond, Rows: 1, Parts: []Part{{Shard: 0, Took: time.Millisecond}}})
			n++
		}
	}
	rows := s.Rows()
	if len(rows) != 101 || rows[100].ID != 0 || rows[100].Text != "" {
		t.Fatal(len(rows), rows[len(rows)-1])
	}
	var calls, parts, ofShards uint64
	for _, r := range rows {
		calls += r.Calls
		parts += r.Parts
		for _, sh := range r.Shards {
			ofShards += sh.Parts
		}
		if r.Text == "often" && r.Calls != n {
			t.Errorf("what is used often was executed %d times, not %d", n, r.Calls)
		}
	}
	if calls != 20_000+n || parts != calls || ofShards != calls {
		t.Error(calls, parts, ofShards, n)
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Text == "often" }) {
		t.Error("what is used often is gone")
	}
	// What is used no more makes room in time.
	for i := range 20_000 {
		s.Observe(s.Name(0, "shop", fmt.Sprint("later ", i%40)), &Execution{Took: time.Millisecond})
		s.Observe(s.Name(0, "shop", fmt.Sprint("and once ", i)), &Execution{Took: time.Millisecond})
	}
	for i := range 40 {
		if want := fmt.Sprint("later ", i); !slices.ContainsFunc(s.Rows(), func(r Row) bool { return r.Text == want && r.Calls > 200 }) {
			t.Error("gone:", want)
		}
	}
}

// TestMemory: 10,000 shapes take 32 MiB at most, whatever they are like.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, c := range map[string]struct {
		limit, text, octaves, shards, least int
	}{
		"usual":  {10_000, 200, 6, 4, 10_000},
		"large":  {1000, 1 << 10, 12, 16, 300},
		"widest": {1000, 1 << 10, octaves, 256, 30},
	} {
		before := heap()
		s := New(c.limit)
		for i := range c.limit * 6 / 5 {
			text := fmt.Sprintf("%0*d", c.text, i)
			x := s.Name(uint64(i)*0x9e3779b97f4a7c15, "shop", text)
			e := Execution{}
			for o := range max(c.octaves, c.shards) {
				took := time.Duration(1) << (lowest + o%c.octaves)
				e.Took = took
				e.Parts = append(e.Parts[:0], Part{Shard: o % c.shards, Took: took})
				x = s.Observe(x, &e)
			}
		}
		took := heap() - before
		rows := s.Rows()
		t.Logf("%s: %d shapes, %d KiB, counted %d KiB", name, len(rows), took>>10, s.bytes.Load()>>10)
		if took > uint64(c.limit)*(32<<20)/10_000 || len(rows) < c.least {
			t.Errorf("%s: %d bytes for %d shapes", name, took, len(rows))
		}
		runtime.KeepAlive(s)
	}
}

// TestConcurrent: what is counted while shapes give way, or all are forgotten, is in one row.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := New(8)
	const sessions, each = 8, 5000
	count := func() (calls uint64) {
		for _, r := range s.Rows() {
			calls += r.Calls
		}
		return calls
	}
	load := func() {
		var wg sync.WaitGroup
		for k := range sessions {
			wg.Go(func() {
				x := make([]*Shape, 16)
				for i := range each {
					j := (i*7 + k) % len(x)
					if x[j] == nil {
						x[j] = s.Name(uint64(j+1), "", fmt.Sprint(j))
					}
					if found := s.Find(uint64(j + 1)); found != nil {
						x[j] = found
					}
					x[j] = s.Observe(x[j], &Execution{Took: time.Duration(i) * time.Microsecond})
				}
			})
		}
		wg.Wait()
	}
	load()
	if n := count(); n != sessions*each {
		t.Errorf("%d executions, counted %d", sessions*each, n)
	}
	s.Flush()
	if n := count(); n != 0 {
		t.Errorf("%d executions behind FLUSH", n)
	}
	load()
	if n := count(); n != sessions*each {
		t.Errorf("%d executions, counted %d", sessions*each, n)
	}
}

// TestObserveAllocates nothing.
func TestObserveAllocates(t *testing.T) {
	s := New(10)
	s.Observe(s.Name(1, "", "a"), &Execution{Took: time.Millisecond, Parts: []Part{{Shard: 1, Took: time.Millisecond}}})
	var e Execution
	if n := testing.AllocsPerRun(100, func() {
		e.Clear()
		e.Took, e.Ended = time.Millisecond, time.Unix(1e9, 0)
		e.Parts = append(e.Parts, Part{Shard: 1, Took: time.Millisecond})
		s.Observe(s.Find(1), &e)
	}); n > 0.1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	s := New(1000)
	s.Name(1, "", "a")
	e := Execution{Ended: time.Unix(1e9, 0), Took: time.Millisecond, Rows: 1, Plan: "route", Access: "shard_key", Parts: []Part{{Shard: 1, Took: time.Millisecond}}}
	for b.Loop() {
		s.Observe(s.Find(1), &e)
	}
}

func BenchmarkObserveParallel(b *testing.B) {
	s := New(1000)
	s.Name(1, "", "a")
	b.RunParallel(func(pb *testing.PB) {
		e := Execution{Ended: time.Unix(1e9, 0), Took: time.Millisecond, Rows: 1, Plan: "route", Access: "shard_key", Parts: []Part{{Shard: 1, Took: time.Millisecond}}}
		for pb.Next() {
			s.Observe(s.Find(1), &e)
		}
	})
}

// TestHistograms: each time is in the bucket that its length says, those between are there though empty, and Counts are
// Rows without percentiles.
func TestHistograms(t *testing.T) {
	t.Parallel()
	s := New(10)
	x := s.Name(1, "shop", "often")
	var all []time.Duration
	for d := time.Microsecond; d < time.Second; d += d / 3 {
		all = append(all, d)
		s.Observe(x, &Execution{Took: d, Parts: []Part{{Shard: 0, Took: d / 2}}})
	}
	s.Observe(s.Name(2, "shop", "once"), &Execution{Took: 8 * time.Second})
	id := ID("shop", "often")
	got := s.Histograms(id, 7)
	if len(got) != 1 {
		t.Fatal(got)
	}
	var counted uint64
	above := time.Duration(0)
	for _, b := range got[id].Whole {
		var want uint64
		for _, d := range all {
			if d = max(d, 1<<lowest); d >= above && d < b.Below {
				want++
			}
		}
		if b.Count != want {
			t.Errorf("%d below %v, not %d", b.Count, b.Below, want)
		}
		counted += b.Count
		above = b.Below
	}
	if counted != uint64(len(all)) || len(got[id].Part) == 0 || len(got[id].Part) > len(got[id].Whole) {
		t.Errorf("%d of %d; %v", counted, len(all), got[id])
	}
	if n := len(s.Histograms(ID("shop", "once"))[ID("shop", "once")].Whole); n != 1 {
		t.Errorf("%d buckets for one time", n)
	}
	rows := s.Rows()
	for i, r := range s.Counts() {
		if r.Whole.P50 != 0 || rows[i].Whole.P50 == 0 || r.Calls != rows[i].Calls || r.Whole.Max != rows[i].Whole.Max {
			t.Errorf("%+v, %+v", r, rows[i])
		}
	}
	if (*Statistics)(nil).Histograms(1)[1].Whole != nil {
		t.Error("who counts nothing has times")
	}
}
