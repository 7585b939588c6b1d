package storage

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Options say where and how to open a Store.
type Options struct {
	// Dir is the store's directory; it is created if missing.
	Dir string
	// InMemory keeps everything in memory, for tests. Dir is ignored.
	InMemory bool
	// BootID names this boot of the machine, to tell the death of the process
	// from a power loss. Empty: /proc/sys/kernel/random/boot_id; where there
	// is none, every unclean stop counts as a power loss.
	BootID string
	// MinFree is the free disk space in bytes under which writes are refused.
	// 0: 256 MiB, or a tenth of the disk if that is less.
	MinFree uint64
	// LookupCache bounds the hot records that are kept in memory, in bytes.
	// 0: 32 MiB; negative: none are.
	LookupCache int64
	// BlockCache bounds the blocks of the database that are kept in memory, in bytes. 0: 64 MiB.
	BlockCache int64
	// FreeSpace returns the free bytes of the file system of dir. nil: statfs.
	FreeSpace func(dir string) (uint64, error)
	// Quiet is how long a write-intent must be idle before it is lifted.
	// 0: 5 s.
	Quiet time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// Now is the clock of jobs and write-intents. nil: time.Now.
	Now func() time.Time

	// copies: see testOptions.
	copies bool
}

// Epoch counts the openings of scans. Epochs never repeat, also after a power
// loss. 0 is before every epoch that the store hands out.
type Epoch uint64

// Pair is a table on a shard.
type Pair struct {
	Schema, Table string
	Shard         catalog.ShardID
}

// IndexRecord is what the store keeps of a virtual index. It keeps the status for
// its callers; Lookup goes by the generations alone.
type IndexRecord struct {
	catalog.IndexDef
	// LastScan is when the index was last known to be complete.
	LastScan time.Time `json:",omitzero"`
	Created  time.Time
	// Readable: there is a generation that Lookup uses.
	Readable bool `json:"-"`
	// HasBuild: a building generation is open. BuildGeneration is its number.
	HasBuild        bool   `json:"-"`
	BuildGeneration uint32 `json:"-"`
	// ReadGeneration is the number of the readable one, 0 if there is none. Numbers rise.
	ReadGeneration uint32 `json:"-"`
	// Moving: a Repartition is under way.
	Moving bool `json:"-"`
	// Target has the building generation, and Former the one that was read before: other servers
	// than Home, which is read. What is added goes to all of them. Package shared.
	Target string `json:",omitempty"`
	Former string `json:",omitempty"`
	// Forsaken: Home is neither read nor added to.
	Forsaken bool `json:",omitempty"`
	// Unread: nobody has read by it since it was created, or forsaken, and nobody does before its build has ended.
	Unread bool `json:",omitempty"`
	// Unbegun: its first build has read no shard yet. An index that was made by an earlier version isn't.
	Unbegun bool `json:",omitempty"`
	// Opening: generations are being opened in one partition after the other, which an end of the process cuts short.
	Opening bool `json:",omitempty"`
	// Moves counts the servers that the index was given.
	Moves uint32 `json:",omitempty"`
	// Parts are the numbers of the indexes that are its partitions, where these lie on servers. Home, Target and Former are lists
	// of names then. Package shared.
	Parts []catalog.IndexID `json:",omitempty"`
}

const nameSeparator = ", "

// JoinNames is a list of servers as one text: "" if all are "", and each once if they are the same.
func JoinNames(names []string) string {
	if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return n != names[0] }) {
		return names[0]
	}
	return strings.Join(names, nameSeparator)
}

// SplitNames is the reverse.
func SplitNames(list string) []string { return strings.Split(list, nameSeparator) }

// newest is the number of the newest generation that is live, but for a Repartition's.
func (d *IndexRecord) newest() uint32 { return max(d.ReadGeneration, d.BuildGeneration) }

