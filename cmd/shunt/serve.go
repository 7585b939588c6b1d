package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/console"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
	"github.com/shunt-sql/shunt/storage"
)

// serve runs the proxy until ctx ends, then drains and stops it. ready is
// called once, when both ports accept connections, with their addresses.
//
// What depends on what, and so the order of starting (stopping is the reverse):
//
//	store -> claims -> pools -> directory (catalog) -> indexer -> proxy -> listeners
func serve(ctx context.Context, now *current, log *slog.Logger, ready func(addr, http string)) (err error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	var wanted *config.Config
	for {
		err := serveAs(ctx, now.Load(), wanted, log, ready, hup, true)
		x, ok := errors.AsType[*anew](err)
		if !ok {
			return err
		}
		now.Store(x.cfg)
		if wanted = x.wanted; wanted != nil {
			select {
			case hup <- syscall.SIGHUP: // which takes it over
			default:
			}
		}
	}
}

// current is the configuration that a process begins to serve by: while it waits to, SIGHUP puts
// another in its place.
type current struct{ atomic.Pointer[config.Config] }

// Level is for the log.
func (c *current) Level() slog.Level { return c.Load().LogLevel }

func newCurrent(cfg *config.Config) *current {
	c := &current{}
	c.Store(cfg)
	return c
}

// anew ends a process's wait for the shards: it begins again by another configuration. wanted, if set, is the one that it has,
// and can't begin by.
type anew struct {
	cfg, wanted *config.Config
	why         string
}

func (a *anew) Error() string { return a.why }

// serveAs is serve. Without claiming the shards nothing may be written. wanted is anew's.
func serveAs(ctx context.Context, cfg, wanted *config.Config, log *slog.Logger, ready func(addr, http string), hup <-chan os.Signal, claiming bool) (err error) {
	if err := enoughFiles(); err != nil {
		return err
	}
	// The ports first: a port in use should be told before the store is opened
	// and shards are asked. It is only a look: whoever connected now would have to wait,
	// and be sent away again, while another Shunt serves.
	listeners, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	closeAll(listeners)
	defer func() { closeAll(listeners) }()
	httpListener, err := listenHTTP(cfg)
	if err != nil {
		return err
	}
	if httpListener != nil {
		defer httpListener.Close()
	}

	if err := checkFirst(ctx, cfg); err != nil {
		return err
	}
	s := &service{
		cfg: cfg, wanted: wanted, log: log, registry: prometheus.NewRegistry(), grace: 10 * time.Second, began: time.Now(), own: &certificates{log: log},
		dial: map[catalog.ShardID]shard.Config{}, pools: map[catalog.ShardID]*shard.Pool{},
	}
	s.own.set(cfg)
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.own)
	var local *storage.Store
	took := false
	if cfg.Store.Shared() {
		if s.member, s.layout, err = openMember(ctx, cfg, s.registry, log); err != nil {
			return err
		}
		defer func() { s.closing(ctx, s.member.close) }()
		s.store, s.cluster, claiming = s.member.store, s.member.cluster, false
	} else {
		if local, err = openStore(cfg, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, local.Close()) }()
		if took, err = takeOverShared(ctx, cfg, local, log); err != nil {
			return err
		}
		s.store, s.cluster = local, cluster.NewLocal(local)
		if s.layout, err = shardLayout(cfg, local); err != nil {
			return err
		}
	}
	if s.servers, err = knownServers(cfg, log); err != nil {
		return err
	}
	if err := s.servers.heal(); err != nil {
		return err
	}
	s.servers.replaced = s.replaced
	if s.member != nil {
		s.servers.life = s.member.lifeOf
	}
	s.ring = newRing(log)
	defer s.ring.Close()
	if httpListener != nil {
		s.web = newWebsite(httpListener, log)
		defer s.web.close()
	}
	if claiming {
		if s.claims, err = newClaims(cfg, s.layout, local, s.servers, s.retaken, log); err != nil {
			return err
		}
		defer s.claims.close()
		s.registry.MustRegister(s.claims.gauge())
		s.web.show(console.Waiting(s.registry, cfg.HTTPToken, s.claims.why))
		if err := s.claims.take(ctx, hup, s.reread); err != nil || ctx.Err() != nil {
			return err
		}
		if took {
			if err := behindIn(cfg.DataDir).clear(); err != nil {
				return err
			}
		}
		if s.layout, err = (apart{s.store, cfg}).look(ctx, s.layout, s.cluster, log); err != nil || ctx.Err() != nil {
			return err
		}
	}
	// A port that refuses is what balancers and drivers pass by at once; one that
	// accepted and then said no would have them hand the error on.
	if listeners, err = listen(ctx, cfg); err != nil {
		return err
	}
	return s.run(ctx, listeners, hup, ready)
}

