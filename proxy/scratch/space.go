package scratch

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

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Space is where gathers put the rows that they copy: tables of a schema of
// Shunt's own, on the shards or on a server for this alone.
//
// Where they can't be TEMPORARY tables (see the proxy's gather_temporary.go) they must be
// dropped, whatever happens: after use, and by Run where that failed, or where a
// process died. Their names tell whose they are:
//
//	g_<instance>_<life>_<number>_<reference>
//
// The instance is the store's (data_dir/scratch-instance), the life is a process's.
type Space struct {
	Options Options
	next    atomic.Uint64
	// Slots bounds the gathers that run side by side.
	Slots *shard.Places

	mu sync.Mutex
	// left are tables that could not be dropped yet. Run drops them.
	left map[*shard.Pool][]string
	wake chan struct{}

	// Rows and Bytes count what is copied.
	Rows, Bytes prometheus.Counter
}

// Options say where scratch tables are, and how large they may become.
type Options struct {
	// Instance tells this store's tables from those of other proxies.
	Instance string
	// Life is this process's, of letters and digits; Gone tells of one of the instance whether
	// its process is gone.
	Life string
	Gone func(ctx context.Context, life string) bool
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
	// gatherSlots: each has up to Writers+1 connections at a time.
	gatherSlots = 16
	// Writers is how many connections may fill one gather's tables side by side.
	Writers = 2
	// Connections is how many connections a pool of Options needs.
	Connections = gatherSlots*(Writers+1) + 2

	// DropTimeout bounds what a client waits for the end of its scratch tables;
	// Run takes over then.
	DropTimeout = 15 * time.Second
	// sweepEvery is how often Run tries again what failed.
	sweepEvery = 2 * time.Second
)

// New returns a Space; Run cleans up what others left.
func New(o Options) *Space {
	sc := &Space{
		Options: o,
		Slots:   shard.NewPlaces("gathers", gatherSlots, o.Logger), left: map[*shard.Pool][]string{}, wake: make(chan struct{}, 1),
		Rows:  prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_gather_rows_total", Help: "Rows copied into scratch tables."}),
		Bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_gather_bytes_total", Help: "Bytes of values copied into scratch tables."}),
	}
	o.Metrics.MustRegister(sc.Rows, sc.Bytes)
	return sc
}

// Place is the server that a gather runs on.
type Place struct {
	Pool *shard.Pool
	Name string
	// shard is the one that it is; not where own.
	Shard catalog.ShardID
	Own   bool
	// logged: what is done to its scratch tables goes to replicas.
	Logged bool
}

