package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
)

// serve runs the proxy until ctx ends, then drains and stops it. ready is
// called once, when both ports accept connections, with their addresses.
//
// What depends on what, and so the order of starting (stopping is the reverse):
//
//	store -> claims -> pools -> directory (catalog) -> indexer -> proxy -> listeners
func serve(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(addr, http string)) (err error) {
	return serveAs(ctx, cfg, log, ready, true)
}

// serveAs is serve. Without a claim nothing may be written.
func serveAs(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(addr, http string), claim bool) (err error) {
	if err := enoughFiles(); err != nil {
		return err
	}
	// One that comes while another Shunt is waited for is obeyed afterwards.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	// The ports first: a port in use should be told before the store is opened
	// and shards are asked. It is only a look: whoever connected now would have to wait,
	// and be sent away again, while another Shunt serves.
	listeners, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	closeAll(listeners)
	defer func() { closeAll(listeners) }()
	var httpListener net.Listener
	if cfg.HTTP != "" {
		if httpListener, err = net.Listen("tcp", cfg.HTTP); err != nil {
			return fmt.Errorf("listen for HTTP (http: %s): %w", cfg.HTTP, err)
		}
		defer httpListener.Close()
	}

	store, err := storage.Open(storage.Options{
		Dir: cfg.DataDir, MinFree: cfg.MinFreeDisk, LookupCache: cmp.Or(cfg.LookupCache, -1), Logger: log,
	})
	if err != nil {
		return fmt.Errorf("open index store (data_dir: %s): %w", cfg.DataDir, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	layout, err := shardLayout(cfg, store)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	pools := map[catalog.ShardID]*shard.Pool{}
	var reads atomic.Pointer[proxy.Directory] // itself made with the pools
	dial := map[catalog.ShardID]shard.Config{}
	known, err := knownServers(cfg, log)
	if err != nil {
		return err
	}
	var running atomic.Pointer[indexer.Indexer] // once there is one
	known.replaced = func(name string) error { return replaced(store, &running, layout, name, (*indexer.Indexer).Replaced) }
	var web *website
	if httpListener != nil {
		web = newWebsite(httpListener, log)
		defer web.close()
	}
	mine := make([]*claimed, len(cfg.Shards))
	var over chan error
	var own *claims
	if claim {
		own, err = newClaims(cfg, layout, store, known, func(name string) error {
			return known.while(func() error {
				return errors.Join(replaced(store, &running, layout, name, (*indexer.Indexer).Retaken), store.DoubtSequences(), store.Sync())
			})
		}, log)
		if err != nil {
			return err
		}
		defer own.close()
		registry.MustRegister(own.gauge())
		web.show(proxy.WaitingHandler(registry, cfg.HTTPToken, own.why))
		if err := own.take(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		over = own.over
		copy(mine, own.shards)
	}
	// A port that refuses is what balancers and drivers pass by at once; one that
	// accepted and then said no would have them hand the error on.
	if listeners, err = listen(ctx, cfg); err != nil {
		return err
	}
	health := newHealth(ctx, log)
	defer health.stop()
	for i, sh := range cfg.Shards {
		id := layout.shards[i].ID
		to := shardConfig(sh)
		var judged atomic.Pointer[shard.Health]
		to.Admit = known.admit(sh, func(c *shard.Conn) {
			if h := judged.Load(); h != nil {
				h.Only(c)
			}
			if d := reads.Load(); d != nil {
				d.Soon()
			}
		})
		to = health.judge(to, cfg.ShardTimeout, mine[i])
		judged.Store(to.Health)
		dial[id] = to
		to.Statements = cfg.ShardPreparedStatements
		pools[id] = shard.New(to, shard.Options{Max: cfg.ShardConnections, Logger: log, OnConnect: func(_ context.Context, c *shard.Conn) error {
			if d := reads.Load(); d != nil {
				d.SawVersion(id, c.ServerVersion)
			}
			// Without the note a next life judges the thread by what it does.
			_ = store.NoteThread(storage.ShardID(id), storage.Thread{ID: c.ThreadID, Opened: time.Now()})
			return nil
		}, OnEnd: func(c *shard.Conn, lost bool) {
			if !lost { // else the next life, too, must see its end
				_ = store.ForgetThread(storage.ShardID(id), c.ThreadID)
			}
		}})
	}
	grace := 10 * time.Second // for statements under way
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		for _, p := range pools {
			_ = p.Close(stop)
		}
	}()

	openSchema := func(ctx context.Context, id catalog.ShardID) (schema.Querier, func(), error) {
		return openSchema(ctx, pools[id])
	}
	placed := &placementCheck{store: store, open: openSchema, log: log}
	directory := proxy.NewDirectory(proxy.DirectoryOptions{
		Shards: layout.shards, Slots: layout.slots, Placements: placements(cfg),
		Open: openSchema, Check: placed.check, Kept: placed.kept,
		Indexes: func() []schema.IndexDef { return indexDefs(store) },
		Logger:  log,
	})
	reads.Store(directory)
	if err := firstRefresh(ctx, directory, log); err != nil {
		return err
	}

	x := indexer.New(indexer.Options{
		Store: store, Shards: dedicated(dial), Catalog: directory.Catalog,
		Publish: func(context.Context) error { return directory.Republish() }, Reread: directory.Reread,
		Workers: cfg.Maintenance.Workers, Delay: cfg.Maintenance.Delay, ScanDuty: cfg.Maintenance.ScanDuty,
		ReconcileEvery: cfg.Maintenance.ReconcileEvery, Audit: cfg.Maintenance.Audit,
		Down:   func(id catalog.ShardID) bool { return dial[id].Health.Err() != nil },
		Logger: log, Metrics: indexerMetrics(registry, directory),
	})
	// It makes jobs for the marks that it finds, and for those that it makes.
	if err := known.while(func() error { running.Store(x); return x.Start(ctx) }); err != nil {
		return fmt.Errorf("start the indexer: %w", err)
	}
	for _, d := range dial {
		d.Health.Watch(func(alive bool) {
			if alive {
				x.Returned()
				directory.Soon() // its tables may be others
			}
		})
	}
	defer x.Close()
	registry.MustRegister(&storeCollector{store: store, directory: directory}, &poolCollector{pools: pools})

	index := virtualIndexes{indexer: x, store: store, directory: directory}
	configured := &configuredIndexes{directory: directory, index: index, log: log}
	if err := configured.make(ctx, cfg); err != nil {
		return err
	}
	replicas := newReplicas(cfg, log)
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		replicas.Close(stop)
	}()
	changeReplicas(replicas, cfg, layout, dial)
	registry.MustRegister(&replicaCollector{set: replicas, shards: layout.shards, directory: directory})
	scratch, closeScratch, err := newScratch(cfg, dial, health, registry, log)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		closeScratch(stop)
	}()
	options := proxy.Options{
		Users: users(cfg), ServerVersion: cfg.ServerVersion, Limits: limits(cfg, log), Timeouts: proxy.Timeouts(cfg.Timeouts), Directory: directory, Pools: pools, Replicas: replicas,
		Index: index, Admin: index, Scratch: scratch, Sequences: sequences{store, directory}, Cursors: cursors(cfg, store), Logger: log, Metrics: registry,
	}
	p := proxy.New(options)
	p.SetProxyProtocol(cfg.ProxyProtocol)
	p.SetTLS(cfg.TLS.Server(), cfg.TLS != nil && cfg.TLS.Required)

	// Sessions outlive ctx until they are drained.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopServing()
	httpAddr := ""
	if web != nil {
		httpAddr = httpListener.Addr().String()
		web.show(p.Handler(registry, cfg.HTTPToken))
		defer web.close() // what it shows of the rest ends before that
	}
	wg.Go(func() { directory.Run(serving) })
	wg.Go(func() { processorsByLoad(serving, calm, log) })
	wg.Go(func() { scratch.Run(serving) })
	wg.Go(func() { p.EndVanished(serving) })
	wg.Go(func() { p.LookOut(serving) })
	wg.Go(func() { p.EndDeadlocks(serving) })
	wg.Go(func() { configured.run(serving) })
	wg.Go(func() { reloader{cfg, p, directory, configured, layout, dial, own, replicas, log}.run(serving, hup) })
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		wg.Go(func() { served <- p.Serve(serving, l) })
		defer l.Close() // before wg.Wait
	}
	if ready != nil {
		ready(listeners[0].Addr().String(), httpAddr)
	}
	select {
	case err := <-served:
		return err
	case err := <-over:
		// At once: the rows are another one's.
		closeAll(listeners)
		grace = time.Second
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
		grace = time.Second
	}
	return nil
}

