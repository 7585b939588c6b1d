package virtual

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// world is what an Engine works on: shards with rows, their logs and durable values, in memory. A transaction is in the
// log before it is visible, for as long as chance wants.
type world struct {
	mu  sync.Mutex
	rnd *rand.Rand
	cat *catalog.Catalog
	// later is the catalog that has come in its place; nil: none has.
	later atomic.Pointer[catalog.Catalog]
	col   *catalog.VirtualColumn
	on    map[catalog.ShardID]*simShard
	more  chan struct{} // closed and made anew when a log grows
	// quiet: nothing takes its time, and nothing fails. held: no log tells anything; heldOn: those of shards don't.
	quiet, held bool
	heldOn      catalog.ShardSet
}

type simShard struct {
	rows    map[int]simRow // visible
	log     []simTx
	visible follow.Position
	defined bool
	state   durableState
}

type durableState struct {
	values     map[uint32]map[string]simValue // by generation
	counted    map[catalog.ShardID]string
	batch      uint64
	generation uint32
}

type simValue struct {
	n        int64
	value    *int64
	order    *int64 // of Last: the row's id
	batch    uint64
	doubtful bool
}

type simRow struct{ key, value int }

type simTx struct {
	gtid    string
	changes []simChange
}

// simChange is one of a row; nil: there was, or is, none.
type simChange struct {
	id            int
	before, after *simRow
}

// simImage is a row as the log has it.
type simImage struct {
	id int
	simRow
}

func (i simImage) Column(c *catalog.Column) ([]byte, bool) {
	switch c.Name {
	case "id":
		return []byte(strconv.Itoa(i.id)), true
	case "parent":
		return []byte(strconv.Itoa(i.key)), true
	case "value":
		return []byte(strconv.Itoa(i.value)), true
	}
	return nil, false
}

const simShards = 2

func newWorld(seed uint64, a catalog.Aggregate) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), on: map[catalog.ShardID]*simShard{}, more: make(chan struct{})}
	column := func(name string, at int) *catalog.Column {
		return &catalog.Column{Name: name, Type: "bigint", Position: at}
	}
	c := &catalog.Catalog{Schemas: map[string]*catalog.Schema{"s": {Name: "s", Tables: map[string]*catalog.Table{}}}}
	for i := range simShards {
		id := catalog.ShardID(i)
		c.Shards = append(c.Shards, catalog.Shard{ID: id, Name: fmt.Sprint("s", i)})
		c.All.Add(id)
		w.on[id] = &simShard{rows: map[int]simRow{}, state: durableState{values: map[uint32]map[string]simValue{}, counted: map[catalog.ShardID]string{}}}
	}
	for i := range c.Slots {
		c.Slots[i] = catalog.ShardID(i % simShards)
	}
	parent := &catalog.Table{Schema: "s", Name: "parent", Shards: c.All, Columns: []*catalog.Column{column("id", 0)}}
	parent.ShardKey = parent.Columns[0]
	child := &catalog.Table{Schema: "s", Name: "child", Shards: c.All, Columns: []*catalog.Column{column("id", 0), column("parent", 1), column("value", 2)}}
	c.Schemas["s"].Tables["parent"], c.Schemas["s"].Tables["child"] = parent, child
	w.cat = c
	w.col = &catalog.VirtualColumn{
		Of: catalog.TableName{Schema: "s", Name: "parent"}, Name: "v", Key: "id", Child: catalog.TableName{Schema: "s", Name: "child"}, ChildKey: "parent",
		Aggregate: a, Where: catalog.ChildMark + ".`parent` = " + catalog.ParentKeyMark, KeyType: "bigint",
	}
	if a != catalog.CountRows {
		w.col.Argument, w.col.ValueType = "value", "decimal(42,0)"
	}
	if w.col.Ordered() {
		w.col.Order, w.col.OrderType = "id", "bigint"
	}
	return w
}

// catalog is the current one.
func (w *world) catalog() *catalog.Catalog {
	if c := w.later.Load(); c != nil {
		return c
	}
	return w.cat
}

