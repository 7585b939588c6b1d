package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Scratch is where gathers put the rows that they copy: tables of a schema of
// Shunt's own, on the shards or on a server for this alone.
//
// Where they can't be TEMPORARY tables (see gather_temporary.go) they must be
// dropped, whatever happens: after use, and by Run where that failed, or where a
// process died. Their names tell whose they are:
//
//	g_<instance>_<life>_<number>_<reference>
//
// The instance is the store's, the life this process's: a table of the same
// instance and another life is a dead process's.
type Scratch struct {
	o    ScratchOptions
	life string
	next atomic.Uint64
	// slots bounds the gathers that run side by side.
	slots chan struct{}

	mu sync.Mutex
	// left are tables that could not be dropped yet. Run drops them.
	left map[*shard.Pool][]string
	wake chan struct{}

	rows, bytes prometheus.Counter
}

// ScratchOptions say where scratch tables are, and how large they may become.
type ScratchOptions struct {
	// Instance tells this store's tables from those of other proxies.
	Instance string
	// Pools are connections for scratch tables alone, to each shard: a gather
	// that holds a shard's connections must not wait for another of them.
	Pools map[catalog.ShardID]*shard.Pool
	// Server, when set, has all scratch tables.
	Server *shard.Pool
	// MaxRows and MaxBytes bound what one gather copies.
	MaxRows, MaxBytes int64
	Logger            *slog.Logger
	Metrics           prometheus.Registerer
}

const (
	// gatherSlots: each has up to scratchWriters+1 connections at a time.
	gatherSlots    = 16
	scratchWriters = 2
	// ScratchConnections is how many connections a pool of ScratchOptions needs.
	ScratchConnections = gatherSlots*(scratchWriters+1) + 2

	// dropTimeout bounds what a client waits for the end of its scratch tables;
	// Run takes over then.
	dropTimeout = 15 * time.Second
	// sweepEvery is how often Run tries again what failed.
	sweepEvery = 2 * time.Second
)

// NewScratch returns a Scratch; Run cleans up what others left.
func NewScratch(o ScratchOptions) *Scratch {
	sc := &Scratch{
		o: o, life: strconv.FormatInt(time.Now().UnixMilli(), 36),
		slots: make(chan struct{}, gatherSlots), left: map[*shard.Pool][]string{}, wake: make(chan struct{}, 1),
		rows:  prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_gather_rows_total", Help: "Rows copied into scratch tables."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_gather_bytes_total", Help: "Bytes of values copied into scratch tables."}),
	}
	o.Metrics.MustRegister(sc.rows, sc.bytes)
	return sc
}

// place is the server that a gather runs on.
type place struct {
	pool *shard.Pool
	name string
	// shard is the one that it is; not where own.
	shard catalog.ShardID
	own   bool
	// logged: what is done to its scratch tables goes to replicas.
	logged bool
}