// listen opens the ports for clients.
func listen(ctx context.Context, cfg *config.Config) (listeners []net.Listener, err error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for clients (listen: %s): %w", cfg.Listen, err)
	}
	listeners = append(listeners, l)
	if cfg.Socket != "" {
		socket, err := listenSocket(ctx, cfg.Socket)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("listen for clients (socket: %s): %w", cfg.Socket, err)
		}
		listeners = append(listeners, socket)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// website is the HTTP server, which is there before what it shows.
type website struct {
	server *http.Server
	now    atomic.Pointer[http.Handler]
	done   chan struct{}
}

// newWebsite serves on l until it is closed.
func newWebsite(l net.Listener, log *slog.Logger) *website {
	w := &website{done: make(chan struct{})}
	w.show(http.NotFoundHandler())
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(w.done)
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server ended", "error", err)
		}
	}()
	return w
}

// show has requests from now on answered by h.
func (w *website) show(h http.Handler) {
	if w != nil {
		w.now.Store(&h)
	}
}

func (w *website) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	(*w.now.Load()).ServeHTTP(rw, r)
}

func (w *website) close() {
	_ = w.server.Close()
	<-w.done
}

// replaced has the virtual indexes forget what they know of a shard; tell is how those
// are told that run.
func replaced(store *storage.Store, running *atomic.Pointer[indexer.Indexer], l layout, name string, tell func(*indexer.Indexer, catalog.ShardID) error) error {
	for _, sh := range l.shards {
		if sh.Name != name {
			continue
		}
		if x := running.Load(); x != nil {
			return tell(x, sh.ID)
		}
		return indexer.MarkShard(store, sh.ID)
	}
	return nil
}

