package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/seat"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
	"github.com/shunt-sql/shunt/storage/shared"
)

// member is this process where several have a store together. Its parts, in the order of
// their making:
//
//	home      records, jobs, turns and numbers, on the first server; and entries, as on more servers
//	store     this process's side of them
//	seats     on each shard: who is there, and what of it may still be open
//	cluster   joins the shards, tells them, follows the records
type member struct {
	home    *home.Home
	store   *shared.Store
	cluster *cluster.Shared
	seats   map[catalog.ShardID]*laterSeat
	shards  map[catalog.ShardID]*atomic.Pointer[config.Shard] // as they are configured now
	records *records
	log     *slog.Logger
	agreed  agreed
	adding  adding

	// read is the version of the last change of a schema by another process for which the shards
	// were asked.
	read atomic.Uint64
	// follows: this process goes by the records.
	follows   atomic.Bool
	directory atomic.Pointer[schema.Directory]
	// unfinished is what DDL any has left half-done.
	unfinished *proxy.Unfinished
	// waited is the highest version that all were waited for to go by.
	waited atomic.Uint64
	stop   context.CancelFunc
	runs   sync.WaitGroup
}

// openMember opens the shared store, and joins the shards that answer. The others are joined when they do.
func openMember(ctx context.Context, cfg *config.Config, reg prometheus.Registerer, log *slog.Logger) (m *member, l layout, err error) {
	m = &member{log: log, seats: map[catalog.ShardID]*laterSeat{}, shards: map[catalog.ShardID]*atomic.Pointer[config.Shard]{}}
	m.adding.m = m
	for _, sh := range cfg.Shards {
		m.adding.order = append(m.adding.order, sh.Name)
	}
	defer func() {
		if err != nil {
			m.close(ctx)
		}
	}()
	// Of this process alone: what of its scratch tables may be left, which server a shard was.
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return m, l, fmt.Errorf("data_dir: %w", err)
	}
	if err := aloneOnShards(ctx, cfg, log); err != nil {
		return m, l, err
	}
	if err := unfit(ctx, cfg); err != nil {
		return m, l, err
	}
	homes := homesOf(cfg)
	if m.home, err = home.Open(ctx, homes[0].Config); err != nil {
		return m, l, err
	}
	if m.store, err = shared.Open(ctx, shared.Options{Home: m.home, Server: homes[0].Name, Called: storeCalls(reg), Logger: log}); err != nil {
		return m, l, err
	}
	id, err := m.store.Cluster(rand.Text())
	if err != nil {
		return m, l, err
	}
	if err := m.store.OpenHomes(ctx, id, homes[1:]); err != nil {
		return m, l, err
	}
	if err := takeOverLocal(ctx, cfg, m.store, id, log); err != nil {
		return m, l, err
	}
	if l, err = shardLayout(cfg, m.store); err != nil {
		return m, l, err
	}
	m.agreed.serving = shardNames(l.serving)
	seats := map[catalog.ShardID]cluster.Seat{}
	names := map[catalog.ShardID]string{}
	locks := lockNames(cfg)
	m.records = recordsToRead(l, locks)
	for i, sh := range cfg.Shards {
		shard := l.shards[i].ID
		s, is := &laterSeat{}, &atomic.Pointer[config.Shard]{}
		s.at.Store(seatAt(sh, id))
		is.Store(&sh)
		if err := s.open(ctx); err != nil {
			return m, l, err
		}
		m.seats[shard], m.shards[shard], names[shard] = s, is, sh.Name
		seats[shard] = severalSeat{s, func() config.Shard { return *is.Load() }, locks, m.records, log}
	}
	m.cluster = cluster.NewShared(cluster.Options{
		Seats: seats, Board: board{m.home}, Identity: cluster.Identity{Addr: toldAddr(cfg), Version: version},
		ShardName: func(id catalog.ShardID) string { return names[id] }, Logger: log,
		Aside: func(id catalog.ShardID) bool { return !slices.Contains(m.agreed.shards(), names[id]) },
	})
	m.cluster.Join(cluster.Member{Admit: m.admit})
	if err := m.beat(ctx); err != nil {
		return m, l, err
	}
	if err := m.sameAsOthers(ctx, cfg, l); err != nil {
		return m, l, err
	}
	if err := (apart{m.store, cfg}).leave(); err != nil {
		return m, l, err
	}
	if err := m.store.Agree(m.cluster.Self(), m.cluster.Gone); err != nil {
		return m, l, fmt.Errorf("store: %w", err)
	}
	return m, l, nil
}

