package indexer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cover"
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
	// Cluster is who else runs.
	Cluster cluster.Cluster
	// Catalog returns the published snapshot; nil as long as there is none.
	Catalog func() *catalog.Catalog
	// Lost and Adopt are cluster.Member's.
	Lost  func(shard catalog.ShardID, join uint64, why error)
	Adopt func(ctx context.Context, version uint64) error
	// Publish rebuilds the catalog from the shards and the store's definitions,
	// and publishes it. When it returns, every session that checks the version
	// of its catalog sees the new one.
	Publish func(context.Context) error

	// Everyone returns when all processes go by the indexes that Catalog tells, or later ones. nil:
	// there is no other process.
	Everyone func(context.Context) error

	// Unsettled reports that other shards are about to serve, so that records and catalogs needn't fit. nil: they always do.
	Unsettled func() bool

	// Reread reads what a shard's tables are, and publishes that; changed: they are
	// others than was known. nil: they never are.
	Reread func(ctx context.Context, shard catalog.ShardID) (changed bool, err error)

	// Logs are followed where they are given; nil: maintenance is by scans alone.
	Logs Logs
	// Following are the shards whose logs those are.
	Following catalog.ShardSet

	// Answers are told of all that may change rows, for covering indexes. nil: none are kept.
	Answers *cover.Answers

	// Tell returns when shards know the store's serial, or one that is higher. nil: they
	// don't keep it.
	Tell func(ctx context.Context, shards catalog.ShardSet, serial uint64) error

	Workers    int           // goroutines that run jobs; 0: 2
	Delay      time.Duration // from a write to its maintenance scan; 0: 1 s
	ScanDuty   float64       // share of time a shard may be scanned, and of Processors for all; 0: 0.1
	Processors int           // 0: runtime.GOMAXPROCS
	// Scanners are how many processes scan a shard, this one among them: they share its ScanDuty. nil: one does.
	Scanners func(catalog.ShardID) int
	// MaxRunning is how many threads may run on a shard that is scanned: where there are more, the scan waits. 0: any.
	MaxRunning int
	// Lagging says why a shard is to be spared by scans for its replicas' sake; "": it isn't. nil: none is.
	Lagging        func(catalog.ShardID) string
	ReconcileEvery time.Duration // 0: never
	Audit          float64       // share of index-routed reads that are audited

	// Down reports a shard that can't be reached: its jobs wait, rather than
	// fail and be tried again ever more rarely, until Returned is called. It
	// must not block, and is asked of shards that the catalog doesn't have, too.
	// nil: none is known to be.
	Down func(shard catalog.ShardID) bool

	// Opened reports that a thread of a shard's, whose client has a port, is that of an open
	// connection of this process. nil: it isn't known.
	Opened func(shard catalog.ShardID, thread uint64, port int) bool

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
	cluster cluster.Cluster
	doubts  doubts
	fanouts fanouts
	// known is nil where the store is on this machine.
	known *known
	// codec finds the codec of a column; a field for the simulation.
	codec func(c *catalog.Column, mariaDB bool) (codec, error)
	kinds []kind

	// ledgerLimit and those below are what the tests make small.
	ledgerLimit    int
	checkpointRows int
	patience       time.Duration
	adders         int

	// leftovers belong to whoever calls settle: one goroutine.
	leftovers map[catalog.ShardID]*leftovers

	work      work
	audits    audits
	followers followers
	ddl       ddlUnderWay
	covering  atomic.Pointer[reaches]
	stop      context.CancelFunc
	running   sync.WaitGroup
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
	if o.Opened == nil {
		o.Opened = func(catalog.ShardID, uint64, int) bool { return false }
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
		cluster:        o.Cluster,
		codec:          columnCodec,
		kinds:          jobKinds(),
		ledgerLimit:    ledgerLimit(debug.SetMemoryLimit(-1)),
		checkpointRows: 200_000,
		patience:       10 * time.Second,
		adders:         adders,
		leftovers:      map[catalog.ShardID]*leftovers{},
	}
	if _, ok := x.store.(Asked); ok {
		x.known = &known{}
	}
	x.work.init(storage.WorkerOf(x.cluster.Self()))
	x.audits.init(o.Audit)
	x.doubts.came = make(chan struct{}, 1)
	x.followers.wake = make(chan struct{}, 1)
	x.cluster.Join(cluster.Member{Freed: x.work.wakeUp, Interrupt: x.interrupt, Lost: o.Lost, Adopt: o.Adopt})
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
	if x.opts.Logs != nil {
		x.running.Go(func() { x.followNeeded(ctx) })
	}
	if x.opts.Everyone != nil { // others have the store too
		x.running.Go(func() { x.giveUpLost(ctx) })
	}
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
	ScanRows func(shard catalog.ShardID, rows int, took time.Duration)
	Added    func(n int) // missing entries that a scan added
	Removed  func(n int) // stale entries removed
	Cleared  func(n int) // marks cleared
	// JobDone: the outcome is ok, failed, or again: given back for what goes on beside it (DDL, an open
	// transaction, another scan), which is no failure.
	JobDone    func(typ, outcome string, took time.Duration)
	HeldBack   func(shard catalog.ShardID) // removals, or a build, put off by an open transaction
	AfterError func(err error)             // a job could not be enqueued
	Audited    func(index *catalog.Index, miss bool)
	Dropped    func(what string) // "audit" or "repair": queue full
}

// Status is one line of SHOW VIRTUAL INDEXES.
type Status struct {
	Def storage.IndexRecord
	// Progress of the build or repartition under way, 0 to 1; 1 when none is.
	Progress float64
	Entries  int64
	// Bytes of the entries' tables; 0: not known.
	Bytes int64
	// Unknown are the shards with an unknown mark; since UnknownSince there has been one on some shard
	// (zero: there is none, or it isn't known).
	Unknown      catalog.ShardSet
	UnknownSince time.Time
	Fanout       Fanout
	PendingJobs  int
	// Waiting says what a job of the index waits for, "" if for nothing.
	Waiting string
}