// listenSocket listens on a Unix socket, as the server of the file that a dead
// process may have left there.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "unix", path); err == nil {
			conn.Close()
			return nil, errors.New("another process is listening there")
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Who may connect is for passwords to say, as with MySQL's socket.
	if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // see above
		l.Close()
		return nil, err
	}
	return l, nil
}

// layout is the shards' numbers and who owns which slot.
type layout struct {
	shards []catalog.Shard
	slots  [catalog.Slots]catalog.ShardID
}

// shardLayout gives shards their persistent numbers, and reads the slot map, or
// makes and keeps one when the store has none.
func shardLayout(cfg *config.Config, store *storage.Store) (layout, error) {
	var l layout
	names := map[catalog.ShardID]string{}
	for _, sh := range cfg.Shards {
		id, err := store.ShardID(sh.Name)
		if err != nil {
			return l, fmt.Errorf("number shard %s: %w", sh.Name, err)
		}
		l.shards = append(l.shards, catalog.Shard{ID: catalog.ShardID(id), Name: sh.Name})
		names[catalog.ShardID(id)] = sh.Name
	}
	kept, err := store.SlotMap()
	if err != nil {
		return l, fmt.Errorf("read slot map: %w", err)
	}
	if kept == nil {
		kept = make([]byte, catalog.Slots)
		for i := range kept {
			kept[i] = byte(l.shards[i*len(l.shards)/catalog.Slots].ID)
		}
		if err := store.SetSlotMap(kept); err != nil {
			return l, fmt.Errorf("write slot map: %w", err)
		}
	}
	missing := map[byte]bool{}
	for i, id := range kept {
		l.slots[i] = catalog.ShardID(id)
		if names[catalog.ShardID(id)] == "" {
			missing[id] = true
		}
	}
	if len(missing) > 0 {
		var gone []string
		for name, id := range store.Shards() {
			if missing[byte(id)] {
				gone = append(gone, name)
			}
		}
		return l, fmt.Errorf("the configuration lacks shards that own rows: %s; put them back (rows are placed by the slot map in data_dir, made with these shards)", strings.Join(gone, ", "))
	}
	return l, nil
}

