package virtual

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// startEngine keeps a world's column until the test ends.
func startEngine(t testing.TB, w *world, o Options) (e *Engine, col *catalog.VirtualColumn) {
	t.Helper()
	o.Shards, o.Log = w, slog.New(slog.DiscardHandler)
	o.Catalog, o.Publish = w.catalog, func(context.Context) error { return nil }
	o.Define = func(d Definition) (*catalog.VirtualColumn, error) {
		v := *w.col
		v.ID = d.ID
		return &v, nil
	}
	o.Look = time.Millisecond
	e = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	e.Start(ctx)
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if v := *w.col; !w.on[0].defined {
		v.ID = 1
		if err := e.Create(ctx, &v); err != nil {
			t.Fatal(err)
		}
	}
	becomes(t, "the column is ready", func() bool { return e.Columns()[0].Status == catalog.Ready })
	return e, e.Columns()[0]
}

// becomes waits for a condition.
func becomes(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it doesn't come that %s", what)
		}
	}
}

// TestKeptLeave: whole values that nobody reads leave memory after their time, those above the bound at once, and all come
// back right.
func TestKeptLeave(t *testing.T) {
	t.Parallel()
	const keys, most = 100, 60
	w := newWorld(1, catalog.Sum)
	w.quiet = true
	for i := range 3 * keys {
		w.commit(catalog.ShardID(i%simShards), i, &simRow{i % keys, i})
	}
	e, col := startEngine(t, w, Options{KeepFor: time.Hour, KeepMost: most, Every: time.Hour, At: 1e9})
	kept := func() int { return e.Rows()[0].Kept }
	read := func() {
		for key := range keys {
			hot, err := e.Fresh(t.Context(), w.readOf(col, key))
			if err != nil {
				t.Fatal(err)
			}
			if n, sum := w.read(key, col, hot[0]); n != 3 || *sum != int64(3*key+3*keys) {
				t.Fatalf("key %d has %d rows, %s", key, n, shown(sum))
			}
		}
	}
	for range 2 { // they come back
		becomes(t, "as many are kept as may be", func() bool { read(); return kept() == most })
		read()
		becomes(t, "all have left", func() bool { e.forgetUnused(0); return kept() == 0 })
	}
	if r := e.Rows()[0].HitRate; r <= 0 || r >= 1 {
		t.Errorf("hit rate %v", r)
	}
}

// TestHeldMost: where a transaction, or all that isn't written yet, has more values than are held, the column is built anew, and
// right.
func TestHeldMost(t *testing.T) {
	t.Parallel()
	const most = 20
	for name, rows := range map[string][]int{"a transaction": {most + 5}, "several": {most, most}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(1, catalog.Sum)
			w.quiet = true
			e, col := startEngine(t, w, Options{KeepFor: time.Hour, KeepMost: 10, Every: time.Hour, At: most / 2, HoldMost: most})
			first, n := col.Generation, 0
			for _, of := range rows {
				changes := map[int]*simRow{}
				for range of {
					changes[n] = &simRow{n, n + 1}
					n++
				}
				w.commitAll(0, changes)
			}
			if len(rows) == 1 {
				becomes(t, "it is built anew", func() bool {
					c := e.Columns()[0]
					return c.Status == catalog.Ready && c.Generation > first
				})
			}
			for key := range n {
				becomes(t, fmt.Sprintf("key %d is right", key), func() bool {
					c := e.Columns()[0]
					hot, err := e.Fresh(t.Context(), w.readOf(c, key))
					if err != nil {
						return false // it is being built
					}
					n, sum := w.read(key, c, hot[0])
					return n == 1 && sum != nil && *sum == int64(key+1)
				})
			}
		})
	}
}

// TestBuildSpares: a build waits for each value, as its shard has it.
func TestBuildSpares(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.CountRows)
	w.quiet = true
	for i := range 10 {
		w.commit(0, i, &simRow{i, i})
	}
	var waits, ends atomic.Int64
	startEngine(t, w, Options{KeepMost: 10, Every: time.Hour, Spare: func(_ context.Context, on catalog.ShardID) (func() error, func()) {
		return func() error {
			if on == 0 {
				waits.Add(1)
			}
			return nil
		}, func() { ends.Add(1) }
	}})
	if waits.Load() != 10 || ends.Load() != simShards {
		t.Errorf("%d waits, %d ends", waits.Load(), ends.Load())
	}
}

