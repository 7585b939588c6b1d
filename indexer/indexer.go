package indexer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

// Shards opens dedicated connections for maintenance.
type Shards interface {
	// Open connects to a shard. The connection's character set is utf8mb4.
	Open(ctx context.Context, shard catalog.ShardID) (Conn, error)
}

// Conn is one connection to a shard, used by one goroutine.
type Conn interface {
	Exec(ctx context.Context, sql string) error
	// Stream calls fn for each row of the answer (text protocol; nil is NULL).
	// The row's slices are valid in fn only. An error of fn ends it.
	Stream(ctx context.Context, sql string, fn func(row [][]byte) error) error
	Close() error
}

// Clock is the time as the indexer sees it.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed, and a function
	// that gives the timer up.
	After(d time.Duration) (<-chan time.Time, func())
}

// Options of an Indexer.
type Options struct {
	Store  Store
	Shards Shards
	// Catalog returns the published snapshot; nil as long as there is none.
	Catalog func() *catalog.Catalog
	// Publish rebuilds the catalog from the shards and the store's definitions,
	// and publishes it. When it returns, every session that checks the version
	// of its catalog sees the new one.
	Publish func(context.Context) error

	// Reread reads what a shard's tables are, and publishes that; changed: they are
	// others than was known. nil: they never are.
	Reread func(ctx context.Context, shard catalog.ShardID) (changed bool, err error)

	Workers        int           // goroutines that run jobs; 0: 2
	Delay          time.Duration // from a write to its maintenance scan; 0: 1 s
	ScanDuty       float64       // share of time a shard may be scanned, and of Processors for all; 0: 0.1
	Processors     int           // 0: runtime.GOMAXPROCS
	ReconcileEvery time.Duration // 0: never
	Audit          float64       // share of index-routed reads that are audited

	// Down reports a shard that can't be reached: its jobs wait, rather than
	// fail and be tried again ever more rarely, until Returned is called. It
	// must not block, and is asked of shards that the catalog doesn't have, too.
	// nil: none is known to be.
	Down func(shard catalog.ShardID) bool

	Clock   Clock        // nil: the system's
	Rand    *rand.Rand   // jitter and sampling; nil: seeded by the system
	Logger  *slog.Logger // nil: slog.Default()
	Metrics Metrics
}