// Entry says that key may be on Shard, confirmed in Epoch.
type Entry struct {
	Index catalog.IndexID
	Key   []byte
	Shard catalog.ShardID
	Epoch Epoch
}

// ShardEpoch is one (shard, epoch) pair of a key's record.
type ShardEpoch struct {
	Shard catalog.ShardID
	Epoch Epoch
}

// Mark says that keys that could not be computed may be on Shard.
type Mark struct {
	Index catalog.IndexID
	Shard catalog.ShardID
	// Known are the components of those keys that are known, by position of
	// the indexed column; nil elements, and those past the end, are unknown.
	// nil: nothing is known. A known component is never empty.
	Known [][]byte
	Epoch Epoch
	// Logged: the shard's log of changes will show all that the mark stands for, so that who
	// follows the log may clear it. Other marks are cleared by scans alone.
	Logged bool
}

// IndexStats are the numbers of one index.
type IndexStats struct {
	// Entries of the readable generation, or of the building one if there is
	// no other.
	Entries int64
	// Approximate: the count after an unclean stop is still under way, so
	// Entries is short of the truth.
	Approximate bool
	// Bytes are what the tables have of the entries, about; 0: not known.
	Bytes int64
	// Unknown are the shards with an unknown mark; since UnknownSince, or the store was opened, there
	// has been one on some shard. Zero: there is none, or it isn't known.
	Unknown      catalog.ShardSet
	UnknownSince time.Time
}

// Stats are the numbers of the store.
type Stats struct {
	Indexes map[catalog.IndexID]IndexStats
	// DiskBytes is the size of the store's tables and logs.
	DiskBytes int64
	// FreeBytes is the free space of the disk (as of the last second), 0 in
	// memory.
	FreeBytes uint64
	// Garbage counts the generations that wait to be deleted.
	Garbage int
	// Intents counts the write-intents set.
	Intents int
	// Writable is what Writable returns.
	Writable error
	// HotHits and HotMisses count the lookups since Open that hot records
	// answered, and the others; HotBytes is what they take.
	HotHits, HotMisses uint64
	HotBytes           int64
}

// Types of jobs.
const (
	BuildIndex    = "build_index"
	MaintainIndex = "maintain_index"
	VerifyKeys    = "verify_keys"
	Reconcile     = "reconcile"
	DropIndexJob  = "drop_index"
)

// JobState is derived from a job's claim and NotBefore.
type JobState string

const (
	Waiting JobState = "waiting"
	Running JobState = "running"
	Backoff JobState = "backoff"
)

// JobKey is a key that a verify_keys job asks a shard about.
type JobKey struct {
	Index catalog.IndexID `json:"index"`
	Key   []byte          `json:"key"`
	// Values are the columns' values in the form of the caller.
	Values json.RawMessage `json:"values,omitempty"`
}

// Job is one piece of maintenance work.
type Job struct {
	ID     uint64 `json:"id"`
	Type   string `json:"type"`
	Schema string `json:"schema"`
	Table  string `json:"table"`
	// Operation is what made the job: UPDATE, DELETE, ...; of merged jobs the
	// distinct ones joined by "+".
	Operation      string            `json:"operation,omitempty"`
	Shards         catalog.ShardSet  `json:"shards"`
	Indexes        []catalog.IndexID `json:"indexes,omitempty"`
	UpdatedColumns []string          `json:"updated_columns,omitempty"`
	Keys           []JobKey          `json:"keys,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	Attempts       int               `json:"attempts"`
	NotBefore      time.Time         `json:"not_before,omitzero"`
	ClaimedBy      string            `json:"claimed_by,omitempty"`
	ClaimedUntil   time.Time         `json:"claimed_until,omitzero"`
	Checkpoint     json.RawMessage   `json:"checkpoint,omitempty"`
	Progress       float64           `json:"progress,omitempty"`
	Error          string            `json:"error,omitempty"`
	State          JobState          `json:"-"`
}
