package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// ErrNotRegistered: Prepare for a shard that the statement was not registered
// on. Its entries would not be held back from a scan.
var ErrNotRegistered = errors.New("statement is not registered on the shard")

// Begin registers a statement or transaction on shards: step 1 of a write, and
// of every transaction. The caller then checks that the catalog it planned with
// is still the published one; if not, it ends the registration and plans anew.
func (x *Indexer) Begin(set catalog.ShardSet) *Open { return x.tracker.Begin(set) }

// AwaitOpen waits until all that is registered on shards now has ended.
func (x *Indexer) AwaitOpen(ctx context.Context, set catalog.ShardSet) error {
	since, err := x.store.Advance()
	if err != nil {
		return fmt.Errorf("advance epoch: %w", err)
	}
	for id := range set.All {
		if err := x.tracker.Wait(ctx, id, since); err != nil {
			return err
		}
	}
	return nil
}

// Prepare is steps 3 to 5 of a write: it puts what the statement may create
// into the store, and then the write-intents. tables are those that the
// statement may change, on the given shards: one that makes no keys, a DELETE
// say, leaves stale ones, and its intent has them looked for after a crash that
// loses its job. After an error the statement must not be sent; what was
// written until then is at worst stale.
func (x *Indexer) Prepare(o *Open, adds []Add, marks []Mark, tables []*catalog.Table, shards catalog.ShardSet) error {
	w := preparations.Get().(*preparation)
	defer w.release()
	for _, t := range tables {
		if len(t.Indexes) == 0 {
			continue
		}
		for id := range shards.Intersect(t.Shards).All {
			w.pair(t, id)
		}
	}
	if len(adds) > 0 {
		for _, a := range adds {
			e, ok := o.Epoch(a.Shard)
			if !ok {
				return fmt.Errorf("add entry of index %s: %w", a.Index.Name, ErrNotRegistered)
			}
			w.entries = append(w.entries, storage.Entry{
				Index: storage.IndexID(a.Index.ID), Key: a.Key, Shard: storage.ShardID(a.Shard), Epoch: e,
			})
			w.pair(a.Index.Table, a.Shard)
		}
		if err := x.store.Add(w.entries); err != nil {
			return fmt.Errorf("add entries: %w", err)
		}
	}
	if len(marks) > 0 {
		for _, m := range marks {
			e, ok := o.Epoch(m.Shard)
			if !ok {
				return fmt.Errorf("mark index %s: %w", m.Index.Name, ErrNotRegistered)
			}
			w.marks = append(w.marks, storage.Mark{
				Index: storage.IndexID(m.Index.ID), Shard: storage.ShardID(m.Shard), Known: m.Known, Epoch: e,
			})
			w.pair(m.Index.Table, m.Shard)
		}
		if err := x.store.Mark(w.marks); err != nil {
			return fmt.Errorf("set unknown marks: %w", err)
		}
	}
	// The intents come last: one that is active now is lifted only after a sync
	// that begins later than this call, and so covers what was written above.
	// Before the writes it could be lifted in between.
	if len(w.pairs) == 0 {
		return nil
	}
	if err := x.store.Intend(w.pairs); err != nil {
		return fmt.Errorf("set write-intents: %w", err)
	}
	return nil
}

// preparation is what Prepare and After give to the store, which keeps none of it.
type preparation struct {
	indexes []storage.IndexID
	entries []storage.Entry
	marks   []storage.Mark
	pairs   []storage.Pair
}

var preparations = sync.Pool{New: func() any { return new(preparation) }}

func (w *preparation) release() {
	clear(w.entries)
	clear(w.marks)
	w.entries, w.marks, w.pairs = w.entries[:0], w.marks[:0], w.pairs[:0]
	if cap(w.entries) <= 1000 {
		preparations.Put(w)
	}
}

func pairOf(t *catalog.Table, id catalog.ShardID) storage.Pair {
	return storage.Pair{Schema: t.Schema, Table: t.Name, Shard: storage.ShardID(id)}
}

// pair adds a pair if it is not in the list: lists are short.
func (w *preparation) pair(t *catalog.Table, id catalog.ShardID) {
	p := pairOf(t, id)
	if !slices.Contains(w.pairs, p) {
		w.pairs = append(w.pairs, p)
	}
}

// Lookup returns the shards that may hold the full key. components are the
// key's, so that marks that know another one don't widen it; nil: all do.
func (x *Indexer) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	set, err := x.store.Lookup(storage.IndexID(ix.ID), key, components)
	return catalog.ShardSet(set), err
}

// Range returns the shards of the keys with from <= key < to (to nil: no end).
// ok is false when more than limit keys are in it.
func (x *Indexer) Range(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error) {
	s, ok, err := x.store.Range(storage.IndexID(ix.ID), from, to, limit)
	return catalog.ShardSet(s), ok, err
}
