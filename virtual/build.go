package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// window is what lies between the positions of before and of behind a look at a shard's rows.
type window struct{ low, high follow.Position }

// missing reports that a log can't be read on.
func missing(err error) bool {
	return errors.Is(err, follow.ErrPurged) || errors.Is(err, follow.ErrDiverged) || errors.Is(err, follow.ErrUnfit)
}

// measureOn measures a column on a shard, and returns the window in which it did. Changes must have been noted from before.
func (e *Engine) measureOn(ctx context.Context, c *column, on catalog.ShardID, keys []string, fn Each) (w window, err error) {
	s := e.stream(on)
	if s == nil {
		return w, errNotRead
	}
	ctx, done := s.while(ctx)
	defer done()
	e.mu.Lock()
	// What is being read now has begun before changes were noted, too.
	noted := s.at().Plus(s.current)
	e.mu.Unlock()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if w.low, err = e.o.Shards.Shown(ctx, on); err != nil {
			return w, err
		}
		if w.low.Covers(noted) {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return w, context.Cause(ctx)
		}
	}
	if err := e.o.Shards.Measure(ctx, on, c.def, keys, fn); err != nil {
		return w, err
	}
	w.high, err = s.abreast(ctx)
	return w, err
}

// behind are the effects of a key that its measured amount lacks; ok is false where one may be in it or not.
func (c *column) behind(key string, windows map[catalog.ShardID]window) (add amount, ok bool) {
	for _, n := range c.noting.of[key] {
		w := windows[n.on]
		switch {
		case w.low.Covers(n.gtid):
		case w.high.Covers(n.gtid) || n.doubt:
			return add, false
		default:
			add = c.kind.plus(add, n.add)
		}
	}
	return add, true
}

// build builds a column anew. Callers have its work.
func (e *Engine) build(ctx context.Context, c *column) error {
	began := time.Now()
	e.mu.Lock()
	published := !c.ready
	c.ready, c.anew, c.done = false, "", 0
	c.clear()
	e.mu.Unlock()
	if !published {
		if err := e.o.Publish(ctx); err != nil { // all run its query
			return err
		}
	}
	batches, generation := map[catalog.ShardID]uint64{}, c.def.Generation
	for home := range c.homes.All {
		s, _, err := e.o.Shards.State(ctx, home, c.def)
		if err != nil {
			return err
		}
		batches[home], generation = s.Batch, max(generation, s.Generation)
	}
	e.mu.Lock()
	def := *c.def
	def.Generation = generation + 1
	c.def = &def
	e.mu.Unlock()
	for home := range c.homes.All {
		if err := e.o.Shards.Define(ctx, home, Definition{ID: c.def.ID, Schema: c.def.Of.Schema, Table: c.def.Of.Name, Name: c.def.Name, Expression: c.def.Expression}, c.def); err != nil {
			return err
		}
	}
	for on := range c.child.All {
		if err := e.following(ctx, on); err != nil {
			return err
		}
	}
	e.mu.Lock()
	c.noting, c.batch, c.tried = &noting{of: map[string][]noted{}}, batches, maps.Clone(batches)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		c.noting = nil
		e.mu.Unlock()
	}()
	windows := map[catalog.ShardID]window{}
	rows := 0
	for on := range c.child.All {
		batch := newBatches(e, c)
		spare, spared := e.o.Spare(ctx, on)
		w, err := e.measureOn(ctx, c, on, nil, func(key []byte, n int64, value, order []byte) error {
			if err := spare(); err != nil {
				return err
			}
			rows++
			return batch.add(ctx, key, n, value, order)
		})
		spared()
		if err == nil {
			err = batch.flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("build virtual column %s: %w", c.def.Name, err)
		}
		windows[on] = w
		e.mu.Lock()
		c.done++
		e.mu.Unlock()
	}
	r := newReader(c, e.o.Catalog())
	e.mu.Lock()
	if r == nil || c.noting.broken != "" {
		c.anew = cmp.Or(c.noting.broken, "its tables have changed")
		e.mu.Unlock()
		return nil // it is tried again
	}
	c.clearHot()
	for key, notes := range c.noting.of {
		add, ok := c.behind(key, windows)
		if !ok {
			c.doubt(key, notes[0].key)
			continue
		}
		if add.n == 0 && !add.has {
			continue
		}
		for home := range r.homes(key).All {
			c.add(home, key, notes[0].key, add)
		}
	}
	c.noting = nil
	for home := range c.homes.All {
		c.counted[home] = nil
	}
	e.mu.Unlock()
	if err := e.consolidateAs(ctx, c, true); err != nil {
		return err
	}
	e.mu.Lock()
	c.ready, c.failed, c.rest = c.anew == "", "", 0
	e.mu.Unlock()
	c.built, c.tidy = time.Now(), false
	e.o.Log.Info("a virtual column is ready", "table", c.def.Of.Schema+"."+c.def.Of.Name, "column", c.def.Name, "keys", rows, "took", time.Since(began).Round(time.Millisecond))
	return e.o.Publish(ctx)
}

