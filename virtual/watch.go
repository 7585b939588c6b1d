package virtual

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"
)

// Of several Shunts one keeps the columns. The others watch: they keep whole values in memory of keys that are read there again
// and again, measured from the rows, and take in what the shards' logs tell of them. They have no durable values, and so no
// others: who reads another key, or all, runs the query.
//
// Logs are read while some value is kept or wanted.

// watch does so until ctx ends.
func (e *Engine) watch(ctx context.Context) {
	e.setWatches(true)
	defer e.setWatches(false)
	if len(e.Columns()) > 0 {
		told := ""
		e.tell(ctx, &told, "virtual columns that another Shunt keeps can't be told", e.o.Publish(ctx))
	}
	for {
		select {
		case <-e.want:
			e.watchWanted(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (e *Engine) setWatches(watches bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watches = watches
}

// watchEvery is how often it is looked how late values are, and whether some are kept.
const watchEvery = 5 * time.Second

// watchWanted keeps values until none is kept or wanted any more, or ctx ends.
func (e *Engine) watchWanted(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	e.mu.Lock()
	e.ctx = ctx
	e.mu.Unlock()
	defer func() {
		cancel()
		e.streaming.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		clear(e.streams)
		e.streamed++
		for _, c := range e.columns {
			c.unwatch()
		}
	}()
	told := ""
	every(ctx, watchEvery, e.want, func() {
		e.forgetUnused(e.o.KeepFor)
		idle := true
		for _, c := range e.all() {
			e.tell(ctx, &told, "values of a virtual column that another Shunt keeps can't be kept in memory", e.watchColumn(ctx, c))
			e.mu.Lock()
			idle = idle && len(c.kept) == 0 && len(c.wanted.keys) == 0
			e.mu.Unlock()
		}
		if idle {
			cancel()
		}
	})
}

// watchColumn keeps the values of a column that are wanted.
func (e *Engine) watchColumn(ctx context.Context, c *column) error {
	c.work.Lock()
	defer c.work.Unlock()
	e.mu.Lock()
	keys, kept := c.wanted.keys, len(c.kept)
	c.wanted.keys = nil
	e.mu.Unlock()
	if len(keys) == 0 && kept == 0 {
		return nil
	}
	if err := e.redefine(ctx, c); err != nil {
		return err
	}
	for on := range c.child.All {
		if err := e.following(ctx, on); err != nil {
			return err
		}
	}
	e.mu.Lock()
	c.watched = !c.dropped
	e.mu.Unlock()
	for some := range slices.Chunk(sorted(keys), maxMeasured) {
		measured := map[string]string{}
		for _, key := range some {
			measured[key] = keys[key]
		}
		if err := e.measureKeys(ctx, c, measured); errors.Is(err, errNotReady) {
			return nil // the next read wants them again
		} else if err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.forgetOver()
	e.mu.Unlock()
	_ = e.pass(c.child)(ctx) // for Lag
	return nil
}

// redefine reads a column's definition by the current catalog, and drops its values where that has changed.
//
// Counter-example: MAX of a DECIMAL(10,2), which ALTER TABLE has made a DECIMAL(20,2): the values are right, and cast to what they
// were.
func (e *Engine) redefine(ctx context.Context, c *column) error {
	e.mu.Lock()
	was, child, homes, current := c.def, c.child, c.homes, c.cat == e.o.Catalog()
	e.mu.Unlock()
	if current {
		return nil
	}
	err := e.define(c)
	e.mu.Lock()
	same := err == nil && reflect.DeepEqual(was, c.def) && child == c.child && homes == c.homes
	if !same {
		c.unwatch()
	}
	e.mu.Unlock()
	if same || err != nil {
		return err
	}
	return e.o.Publish(ctx)
}

// unwatch drops the values of a column that another process keeps. Callers hold Engine.mu.
func (c *column) unwatch() {
	if c.watched {
		c.watched = false
		c.kept = map[string]*kept{}
		c.cleared++
		if c.noting != nil {
			c.noting.broken = "its values were dropped"
		}
	}
}

// see takes in the effect of a transaction on a key's value, where that is kept. Callers hold Engine.mu.
func (c *column) see(key string, e *effect) {
	k := c.kept[key]
	switch {
	case k == nil:
	case e.doubt:
		delete(c.kept, key)
	default:
		k.value = c.kind.plus(k.value, e.add)
		k.changes++
	}
}
