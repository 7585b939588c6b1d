package indexer

import (
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// known are entries and marks that this process has put into a store over a network, each with the
// latest epoch: they are not put there again in that epoch.
//
// Rule known in its epoch: what was added in an epoch no earlier than a write's stays until the write
// has ended. Scans remove what is older than the horizon, which no open write's epoch is. A build
// that began since, whose generation may lack it, waits for writes of earlier epochs than its own
// (build.go), and a home's new life marks its indexes in epochs that no open write's is later than.
// Counter-example to any epoch: an entry was added in 3; the row changed, and a scan in 5 removed
// the entry; a write in 6 makes the row again, and adds nothing.
//
// Rule known in its join: epochs go on while a process is joined to a shard. One that was put back
// begins earlier ones again, and all join anew.
//
// It is empty for a store on this machine, which sees for itself what it has.
type known struct {
	mu sync.Mutex
	// latest are those that were added or found last, before those of the time before it was full.
	latest, before map[knownKey]knownAt
}

type knownAt struct {
	epoch storage.Epoch
	join  uint64
}

type knownKey struct {
	index catalog.IndexID
	shard catalog.ShardID
	mark  bool
	// logged is a mark's.
	logged bool
	key    string // an entry's
}

// knownBound bounds latest and before, each: some tens of megabytes with long keys.
const knownBound = 1 << 16

// in reports that it was added in the same join, in this epoch or a later one.
func (k *known) in(of knownKey, is knownAt) bool {
	at, ok := k.latest[of]
	if !ok {
		if at, ok = k.before[of]; ok {
			k.put(of, at)
		}
	}
	return ok && at.join == is.join && at.epoch >= is.epoch
}

func (k *known) put(of knownKey, at knownAt) {
	if len(k.latest) >= knownBound || k.latest == nil {
		k.latest, k.before = map[knownKey]knownAt{}, k.latest
	}
	if had := k.latest[of]; had.join != at.join || had.epoch < at.epoch {
		k.latest[of] = at
	}
}

// fact is what may be known of one thing that is put into the store.
type fact struct {
	key knownKey
	at  knownAt
	// kept: it is kept in mind.
	kept bool
}

// entryFact is an entry's. join is a shard's.
func entryFact(e storage.Entry, join func(catalog.ShardID) uint64) fact {
	return fact{knownKey{index: e.Index, shard: e.Shard, key: string(e.Key)}, knownAt{e.Epoch, join(e.Shard)}, len(e.Key) <= knownKeyBytes}
}

// markFact is a mark's. One of which nothing is known stands for those of which something is, which are
// set each time.
func markFact(m storage.Mark, join func(catalog.ShardID) uint64) fact {
	return fact{knownKey{index: m.Index, shard: m.Shard, mark: true, logged: m.Logged}, knownAt{m.Epoch, join(m.Shard)}, len(m.Known) == 0}
}

// knownKeyBytes bounds the keys that are kept.
const knownKeyBytes = 128

// putOnce puts into the store what of a list isn't known to be there. With no known all of it is put.
func putOnce[T any](k *known, list []T, of func(T) fact, put func([]T) error) error {
	if k == nil {
		return put(list)
	}
	if list = unknown(k, list, of); len(list) == 0 {
		return nil
	}
	if err := put(list); err != nil {
		return err
	}
	learn(k, list, of)
	return nil
}

// unknown leaves those of a list that are to be put.
func unknown[T any](k *known, list []T, of func(T) fact) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(list, func(v T) bool {
		f := of(v)
		return k.in(f.key, f.at)
	})
}

// learn says that a list is in the store.
func learn[T any](k *known, list []T, of func(T) fact) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range list {
		if f := of(v); f.kept {
			k.put(f.key, f.at)
		}
	}
}