// clearHot forgets the hot part. Callers hold Engine.mu.
func (c *column) clearHot() {
	clear(c.hot)
	clear(c.doubtful)
	clear(c.marked)
}

// following returns when a shard's log is read.
func (e *Engine) following(ctx context.Context, on catalog.ShardID) error {
	s := e.stream(on)
	if s == nil {
		from, err := e.o.Shards.Shown(ctx, on)
		if err != nil {
			return err
		}
		e.mu.Lock()
		if s = e.streams[on]; s == nil {
			s = e.start(on, follow.Place{Position: from})
		}
		e.mu.Unlock()
	}
	select {
	case <-s.begun:
		if e.stream(on) != s {
			return errors.New("the shard's binary log can't be followed")
		}
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("the shard's binary log can't be followed")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// measure finds the values of keys that are doubtful now: of one, or of all. What becomes doubtful meanwhile is for the
// next time. Callers have the column's work.
func (e *Engine) measure(ctx context.Context, c *column, one string) error {
	e.mu.Lock()
	left := maps.Clone(c.doubtful)
	e.mu.Unlock()
	if one != "" {
		maps.DeleteFunc(left, func(key, _ string) bool { return key != one })
	}
	for pass := 0; len(left) > 0; pass++ {
		if pass == maxPasses && one == "" {
			return errBusy
		}
		for some := range slices.Chunk(sorted(left), maxMeasured) {
			keys := map[string]string{}
			for _, key := range some {
				keys[key] = left[key]
			}
			if err := e.measureKeys(ctx, c, keys); err != nil {
				return err
			}
			for _, key := range some {
				delete(left, key)
			}
			maps.Copy(left, keys) // those that it left there have changed meanwhile
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// maxPasses bounds how often keys are measured that change all the time.
const maxPasses = 20

var errBusy = errors.New("rows of some keys change all the time")

// maxMeasured bounds the keys of one statement.
const maxMeasured = 500

// measureKeys measures keys, and leaves those in the map whose value isn't known.
func (e *Engine) measureKeys(ctx context.Context, c *column, keys map[string]string) error {
	r := newReader(c, e.o.Catalog())
	if r == nil {
		return errors.New("its tables aren't known")
	}
	notes := &noting{only: map[string]bool{}, of: map[string][]noted{}}
	literals := make([]string, 0, len(keys))
	for _, key := range sorted(keys) {
		notes.only[key] = true
		literals = append(literals, keys[key])
	}
	e.mu.Lock()
	c.noting = notes
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		c.noting = nil
		e.mu.Unlock()
	}()
	windows, found := map[catalog.ShardID]window{}, map[string]amount{}
	for on := range c.child.All {
		w, err := e.measureOn(ctx, c, on, literals, func(raw []byte, n int64, value, order []byte) error {
			key, _, ok := r.keyOf(raw)
			if !ok {
				return nil
			}
			a, err := c.kind.read(n, value, order)
			found[key] = c.kind.plus(found[key], a)
			return err
		})
		if err != nil {
			return err
		}
		windows[on] = w
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if notes.broken != "" || c.noting != notes {
		return errNotReady
	}
	for key, literal := range keys {
		add, ok := c.behind(key, windows)
		if !ok {
			continue // once more
		}
		delete(keys, key)
		delete(c.doubtful, key)
		delete(c.marked, key)
		whole := c.kind.plus(found[key], add)
		if e.watches {
			if c.watched {
				c.kept[key] = &kept{value: whole, used: time.Since(e.began)}
			}
			continue
		}
		for home := range r.homes(key).All {
			if c.hot[home] == nil {
				c.hot[home] = map[string]*hot{}
			}
			c.hot[home][key] = &hot{key: literal, add: whole, whole: true}
		}
	}
	return nil
}

// batches writes what a build measures.
type batches struct {
	e  *Engine
	c  *column
	r  *reader
	of map[catalog.ShardID][]Value
	n  int
}

func newBatches(e *Engine, c *column) *batches {
	return &batches{e: e, c: c, r: newReader(c, e.o.Catalog()), of: map[catalog.ShardID][]Value{}}
}

func (b *batches) add(ctx context.Context, raw []byte, n int64, value, order []byte) error {
	if b.r == nil {
		return errors.New("its tables aren't known")
	}
	key, literal, ok := b.r.keyOf(raw)
	if !ok {
		return nil
	}
	a, err := b.c.kind.read(n, value, order)
	if err != nil {
		return err
	}
	for home := range b.r.homes(key).All {
		b.of[home] = append(b.of[home], Value{literal, a.n, b.c.kind.literal(a), b.c.kind.order(a)})
	}
	if b.n++; b.n >= maxWritten {
		return b.flush(ctx)
	}
	return nil
}

// maxWritten bounds the values of one transaction of a build.
const maxWritten = 5000

func (b *batches) flush(ctx context.Context) error {
	for _, home := range slices.Sorted(maps.Keys(b.of)) {
		// What is uncertain, is: a build that fails begins anew.
		if err := b.e.o.Shards.Write(ctx, home, b.c.def, Batch{Add: b.of[home]}); err != nil {
			return err
		}
	}
	clear(b.of)
	b.n = 0
	return nil
}