// alter has a catalog with another child come.
func (w *world) alter(change func(child *catalog.Table)) {
	was := w.catalog()
	next, s, child := *was, *was.Schemas["s"], *was.Table("s", "child")
	change(&child)
	s.Tables = map[string]*catalog.Table{"parent": was.Table("s", "parent"), "child": &child}
	next.Schemas = map[string]*catalog.Schema{"s": &s}
	w.later.Store(&next)
}

// filter leaves rows with some values out, as the column's WHERE does.
func (w *world) filter() {
	c := w.cat.Table("s", "child").Column("value")
	codec, err := keys.For(c.Type, "", "", false)
	if err != nil {
		panic(err)
	}
	f := catalog.ChildFilter{Column: c.Name, Type: c.Type, Not: true}
	for _, n := range filtered {
		key, _ := codec.Equal(nil, keys.Int(int64(n)))
		f.Keys = append(f.Keys, string(key))
	}
	w.col.Filtered, w.col.Filters = true, []catalog.ChildFilter{f}
	w.col.Where += " AND " + catalog.ChildMark + ".`value` NOT IN (...)"
}

// filtered are the values of rows that filter leaves out.
var filtered = []int{-3, 0, 1, 2, 7, 11, 20}

// counts reports that a row is one of the column's.
func (w *world) counts(r simRow) bool { return !w.col.Filtered || !slices.Contains(filtered, r.value) }

// commit has a transaction in the log, and then visible.
// spread has the child's rows spread by their key.
func (w *world) spread() {
	child := w.cat.Schemas["s"].Tables["child"]
	child.Placement, child.ShardKey = catalog.Hash, child.Column("parent")
}

// homeOf is the shard of a row.
func (w *world) homeOf(id, key int) catalog.ShardID {
	if w.cat.Schemas["s"].Tables["child"].ShardKey == nil {
		return catalog.ShardID(id % simShards)
	}
	return w.cat.ShardOf(w.readOf(w.col, key).Key)
}

func (w *world) commit(on catalog.ShardID, id int, after *simRow) {
	w.commitAll(on, map[int]*simRow{id: after})
}

