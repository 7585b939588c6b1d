package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// HeldBack says that removals, or a build, had to wait for longer than a job may:
// something that was registered on Shard before epoch After is still open.
type HeldBack struct {
	Shard catalog.ShardID
	After storage.Epoch
}

func (h *HeldBack) Error() string { return "held back by an open transaction" }

// errPatience ends a bounded wait.
var errPatience = errors.New("waited long enough")

// passed waits until nothing older than b.after is open on the shard, but not
// for longer than the indexer's patience: it holds a worker up.
func (x *Indexer) passed(ctx context.Context, b bounds) error {
	if x.tracker.Passed(b.shard, b.after) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer x.cancelAfter(x.patience, cancel, errPatience)()
	err := x.tracker.Wait(ctx, b.shard, b.after)
	if errors.Is(err, errPatience) {
		return &HeldBack{Shard: b.shard, After: b.after}
	}
	return err
}

// retire removes the entries that the scan did not see and clears the marks
// that it made up for. It returns a *HeldBack as well where what was open when
// the horizon was computed may have kept it from retiring what it should: the
// statements that left that have ended, and would cause no other scan.
func (x *Indexer) retire(ctx context.Context, b bounds, readings []*reading) error {
	// Open through the whole scan, or not known to have ended (epoch 0): the
	// horizon is that old, and entries confirmed since then stay.
	held := b.horizon == 0 || !x.tracker.Passed(b.shard, b.after)
	if err := x.passed(ctx, b); err != nil {
		return err
	}
	removed, cleared := 0, 0
	for _, r := range readings {
		n, err := x.removeStale(ctx, b, r)
		if err != nil {
			return fmt.Errorf("index %s: remove stale entries: %w", r.ix.Name, err)
		}
		removed += n
		if n, err = x.store.ClearMarks(r.id, storage.ShardID(b.shard), b.horizon); err != nil {
			return fmt.Errorf("index %s: clear marks: %w", r.ix.Name, err)
		}
		cleared += n
		for _, m := range x.store.Marks(r.id) {
			held = held || m.Shard == storage.ShardID(b.shard) && m.Epoch >= b.horizon && m.Epoch < b.after
		}
	}
	count(x.opts.Metrics.Removed, removed)
	count(x.opts.Metrics.Cleared, cleared)
	if held {
		return &HeldBack{Shard: b.shard, After: b.after}
	}
	return nil
}

// visitSize bounds how many entries are looked at in one read of the store.
const visitSize = 20000

// removeStale removes the entries that the scan did not see and that are older
// than the horizon. Where the ledger knows the keys that the store had, the
// store is asked about those alone; an entry that came after they were loaded
// is no older than the horizon, or has a job of its own behind it.
func (x *Indexer) removeStale(ctx context.Context, b bounds, r *reading) (removed int, err error) {
	var stale [][]byte
	remove := func() {
		var n int
		if err = context.Cause(ctx); err == nil {
			n, err = x.store.Remove(r.id, storage.ShardID(b.shard), stale, b.horizon)
		}
		removed += n
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
	return removed, err
}

// searchStale does the same by reading the whole index.
func (x *Indexer) searchStale(ctx context.Context, b bounds, r *reading) (removed int, err error) {
	var from []byte
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return removed, context.Cause(ctx)
		}
		more = false
		var stale [][]byte
		visited := 0
		err := x.store.Entries(r.id, from, false, func(key []byte, pairs []storage.ShardEpoch) bool {
			if visited++; visited > visitSize || len(stale) == sliceSize {
				from, more = bytes.Clone(key), true
				return false
			}
			for _, p := range pairs {
				if p.Shard == storage.ShardID(b.shard) && p.Epoch < b.horizon && !r.ledger.saw(key) {
					stale = append(stale, bytes.Clone(key))
				}
			}
			return true
		})
		if errors.Is(err, storage.ErrNoIndex) {
			return removed, nil // still being built, or dropped
		}
		if err != nil {
			return removed, err
		}
		if len(stale) == 0 {
			continue
		}
		n, err := x.store.Remove(r.id, storage.ShardID(b.shard), stale, b.horizon)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

func count(fn func(int), n int) {
	if fn != nil && n > 0 {
		fn(n)
	}
}
