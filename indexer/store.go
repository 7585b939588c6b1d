package indexer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/shunt-sql/shunt/storage"
)

// Store is what the indexer needs of storage.Store. It is declared in parts,
// by concern, so that the simulation can put a model in place of any.
type Store interface {
	Epochs
	Entries
	Marks
	Intents
	Threads
	Definitions
	Generations
	Queue
	Leases
}

// Epochs never repeat, also after a power loss.
type Epochs interface {
	Epoch() storage.Epoch
	Advance() (storage.Epoch, error)
}

// Entries map keys to shards. Keys passed to callbacks are valid there only.
type Entries interface {
	Add([]storage.Entry) error
	Remove(id storage.IndexID, shard storage.ShardID, keys [][]byte, before storage.Epoch) (int, error)
	Lookup(id storage.IndexID, key []byte, components [][]byte) (storage.ShardSet, error)
	Range(id storage.IndexID, from, to []byte, limit int) (set storage.ShardSet, ok bool, err error)
	Entries(id storage.IndexID, from []byte, building bool, fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error
}

// Marks say where keys that could not be computed may be.
type Marks interface {
	Mark([]storage.Mark) error
	ClearMarks(id storage.IndexID, shard storage.ShardID, before storage.Epoch) (int, error)
	Marks(id storage.IndexID) []storage.Mark
	AllMarks() []storage.Mark
}

// Intents tell after a power loss what may have been lost.
type Intents interface {
	Intend([]storage.Pair) error
	Lost() []storage.Pair
	Unclean() []storage.Pair
	Recovered() error
}

// Threads tell which connections an earlier life had, and this one has.
type Threads interface {
	Thread(storage.ShardID, uint32) (storage.Thread, bool)
	OldThreads(storage.ShardID) []storage.Thread
	ForgetThread(storage.ShardID, uint32) error
}

// Definitions of virtual indexes.
type Definitions interface {
	CreateIndex(storage.IndexDef) (storage.IndexDef, error)
	Index(storage.IndexID) (storage.IndexDef, bool)
	Indexes() []storage.IndexDef
	UpdateIndex(storage.IndexID, func(*storage.IndexDef)) error
	MoveIndexes(map[storage.IndexID]storage.TableName) error
	DropIndex(storage.IndexID) error
}

// Generations of an index's entries.
type Generations interface {
	StartBuild(id storage.IndexID, partitions int) error
	FinishBuild(id storage.IndexID, generation uint32) error
	DeleteGarbage(ctx context.Context, slice int) (more bool, err error)
	Repartition(ctx context.Context, id storage.IndexID, partitions int, progress func(float64)) error
	Stats() storage.Stats
}

// Queue of jobs.
type Queue interface {
	Enqueue(storage.Job) (uint64, error)
	EnqueueSoon(storage.Job) error
	Jobs() []storage.Job
	NextJob() (time.Time, bool)
	JobsChanged() <-chan struct{}
}

// Leases on jobs.
type Leases interface {
	Claim(worker string, lease time.Duration, now time.Time, runnable func(*storage.Job) bool) (*storage.Job, error)
	Renew(id uint64, worker string, lease time.Duration) error
	SaveCheckpoint(id uint64, worker string, raw json.RawMessage, progress float64) error
	Finish(id uint64, worker string) error
	Fail(id uint64, worker string, cause error, notBefore time.Time) error
}

var _ Store = (*storage.Store)(nil)
