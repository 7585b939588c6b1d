package indexer

import (
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// doubt is a registration whose statement's outcome is unknown.
type doubt struct {
	cluster.Registration
	thread storage.Thread
	jobs   []plan.Maintenance
	// ddl: what the tables are is in doubt, too.
	ddl bool
	// writes and defined end what kept answers are waiting for.
	writes  *cover.Writes
	defined func()
}

// doubts are those that are not resolved.
type doubts struct {
	mu  sync.Mutex
	all []*doubt
	// came holds an element when there may be something to look at.
	came chan struct{}
}

func (d *doubts) add(one *doubt) {
	d.mu.Lock()
	d.all = append(d.all, one)
	d.mu.Unlock()
	d.lookAgain()
}

// lookAgain has the shards looked at that aren't settled.
func (d *doubts) lookAgain() {
	select {
	case d.came <- struct{}{}:
	default:
	}
}

// on lists those on a shard.
func (d *doubts) on(id catalog.ShardID) []*doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	var on []*doubt
	for _, one := range d.all {
		if one.Shard == id {
			on = append(on, one)
		}
	}
	return on
}

// remove reports whether it was among them.
func (d *doubts) remove(one *doubt) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.all, one)
	if i >= 0 {
		d.all = slices.Delete(d.all, i, i+1)
	}
	return i >= 0
}