// TestOtherShards: where the child is spread by the column's key, the log of another shard is of no concern to a read of one key.
func TestOtherShards(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.CountRows)
	w.quiet = true
	w.spread()
	e, col := startEngine(t, w, Options{KeepFor: time.Hour, KeepMost: 10, Every: time.Hour, At: 1e9})
	on := w.homeOf(1, 1)
	w.commit(on, 1, &simRow{1, 1})
	read := w.readOf(col, 1)
	becomes(t, "the value is kept", func() bool {
		hot, err := e.Fresh(t.Context(), read)
		return err == nil && hot[0].Known && hot[0].N == 1
	})
	other := 2
	for w.homeOf(other, other) == on {
		other++
	}
	w.mu.Lock()
	w.heldOn = catalog.Only(w.homeOf(other, other))
	w.mu.Unlock()
	w.commit(w.homeOf(other, other), other, &simRow{other, 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if hot, err := e.Fresh(ctx, read); err != nil || hot[0].N != 1 {
		t.Errorf("%+v, %v", hot, err)
	}
	values, holds := e.Guess(true, read)
	if values == nil || !holds(ctx) || values[0].N != 1 {
		t.Errorf("%+v", values)
	}
	brief, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if _, err := e.Fresh(brief, catalog.VirtualRead{Column: col}); err == nil {
		t.Error("all keys are read without the other shard's log")
	}
}

// TestFastKept: what fast reads want is kept, too.
func TestFastKept(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.CountRows)
	w.quiet = true
	w.commit(0, 1, &simRow{1, 1})
	e, col := startEngine(t, w, Options{KeepFor: time.Hour, KeepMost: 10, Every: time.Hour, At: 1e9})
	reads := 0
	becomes(t, "a value is kept", func() bool {
		values, _ := e.Guess(false, w.readOf(col, 1))
		reads++
		return values != nil && values[0].Known && values[0].N == 1
	})
	if reads < 3 {
		t.Errorf("it was kept behind %d reads", reads-1)
	}
}

// TestCheckOfNoRows: a key whose rows have gone has no value, as one that never had any: neither the value that is kept
// nor the durable one is wrong.
func TestCheckOfNoRows(t *testing.T) {
	t.Parallel()
	for _, aggregate := range []catalog.Aggregate{catalog.CountRows, catalog.Sum, catalog.Max, catalog.Last} {
		w := newWorld(1, aggregate)
		w.quiet = true
		for i := range 6 {
			w.commit(0, i, &simRow{i % 2, i})
		}
		e, col := startEngine(t, w, Options{KeepFor: time.Hour, KeepMost: 10, Every: time.Hour, At: 1e9})
		read := w.readOf(col, 1)
		for range 2 {
			if _, err := e.Fresh(t.Context(), read); err != nil {
				t.Fatal(err)
			}
		}
		if aggregate != catalog.Last { // of which no whole value is kept
			becomes(t, "a value is kept", func() bool { return e.Rows()[0].Kept == 1 })
		}
		for i := 1; i < 6; i += 2 {
			w.commit(0, i, nil)
		}
		if checked, wrong, err := e.Check(t.Context(), col.ID); checked != 2 || wrong != 0 || err != nil {
			t.Errorf("%v: %d values are wrong of %d: %v", aggregate, wrong, checked, err)
		}
	}
}

// BenchmarkIncrements takes in transactions of one inserted row each, as a log tells them, without what reads the log.
func BenchmarkIncrements(b *testing.B) {
	w := newWorld(1, catalog.CountRows)
	e, _ := startEngine(b, w, Options{KeepFor: time.Hour, KeepMost: 1e6, Every: time.Hour, At: 1e9})
	s := e.stream(0)
	rows := make([]Image, 10000)
	for i := range rows {
		rows[i] = simImage{i, simRow{i, 1}}
	}
	b.ResetTimer()
	for i := range b.N {
		gtid := "00000000-0000-0000-0000-000000000001:" + strconv.Itoa(i+1)
		s.Begin(gtid)
		s.Change(w.col.Child, nil, rows[i%len(rows)])
		s.Commit(gtid, false)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "increments/s")
}

// BenchmarkKept tells what a kept value takes in memory, of a million.
func BenchmarkKept(b *testing.B) {
	for _, a := range []catalog.Aggregate{catalog.CountRows, catalog.Max} {
		b.Run(string(a), func(b *testing.B) {
			w := newWorld(1, a)
			c := newColumn(w.col)
			k := kindOf(w.col)
			r := newReader(c, w.cat)
			heap := func() uint64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			const values = 1_000_000
			for range b.N {
				clear(c.kept)
				c.kept = map[string]*kept{}
				before := heap()
				for i := range values {
					raw := []byte(fmt.Sprint(1_000_000_000 + i))
					key, _, _ := r.keyOf(raw)
					value, err := k.read(int64(i), raw, nil)
					if err != nil {
						b.Fatal(err)
					}
					c.kept[key] = &kept{value: value}
				}
				b.ReportMetric(float64(heap()-before)/values, "B/value")
			}
			runtime.KeepAlive(c)
		})
	}
}

