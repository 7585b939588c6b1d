package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// HeldBack says that a job can't do all that it should: something that was registered on
// Shard before epoch After is still open.
type HeldBack struct {
	Shard catalog.ShardID
	After storage.Epoch
}

func (h *HeldBack) Error() string { return "held back by an open transaction" }

// retirement is of an index, by the evidence of the snapshot.
func (b bounds) retirement(id catalog.IndexID, keys [][]byte, marks bool) storage.Retirement {
	return storage.Retirement{Index: id, Shard: b.shard, Gate: b.gates[id], Before: b.horizon, After: b.after, Keys: keys, Marks: marks}
}

// retire removes the entries that the scan did not see and clears the marks
// that it made up for. It returns a *HeldBack as well where what was open when
// the horizon was computed may have kept it from retiring what it should: the
// statements that left that have ended, and would cause no other scan.
func (x *Indexer) retire(ctx context.Context, b bounds, readings []*reading) error {
	open := x.heldOpen(b)
	held, removed, cleared := false, 0, 0
	for _, r := range readings {
		n, kept, err := x.removeStale(ctx, b, r)
		if err != nil {
			return fmt.Errorf("index %s: remove stale entries: %w", r.ix.Name, err)
		}
		removed += n
		held = held || open && kept > 0
		if _, n, err = x.store.Retire(b.retirement(r.id, nil, true)); err != nil {
			return fmt.Errorf("index %s: clear marks: %w", r.ix.Name, err)
		}
		cleared += n
		for _, m := range x.store.Marks(r.id) {
			held = held || m.Shard == b.shard && m.Epoch >= b.horizon && m.Epoch < b.after
		}
	}
	count(x.opts.Metrics.Removed, removed)
	count(x.opts.Metrics.Cleared, cleared)
	if held {
		return &HeldBack{Shard: b.shard, After: b.after}
	}
	return nil
}

// heldOpen: something was open through the whole scan, or isn't known to have ended (epoch 0). The horizon is that
// old, and entries confirmed since then stay.
func (x *Indexer) heldOpen(b bounds) bool {
	return b.horizon == 0 || !x.cluster.Passed(b.shard, b.after)
}

// visitSize bounds how many entries are looked at in one read of the store.
const visitSize = 20000

// removeStale removes the entries that the scan did not see and that are older
// than the horizon. Where the ledger knows the keys that the store had, the
// store is asked about those alone; an entry that came after they were loaded
// is no older than the horizon, or has a job of its own behind it. kept counts those that
// are not older.
func (x *Indexer) removeStale(ctx context.Context, b bounds, r *reading) (removed, kept int, err error) {
	var stale [][]byte
	remove := func() {
		var n int
		if err = context.Cause(ctx); err == nil {
			n, _, err = x.store.Retire(b.retirement(r.id, stale, false))
		}
		removed += n
		kept += len(stale) - n
		stale = stale[:0]
	}
	known := !r.blind && r.ledger.unseen(func(key []byte) bool {
		if stale = append(stale, key); len(stale) == sliceSize {
			remove()
		}
		return err == nil
	})
	if !known {
		return x.searchStale(ctx, b, r)
	}
	if err == nil && len(stale) > 0 {
		remove()
	}
	return removed, kept, err
}

// searchStale does the same by reading the whole index.
func (x *Indexer) searchStale(ctx context.Context, b bounds, r *reading) (removed, kept int, err error) {
	var from []byte
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return removed, kept, context.Cause(ctx)
		}
		more = false
		var stale [][]byte
		visited := 0
		err := x.store.EntriesOf(r.id, b.shard, from, func(key []byte) bool {
			if visited++; visited > visitSize || len(stale) == sliceSize {
				from, more = bytes.Clone(key), true
				return false
			}
			if !r.ledger.saw(key) {
				stale = append(stale, bytes.Clone(key))
			}
			return true
		})
		if errors.Is(err, storage.ErrNoIndex) {
			return removed, kept, nil // still being built, or dropped
		}
		if err != nil {
			return removed, kept, err
		}
		if len(stale) == 0 {
			continue
		}
		n, _, err := x.store.Retire(b.retirement(r.id, stale, false))
		if err != nil {
			return removed, kept, err
		}
		removed += n
		kept += len(stale) - n
	}
	return removed, kept, nil
}

func count(fn func(int), n int) {
	if fn != nil && n > 0 {
		fn(n)
	}
}