// choose finds the server for a gather: the configured one, or the shard that
// holds the most of what can be read in place, and of those the least busy.
func (sc *Scratch) choose(c *catalog.Catalog, g *planner.Gather, pools map[catalog.ShardID]*shard.Pool) place {
	if sc.o.Server != nil {
		return place{pool: sc.o.Server, name: sc.o.Server.Name(), own: true}
	}
	var best place
	var bestScore [3]int
	for _, s := range c.Shards {
		pool := pools[s.ID]
		if pool == nil || sc.o.Pools[s.ID] == nil {
			continue
		}
		score := [3]int{0, 0, pool.Stats().InUse + sc.o.Pools[s.ID].Stats().InUse}
		if pool.State() != "up" {
			score[0] = 1
		}
		for _, r := range g.Refs {
			if r.Table.Placement == catalog.Single && !r.InPlace.Has(s.ID) {
				score[1]++
			}
		}
		if best.pool == nil || less(score, bestScore) {
			best, bestScore = place{pool: sc.o.Pools[s.ID], name: s.Name, shard: s.ID}, score
		}
	}
	return best
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// slot waits for a turn; the returned function ends it.
func (sc *Scratch) slot(ctx context.Context) (func(), error) {
	select {
	case sc.slots <- struct{}{}:
		return func() { <-sc.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (sc *Scratch) prefix() string { return "g_" + sc.o.Instance + "_" }

// names are those of the scratch tables of one gather.
func (sc *Scratch) names(n int) []string {
	base := sc.prefix() + sc.life + "_" + strconv.FormatUint(sc.next.Add(1), 36) + "_"
	out := make([]string, n)
	for i := range out {
		out[i] = base + strconv.Itoa(i)
	}
	return out
}

func scratchTable(name string) string {
	return catalog.QuoteTable(planner.ScratchSchema, name)
}

// scratchState is the fingerprint of a connection that writes scratch tables.
// Invalid dates and 0 in ENUMs are stored as they are in the base table; what
// would be changed all the same shows as a warning, and fails the gather.
const scratchState = "scratch"

var scratchSettings = []string{
	"SET NAMES utf8mb4",
	"SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', SESSION time_zone = '+00:00', SESSION foreign_key_checks = 0, SESSION lock_wait_timeout = 5",
}

// scratchWishes may be refused: the account may lack the right, or the server
// the variable. Replicas have no use for scratch tables, unless they get the
// text of statements that read them: place.logged.
var scratchWishes = []string{
	"SET SESSION sql_require_primary_key = 0",
	"SET SESSION sql_log_bin = 0",
}

// get borrows a connection for scratch tables. It goes back by pool.Put.
func (p place) get(ctx context.Context) (*shard.Conn, error) {
	conn, err := p.pool.Get(ctx, false)
	if err != nil {
		return nil, shardDown(err)
	}
	state, wishes := scratchState, scratchWishes
	if p.logged {
		state, wishes = scratchState+", logged", scratchWishes[:1]
	}
	if conn.State == state {
		return conn, nil
	}
	if conn.State != "" {
		err = conn.Reset(ctx)
	}
	for _, sql := range scratchSettings {
		if err == nil {
			_, err = conn.Exec(ctx, sql)
		}
	}
	for _, sql := range wishes {
		if err == nil && !conn.Broken {
			_, _ = conn.Exec(ctx, sql)
		}
	}
	if err != nil {
		p.pool.Put(conn)
		return nil, fmt.Errorf("prepare a connection to %s for scratch tables: %w", p.name, err)
	}
	conn.State = state
	return conn, nil
}

// create makes a scratch table, and the schema for it if need be.
func create(ctx context.Context, conn *shard.Conn, name, definition, engine string) error {
	sql := "CREATE TABLE " + scratchTable(name) + " (" + definition + ") ENGINE=" + engine + " STATS_PERSISTENT=0"
	_, err := conn.Exec(ctx, sql)
	if serverCode(err) == codeNoSchema {
		if _, err = conn.Exec(ctx, createScratchSchema); err == nil {
			_, err = conn.Exec(ctx, sql)
		}
	}
	return err
}

// drop drops scratch tables, or leaves them to Run.
func (sc *Scratch) drop(ctx context.Context, p place, names []string) {
	if len(names) == 0 {
		return
	}
	if err := sc.dropOrKeep(ctx, p, names); err != nil {
		sc.o.Logger.Warn("scratch tables not dropped yet; trying again", "server", p.name, "tables", names, "error", err)
		select {
		case sc.wake <- struct{}{}:
		default:
		}
	}
}

func (sc *Scratch) dropOrKeep(ctx context.Context, p place, names []string) error {
	err := p.drop(ctx, names)
	if err != nil {
		sc.mu.Lock()
		sc.left[p.pool] = append(sc.left[p.pool], names...)
		sc.mu.Unlock()
	}
	return err
}

func (p place) drop(ctx context.Context, names []string) error {
	conn, err := p.get(ctx)
	if err != nil {
		return err
	}
	defer p.pool.Put(conn)
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = scratchTable(n)
	}
	_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS "+strings.Join(quoted, ", "))
	if serverCode(err) == codeNoSchema {
		err = nil
	}
	return err
}

// places are all servers that may hold scratch tables of this instance. A
// server that was configured before has them on shards.
func (sc *Scratch) places() []place {
	var out []place
	for id, pool := range sc.o.Pools {
		out = append(out, place{pool: pool, name: pool.Name(), shard: id})
	}
	if sc.o.Server != nil {
		out = append(out, place{pool: sc.o.Server, name: sc.o.Server.Name(), own: true})
	}
	return out
}

// Run drops what a process of this instance left behind when it died, on each
// server as soon as it answers, and what this one could not drop at once. It
// returns when ctx ends.
func (sc *Scratch) Run(ctx context.Context) {
	unswept := sc.places()
	told := map[string]string{} // by server, why it isn't swept
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		var again []place
		for _, p := range unswept {
			if err := sc.sweep(ctx, p); err != nil {
				if told[p.name] != err.Error() {
					told[p.name] = err.Error()
					sc.o.Logger.Info("scratch tables not swept yet; trying again", "server", p.name, "error", err)
				}
				again = append(again, p)
			}
		}
		unswept = again
		sc.dropLeft(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-sc.wake:
			select {
			case <-ctx.Done():
				return
			case <-time.After(sweepEvery / 4):
			}
		}
	}
}

// dropLeft tries once more to drop what could not be dropped.
func (sc *Scratch) dropLeft(ctx context.Context) {
	for _, p := range sc.places() {
		sc.mu.Lock()
		names := sc.left[p.pool]
		delete(sc.left, p.pool)
		sc.mu.Unlock()
		if len(names) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, dropTimeout)
		if err := sc.killUsers(limited, p, func(sql string) bool {
			return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(sql, "`"+n+"`") })
		}); err != nil {
			sc.o.Logger.Debug("statements on scratch tables not ended", "server", p.name, "error", err)
		}
		// It was told when it failed first.
		if err := sc.dropOrKeep(limited, p, names); err != nil {
			sc.o.Logger.Debug("scratch tables still not dropped", "server", p.name, "tables", names, "error", err)
		}
		cancel()
	}
}