// commitAll commits one transaction.
func (w *world) commitAll(on catalog.ShardID, rows map[int]*simRow) {
	w.mu.Lock()
	s := w.on[on]
	tx := simTx{gtid: fmt.Sprintf("00000000-0000-0000-0000-00000000000%d:%d", on+1, len(s.log)+1)}
	for id, after := range rows {
		c := simChange{id: id, after: after}
		if was, ok := s.rows[id]; ok {
			c.before = &was
		}
		tx.changes = append(tx.changes, c)
	}
	s.log = append(s.log, tx)
	close(w.more)
	w.more = make(chan struct{})
	wait := time.Duration(w.rnd.IntN(300)) * time.Microsecond
	w.mu.Unlock()
	if !w.quiet {
		time.Sleep(wait)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, after := range rows {
		if after == nil {
			delete(s.rows, id)
		} else {
			s.rows[id] = *after
		}
	}
	at, _ := follow.ParsePosition(tx.gtid)
	s.visible = s.visible.Plus(at)
}

func (w *world) Load(_ context.Context, on catalog.ShardID) ([]Definition, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.on[on].defined {
		return nil, nil
	}
	return []Definition{{ID: 1, Schema: "s", Table: "parent", Name: "v", Expression: "x"}}, nil
}

func (w *world) Define(_ context.Context, on catalog.ShardID, _ Definition, v *catalog.VirtualColumn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on[on].defined = true
	w.on[on].state.values[v.Generation] = map[string]simValue{}
	return nil
}

func (w *world) Forget(context.Context, catalog.ShardID, *catalog.VirtualColumn) error { return nil }

func (w *world) Fit(context.Context, catalog.ShardID) error { return nil }

func (w *world) State(_ context.Context, on catalog.ShardID, _ *catalog.VirtualColumn) (State, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.on[on].state
	out := State{Generation: s.generation, Batch: s.batch, Counted: maps.Clone(s.counted)}
	for key, v := range s.values[s.generation] {
		if v.doubtful {
			out.Doubtful = append(out.Doubtful, []byte(key))
		}
	}
	return out, s.generation > 0, nil
}

func (w *world) Tidy(context.Context, catalog.ShardID, *catalog.VirtualColumn) error { return nil }

func (w *world) Write(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn, b Batch) error {
	w.pause()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.on[on].state
	if b.Number > 0 && (b.Last != s.batch || b.Number <= s.batch) {
		return ErrStale
	}
	if !w.quiet && w.rnd.IntN(20) == 0 || ctx.Err() != nil && w.rnd.IntN(2) == 0 {
		return ErrUncertain // and it was not
	}
	values := s.values[col.Generation]
	for _, v := range b.Whole {
		values[v.Key] = simValue{n: v.N, value: literal(v.Value), order: literal(v.Order), batch: b.Number}
	}
	for _, v := range b.Add {
		was := w.add(values[v.Key], simValue{n: v.N, value: literal(v.Value), order: literal(v.Order)})
		was.batch = b.Number
		values[v.Key] = was
	}
	for _, v := range b.Doubt {
		was := values[v.Key]
		was.doubtful = true
		values[v.Key] = was
	}
	maps.Copy(s.counted, b.Counted)
	if b.Complete {
		s.generation = col.Generation
	}
	if b.Number > 0 {
		s.batch = b.Number
	}
	if !w.quiet && w.rnd.IntN(20) == 0 {
		return ErrUncertain // and it was
	}
	return nil
}

// literal is the number that a literal is, nil for NULL.
func literal(s string) *int64 {
	if s == "NULL" || s == "" {
		return nil
	}
	x, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return &x
}

// add is what the statement of Write does with a value and what is to be added.
func (w *world) add(to, a simValue) simValue {
	to.n += a.n
	if !w.col.Ordered() {
		to.value = w.plus(to.value, a.value)
	} else if a.order != nil && (to.order == nil || *a.order > *to.order) {
		to.value, to.order = a.value, a.order
	}
	return to
}

// plus is what it does with two numbers.
func (w *world) plus(a, b *int64) *int64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	x := *a
	switch w.col.Aggregate {
	case catalog.Sum:
		x += *b
	case catalog.Min:
		x = min(x, *b)
	case catalog.Max:
		x = max(x, *b)
	case catalog.CountRows, catalog.CountNulls, catalog.Last, catalog.First:
	}
	return &x
}

func (w *world) pause() {
	w.mu.Lock()
	wait := time.Duration(w.rnd.IntN(200)) * time.Microsecond
	w.mu.Unlock()
	if !w.quiet {
		time.Sleep(wait)
	}
}

func (w *world) Measure(_ context.Context, on catalog.ShardID, _ *catalog.VirtualColumn, of []string, fn Each) error {
	w.pause()
	w.mu.Lock()
	sums := map[string]simValue{}
	for id, r := range w.on[on].rows {
		key := strconv.Itoa(r.key)
		if of != nil && !slices.Contains(of, key) || !w.counts(r) {
			continue
		}
		sums[key] = w.add(sums[key], w.of(id, r))
	}
	w.mu.Unlock()
	w.pause()
	return each(sums, fn)
}

// of is what one row adds.
func (w *world) of(id int, r simRow) simValue {
	v := simValue{n: 1}
	if w.col.Argument != "" {
		x := int64(r.value)
		v.value = &x
	}
	if w.col.Ordered() {
		x := int64(id)
		v.order = &x
	}
	return v
}

