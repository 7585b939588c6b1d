package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// ErrNotRegistered: Prepare for a shard that the statement was not registered
// on. Its entries would not be held back from a scan.
var ErrNotRegistered = errors.New("statement is not registered on the shard")

// AwaitOpen waits until all that is registered on shards now has ended.
func (x *Indexer) AwaitOpen(ctx context.Context, set catalog.ShardSet) error {
	since := map[catalog.ShardID]storage.Epoch{}
	for id := range set.All {
		e, err := x.cluster.Advance(ctx, id)
		if err != nil {
			return err
		}
		since[id] = e
	}
	for id := range set.All {
		if err := x.cluster.Wait(ctx, id, since[id]); err != nil {
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
//
// The first one after a quiet time waits for its shards to be told of that.
func (x *Indexer) Prepare(ctx context.Context, o *Open, adds []plan.Entry, marks []plan.Mark, tables []*catalog.Table, shards catalog.ShardSet) error {
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
				Index: a.Index.ID, Key: a.Key, Shard: a.Shard, Epoch: e,
			})
			w.pair(a.Index.Table, a.Shard)
		}
		if err := putOnce(x.known, w.entries, func(e storage.Entry) fact { return entryFact(e, o.Join) }, x.store.Add); err != nil {
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
				Index: m.Index.ID, Shard: m.Shard, Known: m.Known, Epoch: e, Logged: m.Logged,
			})
			w.pair(m.Index.Table, m.Shard)
		}
		if err := putOnce(x.known, w.marks, func(m storage.Mark) fact { return markFact(m, o.Join) }, x.store.Mark); err != nil {
			return fmt.Errorf("set unknown marks: %w", err)
		}
	}
	// The intents come last: one that is active now is lifted only after a sync
	// that begins later than this call, and so covers what was written above.
	// Before the writes it could be lifted in between.
	if len(w.pairs) == 0 {
		return nil
	}
	serial, err := x.store.Intend(w.pairs)
	if err != nil {
		return fmt.Errorf("set write-intents: %w", err)
	}
	if serial == 0 || x.opts.Tell == nil {
		return nil
	}
	var set catalog.ShardSet
	for _, p := range w.pairs {
		set.Add(p.Shard)
	}
	if err := x.opts.Tell(ctx, set, serial); err != nil {
		return fmt.Errorf("tell the shards of the first write after a quiet time: %w", err)
	}
	x.store.Told(w.pairs, serial)
	return nil
}

// AddBeside begins to add what a statement of a transaction may create, while its shard executes it. wait, which is
// called once, returns how that has ended; nil: all was there. REQUIRES: the store is Asked; before wait has returned nil
// nothing of the statement is visible to others, nor looked up by its transaction, and before it has returned the
// registration doesn't end.
//
// Where the store is known to take nothing it is asked all the same, before AddBeside returns, so that a statement
// alone is refused, and its transaction goes on.
func (x *Indexer) AddBeside(o *Open, adds []plan.Entry) (wait func() error, err error) {
	entries, takes := make([]storage.Entry, len(adds)), true
	for i, a := range adds {
		e, ok := o.Epoch(a.Shard)
		if !ok {
			return nil, fmt.Errorf("add entry of index %s: %w", a.Index.Name, ErrNotRegistered)
		}
		entries[i] = storage.Entry{Index: a.Index.ID, Key: a.Key, Shard: a.Shard, Epoch: e}
		takes = takes && x.store.(Asked).Takes(a.Index.ID)
	}
	entries = unknown(x.known, entries, func(e storage.Entry) fact { return entryFact(e, o.Join) })
	if len(entries) == 0 {
		return nil, nil
	}
	facts := make([]fact, len(entries)) // o is for one goroutine
	for i, e := range entries {
		facts[i] = entryFact(e, o.Join)
		entries[i].Key = bytes.Clone(e.Key) // the caller's, who goes on
	}
	ended := make(chan error, 1)
	add := func() {
		err := x.store.Add(entries)
		if err == nil {
			learn(x.known, facts, func(f fact) fact { return f })
		}
		ended <- err
	}
	if takes {
		go add()
		return func() error { return <-ended }, nil
	}
	add()
	return nil, <-ended
}

// preparation is what Prepare and After give to the store, which keeps none of it.
type preparation struct {
	indexes []catalog.IndexID
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
	return storage.Pair{Schema: t.Schema, Table: t.Name, Shard: id}
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
	f, err := x.store.Lookup(ix.ID, key, components)
	return f.Shards, err
}

// Range returns the shards of the keys with from <= key < to (to nil: no end).
// ok is false when more than limit keys are in it.
func (x *Indexer) Range(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error) {
	f, ok, err := x.store.Range(ix.ID, from, to, limit)
	return f.Shards, ok, err
}

// errNotAsked: several lookups of a Store that isn't Asked.
var errNotAsked = errors.New("the store answers one lookup at a time")

// Ask answers several lookups as of one moment. REQUIRES: the store is Asked.
func (x *Indexer) Ask(ctx context.Context, questions []plan.Question) error {
	return x.ask(ctx, questions, shardsOf)
}

func (x *Indexer) ask(ctx context.Context, questions []plan.Question, shards func(storage.Found) catalog.ShardSet) error {
	store, ok := x.store.(Asked)
	if !ok {
		return errNotAsked
	}
	list := toAsk(questions)
	if err := store.Ask(ctx, list); err != nil {
		return err
	}
	answer(questions, list, shards)
	return nil
}

func toAsk(questions []plan.Question) []storage.Question {
	list := make([]storage.Question, len(questions))
	for i, q := range questions {
		list[i] = storage.Question{Index: q.Index.ID, Key: q.Key, Components: q.Components, Ranged: q.Ranged, From: q.From, To: q.To, Limit: q.Limit}
	}
	return list
}

// answer fills in what the store has said.
func answer(questions []plan.Question, said []storage.Question, shards func(storage.Found) catalog.ShardSet) {
	for i := range questions {
		to, q := &questions[i], &said[i]
		to.Within, to.Err = q.Within, q.Err
		if q.Err == nil {
			to.Shards = shards(q.Found)
		}
	}
}

// Guess answers several lookups by what the store has said last, for a read outside of transactions.
// Nothing of that may be told until holds has asked the store; nil: there is no guess. REQUIRES: the store is Asked.
func (x *Indexer) Guess(questions []plan.Question) (holds func(context.Context) bool) {
	list := toAsk(questions)
	if holds = x.store.(Asked).Guess(list); holds != nil {
		answer(questions, list, shardsOf)
	}
	return holds
}

func shardsOf(f storage.Found) catalog.ShardSet { return f.Shards }

// Removals is the store's.
func (x *Indexer) Removals() uint64 { return x.store.Removals() }
