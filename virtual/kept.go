package virtual

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// kept is the whole value of a key in memory: a read of it needs no durable value.
//
// Invariant: it has all that the streams have handed over. So take adds to it, what makes a key doubtful drops it, and
// what clears a column drops all.
type kept struct {
	value   amount
	used    time.Duration // when a read wanted it, since the engine began
	changes uint32        // how often it has changed
}

// wanted are keys whose whole values are to be kept: those that were read twice. keys has their literals.
type wanted struct {
	once [2]map[string]bool // read once, since the last exchange and before
	keys map[string]string
}

// onceMost bounds the keys of which it is known that they were read once.
const onceMost = 1 << 16

// want notes that a read had no kept value. Callers hold Engine.mu.
//
// Rule twice: who reads each key once would pay a second query for each.
func (w *wanted) want(key, literal string) (due bool) {
	if w.keys[key] != "" {
		return true
	}
	if !w.once[0][key] && !w.once[1][key] {
		if len(w.once[0]) >= onceMost || w.once[0] == nil {
			w.once[1], w.once[0] = w.once[0], map[string]bool{}
		}
		w.once[0][key] = true
		return false
	}
	if w.keys == nil {
		w.keys = map[string]string{}
	}
	w.keys[key] = literal
	return true
}

// keepWanted reads the durable values of keys that were wanted, and keeps what they are with what is hot.
func (e *Engine) keepWanted(ctx context.Context) error {
	var errs []error
	for _, c := range e.all() {
		e.mu.Lock()
		r := e.readerOf(c)
		by := map[catalog.ShardID]map[string]string{}
		for key, literal := range c.wanted.keys {
			if r == nil {
				break
			}
			home := r.homes(key).First()
			if by[home] == nil {
				by[home] = map[string]string{}
			}
			by[home][key] = literal
		}
		c.wanted.keys = nil
		e.mu.Unlock()
		for home, keys := range by {
			errs = append(errs, e.keepOn(ctx, c, r, home, keys))
		}
	}
	return errors.Join(errs...)
}