// reread obeys SIGHUP while nothing is served yet: what needs a restart otherwise needs none then.
// Counter-example: a primary has died, and both Shunts' files get its replica's address; the standby
// takes over with the address that it began with.
func (s *service) reread() error {
	next, err := config.Load(s.cfg.File)
	if err != nil {
		s.log.Error("reload: nothing was changed", "error", err)
		return nil // it goes on with the file that it has
	}
	s.log.Info("reload: beginning anew", "file", s.cfg.File)
	return &anew{cfg: next, why: "the configuration has changed"}
}

// service is what the parts of a Shunt that serves share.
type service struct {
	cfg      *config.Config
	wanted   *config.Config // see anew
	log      *slog.Logger
	own      *certificates
	ring     *wire.Ring // nil: Go's poller serves
	registry *prometheus.Registry
	store    store
	cluster  cluster.Cluster
	member   *member // nil: this process has its store alone
	layout   layout
	servers  *servers
	answers  *cover.Answers // of covering indexes; nil: none are kept
	claims   *claims        // nil: nothing is claimed, nor told
	tellers  *tellers
	web      *website // nil: off
	health   *health
	// dial is how to connect to each shard, pools are for sessions.
	dial  map[catalog.ShardID]shard.Config
	pools map[catalog.ShardID]*shard.Pool
	// directory and indexer are told of what connections find out, once they are made.
	directory atomic.Pointer[schema.Directory]
	placed    *placementCheck // the directory's
	samples   samples         // of SHOW INDEX ADVICE
	logs      *binlogs        // nil: no log is followed
	indexer   atomic.Pointer[indexer.Indexer]
	replicas  atomic.Pointer[replica.Set]
	// otherServer has virtual columns hear of a shard that has another server, once they are made; othersBefore have had one
	// until then. servers.while guards both.
	otherServer  func(catalog.ShardID)
	othersBefore catalog.ShardSet
	// grace is how long what is closed may take, for statements under way.
	grace time.Duration
	began time.Time
}

