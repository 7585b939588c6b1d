package cluster

import (
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Standing is how this process is on a shard, as it knows itself: no shard is asked.
type Standing struct {
	Shard  catalog.ShardID
	Joined bool
	// Told is the oldest epoch in which something is open; Now is the one that it registers in.
	Told, Now storage.Epoch
	Open      int
	// Lost counts how often it was fenced, and Fenced how often it has fenced others.
	Lost, Fenced uint64
}

// Waits are how often this process has waited for others, and how long.
type Waits struct {
	Count uint64
	Took  time.Duration
}

// waited counts.
type waited struct{ count, took atomic.Int64 }

func (w *waited) add(took time.Duration) {
	w.count.Add(1)
	w.took.Add(int64(took))
}

func (w *waited) sum() Waits {
	return Waits{uint64(w.count.Load()), time.Duration(w.took.Load())}
}

// Standing is by shard.
func (s *Shared) Standing() []Standing {
	all := make([]Standing, len(s.ids))
	for i, id := range s.ids {
		a := s.seats[id]
		join, told := s.present(a)
		all[i] = Standing{
			Shard: id, Joined: join != 0, Told: told.Epoch, Now: told.Adopted, Open: told.Open,
			Lost: a.lost.Load(), Fenced: a.fenced.Load(),
		}
	}
	return all
}

// Waited is for the turn of DDL, for that of changes of indexes, and for all to go by a version.
func (s *Shared) Waited() (ddl, changes, version Waits) {
	return s.ddl.waited.sum(), s.changes.waited.sum(), s.followed.sum()
}