// watching is a process that doesn't keep a world's column, until the test ends.
func watching(t *testing.T, w *world, o Options) *Engine {
	t.Helper()
	o.Shards, o.Log, o.Look = w, slog.New(slog.DiscardHandler), time.Millisecond
	o.Catalog, o.Publish = w.catalog, func(context.Context) error { return nil }
	if o.Define == nil {
		o.Define = func(d Definition) (*catalog.VirtualColumn, error) {
			v := *w.col
			v.ID = d.ID
			return &v, nil
		}
	}
	o.Own = func(ctx context.Context) (context.Context, func(), error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	e := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	e.Start(ctx)
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	becomes(t, "the column is known", func() bool { all := e.Columns(); return len(all) == 1 && all[0].Watched })
	return e
}

// TestWatched: a process that doesn't keep the column has whole values of keys that are read there, and follows them; it reads
// no log while it has none.
func TestWatched(t *testing.T) {
	t.Parallel()
	for _, aggregate := range []catalog.Aggregate{catalog.CountRows, catalog.Sum, catalog.Max} {
		w := newWorld(1, aggregate)
		w.quiet = true
		for i := range 12 {
			w.commit(catalog.ShardID(i%simShards), i, &simRow{i % 3, i})
		}
		w.on[0].defined = true // by another
		e := watching(t, w, Options{KeepFor: time.Hour, KeepMost: 10})
		logs := func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.streams)
		}
		value := func(exact bool) (n int64, sum *int64, ok bool) {
			of := e.Columns()[0]
			values, holds := e.Guess(exact, w.readOf(of, 1))
			if values == nil || exact && !holds(t.Context()) {
				return 0, nil, false
			}
			n, sum = w.read(1, of, values[0])
			return n, sum, true
		}
		if logs() > 0 {
			t.Error("a log is read, and nothing is kept")
		}
		for _, exact := range []bool{true, false} {
			becomes(t, "the value is kept", func() bool {
				n, _, ok := value(exact)
				return ok && n == 4
			})
			w.commit(0, 10, nil) // the greatest
			w.commit(1, 7, &simRow{1, 70})
			w.commit(1, 13, &simRow{1, 5})
			becomes(t, "the value has what was committed", func() bool {
				n, sum, ok := value(true)
				return ok && n == 4 && (aggregate == catalog.CountRows || *sum == map[catalog.Aggregate]int64{catalog.Sum: 1 + 4 + 70 + 5, catalog.Max: 70}[aggregate])
			})
			becomes(t, "it is known how late it is", func() bool { return e.Rows()[0].Lag >= 0 })
			e.Replaced(0)
			if r := e.Rows()[0]; r.Kept != 0 || r.Hot != 0 {
				t.Errorf("%d values are kept over another server, %d are hot", r.Kept, r.Hot)
			}
			w.commit(0, 10, &simRow{1, 10})
			w.commit(1, 7, &simRow{1, 7})
			w.commit(1, 13, nil)
		}
		becomes(t, "the value is kept", func() bool { _, _, ok := value(true); return ok })
		if n := e.Rows()[0].Hot; n > 0 {
			t.Errorf("%d values are hot, which nobody consolidates", n)
		}
		e.forgetUnused(0)
		select {
		case e.want <- struct{}{}:
		default: // is to be looked at anyway
		}
		becomes(t, "no log is read any more", func() bool { return logs() == 0 })
	}
}

// TestMoved: a column whose child has come to another shard has the rows there, be it kept or watched.
func TestMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.CountRows)
	w.quiet = true
	w.alter(func(child *catalog.Table) { child.Shards = catalog.Only(0) })
	w.commit(0, 0, &simRow{1, 1})
	e, _ := startEngine(t, w, Options{KeepFor: time.Hour, KeepMost: 10, Every: time.Hour, At: 1e9})
	other := watching(t, w, Options{KeepFor: time.Hour, KeepMost: 10})
	value := func(e *Engine) (n int64, ok bool) {
		of := e.Columns()[0]
		values, holds := e.Guess(true, w.readOf(of, 1))
		if values == nil || !holds(t.Context()) {
			hot, err := e.Fresh(t.Context(), w.readOf(of, 1))
			if err != nil {
				return 0, false
			}
			values = hot
		}
		n, _ = w.read(1, of, values[0])
		return n, true
	}
	for _, e := range []*Engine{e, other} {
		becomes(t, "the value is known", func() bool { n, ok := value(e); return ok && n == 1 })
	}
	w.alter(func(child *catalog.Table) { child.Shards = w.cat.All })
	w.commit(1, 1, &simRow{1, 1})
	for _, e := range []*Engine{e, other} {
		becomes(t, "the value is known again", func() bool {
			n, ok := value(e)
			if ok && n != 2 {
				t.Fatalf("%d rows, not 2", n)
			}
			return ok
		})
	}
}

