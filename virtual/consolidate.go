package virtual

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// consolidate adds the hot part to the durable values. Callers have the column's work.
func (e *Engine) consolidate(ctx context.Context, c *column) error {
	return e.consolidateAs(ctx, c, false)
}

func (e *Engine) consolidateAs(ctx context.Context, c *column, complete bool) error {
	e.mu.Lock()
	current := e.passed(c)
	e.mu.Unlock()
	if err := e.measure(ctx, c, ""); errors.Is(err, errBusy) && complete {
		current = time.Time{} // some keys' values are older
	} else if err != nil {
		return err
	}
	r := newReader(c, e.o.Catalog())
	if r == nil {
		return errors.New("its tables aren't known")
	}
	began := time.Now()
	e.mu.Lock()
	doubtful := sorted(c.doubtful) // since they were measured
	e.mu.Unlock()
	var written errgroup.Group
	for home := range c.homes.All {
		written.Go(func() error { return e.write(ctx, c, r, home, complete) })
	}
	if err := written.Wait(); err != nil {
		return err
	}
	e.mu.Lock()
	for _, key := range doubtful {
		if _, still := c.doubtful[key]; still {
			c.marked[key] = true
		}
	}
	c.consolidated, c.failed, c.rest = began, "", 0
	if c.current.Before(current) {
		c.current = current
	}
	e.mu.Unlock()
	return nil
}

// passed is when all logs of a column's rows were asked that were taken up to there; zero: not all. Callers hold mu.
func (e *Engine) passed(c *column) (at time.Time) {
	for on := range c.child.All {
		s := e.streams[on]
		if s == nil || s.passed.IsZero() {
			return time.Time{}
		}
		if at.IsZero() || s.passed.Before(at) {
			at = s.passed
		}
	}
	return at
}

// lag is how late the durable values are at most; negative: not known. Callers hold mu.
//
// Rule asked: that a log has told nothing says nothing. Counter-example: the process starts, or a shard's log can't be
// read, and what is to come from it isn't hot yet.
func (e *Engine) lag(c *column) time.Duration {
	current := c.current
	if passed := e.passed(c); c.idle() && current.Before(passed) {
		current = passed
	}
	if current.IsZero() {
		return -1
	}
	return time.Since(current)
}