// keepOn does so on one shard.
//
// Rule same batch: between the durable values and what is hot there must be nothing, and no change twice. Counter-example:
// a durable value is read, a batch with the key is written, and what is hot by then lacks what that batch had.
func (e *Engine) keepOn(ctx context.Context, c *column, r *reader, home catalog.ShardID, keys map[string]string) error {
	e.mu.Lock()
	batch, cleared := c.batch[home], c.cleared
	still := func() bool {
		return c.ready && c.anew == "" && c.def == r.def && c.cleared == cleared && c.writing[home] == nil && c.batch[home] == batch
	}
	ok := still()
	e.mu.Unlock()
	if !ok {
		return nil // the next read wants it again
	}
	literals := make([]string, 0, len(keys))
	for _, key := range sorted(keys) {
		literals = append(literals, keys[key])
	}
	found := make(map[string]amount, len(keys))
	err := e.o.Shards.Durable(ctx, home, r.def, literals, func(raw []byte, n int64, value, order []byte) error {
		key, _, ok := r.keyOf(raw)
		if !ok {
			return nil
		}
		a, err := r.kind.read(n, value, order)
		found[key] = a
		return err
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !still() {
		return nil
	}
	for key := range keys {
		if _, doubtful := c.doubtful[key]; doubtful {
			continue
		}
		value := found[key]
		if h := c.hot[home][key]; h != nil && h.whole {
			value = h.add
		} else if h != nil {
			value = r.kind.plus(value, h.add)
		}
		c.kept[key] = &kept{value: value, used: time.Since(e.began)}
	}
	e.forgetOver()
	return nil
}

// whole is a key's kept value for a read, nil where it isn't kept: then it is wanted. Callers hold Engine.mu.
func (e *Engine) whole(c *column, r *reader, key, literal string) *kept {
	if k := e.hit(c, key); k != nil {
		return k
	}
	c.reads++
	if r.def.Whole() && r.homes(key).Len() == 1 && c.wanted.want(key, literal) {
		select {
		case e.want <- struct{}{}:
		default:
		}
	}
	return nil
}

// hit is a key's kept value for a read, nil where it isn't kept. Callers hold Engine.mu.
func (e *Engine) hit(c *column, key string) *kept {
	k := c.kept[key]
	if k != nil {
		c.reads++
		c.hits++
		k.used = time.Since(e.began)
	}
	return k
}

// guessed is a kept value that was answered before it was known to be current.
type guessed struct {
	c       *column
	def     *catalog.VirtualColumn
	key     string
	rows    catalog.ShardSet // that may have some of the key
	k       *kept
	changes uint32
	value   catalog.VirtualHot
}

// Guess answers kept values as they are. exact: holds tells whether they have all that was visible when Guess was called, once
// the streams have passed that; then they are as good as Fresh's. Both are nil where a value isn't kept.
func (e *Engine) Guess(exact bool, reads ...catalog.VirtualRead) (values []catalog.VirtualHot, holds func(context.Context) bool) {
	all, streams := e.guess(exact, reads)
	if all == nil {
		return nil, nil
	}
	for _, g := range all {
		values = append(values, g.value)
	}
	if !exact {
		return values, nil
	}
	var on catalog.ShardSet
	for _, g := range all {
		on = on.Union(g.rows)
	}
	passed := e.pass(on)
	return values, func(ctx context.Context) bool { return passed(ctx) == nil && e.unchanged(all, streams) }
}

// guess finds kept values; nil where one isn't kept. streams is Engine.streamed of then.
//
// A fast read wants what isn't kept, and so does one where another process keeps the column; of others Fresh, which is
// called then, notes that.
func (e *Engine) guess(exact bool, reads []catalog.VirtualRead) (all []guessed, streams int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, read := range reads {
		c := e.columns[read.Column.ID]
		if c == nil || read.Key == nil {
			return nil, 0
		}
		r, rows := e.readerOf(c), e.rowsOn(c, read)
		if r == nil {
			return nil, 0
		}
		key := string(read.Key)
		var k *kept
		if e.readable(c, read.Column, rows) {
			k = e.hit(c, key)
		} else if !e.watches {
			return nil, 0
		}
		if k == nil && (!exact || e.watches) {
			e.whole(c, r, key, read.Literal)
		}
		if k == nil {
			return nil, 0
		}
		all = append(all, guessed{c, c.def, key, rows, k, k.changes, k.answer(c.kind)})
	}
	return all, e.streamed
}

// unchanged reports that guessed values are as they were, and no stream has begun or ended since.
func (e *Engine) unchanged(all []guessed, streams int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range all {
		if e.streamed != streams || !e.readable(g.c, g.def, g.rows) || g.c.kept[g.key] != g.k || g.k.changes != g.changes {
			return false
		}
	}
	return true
}

// readable reports that a column's values of rows on some shards are current once their streams have passed what they are to have.
// Callers hold mu.
func (e *Engine) readable(c *column, def *catalog.VirtualColumn, rows catalog.ShardSet) bool {
	switch r := e.readerOf(c); {
	case c.watched && c.cat != e.o.Catalog(), !c.watched && (!c.ready || c.anew != ""):
		return false
	case c.failed != "", c.dropped, def.Generation != c.def.Generation, def.ValueType != c.def.ValueType, r == nil, r.moved():
		return false
	}
	for on := range rows.All {
		if s := e.streams[on]; s == nil || !s.reads() {
			return false
		}
	}
	return true
}

// answer is a kept value for a statement.
func (k *kept) answer(of kind) catalog.VirtualHot {
	return catalog.VirtualHot{Known: true, N: k.value.n, Value: of.literal(k.value)}
}

// forgetUnused drops the whole values that no read has wanted for so long.
func (e *Engine) forgetUnused(rest time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Since(e.began)
	for _, c := range e.columns {
		maps.DeleteFunc(c.kept, func(_ string, k *kept) bool { return now-k.used >= rest })
	}
}

// forgetOver drops some whole values where there are more than may be. Callers hold Engine.mu.
func (e *Engine) forgetOver() {
	n := 0
	for _, c := range e.columns {
		n += len(c.kept)
	}
	for _, c := range e.columns {
		for key := range c.kept { // in no order
			if n <= e.o.KeepMost {
				return
			}
			delete(c.kept, key)
			n--
		}
	}
}
