package indexer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/shunt-sql/shunt/storage"
)

// Store is what the indexer needs of storage.Store. It is declared in parts,
// by concern, so that the simulation can put a model in place of any.
type Store interface {
	Entries
	Retirements
	Marks
	Intents
	Positions
	Definitions
	Generations
	Homes
	Queue
	Leases
}

// Entries map keys to shards. Keys passed to callbacks are valid there only.
type Entries interface {
	Add([]storage.Entry) error
	Lookup(id catalog.IndexID, key []byte, components [][]byte) (storage.Found, error)
	Range(id catalog.IndexID, from, to []byte, limit int) (found storage.Found, ok bool, err error)
	Removals() uint64
	Entries(id catalog.IndexID, from []byte, building bool, fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error
	EntriesOf(id catalog.IndexID, shard catalog.ShardID, from []byte, fn func(key []byte) (more bool)) error
	// Kept is a key as Entries and EntriesOf show it.
	Kept(key []byte) []byte
}

// Asked is a Store that is asked over a network, where one call answers several lookups, as of
// one moment. An error stands for each of them.
type Asked interface {
	Ask(context.Context, []storage.Question) error
	// Guess answers them by what was answered last. Nothing of that may be told until holds, which asks,
	// has said that it is right; nil: there is no guess.
	Guess([]storage.Question) (holds func(context.Context) bool)
	// Takes reports that what is added to an index will be taken, as far as is known: its servers answer, and
	// have refused nothing lately.
	Takes(catalog.IndexID) bool
}

// Retirements take entries and marks away.
type Retirements interface {
	OpenGate(catalog.IndexID, catalog.ShardID, storage.Epoch) (storage.Gate, error)
	Retire(storage.Retirement) (removed, cleared int, err error)
}

// Marks say where keys that could not be computed may be.
type Marks interface {
	Mark([]storage.Mark) error
	Marks(id catalog.IndexID) []storage.Mark
	AllMarks() []storage.Mark
	// Clear removes logged marks that are older; Unlog leaves those that are there to scans.
	Clear(id catalog.IndexID, shard catalog.ShardID, before storage.Epoch) (cleared int, err error)
	Unlog(id catalog.IndexID, shard catalog.ShardID) (had bool, err error)
}

// Intents tell after a power loss what may have been lost, and have the shards told of a
// store that may be put back to before them.
type Intents interface {
	Intend([]storage.Pair) (serial uint64, err error)
	Told(pairs []storage.Pair, serial uint64)
	Lost() []storage.Pair
	Unclean() []storage.Pair
	Recovered() error
}

// Positions tell up to where the entries have what a shard's log tells: a text that is the caller's, "" for none.
type Positions interface {
	Position(catalog.ShardID) (string, error)
	// KeepPosition survives the death of the process; without a position a power loss, too.
	KeepPosition(shard catalog.ShardID, position string) error
}

// Definitions of virtual indexes.
type Definitions interface {
	CreateIndex(catalog.IndexDef) (storage.IndexRecord, error)
	Index(catalog.IndexID) (storage.IndexRecord, bool)
	Indexes() []storage.IndexRecord
	UpdateIndex(catalog.IndexID, func(*storage.IndexRecord)) error
	MoveIndexes(map[catalog.IndexID]catalog.TableName) error
	DropIndex(catalog.IndexID) error
}

// Generations of an index's entries.
type Generations interface {
	StartBuild(id catalog.IndexID, partitions int) error
	FinishBuild(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) error
	DeleteGarbage(ctx context.Context, slice int) (more bool, err error)
	Repartition(ctx context.Context, id catalog.IndexID, partitions int, progress func(float64)) error
	Stats() storage.Stats
}

// Homes are the servers that have indexes, where several Shunts have one store.
type Homes interface {
	// Move is StartBuild on another server. With forsake nobody reads by the index, and the one
	// before has it no more; else the build's end makes that the index's former home, which is
	// added to until EndMove: when all go by the new one.
	Move(id catalog.IndexID, home string, forsake bool) error
	EndMove(catalog.IndexID) error
	// Outage is why an index can't be read, or be written, where reads go. nil: it can.
	Outage(catalog.IndexID) error
	// Away are servers of an index that have been away for so long that it is to be added to there no
	// more. Forsake has it be where reads go: nobody reads by it, and StartBuild makes it anew.
	Away(catalog.IndexID) []string
	Forsake(catalog.IndexID) error
	// Sweep removes what was left on servers that were away. REQUIRES: LockChanges.
	Sweep(context.Context) error
}

// Queue of jobs.
type Queue interface {
	Enqueue(storage.Job) (uint64, error)
	// EnqueueSoon keeps nothing of what the job points to.
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