// write writes what is hot of one shard's durable values, with the positions.
//
// What is uncertain stays apart until the shard tells: its batch's number is the last, or the one before is.
//
// Rule numbered: positions wouldn't tell. Counter-example: a key is measured while no log grows; the batch with its value
// has the positions of the one before.
func (e *Engine) write(ctx context.Context, c *column, r *reader, home catalog.ShardID, complete bool) error {
	if err := e.settle(ctx, c, home); err != nil {
		return err
	}
	e.mu.Lock()
	of := c.hot[home]
	if len(of) == 0 && !complete && len(c.doubtful) == len(c.marked) {
		e.mu.Unlock()
		return nil
	}
	c.tried[home]++
	b := Batch{Number: c.tried[home], Last: c.batch[home], Counted: map[catalog.ShardID]string{}, Complete: complete}
	at := positions{}
	for on := range c.child.All {
		s := e.streams[on]
		if s == nil {
			e.mu.Unlock()
			return errNotRead
		}
		// Rule never back: a log that is read again is behind what was counted. Counter-example: transaction 9 was; the
		// next life has read up to 7, and says so with its first batch. Then it counts 9.
		at[on] = follow.Place{Position: c.counted[home][on].Plus(s.at()), There: s.progress.Place().There}
		b.Counted[on] = at[on].String()
	}
	for _, key := range sorted(of) {
		h := of[key]
		v := Value{h.key, h.add.n, c.kind.literal(h.add), c.kind.order(h.add)}
		if h.whole {
			b.Whole = append(b.Whole, v)
		} else {
			b.Add = append(b.Add, v)
		}
	}
	for key, literal := range c.doubtful {
		if !c.marked[key] && r.homes(key).Has(home) {
			b.Doubt = append(b.Doubt, Value{Key: literal})
		}
	}
	delete(c.hot, home)
	c.writing[home] = &written{of, at, b}
	e.mu.Unlock()
	err := e.o.Shards.Write(ctx, home, c.def, b)
	if errors.Is(err, ErrUncertain) {
		if unsettled := e.settle(ctx, c, home); unsettled != nil {
			return errors.Join(err, unsettled)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.batch[home] == b.Number {
			return nil
		}
		return err
	}
	e.settled(c, home, err == nil)
	if errors.Is(err, ErrStale) {
		e.again(c, anotherBatch)
	}
	return err
}

// written is what is being written.
type written struct {
	of map[string]*hot
	at positions
	b  Batch
}

// settle finds out what became of a batch whose transaction's end isn't known.
func (e *Engine) settle(ctx context.Context, c *column, home catalog.ShardID) error {
	e.mu.Lock()
	w := c.writing[home]
	e.mu.Unlock()
	if w == nil {
		return nil
	}
	s, ok, err := e.o.Shards.State(ctx, home, c.def)
	if err != nil {
		return err
	}
	switch {
	case s.Batch == w.b.Number && (ok || !w.b.Complete):
		e.settled(c, home, true)
	case s.Batch == w.b.Last && (ok || w.b.Complete):
		e.settled(c, home, false)
	default:
		e.settled(c, home, false)
		e.again(c, anotherBatch)
		return fmt.Errorf("%w: %s", ErrStale, c.def.Name)
	}
	return nil
}

const anotherBatch = "its durable values on a shard are others than those that were written"

// settled takes in whether what was being written is durable.
func (e *Engine) settled(c *column, home catalog.ShardID, durable bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := c.writing[home]
	delete(c.writing, home)
	if durable {
		c.counted[home], c.batch[home] = w.at, w.b.Number
		return
	}
	now := c.hot[home]
	if now == nil {
		now = map[string]*hot{}
		c.hot[home] = now
	}
	for key, was := range w.of {
		if _, doubtful := c.doubtful[key]; doubtful {
			continue
		}
		if is := now[key]; is == nil {
			now[key] = was
		} else if !is.whole {
			is.add, is.whole = c.kind.plus(was.add, is.add), was.whole
		}
	}
}

// Consolidate adds the hot part of a column to its durable values.
func (e *Engine) Consolidate(ctx context.Context, id uint32) error {
	if !e.isTurn() {
		return errElsewhere
	}
	return e.freshAll(ctx, id)
}

func (e *Engine) freshAll(ctx context.Context, id uint32) error {
	c := e.column(id)
	if c == nil {
		return errGone
	}
	e.mu.Lock()
	def := c.def
	e.mu.Unlock()
	_, err := e.Fresh(ctx, catalog.VirtualRead{Column: def})
	return err
}

// Fresh returns when the durable values, together with what it answers, have all that was visible when it was called. An
// error says why that can't be had: the columns' queries have it.
func (e *Engine) Fresh(ctx context.Context, reads ...catalog.VirtualRead) ([]catalog.VirtualHot, error) {
	columns := make([]*column, len(reads))
	for i, r := range reads {
		if columns[i] = e.column(r.Column.ID); columns[i] == nil {
			return nil, errGone
		}
	}
	e.mu.Lock()
	streams := maps.Clone(e.streams)
	var on catalog.ShardSet
	for i, r := range reads {
		on = on.Union(e.rowsOn(columns[i], r))
	}
	e.mu.Unlock()
	if err := e.pass(on)(ctx); err != nil {
		return nil, err
	}
	out := make([]catalog.VirtualHot, len(reads))
	for i, r := range reads {
		c := columns[i]
		h, known, err := e.hotOf(c, r, streams, false)
		if err == nil && !known && r.Key != nil {
			if err = e.measureFor(ctx, c, string(r.Key)); err == nil {
				h, known, err = e.hotOf(c, r, streams, true)
			}
		}
		if err == nil && !known {
			err = columns[i].turns.Next(ctx, func(ctx context.Context) error { return e.settleAll(ctx, columns[i], r.Column.Generation) })
		}
		if err != nil {
			return nil, err
		}
		out[i] = h
	}
	return out, nil
}

// pass begins to wait until the logs of some shards were taken up to all that is visible when it is called.
func (e *Engine) pass(shards catalog.ShardSet) (passed func(context.Context) error) {
	var all []func(context.Context) error
	e.mu.Lock()
	defer e.mu.Unlock()
	for on := range shards.All {
		s := e.streams[on]
		if s == nil {
			return func(context.Context) error { return errNotRead }
		}
		all = append(all, s.turns.Join(func(ctx context.Context) error {
			_, err := s.abreast(ctx)
			return err
		}))
	}
	return func(ctx context.Context) error {
		for _, passed := range all {
			if err := passed(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// hotOf is what the durable value of a key lacks, or those of all keys; known is false where they have to be consolidated.
//
// Rule passed streams: by streams alone that were there before they were waited for. Counter-example: there is none while
// the process starts, so nothing is waited for; then the column goes on where it was.
func (e *Engine) hotOf(c *column, read catalog.VirtualRead, passed map[catalog.ShardID]*stream, measured bool) (h catalog.VirtualHot, known bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rows := e.rowsOn(c, read)
	if !e.readable(c, read.Column, rows) || c.watched { // which has no durable values here
		return h, false, errNotReady
	}
	for on := range rows.All {
		if e.streams[on] != passed[on] {
			return h, false, errNotReady
		}
	}
	idle := c.idle()
	if read.Key == nil || c.kind.zoned {
		return h, idle, nil
	}
	r := e.readerOf(c)
	if r == nil {
		return h, false, errNotReady
	}
	key := string(read.Key)
	if k := e.whole(c, r, key, read.Literal); k != nil && !read.Part {
		return k.answer(c.kind), true, nil
	}
	if idle {
		return h, true, nil
	}
	if _, doubtful := c.doubtful[key]; doubtful && !measured {
		return h, false, nil
	}
	if r.homes(key).Len() != 1 { // each shard numbers its own batches
		return h, false, nil
	}
	home := r.homes(key).First()
	part := func(of map[string]*hot, batch uint64) {
		if x := of[key]; x != nil {
			h.Parts = append(h.Parts, catalog.VirtualPart{Batch: batch, Whole: x.whole, N: x.add.n, Value: c.kind.literal(x.add), Order: c.kind.order(x.add)})
		}
	}
	if w := c.writing[home]; w != nil {
		part(w.of, w.b.Number-1)
	}
	part(c.hot[home], c.tried[home])
	return h, true, nil
}

// measureFor measures a key for who reads its value.
func (e *Engine) measureFor(ctx context.Context, c *column, key string) error {
	c.work.Lock()
	defer c.work.Unlock()
	return e.measure(ctx, c, key)
}

// settleAll consolidates a column for who reads all its values.
func (e *Engine) settleAll(ctx context.Context, c *column, generation uint32) error {
	c.work.Lock()
	defer c.work.Unlock()
	if err := e.consolidate(ctx, c); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.ready || c.anew != "" || c.def.Generation != generation {
		return errNotReady
	}
	return nil
}

var errNotReady = errors.New("the virtual column isn't ready")
