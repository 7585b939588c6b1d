package proxy

import (
	"context"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// besides are what a transaction's statements add to virtual indexes over a network (Beside), beside their execution: a
// statement waits for its shard alone, and several are added in one go.
//
// Rule added before seen: all is added before anybody else may see what a statement has made, and before the transaction
// itself looks up by it. So it is awaited before COMMIT, before lookups, and before statements that may commit by
// themselves. Counter-examples: a reader looks up a committed row that has no entry yet; an engine without transactions shows
// it at once (besideFits). Who reads uncommitted rows goes by no index (seesLate).
type besides struct{ waits []func() error }

// mostBesides bounds those that aren't awaited.
const mostBesides = 64

// await returns when all is added, or the first error.
func (x *besides) await() (failed error) {
	for _, wait := range x.waits {
		if err := wait(); failed == nil {
			failed = err
		}
	}
	x.waits = x.waits[:0]
	return failed
}

// prepare is Index.Prepare for a statement of the transaction.
func (tx *transaction) prepare(ctx context.Context, r *request, shards catalog.ShardSet) error {
	b, p := r.bound, tx.s.proxy
	beside := besideFits(r) && p.beside != nil && tx.s.tableLocks == nil
	if !beside || len(tx.beside.waits) >= mostBesides {
		if err := tx.added(); err != nil {
			return err
		}
	}
	if !beside {
		return p.opts.Index.Prepare(ctx, tx.open, b.Adds, b.Marks, r.plan.Tables, shards)
	}
	if err := p.opts.Index.Prepare(ctx, tx.open, nil, b.Marks, r.plan.Tables, shards); err != nil {
		return err
	}
	wait, err := p.beside.AddBeside(tx.open, b.Adds)
	if wait != nil {
		tx.beside.waits = append(tx.beside.waits, wait)
	}
	return err
}

// besideFits reports that nobody sees what a statement makes before its transaction commits.
//
// Rule unique: who looks for rows of a unique key on other shards looks behind his own write, and finds the other's entry
// where both are added before they are sent. Counter-example: two sessions write the same key on two shards, each looks
// before the other's entry is there, and both commit.
func besideFits(r *request) bool {
	switch r.plan.Kind {
	case plan.Insert, plan.Replace, plan.Update:
	default: // a program may commit
		return false
	}
	for _, a := range r.bound.Adds {
		if a.Index.Table.Early {
			return false
		}
	}
	unique := r.bound.Unique != nil || r.plan.Meets != nil
	return len(r.bound.Adds) > 0 && !unique && !r.plan.Calls && !r.plan.Redefines
}

// added returns when all is in the virtual indexes that the transaction's statements add. Behind an error it can't go on.
func (tx *transaction) added() error {
	if err := tx.beside.await(); err != nil {
		return tx.torn(err)
	}
	return nil
}

// added is the transaction's, if there is one.
func (s *session) added() error {
	if s.tx == nil {
		return nil
	}
	return s.tx.added()
}
