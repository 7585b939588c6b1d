package indexer

import (
	"context"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// passPatience is how long a read waits at most for a follower, instead of going to more shards.
const passPatience = 20 * time.Millisecond

// passPause is how long reads don't wait for a follower behind one that has waited in vain.
const passPause = 200 * time.Millisecond

// passing answers the lookups of one read that is to see what was visible when it began. Where nothing but
// logged marks says that a shard may hold a key, the read waits a moment for the shard's follower, and goes by
// entries alone.
//
// Rule seen since it began: a mark is ignored if the follower has dealt with all that was visible at some time since
// the read began. What the mark stands for has its entry then, or became visible later: the read may be the earlier.
// Counter-example: it goes by what was visible before. An UPDATE of an unknown key has been acknowledged since; the
// next read by its new key misses the row.
//
// Rule visible, not ended: a transaction is visible before its statement has ended, or the server counts it as
// executed. Counter-example: who has seen a row so, and reads it by its key, misses it.
//
// Rule nothing of one's own: in a transaction that has set marks itself they are obeyed. Their rows are in the log
// when it has ended, and it sees them now.
//
// Rule not anew: whether the follower can vouch for the index's marks is asked behind the lookup. Counter-example: the
// server has started anew since it was passed; what it had not logged is visible, and marked.
type passing struct {
	x    *Indexer
	ctx  context.Context
	open *Open // nil: there is no transaction
	// passed are the shards' followers, by whom all was dealt with; those without follower aren't waited for.
	passed []passedBy
}

type passedBy struct {
	shard catalog.ShardID
	by    *follower // nil: nobody
	begun int
}

// Passing are lookups for one read, which sees nothing that isn't committed and has made nothing itself. open is its
// transaction's, nil outside. They wait for followers; nil: no log is followed.
func (x *Indexer) Passing(ctx context.Context, open *Open) plan.Indexes {
	if !x.followers.any.Load() {
		return nil
	}
	return &passing{x: x, ctx: ctx, open: open}
}

// Lookup implements plan.Indexes.
func (p *passing) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	set, _, err := p.by(ix, func() (storage.Found, bool, error) {
		f, err := p.x.store.Lookup(ix.ID, key, components)
		return f, true, err
	})
	return set, err
}

// Range implements plan.Indexes.
func (p *passing) Range(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
	return p.by(ix, func() (storage.Found, bool, error) { return p.x.store.Range(ix.ID, from, to, limit) })
}

// Removals implements plan.Indexes.
func (p *passing) Removals() uint64 { return p.x.Removals() }

func (p *passing) by(ix *catalog.Index, ask func() (storage.Found, bool, error)) (catalog.ShardSet, bool, error) {
	f, ok, err := ask()
	if err == nil && ok && p.await(f.Logged) {
		f, ok, err = ask()
		for id := range f.Logged.All {
			if p.sure(id, ix.ID) {
				f.Shards = f.Shards.Minus(catalog.Only(id))
			}
		}
	}
	if p.open != nil {
		return p.open.widened(f), ok, err
	}
	return f.Shards, ok, err
}

// await waits until all was dealt with that is visible on the shards, and reports whether that is so of one.
func (p *passing) await(shards catalog.ShardSet) (some bool) {
	for id := range shards.All {
		at := p.at(id)
		if at == nil {
			p.passed = append(p.passed, p.x.pass(p.ctx, id))
			at = &p.passed[len(p.passed)-1]
		}
		some = some || at.by != nil
	}
	return some
}

func (p *passing) at(id catalog.ShardID) *passedBy {
	for i := range p.passed {
		if p.passed[i].shard == id {
			return &p.passed[i]
		}
	}
	return nil
}

// sure reports that all an index's logged marks on a shard are of statements whose changes the follower sees, or saw.
func (p *passing) sure(id catalog.ShardID, ix catalog.IndexID) bool {
	at := p.at(id)
	return at != nil && at.by != nil && p.x.followers.get(id) == at.by && at.by.vouches(ix, at.begun)
}

// pass waits for a shard's follower.
func (x *Indexer) pass(ctx context.Context, id catalog.ShardID) passedBy {
	f := x.followers.get(id)
	if f == nil || x.clock.Now().UnixNano() < f.late.Load() {
		return passedBy{shard: id}
	}
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, passPatience)
	defer cancel()
	if f.trail.Abreast(ctx) != nil {
		f.late.Store(x.clock.Now().Add(passPause).UnixNano())
		return passedBy{shard: id}
	}
	return passedBy{id, f, begun}
}

// vouches reports that the follower clears an index's marks, and has not begun anew since it had begun so often.
func (f *follower) vouches(ix catalog.IndexID, begun int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.vouched[ix] && f.begun == begun
}