// cursors has their rows beside the store, whose guard knows the disk's room.
func cursors(cfg *config.Config, store *storage.Store) proxy.SpoolOptions {
	return proxy.SpoolOptions{Dir: filepath.Join(cfg.DataDir, "cursors"), MaxBytes: cfg.CursorMaxBytes, Room: store.Room}
}

func limits(cfg *config.Config, log *slog.Logger) proxy.Limits {
	return proxy.Limits{Connections: withinFiles(cfg.MaxConnections, cfg, log), Prepared: cfg.MaxPreparedStatements, Packet: cfg.MaxAllowedPacket}
}

func users(cfg *config.Config) map[string]proxy.User {
	out := map[string]proxy.User{}
	for _, u := range cfg.Users {
		out[u.Name] = proxy.User{
			Credential: u.Credential, Schemas: u.Schemas, ReadOnly: u.ReadOnly, RequireTLS: u.RequireTLS,
			MaxConnections: u.MaxConnections, MaxRate: u.MaxRate, ReadFromReplicas: u.ReadFromReplicas,
		}
	}
	return out
}

func placements(cfg *config.Config) schema.Placements {
	convert := func(t config.Table) schema.TablePlacement {
		return schema.TablePlacement{Placement: t.Placement, ShardKey: t.ShardKey, Shard: t.Shard}
	}
	out := schema.Placements{}
	for _, s := range cfg.Schemas {
		sp := schema.SchemaPlacement{Default: convert(s.Default), Tables: map[string]schema.TablePlacement{}}
		for _, t := range s.Tables {
			sp.Tables[t.Name] = convert(t)
		}
		out[s.Name] = sp
	}
	return out
}

func shardConfig(sh config.Shard) shard.Config {
	return shard.Config{Name: sh.Name, Addr: sh.Addr, User: sh.User, Password: sh.Password, TLS: sh.TLS.Client(), Account: &shard.Account{}}
}

// firstRefresh waits for the first shard to answer: a proxy that is started
// together with its shards should not fail for being the faster.
func firstRefresh(ctx context.Context, d *proxy.Directory, log *slog.Logger) error {
	told := ""
	for {
		err := d.Refresh(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, proxy.ErrNoShard) {
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

// openSchema borrows a connection for information_schema.
func openSchema(ctx context.Context, p *shard.Pool) (schema.Querier, func(), error) {
	conn, err := p.Get(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	if conn.State != "" {
		if err := conn.Reset(ctx); err != nil {
			p.Put(conn)
			return nil, nil, err
		}
	}
	return querier{conn}, func() { p.Put(conn) }, nil
}

type querier struct{ conn *shard.Conn }

func (q querier) Rows(ctx context.Context, sql string) ([][][]byte, error) {
	res, err := q.conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return res.Rows, nil
}

// dedicated opens connections for maintenance, outside of the pools: a scan
// must not take a connection from a query.
type dedicated map[catalog.ShardID]shard.Config

func (d dedicated) Open(ctx context.Context, id catalog.ShardID) (indexer.Conn, error) {
	cfg, ok := d[id]
	if !ok {
		return nil, fmt.Errorf("no shard has number %d", id)
	}
	conn, err := shard.Dial(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	return maintenanceConn{conn}, nil
}

type maintenanceConn struct{ *shard.Conn }

func (c maintenanceConn) Exec(ctx context.Context, sql string) error {
	_, err := c.Conn.Exec(ctx, sql)
	return err
}

func (c maintenanceConn) Stream(ctx context.Context, sql string, fn func(row [][]byte) error) error {
	_, err := c.Conn.Stream(ctx, sql, fn)
	return err
}