// seatAt is how the members' rows on a shard are reached.
func seatAt(sh config.Shard, cluster string) *seat.Config {
	return &seat.Config{Addr: sh.Addr, User: sh.User, Password: sh.Password, TLS: sh.TLS.Client(), Cluster: cluster, Shard: sh.Name}
}

// readdress has shards, and servers of the store, be reached as a changed configuration has them.
func (m *member) readdress(now, next *config.Config) {
	var errs []error
	for id, is := range m.shards {
		was := is.Load()
		sh := shardNamed(next, was.Name)
		if sh == nil || sameLogin(was, sh) {
			continue
		}
		is.Store(sh)
		errs = append(errs, m.seats[id].readdress(*seatAt(*sh, m.seats[id].at.Load().Cluster)))
	}
	had := storeServers(now)
	for i, to := range homesOf(next) {
		at := storeServers(next)[i]
		if !slices.ContainsFunc(had, func(was config.Shard) bool {
			return was.Name == at.Name && sameLogin(&was, &at) && slices.Equal(was.Nodes, at.Nodes)
		}) {
			errs = append(errs, m.store.Readdress(to))
		}
	}
	if err := errors.Join(errs...); err != nil {
		m.log.Error("reload: what the members share is reached as before", "error", err)
	}
}

// lifeOf is servers.life.
func (m *member) lifeOf(name string) (uint64, error) {
	for id, sh := range m.shards {
		if sh.Load().Name == name {
			return m.cluster.Life(id)
		}
	}
	return 0, nil
}

// admit is cluster.Member's.
func (m *member) admit(ctx context.Context, shard catalog.ShardID, e storage.Epoch) error {
	if err := m.forgetLocal(ctx, shard, e); err != nil {
		return fmt.Errorf("see whether a Shunt with store: local has served it: %w", err)
	}
	// It didn't answer as the others told their schemas.
	if d := m.directory.Load(); d != nil && !d.Told(shard) {
		if err := d.Follow(ctx, func(id catalog.ShardID) bool { return id == shard }); err != nil {
			return err
		}
	}
	raise, err := m.store.Admit(ctx, shard, e)
	if err != nil || raise == 0 {
		return err
	}
	return m.cluster.Raise(ctx, shard, raise)
}

