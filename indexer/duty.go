package indexer

import (
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
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

// toClear reports that there are marks to clear.
func (x *Indexer) toClear(indexes []catalog.IndexID, shards catalog.ShardSet) bool {
	for _, id := range indexes {
		for _, m := range x.store.Marks(id) {
			if shards.Has(m.Shard) {
				return true
			}
		}
	}
	return false
}

// rest notes a maintenance scan of a shard that took d, for marks or not, and spares
// the shard for as long as the duty cycle asks. The scans of all shards together take
// no more than the same share of Shunt's processors.
//
// Counter-example to a share for each process: ten have the store together, and scan all the time.
func (x *Indexer) rest(id catalog.ShardID, d time.Duration, marked bool) {
	now, w := x.clock.Now(), &x.work
	scanners := 1
	if x.opts.Scanners != nil {
		scanners = max(1, x.opts.Scanners(id))
	}
	cycle := time.Duration(float64(d) / x.opts.ScanDuty)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests[id] = w.rests[id].after(now.Add(-d), cycle*time.Duration(scanners), marked)
	w.pause = w.pause.after(now.Add(-d), cycle/time.Duration(x.opts.Processors), marked)
}