// run serves until ctx ends, or another Shunt has all shards. REQUIRES: the shards are
// claimed, or nothing is written.
func (s *service) run(ctx context.Context, listeners []net.Listener, hup <-chan os.Signal, ready func(addr, http string)) error {
	cfg, log := s.cfg, s.log
	s.health = newHealth(ctx, log)
	defer s.health.stop()
	s.connect()
	defer s.closing(ctx, func(stop context.Context) {
		for _, p := range s.pools {
			_ = p.Close(stop)
		}
	})
	started := func() {}
	if s.member != nil {
		started = s.member.starting(ctx)
	}
	defer func() { started() }()

	if s.claims != nil {
		s.tellers = s.claims.tell(ctx, s.dial)
		defer s.tellers.stop() // behind the last statement
	}
	unfinished, err := proxy.NewUnfinished(ctx, unfinishedDDL{s.store}, s.cluster, log)
	if err != nil {
		return err
	}
	if s.member != nil {
		s.member.unfinished = unfinished
	}
	directory := s.newDirectory(unfinished)
	s.directory.Store(directory)
	if s.member != nil {
		s.member.directory.Store(directory)
	}
	if err := firstRefresh(ctx, directory, log); err != nil {
		return err
	}
	x := s.newIndexer(directory)
	if s.member != nil {
		if err := s.member.adopt(ctx, directory); err != nil {
			return err
		}
		if s.wanted != nil {
			if err := s.member.fits(s.member.comingOf(s.wanted), directory); err != nil {
				return err
			}
		}
	}
	// It makes jobs for the marks that it finds, and for those that it makes.
	if err := s.servers.while(func() error { s.indexer.Store(x); return x.Start(ctx) }); err != nil {
		return fmt.Errorf("start the indexer: %w", err)
	}
	if s.member != nil {
		started()
		started = func() {}
		s.member.run(ctx)
	}
	directory.Watch(x.Published)
	s.watchReturns(directory, x)
	defer x.Close()
	s.registry.MustRegister(&storeCollector{store: s.store, directory: directory, fanout: x.Fanout}, &poolCollector{pools: s.pools})
	if s.logs != nil {
		s.registry.MustRegister(&followCollector{s.logs, directory})
	}
	if s.member != nil {
		s.registry.MustRegister(&memberCollector{s.member, s.shardName})
	}

	configured := &configuredIndexes{directory: directory, log: log}
	index := virtualIndexes{indexer: x, store: s.store, directory: directory, configured: configured, logs: s.logs}
	configured.index = index
	var lookedUp proxy.Index = index
	var asked proxy.Others
	if s.member != nil {
		lookedUp, asked = askedIndexes{index}, others{s.member.cluster}
	}
	if err := configured.make(ctx, cfg); err != nil {
		return err
	}
	replicas := newReplicas(cfg, log)
	defer s.closing(ctx, replicas.Close)
	changeReplicas(replicas, cfg, s.layout, s.dial)
	s.replicas.Store(replicas)
	s.registry.MustRegister(&replicaCollector{set: replicas, shards: s.layout.shards, directory: directory})
	columns, closeVirtual := s.newVirtual(directory, cfg.VirtualColumns)
	directory.Virtual(columns.Columns)
	columns.Start(ctx)
	defer s.closing(ctx, closeVirtual)
	scratch, closeScratch, err := newScratch(cfg, s.dial, s.ring, s.health, s.registry, s.cluster, log)
	if err != nil {
		return err
	}
	defer s.closing(ctx, closeScratch)
	p := proxy.New(proxy.Options{
		Users: users(cfg), ServerVersion: cfg.ServerVersion, Limits: limits(cfg, log), Timeouts: proxy.Timeouts(cfg.Timeouts),
		Directory: directory, Pools: s.pools, Replicas: replicas, Index: lookedUp, Admin: index, Virtual: virtualColumns{columns}, Answers: keptAnswers(s.answers), Scratch: scratch,
		Sequences: sequences{s.store, directory}, Cursors: cursors(cfg, s.store), Ring: s.ring, Logger: log, Metrics: s.registry,
		Cluster: s.cluster, Several: s.member != nil, Members: s.members, Standing: s.standing, Others: asked, Apart: s.apart(), Unfinished: unfinished, Advice: s.indexAdvice, LogState: s.logs.State, Shapes: cfg.StatementShapes, Samples: cfg.StatementSamples,
	})
	if err := p.SetStatementLog(statementLog(cfg)); err != nil {
		return err
	}
	defer func() { _ = p.SetStatementLog(nil) }()
	if err := setTracer(ctx, p, cfg, log); err != nil {
		return err
	}
	defer func() { closeTracer(ctx, p.SetTracer(nil)) }()
	p.SetProxyProtocol(cfg.ProxyProtocol)
	p.SetTLS(cfg.TLS.Server(), cfg.TLS != nil && cfg.TLS.Required)

	p.FirstLook(ctx)
	// Sessions outlive ctx until they are drained.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopServing()
	httpAddr := ""
	if s.web != nil {
		httpAddr = s.web.addr
		s.web.show(p.Handler(s.registry, cfg.HTTPToken))
		defer s.web.close() // what it shows of the rest ends before that
	}
	if s.member != nil {
		// Before anybody connects: two members' clients have no number in common.
		if err := s.member.cluster.Numbered(ctx); err != nil {
			return err
		}
		wg.Go(func() { s.member.cluster.Listen(serving, p.Answer) })
	}
	wg.Go(func() { directory.Run(serving) })
	wg.Go(func() { columns.Run(serving) })
	wg.Go(func() { processorsByLoad(serving, calm, s.ring, log) })
	wg.Go(func() { scratch.Run(serving) })
	wg.Go(func() { p.EndVanished(serving) })
	wg.Go(func() { p.LookOut(serving) })
	wg.Go(func() { p.EndDeadlocks(serving) })
	wg.Go(func() { p.LookForDDL(serving) })
	wg.Go(func() { p.EndStalled(serving) })
	wg.Go(func() { configured.run(serving) })
	if s.member == nil { // others may be writing the copies
		wg.Go(func() { p.Compare(serving) })
	} else {
		if err := s.member.adding.serve(ctx, p); err != nil {
			return err
		}
		wg.Go(func() { s.member.adding.run(serving) })
	}
	for _, sh := range s.layout.joining {
		wg.Go(func() { p.Join(serving, sh) })
	}
	wg.Go(func() {
		reloader{cfg, p, directory, s.placed, configured, s.layout, s.dial, s.claims, s.member, apart{s.store, s.cfg}, replicas, s.own, log}.run(serving, hup)
	})
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		wg.Go(func() { served <- p.Serve(serving, l) })
		defer l.Close() // before wg.Wait
	}
	if ready != nil {
		ready(listeners[0].Addr().String(), httpAddr)
	}
	var over chan error
	if s.claims != nil {
		over = s.claims.over
	}
	select {
	case err := <-served:
		return err
	case err := <-over:
		// At once: the rows are another one's.
		closeAll(listeners)
		s.grace = time.Second
		cut, cancel := context.WithCancel(serving)
		cancel()
		_ = p.Drain(cut)
		return err
	case <-ctx.Done():
	}
	// Whoever connects from now on is to reach the next process.
	closeAll(listeners)
	log.Info("stopping: waiting for open transactions", "at_most", cfg.DrainTimeout)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
	defer cancel()
	if err := p.Drain(drain); err != nil {
		log.Warn("stopping", "error", err)
		// They had their time: a shard that hangs must not hold up the end.
		s.grace = time.Second
	}
	return nil
}