// beat joins the shards, and has them know that this process lives.
func (m *member) beat(ctx context.Context) error {
	var errs []error
	for id, s := range m.seats {
		if err := m.cluster.Beat(ctx, id); err != nil && s.seat.Load() == nil {
			m.log.Warn("a shard doesn't answer: what needs it fails until it does", "shard", m.shards[id].Load().Name, "error", err)
		} else {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// starting is on the shards until the function returned is called.
func (m *member) starting(ctx context.Context) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var attends sync.WaitGroup
	attends.Go(func() { m.cluster.Attend(ctx) })
	return func() {
		cancel()
		attends.Wait()
	}
}

// run follows the others until close. REQUIRES: the cluster's Member is set.
func (m *member) run(ctx context.Context) {
	_, written := m.store.Version()
	m.waited.Store(written) // so far it has waited for nobody: see adopted
	m.follows.Store(true)
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.runs.Go(func() { m.cluster.Run(ctx) })
	m.runs.Go(func() { m.store.Run(ctx) })
}

// close leaves the shards. REQUIRES: the pools are closed.
func (m *member) close(ctx context.Context) {
	if m.stop != nil {
		m.stop()
		m.runs.Wait()
	}
	if m.cluster != nil {
		if err := m.cluster.Quit(ctx); err != nil {
			m.log.Warn("leaving the shards: others end what is left of this process", "error", err)
		}
	}
	for _, s := range m.seats {
		_ = s.Close()
	}
	switch {
	case m.store != nil:
		_ = m.store.Close()
	case m.home != nil:
		_ = m.home.Close()
	}
}

// adopt has this process go by the newest records, and by the shards' schemas where another one has
// changed these. It is called once before anything is served: with its joining the process has told
// that it goes by what there was then.
func (m *member) adopt(ctx context.Context, d *schema.Directory) error {
	if err := m.unfinished.Follow(ctx, nil); err != nil { // which refreshes the store
		return err
	}
	return m.adding.during(ctx, func() error { return m.goByRecords(ctx, d) })
}

// goByRecords is adopt while copies are closed that are to be.
func (m *member) goByRecords(ctx context.Context, d *schema.Directory) error {
	if err := m.goByKnown(ctx, d); err != nil {
		return err
	}
	if by := m.store.ChangedBy(m.cluster.Self()); by > m.read.Load() {
		if err := d.Follow(ctx, m.cluster.On); err != nil {
			return err
		}
		m.read.Store(by)
		return nil
	}
	return d.Rebuild()
}

// adopted returns when all go by what this process has written, and by the shards' schemas if it
// has changed these by DDL. The directory's version is a number of this process's own. A process
// that begins waits for nobody: what it writes then is what all find for themselves.
//
// Rule follow first: which records the directory's catalog was made by isn't known here, so this
// process goes by the newest like everybody. Counter-example: it makes a catalog; another one
// finishes a build; it writes a job's outcome, which reads the other's record, and tells that it
// goes by both. Its catalog has the index as it was, for ever.
func (m *member) adopted(ctx context.Context, _ uint64) error {
	if !m.follows.Load() {
		return nil
	}
	if m.cluster.HasTurn() {
		if err := m.store.Changed(m.cluster.Self()); err != nil {
			return fmt.Errorf("tell the others of a changed schema: %w", err)
		}
	}
	_, written := m.store.Version()
	if written <= m.waited.Load() {
		return nil
	}
	if err := m.cluster.Follow(ctx); err != nil {
		return err
	}
	if err := m.cluster.Adopted(ctx, written); err != nil {
		return err
	}
	for {
		was := m.waited.Load()
		if was >= written || m.waited.CompareAndSwap(was, written) {
			return nil
		}
	}
}

// everyone returns when all go by the records that this process has read.
//
// Rule read last: Counter-example: a job is claimed whose index was given another home just now, which
// this process doesn't know yet. It follows, scans for that home, and has waited for no one to add
// there.
func (m *member) everyone(ctx context.Context) error {
	_, err := m.allGoBy(ctx)
	return err
}

// allGoBy is everyone; version is the one that all go by.
func (m *member) allGoBy(ctx context.Context) (version uint64, err error) {
	if err := m.cluster.Follow(ctx); err != nil {
		return 0, err
	}
	version, _ = m.store.Version()
	return version, m.cluster.Adopted(ctx, version)
}

// board is a home as the cluster sees it.
type board struct{ *home.Home }

func (b board) Read(ctx context.Context, since uint64) (cluster.Version, []cluster.Record, error) {
	at, records, err := b.Home.Read(ctx, since)
	out := make([]cluster.Record, len(records))
	for i, r := range records {
		out[i] = cluster.Record(r)
	}
	return cluster.Version(at), out, err
}

func (b board) News(ctx context.Context, member string) (cluster.Version, bool, error) {
	at, asked, err := b.Home.News(ctx, member)
	return cluster.Version(at), asked, err
}

func (b board) TakeUp(ctx context.Context, member string) ([]cluster.Question, error) {
	questions, err := b.Home.TakeUp(ctx, member)
	out := make([]cluster.Question, len(questions))
	for i, q := range questions {
		out[i] = cluster.Question(q)
	}
	return out, err
}

func (b board) Write(ctx context.Context, expect uint64, records ...cluster.Record) (uint64, error) {
	in := make([]home.Record, len(records))
	for i, r := range records {
		in[i] = home.Record(r)
	}
	version, err := b.Home.Write(ctx, expect, in...)
	if errors.Is(err, home.ErrStale) {
		err = fmt.Errorf("%w: %w", cluster.ErrStale, err)
	}
	return version, err
}