// Indexer runs the write protocol and the jobs.
type Indexer struct {
	opts    Options
	store   Store
	clock   Clock
	log     *slog.Logger
	tracker *tracker
	// codec finds the codec of a column; a field for the simulation.
	codec func(c *catalog.Column, mariaDB bool) (codec, error)

	// ledgerLimit and those below are what the tests make small.
	ledgerLimit    int
	checkpointRows int
	patience       time.Duration
	adders         int

	// leftovers belong to whoever calls settle: one goroutine.
	leftovers map[catalog.ShardID]*leftovers

	work    work
	audits  audits
	admin   sync.Mutex // serialises what operators and DDL change
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New makes an Indexer; nothing runs before Start.
func New(o Options) *Indexer {
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Delay == 0 {
		o.Delay = time.Second
	}
	if o.ScanDuty == 0 {
		o.ScanDuty = 0.1
	}
	if o.Processors == 0 {
		o.Processors = runtime.GOMAXPROCS(0)
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	x := &Indexer{
		opts: o, store: o.Store, clock: o.Clock, log: o.Logger,
		tracker:        newTracker(o.Store.Epoch),
		codec:          columnCodec,
		ledgerLimit:    ledgerLimit(debug.SetMemoryLimit(-1)),
		checkpointRows: 200_000,
		patience:       10 * time.Second,
		adders:         adders,
		leftovers:      map[catalog.ShardID]*leftovers{},
	}
	x.work.init()
	x.audits.init(o.Audit)
	x.tracker.freed = func(catalog.ShardID) { x.work.wakeUp() }
	return x
}

// Start recovers from the previous stop (it marks what may have been lost) and
// starts the jobs. It must return before a statement is served. ctx does not
// end what was started; Close does.
func (x *Indexer) Start(ctx context.Context) error {
	if err := x.recover(ctx); err != nil {
		return fmt.Errorf("recover virtual indexes: %w", err)
	}
	ctx, x.stop = context.WithCancel(context.WithoutCancel(ctx))
	x.running.Go(func() { x.dispatch(ctx) })
	x.running.Go(func() { x.settleAll(ctx) })
	x.running.Go(func() { x.observe(ctx) })
	return nil
}

// Close stops all goroutines and waits for them.
func (x *Indexer) Close() {
	if x.stop != nil {
		x.stop()
	}
	x.running.Wait()
}

func columnCodec(c *catalog.Column, mariaDB bool) (codec, error) {
	return keys.For(c.Type, c.Charset, c.Collation, mariaDB)
}

// systemClock is the real time.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// cancelAfter cancels a context with a cause once d has passed; the function
// returned gives that up.
func (x *Indexer) cancelAfter(d time.Duration, cancel context.CancelCauseFunc, cause error) func() {
	fired, stop := x.clock.After(d)
	done := make(chan struct{})
	go func() {
		select {
		case <-fired:
			cancel(cause)
		case <-done:
		}
	}()
	return func() {
		stop()
		close(done)
	}
}

func (x *Indexer) shardName(id catalog.ShardID) string {
	if c := x.opts.Catalog(); c != nil {
		return c.ShardName(id)
	}
	return "?"
}

// Metrics are called when something happens; nil ones are left out.
type Metrics struct {
	// ScanRows: rows that a scan has read, and how long that took (connecting,
	// comparing with the store and removing not counted).
	ScanRows   func(shard catalog.ShardID, rows int, took time.Duration)
	Added      func(n int) // missing entries that a scan added
	Removed    func(n int) // stale entries removed
	Cleared    func(n int) // marks cleared
	JobDone    func(typ string, d time.Duration, err error)
	HeldBack   func(shard catalog.ShardID) // removals, or a build, put off by an open transaction
	AfterError func(err error)             // a job could not be enqueued
	Audited    func(index *catalog.Index, miss bool)
	Dropped    func(what string) // "audit" or "repair": queue full
}

// Add is an entry to have in the store before a statement is sent.
type Add struct {
	Index *catalog.Index
	Key   []byte
	Shard catalog.ShardID
}

// Mark is an unknown mark to have in the store before a statement is sent.
// Known holds the encoded components that are known (nil for the others).
type Mark struct {
	Index *catalog.Index
	Shard catalog.ShardID
	Known [][]byte
}

// Probe is a key with the values it was made from.
type Probe struct {
	Index  *catalog.Index
	Key    []byte
	Values []keys.Value
}

// Maintenance asks for a maintain_index job, or where Keys is set for a
// verify_keys job.
type Maintenance struct {
	Table     *catalog.Table
	Operation string
	Shards    catalog.ShardSet
	Indexes   []*catalog.Index
	Columns   []string
	Keys      []Probe
}

// CheckRow is one line of CHECK VIRTUAL INDEX.
type CheckRow struct {
	Shard                   catalog.ShardID
	Checked, Missing, Stale int64
}

// Status is one line of SHOW VIRTUAL INDEXES.
type Status struct {
	Def storage.IndexDef
	// Progress of the build or repartition under way, 0 to 1; 1 when none is.
	Progress float64
	Entries  int64
	// Unknown are the shards with an unknown mark.
	Unknown     catalog.ShardSet
	PendingJobs int
	// Waiting says what a job of the index waits for, "" if for nothing.
	Waiting string
}

// Change is a DDL statement that is about to run or has run.
type Change struct {
	// Op as planner.DDL has it: ALTER TABLE, DROP TABLE, TRUNCATE TABLE, ...
	Op string
	// Schema is set for DROP DATABASE.
	Schema string
	Tables []TableName
	// Renamed[i] is the new name of Tables[i]; zero: not renamed. May be nil.
	Renamed []TableName
	// Touches: columns dropped, renamed or changed; AllColumns: any may be.
	Touches    []string
	AllColumns bool
	// Done: all shards have done it. Before that, and where it isn't known, false.
	Done bool
}

// TableName is a table by name.
type TableName struct{ Schema, Name string }
