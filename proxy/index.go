package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

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

// StoreLost is an error by which a store on a server, that several Shunts have together, has not answered. What was
// to be written there may be.
type StoreLost interface {
	error
	StoreLost() bool
}

// StoreBusy is an error by which others have kept locks in such a store for too long. Nothing was written there.
type StoreBusy interface {
	error
	StoreBusy() bool
}

// Cluster is what the proxy needs of all that run.
type Cluster interface {
	// TakeTurn waits until no DDL of anybody's runs, or for ctx, whose cause is the error.
	// Then none runs until GiveTurn: one at a time, so that catalogs follow in order.
	TakeTurn(context.Context) error
	GiveTurn()
	// TurnKept is nil while the turn is this process's: asked with the connection at hand
	// over which DDL is sent then.
	TurnKept() error
	// TakeTables takes the turns of tables, for DDL that shards do while others have the turn of DDL. REQUIRES: that turn, in
	// which TablesHeld has named nobody who has one of them. kept is TurnKept of them; nil where nothing is taken, since
	// not all others might heed it.
	TakeTables(context.Context, ...catalog.TableName) (kept func() error, give func(), err error)
	// TablesHeld names, for people, another process that has the turn of one of some tables; "" for none.
	TablesHeld(context.Context, catalog.Scope) (holder string, err error)
	// AwaitTables waits until there is none, or for ctx, whose cause the error wraps.
	AwaitTables(context.Context, catalog.Scope) error
	// ConnectionID numbers a client's connection, as none that is open, until
	// EndConnection.
	ConnectionID() uint32
	EndConnection(id uint32)
}

// Index is what sessions need of the virtual indexes.
type Index interface {
	plan.Indexes
	// Begin registers a statement or transaction on shards, before the catalog
	// that it is planned with is checked for being current.
	Begin(catalog.ShardSet) Open
	// Passing are lookups for one read, which sees nothing that isn't committed; open is its transaction's,
	// which has made nothing itself, nil outside. Where the shards' binary logs are followed they may wait
	// a moment for what a shard has told of rows, instead of going there. nil: none is.
	Passing(ctx context.Context, open Open) plan.Indexes
	// AwaitOpen waits until all that is registered on shards now has ended.
	AwaitOpen(context.Context, catalog.ShardSet) error
	// Prepare puts entries and marks into the store. When it returns nil they
	// survive the death of the process, and the statement may be sent. tables
	// are those that the statement may change, on the given shards. Errors are
	// ErrIndexFull, ErrIndexReadOnly, or others; the statement is not sent.
	Prepare(ctx context.Context, open Open, adds []plan.Entry, marks []plan.Mark, tables []*catalog.Table, shards catalog.ShardSet) error
	// After asks for maintenance behind a statement that has returned.
	After([]plan.Maintenance)
	// Observe tells of a read that probes routed: to which shards, and which of them answered no row.
	// The probes are lent.
	Observe(probes []plan.Probe, routed, empty catalog.ShardSet)
}

// Open is a registered statement or transaction. Its methods are called by one
// goroutine.
type Open interface {
	// What it may see in snapshots that were opened since Begin is looked up by it.
	plan.Indexes
	// Writes says, before Prepare, what a statement may change on shards: exact reads by covering indexes wait for it.
	Writes(c *plan.Change, shards catalog.ShardSet)
	// Extend registers it on more shards.
	Extend(catalog.ShardSet)
	// Fits reports that what is registered on a shard may be sent over a connection: else
	// this process was fenced there, between the one and the other.
	Fits(catalog.ShardID, *shard.Conn) bool
	// InDoubt takes a shard out of this registration and keeps it registered
	// on its own until the server's thread is known to be gone; the maintenance
	// is asked for then. It ends the thread: nobody may use the connection any more.
	InDoubt(id catalog.ShardID, conn *shard.Conn, after []plan.Maintenance)
	// DDLInDoubt is InDoubt for DDL: the schema is read again then. Without a connection
	// that alone is to be done.
	DDLInDoubt(id catalog.ShardID, conn *shard.Conn)
	// End ends the registration on all shards that are not in doubt.
	End()
}

// Asked is an Index that is asked over a network, and its Opens: one call answers all that a
// statement looks up, as of one moment. An error stands for each of them.
type Asked interface {
	Ask(context.Context, []plan.Question) error
}

// Beside is an Index that is added to over a network.
type Beside interface {
	// AddBeside is Prepare for what a statement of a transaction adds: it goes on while the shard executes the statement.
	// wait, which is called once, returns how it has ended; nil: it has. Before wait has returned nil nothing of the
	// statement may be visible to others, nor be looked up by its transaction; before it has returned open doesn't end.
	AddBeside(open Open, adds []plan.Entry) (wait func() error, err error)
}

// Guessing is an Index that remembers what it was told.
type Guessing interface {
	Asked
	// Guess answers lookups as they were answered last, for a read outside of transactions. Of what is found
	// by that nothing may be told until holds, which asks, has said that it is right; nil: there is no guess.
	Guess([]plan.Question) (holds func(context.Context) bool)
}

// IndexAdmin is what Shunt's own SQL needs of the virtual indexes.
type IndexAdmin interface {
	// CreateIndex makes one on a table, on servers of the store by their names; nil: on any.
	CreateIndex(ctx context.Context, table *catalog.Table, ix plan.VirtualIndex, homes []string) error
	DropIndex(ctx context.Context, ix *catalog.Index) error
	// RebuildIndex builds it anew, on servers of the store by their names; nil: where it is.
	RebuildIndex(ctx context.Context, ix *catalog.Index, homes []string) error
	Repartition(ctx context.Context, ix *catalog.Index, partitions int) error
	EnableIndex(ctx context.Context, ix *catalog.Index, enabled bool) error
	CheckIndex(ctx context.Context, ix *catalog.Index) ([]plan.CheckRow, error)
	IndexRows() []IndexRow
	JobRows() []JobRow
	// Writable is why the indexes can't be written to now, so that writes to their
	// tables are refused; nil if they can.
	Writable() error
	// Scan yields the entries of an index in key order.
	Entries(ix *catalog.Index, from, to []byte, limit int) ([]EntryRow, error)

	// BeforeDDL takes indexes whose keys may come to mean something else out of
	// use for reads, durably, before the DDL is sent.
	BeforeDDL(ctx context.Context, d *plan.DDL) error
	// AfterDDL rebuilds, moves or drops them, whether the DDL was done on all shards or
	// not, once the catalog has been read again.
	AfterDDL(ctx context.Context, d *plan.DDL, done bool) error
}

// IndexRow is a row of SHOW VIRTUAL INDEXES.
type IndexRow struct {
	Schema, Table, Name string
	Columns, Include    []string
	Partitions          int
	Home                string
	Status              string
	Progress            float64
	Entries             uint64
	UnknownShards       []string
	PendingJobs         int
	LastScan            string
	Error               string
	// Bytes, 0 where they aren't known; UnknownSince, "" where there are no marks, or it isn't known.
	Bytes        int64
	UnknownSince string
	// Lag is how late what comes by the shards' binary logs is at most; negative: not known, or they aren't followed.
	Lag time.Duration
	// Reads by the index, the shards that it named for them, and those of these that had no row.
	Reads, ReadShards, VainShards uint64
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

// EntryRow is one entry of an index for /v1/indexes.
type EntryRow struct {
	Key    string   `json:"key"` // hexadecimal
	Shards []string `json:"shards"`
	Epochs []uint64 `json:"epochs"`
}