func each(values map[string]simValue, fn Each) error {
	text := func(v *int64) []byte {
		if v == nil {
			return nil
		}
		return strconv.AppendInt(nil, *v, 10)
	}
	for key, v := range values {
		if err := fn([]byte(key), v.n, text(v.value), text(v.order)); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Durable(_ context.Context, on catalog.ShardID, col *catalog.VirtualColumn, of []string, fn Each) error {
	w.pause()
	w.mu.Lock()
	values := maps.Clone(w.on[on].state.values[col.Generation])
	w.mu.Unlock()
	maps.DeleteFunc(values, func(key string, _ simValue) bool { return of != nil && !slices.Contains(of, key) })
	for range 4 { // batches are written meanwhile
		w.pause()
	}
	return each(values, fn)
}

func (w *world) Shown(_ context.Context, on catalog.ShardID) (follow.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.on[on].visible, nil
}

func (w *world) Seen(_ context.Context, on catalog.ShardID) (follow.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.on[on]
	if len(s.log) == 0 {
		return follow.Position{}, nil
	}
	return follow.ParsePosition(fmt.Sprintf("00000000-0000-0000-0000-00000000000%d:1-%d", on+1, len(s.log)))
}

func (w *world) Follow(ctx context.Context, on catalog.ShardID, progress *follow.Progress, r LogReader, begun func()) error {
	begun()
	w.mu.Lock()
	next := len(w.on[on].log)
	for i, tx := range w.on[on].log {
		at, _ := follow.ParsePosition(tx.gtid)
		if !progress.Passed(at) {
			next = i
			break
		}
	}
	w.mu.Unlock()
	image := func(id int, r *simRow) Image {
		if r == nil {
			return nil
		}
		return simImage{id, *r}
	}
	for {
		w.mu.Lock()
		log, more, held := w.on[on].log, w.more, w.held || w.heldOn.Has(on)
		broken := !w.quiet && w.rnd.IntN(50) == 0
		w.mu.Unlock()
		if next == len(log) || held {
			select {
			case <-more:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if broken {
			return errors.New("the connection is gone")
		}
		tx := log[next]
		r.Begin(tx.gtid)
		for _, c := range tx.changes {
			r.Change(w.col.Child, image(c.id, c.before), image(c.id, c.after))
		}
		r.Commit(tx.gtid, false)
		if err := progress.Pass(tx.gtid); err != nil {
			return err
		}
		next++
	}
}

// readOf is a read of one key.
func (w *world) readOf(of *catalog.VirtualColumn, key int) catalog.VirtualRead {
	k, literal, _ := newReader(newColumn(w.col), w.catalog()).keyOf([]byte(strconv.Itoa(key)))
	return catalog.VirtualRead{Column: of, Key: []byte(k), Literal: literal}
}

// read is the column's value of a key as a statement reads it: by what Fresh has answered, and the durable value by now.
func (w *world) read(key int, of *catalog.VirtualColumn, h catalog.VirtualHot) (n int64, value *int64) {
	if h.Known {
		if w.col.Argument == "" || h.Value == "NULL" || w.col.Aggregate == catalog.Sum && h.N == 0 {
			return h.N, nil
		}
		return h.N, literal(h.Value)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strconv.Itoa(key)
	r := newReader(newColumn(w.col), w.catalog())
	canonical, _, _ := r.keyOf([]byte(text))
	d := w.on[w.cat.ShardOf([]byte(canonical))].state.values[of.Generation][text]
	for _, p := range h.Parts {
		later, part := d.batch > p.Batch, simValue{n: p.N, value: literal(p.Value), order: literal(p.Order)}
		switch {
		case p.Whole && !later:
			d.n, d.value, d.order = part.n, part.value, part.order
		case p.Whole:
		case !later || w.col.Aggregate != catalog.Sum:
			if later { // what is in it is in it
				part.n = 0
			}
			d = w.add(d, part)
		}
	}
	n, value = d.n, d.value
	if w.col.Aggregate == catalog.Sum && n == 0 {
		value = nil
	}
	return n, value
}

// TestSimulation: exact reads have what their writer has written, whatever order things happen in, and whenever the
// process dies. Each writer has keys of its own.
func TestSimulation(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	for _, a := range []catalog.Aggregate{catalog.CountRows, catalog.Sum, catalog.Min, catalog.Max, catalog.Last} {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			simulate(t, seed, a, 2*time.Second)
		})
	}
}

func simulate(t *testing.T, seed uint64, a catalog.Aggregate, lasts time.Duration) {
	w := newWorld(seed, a)
	if seed%2 == 1 {
		w.spread()
	}
	if seed%4 >= 2 {
		w.filter()
	}
	var mu sync.RWMutex // held to read by readers, to write where the process dies
	var e *Engine
	var end func()
	begin := func() {
		ctx, cancel := context.WithCancel(t.Context())
		e = New(Options{
			Shards: w, Catalog: w.catalog, Publish: func(context.Context) error { return nil },
			Define: func(d Definition) (*catalog.VirtualColumn, error) {
				v := *w.col
				v.ID = d.ID
				return &v, nil
			},
			KeepFor: 5 * time.Millisecond, KeepMost: 3, Every: 5 * time.Millisecond, Look: 2 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		})
		e.Start(ctx)
		var running sync.WaitGroup
		own := e
		running.Go(func() { own.Run(ctx) })
		end = func() { cancel(); running.Wait() }
	}
	begin()
	defer func() { end() }()
	v := *w.col
	v.ID = 1
	if err := e.Create(t.Context(), &v); err != nil {
		t.Fatal(err)
	}
	watcher := watching(t, w, Options{KeepFor: 5 * time.Millisecond, KeepMost: 3})
	until := time.Now().Add(lasts)
	var work sync.WaitGroup
	var reads, unready, whole, guesses, watched atomic.Int64
	// goesOn: a slow machine has its time, and then goes on until all kinds of reads were seen.
	goesOn := func() bool {
		return !t.Failed() && (time.Now().Before(until) || reads.Load() < 10 || !w.col.Ordered() && (whole.Load() == 0 || guesses.Load() == 0 || watched.Load() == 0))
	}
	for i := range 4 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)+10))
			rows := map[int]simRow{}
			for goesOn() {
				id, key := i*1000+rnd.IntN(12), 1+i*10+rnd.IntN(3)
				was, on := w.homeOf(id, rows[id].key), w.homeOf(id, key)
				gone := rnd.IntN(3) == 0
				if gone || was != on {
					w.commit(was, id, nil)
					delete(rows, id)
				}
				if !gone {
					row := simRow{key, rnd.IntN(50) - 20}
					w.commit(on, id, &row)
					rows[id] = row
				}
				key = 1 + i*10 + rnd.IntN(3)
				one := rnd.IntN(3) > 0
				mu.RLock()
				of := &v
				if all := e.Columns(); len(all) > 0 {
					of = all[0]
				}
				read := catalog.VirtualRead{Column: of}
				if one {
					read = w.readOf(of, key)
				}
				var hot []catalog.VirtualHot
				var err error
				var holds func(context.Context) bool
				by, count := e, &guesses
				if rnd.IntN(2) == 0 {
					by, count = watcher, &watched
					read.Column = watcher.Columns()[0]
				}
				if rnd.IntN(2) == 0 {
					if hot, holds = by.Guess(true, read); holds != nil && holds(t.Context()) {
						count.Add(1)
					} else {
						holds = nil
					}
				}
				read.Column = of
				if holds == nil {
					hot, err = e.Fresh(t.Context(), read)
				}
				if err == nil {
					w.pause()
					reads.Add(1)
					if hot[0].Known {
						whole.Add(1)
					}
					var wanted simValue
					for id, r := range rows {
						if r.key == key && w.counts(r) {
							wanted = w.add(wanted, w.of(id, r))
						}
					}
					wantN, want := wanted.n, wanted.value
					n, value := w.read(key, of, hot[0])
					if n != wantN || (value == nil) != (want == nil) || value != nil && *value != *want {
						t.Errorf("key %d (%v): %d rows, value %s; wanted %d, %s; hot %+v", key, one, n, shown(value), wantN, shown(want), hot)
					}
				} else {
					unready.Add(1)
				}
				mu.RUnlock()
			}
		})
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	for goesOn() {
		time.Sleep(time.Duration(50+rnd.IntN(250)) * time.Millisecond)
		mu.Lock()
		end() // what was under way is cut off anywhere
		begin()
		mu.Unlock()
		if rnd.IntN(4) == 0 {
			_ = e.Rebuild(t.Context(), 1)
		}
	}
	work.Wait()
	t.Logf("%d reads, %d of them of values that were kept, %d by guesses, %d where another process keeps the column, %d while it wasn't ready",
		reads.Load(), whole.Load(), guesses.Load(), watched.Load(), unready.Load())
}

func shown(v *int64) string {
	if v == nil {
		return "NULL"
	}
	return strconv.FormatInt(*v, 10)
}