func openStore(cfg *config.Config, log *slog.Logger) (*storage.Store, error) {
	store, err := storage.Open(storage.Options{
		Dir: cfg.DataDir, MinFree: cfg.MinFreeDisk, LookupCache: cmp.Or(cfg.LookupCache, -1), BlockCache: cfg.StoreCache, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("open index store (data_dir: %s): %w", cfg.DataDir, err)
	}
	return store, nil
}

// closing calls a function that closes something within the grace.
func (s *service) closing(ctx context.Context, fn func(context.Context)) {
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	fn(stop)
}

// replaced is called for a shard that has another server than before. One that was taken in use by shunt replaced is marked:
// no home is needed, so that members join a shard that is one, and give up what it had.
func (s *service) replaced(shard string, renewed bool) error {
	s.virtualReplaced(shard)
	if renewed {
		if id, known := s.shardNamed(shard); known {
			s.logs.again(id)
		}
		return apart{s.store, s.cfg}.replaced(shard)
	}
	return errors.Join(apart{s.store, s.cfg}.replaced(shard), s.forget(shard, func(x *indexer.Indexer, id catalog.ShardID) error {
		s.answers.Stop(id) // they are of the one before
		s.logs.again(id)
		return x.Replaced(id)
	}))
}

// retaken is called for a shard that another Shunt has served since.
func (s *service) retaken(shard string) error {
	return s.servers.while(func() error {
		return errors.Join(s.forget(shard, (*indexer.Indexer).Retaken), s.store.DoubtSequences(), s.store.Sync())
	})
}

// forget has the virtual indexes forget what they know of a shard's rows; tell is how the
// indexer is told, if it runs.
func (s *service) forget(shard string, tell func(*indexer.Indexer, catalog.ShardID) error) error {
	id, known := s.shardNamed(shard)
	if !known {
		return nil
	}
	if s.member != nil && s.cluster.Epoch(id) == 0 {
		return cluster.ErrNotJoined // a mark of no epoch is cleared by any scan
	}
	if x := s.indexer.Load(); x != nil {
		return tell(x, id)
	}
	return indexer.MarkShard(s.store, s.cluster, id)
}

// shardNamed is a shard's number.
func (s *service) shardNamed(name string) (id catalog.ShardID, known bool) {
	i := slices.IndexFunc(s.layout.shards, func(sh catalog.Shard) bool { return sh.Name == name })
	if i < 0 {
		return 0, false
	}
	return s.layout.shards[i].ID, true
}

// connect has the shards judged, and makes the pools of connections to them.
func (s *service) connect() {
	for i, sh := range s.cfg.Shards {
		var by *claim
		if s.claims != nil {
			by = s.claims.shards[i]
		}
		s.connectShard(s.layout.shards[i].ID, sh, by)
	}
	for _, sh := range s.layout.joining {
		s.pools[sh.ID].Bar(errors.New("the shard is being added"))
	}
	if s.member != nil {
		s.member.adding.pools = s.pools
	}
}

func (s *service) connectShard(id catalog.ShardID, sh config.Shard, by *claim) {
	to := shardConfig(sh)
	if by != nil {
		to.Target = by.dial.Target
	}
	to.Ring = s.ring
	var judged atomic.Pointer[shard.Health]
	to.Admit = s.servers.admit(to, func(c *shard.Conn) {
		if h := judged.Load(); h != nil {
			h.Only(c)
		}
		if d := s.directory.Load(); d != nil {
			d.Soon()
		}
	})
	to = s.health.judge(to, s.cfg.ShardTimeout, by)
	judged.Store(to.Health)
	s.dial[id] = to
	to.Statements = s.cfg.ShardPreparedStatements
	s.pools[id] = shard.New(to, shard.Options{Max: s.cfg.ShardConnections, Logger: s.log, OnConnect: func(ctx context.Context, c *shard.Conn) (err error) {
		if d := s.directory.Load(); d != nil {
			d.SawVersion(id, c.ServerVersion)
		}
		c.Join, err = s.cluster.NoteThread(ctx, id, threadOf(c))
		return err
	}, OnEnd: func(c *shard.Conn, lost bool) {
		if !lost { // else the next life, too, must see its end
			_ = s.cluster.ForgetThread(id, threadOf(c))
		}
	}})
}

// threadOf is a connection as the store and the indexer know it.
func threadOf(c *shard.Conn) storage.Thread {
	if c == nil {
		return storage.Thread{}
	}
	return storage.Thread{ID: c.ThreadID, Opened: c.Opened}
}

func (s *service) newDirectory(unfinished *proxy.Unfinished) *schema.Directory {
	open := opener(func(ctx context.Context, id catalog.ShardID) (querier, func(), error) {
		return openSchema(ctx, s.pools[id])
	})
	s.placed = &placementCheck{store: s.store, open: open, log: s.log}
	return schema.NewDirectory(schema.DirectoryOptions{
		Shards: s.layout.serving, Joining: s.layout.joining, Slots: s.layout.slots, Placements: placements(s.cfg),
		Open: open.schema, Check: s.placed.check, Kept: s.placed.kept, Unfinished: unfinished.Tables, Unlike: apart{s.store, s.cfg}.unlike,
		Indexes: func() []catalog.IndexDef { return indexDefs(s.store) },
		Adopted: s.adopted(), Logger: s.log,
	})
}

func (s *service) adopted() func(context.Context, uint64) error {
	if s.member != nil {
		return s.member.adopted
	}
	return s.cluster.Adopted
}

func (s *service) newIndexer(directory *schema.Directory) *indexer.Indexer {
	m := s.cfg.Maintenance
	var tell func(context.Context, catalog.ShardSet, uint64) error
	if s.tellers != nil {
		tell = s.tellers.tell
	}
	options := indexer.Options{
		Tell: tell, Lost: s.lost,
		Adopt:    func(ctx context.Context, _ uint64) error { return s.member.adopt(ctx, directory) },
		Everyone: s.everyone(),
		Store:    s.store, Cluster: s.cluster, Shards: dedicated(s.dial), Catalog: directory.Catalog,
		Publish: directory.Republish, Reread: directory.Reread,
		Workers: m.Workers, Delay: m.Delay, ScanDuty: m.ScanDuty, Scanners: s.scanners(), MaxRunning: m.MaxThreadsRunning, Lagging: s.lagging, ReconcileEvery: m.ReconcileEvery, Audit: m.Audit,
		Down: s.down, Opened: s.opened, Logger: s.log, Metrics: indexerMetrics(s.registry, directory),
	}
	if m.Follow != config.FollowScan {
		s.logs = &binlogs{dial: s.dial, fit: m.Follow == config.FollowAuto, log: s.log, seen: followed(s.registry, directory)}
		options.Logs = s.logs
		if s.member == nil && s.cfg.KeptAnswers > 0 {
			s.answers = cover.New(s.cfg.KeptAnswers)
			options.Answers = s.answers
			keptMetrics(s.registry, s.answers)
		}
		for id := range s.dial {
			options.Following.Add(id)
		}
	}
	if s.member != nil {
		options.Unsettled = s.member.adding.underWay
	}
	x := indexer.New(options)
	if s.logs != nil {
		s.logs.needed = x.NeedsLog
	}
	return x
}

// apart is proxy.Options'.
func (s *service) apart() proxy.Apart {
	of := apart{s.store, s.cfg}
	if s.member == nil {
		return of
	}
	return joint{of, s.member}
}

// scanners is indexer.Options'.
func (s *service) scanners() func(catalog.ShardID) int {
	if s.member == nil {
		return nil
	}
	return s.member.cluster.Sharing
}

// lagging is indexer.Options'.
func (s *service) lagging(id catalog.ShardID) string {
	for _, r := range s.replicas.Load().Of(id) {
		if is := r.Status(time.Time{}); is.State == replica.Lagging && is.Behind > 0 {
			return fmt.Sprintf("spares shard %s, whose replica %s lags: %v", s.dial[id].Name, r.Addr(), is.Err)
		}
	}
	return ""
}

// everyone is indexer.Options'.
func (s *service) everyone() func(context.Context) error {
	if s.member == nil {
		return nil
	}
	return s.member.everyone
}

// lost closes the connections of a join that is over, all that there are: none is noted before
// this process joins anew.
func (s *service) lost(id catalog.ShardID, _ uint64, why error) {
	s.dial[id].Health.Cut(fmt.Errorf("this Shunt noticed at %s that it isn't on the shard any more, and joins it anew by itself: send the statement again, a write after a look whether it was done, a transaction from its begin: %w",
		time.Now().UTC().Format(time.RFC3339), why))
}

// down reports a shard that can't be reached. One that isn't configured any more is not down:
// what an earlier life left to do there has nothing to wait for.
func (s *service) down(id catalog.ShardID) bool {
	to, configured := s.dial[id]
	return configured && to.Health.Err() != nil
}

// opened is indexer.Options'.
func (s *service) opened(id catalog.ShardID, thread uint64, port int) bool {
	to, configured := s.dial[id]
	return configured && to.Health.Opened(thread, port)
}

// watchReturns tells of shards that are back.
func (s *service) watchReturns(directory *schema.Directory, x *indexer.Indexer) {
	for _, d := range s.dial {
		d.Health.Watch(func(alive bool) {
			if alive {
				x.Returned()
				directory.Soon() // its tables may be others
			}
		})
	}
}

// firstRefresh waits for the first shard to answer: a proxy that is started
// together with its shards should not fail for being the faster.
func firstRefresh(ctx context.Context, d *schema.Directory, log *slog.Logger) error {
	told := ""
	for {
		err := d.Refresh(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, schema.ErrNoShard) {
			return err
		}
		if err.Error() != told {
			told = err.Error()
			log.Warn("waiting for a shard; each second is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}