// TestWatchedCreated: a process that doesn't keep a column which it has created itself tells no value before it knows its tables.
func TestWatchedCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.Sum)
	w.quiet = true
	w.commit(0, 0, &simRow{1, 5})
	w.on[0].defined = true
	e := watching(t, w, Options{KeepFor: time.Hour, KeepMost: 10})
	v := *w.col
	if err := e.Create(t.Context(), &v); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the value is kept", func() bool {
		for _, of := range e.Columns() {
			if of.ID != v.ID {
				continue
			}
			values, holds := e.Guess(true, w.readOf(of, 1))
			if values == nil || !holds(t.Context()) {
				return false
			}
			if n, sum := w.read(1, of, values[0]); n != 1 || *sum != 5 {
				t.Fatalf("%d rows, %s", n, shown(sum))
			}
			return true
		}
		return false
	})
}

// TestWatchedAltered: values that are kept are never told as what they were before ALTER TABLE.
func TestWatchedAltered(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.Max)
	w.quiet = true
	w.commit(0, 0, &simRow{1, 5})
	w.on[0].defined = true
	was, is := w.col.ValueType, "decimal(50,0)"
	e := watching(t, w, Options{KeepFor: time.Hour, KeepMost: 10, Define: func(d Definition) (*catalog.VirtualColumn, error) {
		v := *w.col
		if v.ID = d.ID; w.later.Load() != nil {
			v.ValueType = is
		}
		return &v, nil
	}})
	kept := func(as string) {
		t.Helper()
		becomes(t, "the value is kept as "+as, func() bool {
			of := e.Columns()[0]
			values, holds := e.Guess(true, w.readOf(of, 1))
			return values != nil && holds(t.Context()) && of.ValueType == as
		})
	}
	kept(was)
	old := e.Columns()[0]
	w.alter(func(*catalog.Table) {})
	if values, holds := e.Guess(true, w.readOf(old, 1)); values != nil && holds(t.Context()) {
		t.Error("a value is told by the definition of before")
	}
	kept(is)
	if values, _ := e.Guess(true, w.readOf(old, 1)); values != nil {
		t.Error("who has the former definition is told a value")
	}
}

// TestKeptByAnother: a process that is told that another keeps the columns has none, and goes on where the durable values
// are when it is its turn again.
func TestKeptByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.Sum)
	w.quiet = true
	for i := range 10 {
		w.commit(catalog.ShardID(i%simShards), i, &simRow{i % 5, i})
	}
	turns := make(chan context.Context)
	released := make(chan struct{}, 1)
	first, lose := context.WithCancel(t.Context())
	go func() { turns <- first }()
	e, col := startEngine(t, w, Options{Own: func(ctx context.Context) (context.Context, func(), error) {
		select {
		case held := <-turns:
			return held, func() { released <- struct{}{} }, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}})
	w.commit(0, 20, &simRow{1, 7}) // is hot
	lose()
	<-released
	if c := e.Columns()[0]; c.Status != catalog.Building || c.Error != keptElsewhere {
		t.Errorf("%s: %s", c.Status, c.Error)
	}
	if _, err := e.Fresh(t.Context(), catalog.VirtualRead{Column: col}); err == nil {
		t.Error("read, and another keeps it")
	}
	if err := e.Consolidate(t.Context(), 1); !errors.Is(err, errElsewhere) {
		t.Errorf("CONSOLIDATE: %v", err)
	}
	if err := e.Rebuild(t.Context(), 1); !errors.Is(err, errElsewhere) {
		t.Errorf("REBUILD: %v", err)
	}
	held, end := context.WithCancel(t.Context())
	defer end()
	turns <- held
	becomes(t, "the column is ready again", func() bool { return e.Columns()[0].Status == catalog.Ready })
	if is := e.Columns()[0]; is.Generation != col.Generation {
		t.Errorf("built anew: generation %d, not %d", is.Generation, col.Generation)
	}
	if err := e.Consolidate(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := int64(0)
	for id := range catalog.ShardID(simShards) {
		n += w.on[id].state.values[col.Generation]["1"].n
	}
	if n != 3 {
		t.Errorf("key 1 has %d rows, not 3", n)
	}
}