// sweep drops what earlier lives of this instance left on a server.
func (sc *Scratch) sweep(ctx context.Context, p place) error {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	names, err := sc.tables(ctx, p)
	if err != nil {
		return err
	}
	var old []string
	for _, n := range names {
		if strings.HasPrefix(n, sc.prefix()) && !strings.HasPrefix(n, sc.prefix()+sc.life+"_") {
			old = append(old, n)
		}
	}
	// Temporary tables are in no list, but gone with the statements on them.
	if err := sc.killUsers(ctx, p, func(sql string) bool {
		return strings.Contains(sql, "`"+sc.prefix()) && !strings.Contains(sql, "`"+sc.prefix()+sc.life+"_")
	}); err != nil {
		return err
	}
	if len(old) == 0 {
		return nil
	}
	if err := p.drop(ctx, old); err != nil {
		return err
	}
	sc.o.Logger.Info("dropped scratch tables of a process that died", "server", p.name, "tables", len(old))
	return nil
}

// tables lists the scratch tables of a server, anybody's.
func (sc *Scratch) tables(ctx context.Context, p place) ([]string, error) {
	conn, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	defer p.pool.Put(conn)
	res, err := conn.Query(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+planner.ScratchSchema+"'")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range res.Rows {
		out = append(out, string(r[0]))
	}
	return out, nil
}

// killUsers ends statements that still run on scratch tables whose proxy is
// gone: a server notices that only when it has something to send.
func (sc *Scratch) killUsers(ctx context.Context, p place, on func(sql string) bool) error {
	conn, err := p.get(ctx)
	if err != nil {
		return err
	}
	defer p.pool.Put(conn)
	res, err := conn.Query(ctx, "SELECT ID, INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO IS NOT NULL")
	if err != nil {
		return err
	}
	for _, r := range res.Rows {
		if sql := string(r[1]); on(sql) && !strings.HasPrefix(sql, "DROP ") {
			// It may have ended by itself.
			_, _ = conn.Exec(ctx, "KILL "+string(r[0]))
		}
	}
	return nil
}

// Close drops what is left, and the scratch schema where nobody has a table in
// it. REQUIRES: Run has returned and no gather runs.
func (sc *Scratch) Close(ctx context.Context) {
	sc.dropLeft(ctx)
	for _, p := range sc.places() {
		if p.pool.Version() == "" || p.pool.State() != "up" {
			continue // never reached, or not now
		}
		names, err := sc.tables(ctx, p)
		if err != nil || len(names) > 0 {
			continue
		}
		conn, err := p.get(ctx)
		if err != nil {
			continue
		}
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+catalog.QuoteName(planner.ScratchSchema)); err != nil {
			sc.o.Logger.Info("drop the scratch schema", "server", p.name, "error", err)
		}
		p.pool.Put(conn)
	}
}