// Choose finds the server for a gather: the configured one, or the shard that
// holds the most of what can be read in place, and of those the least busy. singles are, for each
// table that one shard alone has, where it can be read in place.
func (sc *Space) Choose(c *catalog.Catalog, singles []catalog.ShardSet, pools map[catalog.ShardID]*shard.Pool) Place {
	if sc.Options.Server != nil {
		return Place{Pool: sc.Options.Server, Name: sc.Options.Server.Name(), Own: true}
	}
	var best Place
	var bestScore [3]int
	for _, s := range c.Shards {
		pool := pools[s.ID]
		if pool == nil || sc.Options.Pools[s.ID] == nil {
			continue
		}
		score := [3]int{0, 0, pool.Stats().InUse + sc.Options.Pools[s.ID].Stats().InUse}
		if pool.State() != "up" {
			score[0] = 1
		}
		for _, inPlace := range singles {
			if !inPlace.Has(s.ID) {
				score[1]++
			}
		}
		if best.Pool == nil || less(score, bestScore) {
			best, bestScore = Place{Pool: sc.Options.Pools[s.ID], Name: s.Name, Shard: s.ID}, score
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

func (sc *Space) prefix() string { return "g_" + sc.Options.Instance + "_" }

// names are those of the scratch tables of one gather.
func (sc *Space) Names(n int) []string {
	base := sc.prefix() + sc.Options.Life + "_" + strconv.FormatUint(sc.next.Add(1), 36) + "_"
	out := make([]string, n)
	for i := range out {
		out[i] = base + strconv.Itoa(i)
	}
	return out
}

// Table is a scratch table's name, quoted.
func Table(name string) string {
	return catalog.QuoteTable(catalog.ScratchSchema, name)
}

// CreateSchema makes the schema of scratch tables, which may be there.
const CreateSchema = "CREATE DATABASE IF NOT EXISTS " + "`" + catalog.ScratchSchema + "`"

// State is the fingerprint of a connection that writes scratch tables.
// Invalid dates and 0 in ENUMs are stored as they are in the base table; what
// would be changed all the same shows as a warning, and fails the gather.
const State = "scratch"

// Settings are those of such a connection.
var Settings = []string{
	"SET NAMES utf8mb4",
	"SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', SESSION time_zone = '+00:00', SESSION foreign_key_checks = 0, SESSION lock_wait_timeout = 5",
}

// Wishes may be refused: the account may lack the right, or the server
// the variable. Replicas have no use for scratch tables, unless they get the
// text of statements that read them: Place.Logged.
var Wishes = []string{
	"SET SESSION sql_require_primary_key = 0",
	"SET SESSION sql_log_bin = 0",
}

// Undone makes the settings that Settings and Wishes change
// those of a new connection, as a reset would if it left the tables.
var Undone = []string{
	"SET SESSION sql_mode = DEFAULT, SESSION time_zone = DEFAULT, SESSION foreign_key_checks = DEFAULT, SESSION lock_wait_timeout = DEFAULT",
	"SET SESSION sql_log_bin = 1",
	"SET SESSION sql_require_primary_key = DEFAULT",
}

// Get borrows a connection for scratch tables. It goes back by pool.Put.
func (p Place) Get(ctx context.Context) (*shard.Conn, error) {
	conn, err := p.Pool.Get(ctx, false)
	if err != nil {
		return nil, shard.Down(err)
	}
	state, wishes := State, Wishes
	if p.Logged {
		state, wishes = State+", logged", Wishes[:1]
	}
	if conn.State == state {
		return conn, nil
	}
	if conn.State != "" {
		err = conn.Reset(ctx)
	}
	for _, sql := range Settings {
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
		p.Pool.Put(conn)
		return nil, fmt.Errorf("prepare a connection to %s for scratch tables: %w", p.Name, err)
	}
	conn.State = state
	return conn, nil
}

// Create makes a scratch table, and the schema for it if need be.
func Create(ctx context.Context, conn *shard.Conn, name, definition, engine string) error {
	sql := "CREATE TABLE " + Table(name) + " (" + definition + ") ENGINE=" + engine + " STATS_PERSISTENT=0"
	_, err := conn.Exec(ctx, sql)
	if shard.Code(err) == mysqlerr.BadDB {
		if _, err = conn.Exec(ctx, CreateSchema); err == nil {
			_, err = conn.Exec(ctx, sql)
		}
	}
	return err
}

// Drop drops scratch tables, or leaves them to Run.
func (sc *Space) Drop(ctx context.Context, p Place, names []string) {
	if len(names) == 0 {
		return
	}
	if err := sc.dropOrKeep(ctx, p, names); err != nil {
		sc.Options.Logger.Warn("scratch tables not dropped yet; trying again", "server", p.Name, "tables", names, "error", err)
		select {
		case sc.wake <- struct{}{}:
		default:
		}
	}
}

func (sc *Space) dropOrKeep(ctx context.Context, p Place, names []string) error {
	err := p.drop(ctx, names)
	if err != nil {
		sc.mu.Lock()
		sc.left[p.Pool] = append(sc.left[p.Pool], names...)
		sc.mu.Unlock()
	}
	return err
}

func (p Place) drop(ctx context.Context, names []string) error {
	conn, err := p.Get(ctx)
	if err != nil {
		return err
	}
	defer p.Pool.Put(conn)
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Table(n)
	}
	_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS "+strings.Join(quoted, ", "))
	if shard.Code(err) == mysqlerr.BadDB {
		err = nil
	}
	return err
}

// places are all servers that may hold scratch tables of this instance. A
// server that was configured before has them on shards.
func (sc *Space) places() []Place {
	var out []Place
	for id, pool := range sc.Options.Pools {
		out = append(out, Place{Pool: pool, Name: pool.Name(), Shard: id})
	}
	if sc.Options.Server != nil {
		out = append(out, Place{Pool: sc.Options.Server, Name: sc.Options.Server.Name(), Own: true})
	}
	return out
}

// Run drops what a process of this instance left behind when it died, on each
// server as soon as it answers, and what this one could not drop at once. It
// returns when ctx ends.
func (sc *Space) Run(ctx context.Context) {
	unswept := sc.places()
	told := map[string]string{} // by server, why it isn't swept
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		var again []Place
		for _, p := range unswept {
			if err := sc.sweep(ctx, p); err != nil {
				if told[p.Name] != err.Error() {
					told[p.Name] = err.Error()
					sc.Options.Logger.Info("scratch tables not swept yet; trying again", "server", p.Name, "error", err)
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
func (sc *Space) dropLeft(ctx context.Context) {
	for _, p := range sc.places() {
		sc.mu.Lock()
		names := sc.left[p.Pool]
		delete(sc.left, p.Pool)
		sc.mu.Unlock()
		if len(names) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, DropTimeout)
		if err := sc.killUsers(limited, p, func(sql string) bool {
			return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(sql, "`"+n+"`") })
		}); err != nil {
			sc.Options.Logger.Debug("statements on scratch tables not ended", "server", p.Name, "error", err)
		}
		// It was told when it failed first.
		if err := sc.dropOrKeep(limited, p, names); err != nil {
			sc.Options.Logger.Debug("scratch tables still not dropped", "server", p.Name, "tables", names, "error", err)
		}
		cancel()
	}
}

// sweep drops what earlier lives of this instance left on a server.
func (sc *Space) sweep(ctx context.Context, p Place) error {
	ctx, cancel := context.WithTimeout(ctx, DropTimeout)
	defer cancel()
	names, err := sc.tables(ctx, p)
	if err != nil {
		return err
	}
	var old []string
	for _, n := range names {
		if rest, ours := strings.CutPrefix(n, sc.prefix()); ours && sc.gone(ctx, rest) {
			old = append(old, n)
		}
	}
	// Temporary tables are in no list, but gone with the statements on them.
	if err := sc.killUsers(ctx, p, func(sql string) bool {
		_, rest, ours := strings.Cut(sql, "`"+sc.prefix())
		return ours && sc.gone(ctx, rest)
	}); err != nil {
		return err
	}
	if len(old) == 0 {
		return nil
	}
	if err := p.drop(ctx, old); err != nil {
		return err
	}
	sc.Options.Logger.Info("dropped scratch tables of a process that died", "server", p.Name, "tables", len(old))
	return nil
}

// gone reports that a process is, by the name of a table of its from behind the prefix on.
func (sc *Space) gone(ctx context.Context, name string) bool {
	life, _, _ := strings.Cut(name, "_")
	return sc.Options.Gone(ctx, life)
}

// tables lists the scratch tables of a server, anybody's.
func (sc *Space) tables(ctx context.Context, p Place) ([]string, error) {
	conn, err := p.Get(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Pool.Put(conn)
	res, err := conn.Query(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+catalog.ScratchSchema+"'")
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
func (sc *Space) killUsers(ctx context.Context, p Place, on func(sql string) bool) error {
	conn, err := p.Get(ctx)
	if err != nil {
		return err
	}
	defer p.Pool.Put(conn)
	list, err := conn.Processes(ctx, true)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x.ID != conn.ThreadID && on(x.Info) && !strings.HasPrefix(x.Info, "DROP ") {
			// It may have ended by itself.
			_, _ = conn.Exec(ctx, fmt.Sprintf("KILL %d", x.ID))
		}
	}
	return nil
}

// Close drops what is left, and the scratch schema where nobody has a table in
// it. REQUIRES: Run has returned and no gather runs.
func (sc *Space) Close(ctx context.Context) {
	sc.dropLeft(ctx)
	for _, p := range sc.places() {
		if p.Pool.Version() == "" || p.Pool.State() != "up" {
			continue // never reached, or not now
		}
		names, err := sc.tables(ctx, p)
		if err != nil || len(names) > 0 {
			continue
		}
		conn, err := p.Get(ctx)
		if err != nil {
			continue
		}
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+catalog.QuoteName(catalog.ScratchSchema)); err != nil {
			sc.Options.Logger.Info("drop the scratch schema", "server", p.Name, "error", err)
		}
		p.Pool.Put(conn)
	}
}
