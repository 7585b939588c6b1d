package indexer

import (
	"context"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// Open is the registration of one statement or transaction. It belongs to one
// goroutine.
type Open struct {
	x      *Indexer
	regs   []cluster.Registration
	inline [4]cluster.Registration
	// writes are what kept answers are waiting for, nil for nothing.
	writes *cover.Writes
}

// Begin registers a statement or transaction on shards: step 1 of a write, and
// of every transaction. The caller then checks that the catalog it planned with
// is still the published one; if not, it ends the registration and plans anew.
func (x *Indexer) Begin(set catalog.ShardSet) *Open {
	o := &Open{x: x}
	o.regs = o.inline[:0]
	o.Extend(set)
	return o
}

// Extend registers on more shards; those already registered keep their epoch.
func (o *Open) Extend(set catalog.ShardSet) {
	for id := range set.All {
		if _, ok := o.Epoch(id); !ok {
			o.regs = append(o.regs, o.x.cluster.Register(id))
		}
	}
}

// Epoch returns the epoch in which the statement was registered on a shard;
// ok is false if it is not registered there (any more).
func (o *Open) Epoch(id catalog.ShardID) (e storage.Epoch, ok bool) {
	for _, r := range o.regs {
		if r.Shard == id {
			return r.Epoch, true
		}
	}
	return 0, false
}

// Join returns the number under which the process was on a shard when the statement was
// registered there: it is sent only over a connection that was noted under the same one.
func (o *Open) Join(id catalog.ShardID) uint64 {
	for _, r := range o.regs {
		if r.Shard == id {
			return r.Join
		}
	}
	return 0
}

// Lookup is Indexer.Lookup for what may be read in a snapshot that was opened since Begin:
// rows that it shows may have no entries any more.
func (o *Open) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	f, err := o.x.store.Lookup(ix.ID, key, components)
	return o.widened(f), err
}

// Range is Indexer.Range, as Lookup is.
func (o *Open) Range(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error) {
	f, ok, err := o.x.store.Range(ix.ID, from, to, limit)
	return o.widened(f), ok, err
}

// Ask is Indexer.Ask, as Lookup is.
func (o *Open) Ask(ctx context.Context, questions []plan.Question) error {
	return o.x.ask(ctx, questions, o.widened)
}

// Removals is the store's.
func (o *Open) Removals() uint64 { return o.x.store.Removals() }

// widened adds the shards on which entries or marks may have gone by the evidence of a
// snapshot that is younger than what is registered there.
func (o *Open) widened(f storage.Found) catalog.ShardSet {
	if f.Floors != nil {
		for _, r := range o.regs {
			if f.Floors.Floor(r.Shard) > r.Epoch {
				f.Shards.Add(r.Shard)
			}
		}
	}
	return f.Shards
}

// retired reports whether entries or marks of a shard may have gone by such evidence.
func (o *Open) retired(ix *catalog.Index, id catalog.ShardID) (bool, error) {
	f, err := o.x.store.Lookup(ix.ID, nil, nil)
	f.Shards = catalog.ShardSet{}
	return o.widened(f).Has(id), err
}

// End ends all registrations that are left. A second End does nothing.
func (o *Open) End() {
	for _, r := range o.regs {
		o.x.cluster.End(r)
	}
	o.regs = o.regs[:0]
	o.writes.End()
	o.writes = nil
}

// InDoubt gives the registration on a shard away, because the statement's
// outcome there is unknown (the connection broke, or was killed). It stays open
// until the server's thread is known to be gone, which is ended for that when it
// sleeps; then it ends and jobs are enqueued. Nobody may use the connection any more.
func (o *Open) InDoubt(id catalog.ShardID, thread storage.Thread, jobs ...plan.Maintenance) {
	o.inDoubt(id, thread, jobs, false)
}

// DDLInDoubt is InDoubt for DDL: the schema is read again before it ends.
//
// Counter-example: ALTER TABLE t MODIFY email ... COLLATE utf8mb4_bin waits for a lock
// on a shard, and its connection breaks. The schema, read right after it, is as it was;
// the index is built by that. Then the shard does it.
//
// Without a thread the schema alone is in doubt.
func (o *Open) DDLInDoubt(id catalog.ShardID, thread storage.Thread) {
	o.inDoubt(id, thread, nil, true)
}

func (o *Open) inDoubt(id catalog.ShardID, thread storage.Thread, jobs []plan.Maintenance, ddl bool) {
	for i, r := range o.regs {
		if r.Shard == id {
			o.regs = append(o.regs[:i], o.regs[i+1:]...)
			d := &doubt{Registration: r, thread: thread, jobs: jobs, ddl: ddl, writes: o.writes.Share(), defined: func() {}}
			if ddl {
				d.defined = o.x.opts.Answers.Define()
			}
			o.x.doubts.add(d)
			return
		}
	}
}
