package proxy

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

var (
	// ErrIndexFull: the store of the virtual indexes has no disk space, so that
	// a write to an indexed table must not be sent.
	ErrIndexFull = errors.New("the index store is full")
	// ErrIndexReadOnly: the store can't be written any more.
	ErrIndexReadOnly = errors.New("the index store is read-only")
)

// Index is what sessions need of the virtual indexes.
type Index interface {
	planner.Indexes
	// Begin registers a statement or transaction on shards, before the catalog
	// that it is planned with is checked for being current.
	Begin(catalog.ShardSet) Open
	// AwaitOpen waits until all that is registered on shards now has ended.
	AwaitOpen(context.Context, catalog.ShardSet) error
	// Prepare puts entries and marks into the store. When it returns nil they
	// survive the death of the process, and the statement may be sent. tables
	// are those that the statement may change, on the given shards. Errors are
	// ErrIndexFull, ErrIndexReadOnly, or others; the statement is not sent.
	Prepare(open Open, adds []planner.Entry, marks []planner.Mark, tables []*catalog.Table, shards catalog.ShardSet) error
	// After asks for maintenance behind a statement that has returned.
	After([]planner.Maintenance)
	// Observe tells of a read that probes routed: to which shards, and which of them answered no row.
	// The probes are lent.
	Observe(probes []planner.Probe, routed, empty catalog.ShardSet)
}

// Open is a registered statement or transaction. Its methods are called by one
// goroutine.
type Open interface {
	// Extend registers it on more shards.
	Extend(catalog.ShardSet)
	// InDoubt takes a shard out of this registration and keeps it registered
	// on its own until the server's thread is known to be gone; the maintenance
	// is asked for then. It ends the thread: nobody may use the connection any more.
	InDoubt(id catalog.ShardID, conn *shard.Conn, after []planner.Maintenance)
	// DDLInDoubt is InDoubt for DDL: the schema is read again then. Without a connection
	// that alone is to be done.
	DDLInDoubt(id catalog.ShardID, conn *shard.Conn)
	// End ends the registration on all shards that are not in doubt.
	End()
}

// IndexAdmin is what Shunt's own SQL needs of the virtual indexes.
type IndexAdmin interface {
	CreateIndex(ctx context.Context, table *catalog.Table, name string, columns []string, partitions int) error
	DropIndex(ctx context.Context, ix *catalog.Index) error
	RebuildIndex(ctx context.Context, ix *catalog.Index) error
	Repartition(ctx context.Context, ix *catalog.Index, partitions int) error
	EnableIndex(ctx context.Context, ix *catalog.Index, enabled bool) error
	CheckIndex(ctx context.Context, ix *catalog.Index) ([]CheckRow, error)
	IndexRows() []IndexRow
	JobRows() []JobRow
	// Writable is why the indexes can't be written to now, so that writes to their
	// tables are refused; nil if they can.
	Writable() error
	// Scan yields the entries of an index in key order.
	Entries(ix *catalog.Index, from, to []byte, limit int) ([]EntryRow, error)

	// BeforeDDL takes indexes whose keys may come to mean something else out of
	// use for reads, durably, before the DDL is sent.
	BeforeDDL(ctx context.Context, d *planner.DDL) error
	// AfterDDL rebuilds, moves or drops them, whether the DDL was done on all shards or
	// not, once the catalog has been read again.
	AfterDDL(ctx context.Context, d *planner.DDL, done bool) error
}

// IndexRow is a row of SHOW VIRTUAL INDEXES.
type IndexRow struct {
	Schema, Table, Name string
	Columns             []string
	Partitions          int
	Status              string
	Progress            float64
	Entries             uint64
	UnknownShards       []string
	PendingJobs         int
	LastScan            string
	Error               string
}

// JobRow is a row of SHOW MAINTENANCE JOBS.
type JobRow struct {
	ID                  uint64
	Type, Schema, Table string
	Shards, Indexes     []string
	State               string
	Attempts            int
	NotBefore           string
	ClaimedBy           string
	Progress            float64
	Error               string
}

// CheckRow is a row of CHECK VIRTUAL INDEX.
type CheckRow struct {
	Index, Shard            string
	Checked, Missing, Stale int64
}

// EntryRow is one entry of an index for /v1/indexes.
type EntryRow struct {
	Key    string   `json:"key"` // hexadecimal
	Shards []string `json:"shards"`
	Epochs []uint64 `json:"epochs"`
}
