package indexer

import (
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// staleRest is how many times longer scans wait that nobody waits for.
const staleRest = 16

// rest is what the duty cycle asks for after a scan. Marks widen every lookup:
// a scan that clears some is urgent. What is stale costs a visit too many until
// a lookup that meets it has it verified (Observe), so that looking for all of
// it can wait for more to come together.
type rest struct{ urgent, other time.Time }

func (r rest) until(urgent bool) time.Time {
	if urgent {
		return r.urgent
	}
	return r.other
}

// after is the rest after one more scan, whose share of the time is to be one
// cycle. One for marks makes the others wait no longer than that. Counter-example:
// an hour of such scans, after which nothing stale is looked for in sixteen.
func (r rest) after(began time.Time, cycle time.Duration, marked bool) rest {
	other := cycle
	if !marked {
		other *= staleRest
	}
	return rest{later(r.urgent, began).Add(cycle), later(r.other, began).Add(other)}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// urgent reports whether a scan would clear marks, or was asked for by the clock.
func (x *Indexer) urgent(j *storage.Job) bool {
	if j.Type == storage.Reconcile {
		return true
	}
	return x.toClear(j.Indexes, catalog.ShardSet(j.Shards))
}

// toClear reports that there are marks to clear.
func (x *Indexer) toClear(indexes []storage.IndexID, shards catalog.ShardSet) bool {
	for _, id := range indexes {
		for _, m := range x.store.Marks(id) {
			if shards.Has(catalog.ShardID(m.Shard)) {
				return true
			}
		}
	}
	return false
}

// rest notes a maintenance scan of a shard that took d, for marks or not, and spares
// the shard for as long as the duty cycle asks. The scans of all shards together take
// no more than the same share of Shunt's processors.
func (x *Indexer) rest(id catalog.ShardID, d time.Duration, marked bool) {
	now, w := x.clock.Now(), &x.work
	cycle := time.Duration(float64(d) / x.opts.ScanDuty)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests[id] = w.rests[id].after(now.Add(-d), cycle, marked)
	w.pause = w.pause.after(now.Add(-d), cycle/time.Duration(x.opts.Processors), marked)
}
