package storage

import (
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Found is what a lookup tells of a key.
type Found struct {
	// Shards may hold it.
	Shards catalog.ShardSet
	// Logged are those of them that are named by nothing but logged marks.
	Logged catalog.ShardSet
	// Floors tell which of the other shards a transaction must look at as well; nil: none.
	Floors Floors
}

// Question is one of several lookups that are answered as of one moment.
type Question struct {
	Index catalog.IndexID
	// Key and Components are those of Lookup; where it is Ranged, From, To and Limit are those of
	// Range.
	Key        []byte
	Components [][]byte
	Ranged     bool
	From, To   []byte
	Limit      int
	// Found, Within (for what is Ranged) and Err are the answer.
	Found  Found
	Within bool
	Err    error
}

// Floors of an index: entries and marks of a shard may be gone by the evidence of snapshots
// that were open before epoch Floor began. A transaction that was registered on the shard
// earlier may have an older snapshot, which shows rows that are gone since.
type Floors interface{ Floor(catalog.ShardID) Epoch }

// Retirement is what a scan of a shard takes away: its snapshot has no such row.
type Retirement struct {
	Index catalog.IndexID
	Shard catalog.ShardID
	// Gate is what OpenGate told the scan. ErrSuperseded where there is another one since.
	Gate Gate
	// Before is the horizon: what is confirmed in it, or later, stays.
	Before Epoch
	// After is the epoch that began when the snapshot was open: the new floor.
	After Epoch
	// Keys have their entries removed; Marks: marks are cleared.
	Keys  [][]byte
	Marks bool
}

// Gate is what a scan finds when it opens one: only behind it the scan may remove something.
type Gate struct {
	// Epoch is the scan's, or that of one which began later.
	Epoch Epoch
	// Generation is the index's newest one that is live: of a later one the scan knows nothing.
	Generation uint32
	// Sole: the readable generation is the only one, so that what it has need not be added.
	Sole bool
	// Life is of the server that has the index, and Home its name; 0 and "": of this process.
	Life uint64
	Home string
	// Parts are those of the index's partitions, where these lie on servers.
	Parts []Gate
}

// limits of an index's shards rise, and are forgotten with the process: they are for what is
// open in it.
type limits struct {
	floors [catalog.MaxShards]atomic.Uint64
	// retiring is held while something goes: no gate is opened meanwhile.
	retiring sync.Mutex
	gates    [catalog.MaxShards]Epoch
}

// Floor implements Floors.
func (l *limits) Floor(id catalog.ShardID) Epoch { return Epoch(l.floors[id].Load()) }

func raise(n *atomic.Uint64, to Epoch) {
	for {
		now := n.Load()
		if now >= uint64(to) || n.CompareAndSwap(now, uint64(to)) {
			return
		}
	}
}

// OpenGate is called by a scan that has just begun epoch e, before it reads what the
// index has of the shard: what it relies on then, no earlier scan removes.
func (s *Store) OpenGate(id catalog.IndexID, shard catalog.ShardID, e Epoch) (Gate, error) {
	ix := s.find(id)
	if ix == nil {
		return Gate{}, ErrNoIndex
	}
	ix.limits.retiring.Lock()
	defer ix.limits.retiring.Unlock()
	ix.limits.gates[shard] = max(ix.limits.gates[shard], e)
	def := ix.def.Load()
	return Gate{Epoch: ix.limits.gates[shard], Generation: def.newest(), Sole: def.Readable && !def.HasBuild}, nil
}

// Retire removes entries and clears marks, of every live generation, that were last
// confirmed before the horizon. It returns how many entries went from the readable
// generation (the building one if there is no other), and how many marks.
//
// The floor is raised before anything goes, and a lookup reads it after the entries: what
// finds an entry gone finds the floor that says so. So it is with Removals.
func (s *Store) Retire(r Retirement) (removed, cleared int, err error) {
	ix := s.find(r.Index)
	if ix == nil {
		return 0, 0, nil
	}
	ix.limits.retiring.Lock()
	defer ix.limits.retiring.Unlock()
	if ix.limits.gates[r.Shard] != r.Gate.Epoch || ix.def.Load().newest() > r.Gate.Generation {
		return 0, 0, ErrSuperseded
	}
	if len(r.Keys) > 0 || r.Marks && ix.marks.Load().older(r.Shard, r.Before) {
		raise(&ix.limits.floors[r.Shard], r.After)
		s.removals.Add(1)
	}
	if len(r.Keys) > 0 {
		if removed, err = s.remove(r.Index, r.Shard, r.Keys, r.Before); err != nil {
			return removed, 0, err
		}
	}
	if r.Marks {
		cleared, err = s.clearMarks(r.Index, r.Shard, r.Before, false)
	}
	return removed, cleared, err
}

// Clear removes those marks of (index, shard) that are logged and whose epoch is less than before,
// and returns how many. It needs no gate, and raises no floor: what they stood for, in any snapshot,
// has entries that were added or confirmed since.
func (s *Store) Clear(id catalog.IndexID, shard catalog.ShardID, before Epoch) (cleared int, err error) {
	return s.clearMarks(id, shard, before, true)
}

// Unlog makes marks of (index, shard) that are logged marks that aren't, and reports that there were some.
func (s *Store) Unlog(id catalog.IndexID, shard catalog.ShardID) (had bool, err error) {
	var logged []Mark
	for _, m := range s.Marks(id) {
		if m.Shard == shard && m.Logged {
			m.Logged = false
			logged = append(logged, m)
		}
	}
	return len(logged) > 0, s.Mark(logged)
}

// Removals counts what has begun to take entries or marks away. Lookups before and after
// which it is the same are of one moment.
func (s *Store) Removals() uint64 { return s.removals.Load() }

// older reports whether a shard has a mark from before an epoch.
func (m *markSet) older(shard catalog.ShardID, before Epoch) bool {
	if m == nil {
		return false
	}
	for _, mark := range m.byShard[shard] {
		if mark.Epoch < before {
			return true
		}
	}
	return false
}
