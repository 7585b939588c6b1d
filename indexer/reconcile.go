package indexer

import (
	"errors"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/shunt-sql/shunt/storage"
)

var reconcile = kind{
	typ: storage.Reconcile, scans: true, retires: true, all: true,
	// Asked for by the clock; but where logs are followed it is a proof, and finds nothing most of the time.
	urgent:   func(x *Indexer, j *storage.Job) bool { return x.followers.live(j.Shards).Empty() },
	shard:    (*Indexer).maintainJob,
	finished: (*Indexer).reconciled,
}

// reconcile enqueues the reconciliation of the tables whose time has come, and
// returns when the next one's comes (zero: never). A table's clock starts at
// the last complete scan of its indexes, so that restarts don't put it off.
func (x *Indexer) reconcile(now time.Time) (next time.Time) {
	every, c := x.opts.ReconcileEvery, x.opts.Catalog()
	if every <= 0 || c == nil {
		return time.Time{}
	}
	last := map[catalog.TableName]time.Time{}
	for _, d := range x.store.Indexes() {
		if d.Readable {
			n := catalog.TableName{Schema: d.Schema, Name: d.Table}
			if at, ok := last[n]; !ok || d.LastScan.Before(at) {
				last[n] = d.LastScan
			}
		}
	}
	for n, at := range last {
		if at.After(now) {
			at = time.Time{} // the clock was ahead
		}
		x.work.mu.Lock()
		if asked := x.work.reconciled[n]; asked.After(at) {
			at = asked
		}
		x.work.mu.Unlock()
		due := at.Add(every)
		t := c.Table(n.Schema, n.Name)
		if t != nil && !t.Shards.Empty() && !due.After(now) {
			_, err := x.store.Enqueue(storage.Job{
				Type: storage.Reconcile, Schema: n.Schema, Table: n.Name, Operation: "RECONCILE",
				Shards: t.Shards, NotBefore: now,
			})
			if err != nil {
				x.afterError(err)
			}
			x.work.mu.Lock()
			x.work.reconciled[n] = now
			x.work.mu.Unlock()
			due = now.Add(every)
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// reconciled notes the time when the last of a table's reconciliations is done.
// Only what is finished counts: of two that end together each must not take the
// other for one that is still to come.
func (x *Indexer) reconciled(j *storage.Job) {
	for _, other := range x.store.Jobs() {
		if other.Type == storage.Reconcile && other.Schema == j.Schema && other.Table == j.Table {
			return
		}
	}
	for _, d := range x.store.Indexes() {
		if d.Schema != j.Schema || d.Table != j.Table {
			continue
		}
		err := x.store.UpdateIndex(d.ID, func(d *storage.IndexRecord) { d.LastScan = x.clock.Now() })
		if err != nil && !errors.Is(err, storage.ErrNoIndex) {
			x.log.Error("note the time of a reconciliation", "index", d.Name, "error", err)
		}
	}
}
