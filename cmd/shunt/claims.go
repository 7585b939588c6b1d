package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
)

// claims keep two Shunts from the same rows: each would be behind the other's back,
// and miss by virtual index what the other has written. While it serves, a Shunt holds
// on each shard a lock by name for each schema of its configuration, on the connection
// by which the shard's health is judged.
//
//	         all locks of all shards that answer            SIGTERM, drained
//	standby ────────────────────────────────────> serving ──────────────────> ends
//	   ^  │ one is another's                         │
//	   └──┘                                          │ a shard's connection breaks
//	                                                 v
//	         a new one takes the locks            the shard is not used
//	serving <─────────────────────────────────────── │
//	                                                 │ another holds it: all that were held, or
//	                                                 v one that this life never had
//	                                               ends
//
// A shard is used only while its locks are held, so that two that each reach some of
// the shards are never behind each other's back; who had it in between is in its
// record (see record.go).
type claims struct {
	shards []*claimed
	// locks are those to hold; what has been read of it isn't changed.
	locks atomic.Pointer[[]string]
	lease time.Duration
	store *storage.Store
	log   *slog.Logger
	// records say who had a shard last.
	records *records
	// waits is why nothing is served yet.
	waits atomic.Pointer[waiting]
	// over has the error with which this Shunt is to end.
	over chan error

	mu sync.Mutex
	// held are the shards whose locks are held, and which locks; had those that once were
	// in this life.
	held map[*claimed]*[]string
	had  map[*claimed]bool
}

// claimed is one shard, and its claim.
type claimed struct {
	of   *claims
	name string
	id   catalog.ShardID
	dial shard.Config
	// conn has the locks; nil while nobody has. Before the shard's health is judged it
	// is take's, then Health's.
	conn *shard.Conn
	// locks are what conn has, or is to have.
	locks *[]string
	// mine are the connections of this life that may have the locks, by number.
	mine map[uint32]own
	// failed is why take has no connection, and dialAgain when it tries anew.
	failed    error
	dialAgain time.Time
	// writeAgain is when a record that could not be written is tried again; zero where it
	// is written.
	writeAgain time.Time
	// lockless: the server knows no such locks. It is told once.
	lockless bool
}

// own is a connection of ours.
type own struct {
	opened time.Time
	port   string
}

// waiting tells why a process doesn't serve: to anybody, and in full.
type waiting struct {
	short, full string
	standby     bool
}

// holder is who has a lock: a connection, as its server tells of it.
type holder struct {
	shard, thread, account, host string
}

func (h *holder) Error() string {
	return fmt.Sprintf("another Shunt serves it: connection %s of %s from %s", h.thread, h.account, h.host)
}

const (
	// lockPrefix begins the locks' names, which are at most 64 characters long.
	lockPrefix = "shunt-serves-"
	maxLock    = 64
	// standbyEvery is how often a standby looks, and standbyTold how often it tells.
	standbyEvery = 300 * time.Millisecond
	standbyTold  = 10 * time.Minute
	// minLease is the least time after which a server ends a lock's connection that
	// has fallen silent: what a standby waits for when the other one's host has died.
	minLease = 30 * time.Second
	// recordAgain is the pause between attempts to write a record.
	recordAgain = time.Minute
	// leftoverTime is what a connection of our own takes at most to end after a KILL.
	leftoverTime = 3 * time.Second
	// recordTime is what a record may take besides: its server writes to its disk.
	recordTime = 15 * time.Second
)

// usedBy asks which other connection has a lock.
const usedBy = "NULLIF(IS_USED_LOCK('%s'), CONNECTION_ID())"

// plainName needs no quoting in a lock's name.
var plainName = regexp.MustCompile(`^[a-z0-9_$-]+$`)

// lockName is the lock of a schema. Where names of schemas differ by case alone they
// share one: on another server they might be the same schema.
func lockName(schema string) string {
	name := lockPrefix + strings.ToLower(schema)
	if len(name) <= maxLock && plainName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(strings.ToLower(schema)))
	return lockPrefix + "#" + hex.EncodeToString(sum[:16])
}

// lockNames are those of a configuration, in an order that all Shunts share. Without
// schemas it is one lock that only such configurations have.
func lockNames(cfg *config.Config) []string {
	names := []string{}
	for _, s := range cfg.Schemas {
		names = append(names, lockName(s.Name))
	}
	if len(names) == 0 {
		names = append(names, lockPrefix+"*")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func newClaims(cfg *config.Config, l layout, store *storage.Store, known *servers, foreign func(name string) error, log *slog.Logger) (*claims, error) {
	c := &claims{
		lease: max(minLease, 3*cfg.ShardTimeout), store: store, log: log,
		over: make(chan error, 1), held: map[*claimed]*[]string{}, had: map[*claimed]bool{},
	}
	locks := lockNames(cfg)
	c.locks.Store(&locks)
	var err error
	if c.records, err = newRecords(cfg.DataDir, l, locks, foreign, log); err != nil {
		return nil, err
	}
	for i, sh := range cfg.Shards {
		to := shardConfig(sh)
		to.ConnectTimeout = cfg.ShardTimeout
		to.Admit = known.admit(sh, func(*shard.Conn) {})
		c.shards = append(c.shards, &claimed{of: c, name: sh.Name, id: l.shards[i].ID, dial: to, locks: &locks, mine: map[uint32]own{}})
	}
	c.waits.Store(&waiting{short: "starting", full: "starting"})
	return c, nil
}

// why tells, while nothing is served, why.
func (c *claims) why() (short, full string) {
	w := c.waits.Load()
	return w.short, w.full
}

// take claims all shards that answer, one at least. Where another Shunt has one of
// them it waits until that has ended, as a standby. It gives up when ctx ends. An error is
// why it can never serve.
func (c *claims) take(ctx context.Context) error {
	var told struct {
		what string
		at   time.Time
	}
	began := time.Now()
	for {
		other, err := c.try(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // what failed did so for this
		case errors.Is(err, errSlots):
			return err
		case other != nil:
			c.waits.Store(&waiting{
				short: "standby: another Shunt serves", standby: true,
				full: fmt.Sprintf("standby since %s: shard %s: %v", began.UTC().Format(time.RFC3339), other.shard, other),
			})
			if what := other.shard + other.thread; what != told.what || time.Since(told.at) > standbyTold {
				told.what, told.at = what, time.Now()
				c.log.Warn("standby: another Shunt serves; waiting until it has stopped", "shard", other.shard, "connection", other.thread, "of", other.account, "from", other.host, "since", began.UTC().Format(time.RFC3339))
			}
		case err != nil:
			c.waits.Store(&waiting{short: "no shard can be used yet", full: "no shard can be used yet: " + err.Error()})
			if told.what != err.Error() {
				told.what = err.Error()
				c.log.Warn("waiting for a shard; each second is tried again", "error", err)
			}
		default:
			if c.waits.Load().standby {
				c.log.Info("taking over: the other Shunt has stopped", "waited", time.Since(began).Round(time.Millisecond))
			}
			c.waits.Store(&waiting{short: "starting", full: "starting"})
			return nil
		}
		// Two that began at once must not meet again and again.
		select {
		case <-ctx.Done():
		case <-time.After(standbyEvery + rand.N(standbyEvery)):
		}
	}
}

// try claims all shards that answer, or none. other is who has one of them.
func (c *claims) try(ctx context.Context) (other *holder, err error) {
	// First only to look: a lock that is taken for a moment might be one that a living
	// Shunt is just taking again.
	others := make([]*holder, len(c.shards))
	c.each(func(i int, s *claimed) error {
		return s.within(ctx, leftoverTime, func(ctx context.Context) (err error) {
			others[i], err = s.look(ctx)
			return err
		})
	})
	reached := false
	for i, s := range c.shards {
		if s.conn == nil && errors.Is(s.failed, errSlots) {
			return nil, s.failed
		}
		if others[i] != nil {
			return others[i], nil
		}
		reached = reached || s.conn != nil
	}
	if !reached {
		return nil, c.unreached()
	}
	// In the configuration's order: of two that began at once one is first on the first.
	for i, s := range c.shards {
		if s.conn == nil {
			continue
		}
		var other *holder
		err := s.within(ctx, leftoverTime, func(ctx context.Context) (err error) {
			other, err = s.lock(ctx, s.conn)
			return err
		})
		if err != nil || other != nil {
			for _, t := range c.shards[:i+1] {
				t.unlock(ctx)
			}
			return other, err
		}
	}
	c.each(func(_ int, s *claimed) error {
		if s.conn == nil {
			return nil
		}
		err := s.within(ctx, recordTime, func(ctx context.Context) error { return s.record(ctx, s.conn) })
		if err != nil {
			return fmt.Errorf("shard %s: %w", s.name, err)
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		if s.conn != nil {
			c.held[s], c.had[s] = s.locks, true
			s.forget(s.conn.ThreadID)
		}
	}
	if len(c.held) == 0 {
		return nil, c.unreached()
	}
	return nil, nil
}

// unreached is why shards can't be claimed.
func (c *claims) unreached() error {
	var errs []error
	for _, s := range c.shards {
		if s.conn == nil {
			errs = append(errs, s.failed)
		}
	}
	return errors.Join(errs...)
}

// each calls fn for all shards side by side. Its error loses the shard's connection.
func (c *claims) each(fn func(i int, s *claimed) error) {
	var wg sync.WaitGroup
	for i, s := range c.shards {
		wg.Go(func() {
			if err := fn(i, s); err != nil {
				s.lose(err)
			}
		})
	}
	wg.Wait()
}

// close gives the claims up. REQUIRES: no Health calls them any more.
func (c *claims) close() {
	for _, s := range c.shards {
		if s.conn != nil {
			_ = s.conn.Close()
			s.conn = nil
		}
		s.forget(0)
	}
}

// within calls fn, that asks the shard, with a bound: one that hangs is as one that is down,
// and must not keep a standby from the others. more is what fn may take besides.
func (s *claimed) within(ctx context.Context, more time.Duration, fn func(context.Context) error) error {
	limit := s.dial.ConnectTimeout + more
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := fn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v", limit)
	}
	return err
}

// forget forgets all connections but one.
func (s *claimed) forget(but uint32) {
	for thread := range s.mine {
		if thread != but {
			_ = s.of.store.ForgetThread(storage.ShardID(s.id), thread)
			delete(s.mine, thread)
		}
	}
}

func (s *claimed) lose(err error) {
	s.failed = err
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// look says who has a lock of the shard, nil for nobody. It connects if need be.
func (s *claimed) look(ctx context.Context) (*holder, error) {
	if s.conn == nil {
		began := time.Now()
		if began.Before(s.dialAgain) {
			return nil, s.failed
		}
		conn, err := shard.Dial(ctx, s.dial, false)
		// A frozen server would count each attempt that was given up, and block the host.
		s.dialAgain = time.Now().Add(time.Second + 2*time.Since(began))
		if err != nil {
			return nil, err
		}
		s.conn = conn
		if err := s.prepare(ctx, conn); err != nil {
			return nil, err
		}
		// Told now rather than when it is to take over.
		if err := s.of.records.fits(ctx, s.name, conn); err != nil {
			return nil, err
		}
	}
	return s.held(ctx, s.conn)
}

// prepare readies a connection for the locks. The next life ends it by its number, and
// the server when it has fallen silent.
func (s *claimed) prepare(ctx context.Context, conn *shard.Conn) error {
	_, port, _ := net.SplitHostPort(conn.LocalAddr.String())
	s.mine[conn.ThreadID] = own{time.Now(), port}
	_ = s.of.store.NoteThread(storage.ShardID(s.id), storage.Thread{ID: conn.ThreadID, Opened: time.Now()})
	// The last one needs a right, and replicas have no use for records.
	_, err := conn.ExecAll(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", int(s.of.lease/time.Second)), "SET SESSION lock_wait_timeout = 3", "SET SESSION sql_log_bin = 0")
	return err
}

// ofEach makes one SELECT of a function of each lock's name.
func ofEach(locks []string, form string) string {
	var b strings.Builder
	for i, l := range locks {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, form, l)
	}
	return "SELECT " + b.String()
}

// held says who has a lock, nil for nobody. A connection that an earlier life has left is
// ended.
func (s *claimed) held(ctx context.Context, conn *shard.Conn) (*holder, error) {
	for began := time.Now(); ; {
		res, err := conn.Query(ctx, ofEach(*s.locks, usedBy))
		if s.without(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var other string
		for _, cell := range res.Rows[0] {
			if cell != nil {
				other = string(cell)
			}
		}
		if other == "" {
			return nil, nil
		}
		h, err := s.holder(ctx, conn, other)
		if err != nil {
			return nil, err
		}
		ours, err := s.leftover(ctx, conn, h)
		if err != nil {
			return nil, err
		}
		if !ours || time.Since(began) > leftoverTime {
			return h, nil
		}
		if _, err := conn.Exec(ctx, "KILL "+other); err != nil && conn.Broken {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lockless are the errors of servers and middle boxes that know no locks by name: some
// clusters refuse what they don't replicate.
var lockless = []uint16{1064, 1105, 1142, 1227, 1235, 1305, 1370}

// without reports that a server has no locks by name: it is gone on without.
func (s *claimed) without(err error) bool {
	refused, ok := errors.AsType[*shard.ServerError](err)
	if !ok || !slices.Contains(lockless, refused.Code) {
		return false
	}
	if !s.lockless {
		s.lockless = true
		s.of.log.Warn("the server takes no locks by name: a second Shunt before the same shards would not be noticed", "shard", s.name, "error", err)
	}
	return true
}

// leftover reports that a lock is a connection's of an earlier life of this store, or of
// an earlier one of this life: the server has not seen yet that it is closed, as when
// the network was cut or the host has died. A server that has been restarted since gives
// the number to somebody else.
func (s *claimed) leftover(ctx context.Context, conn *shard.Conn, h *holder) (bool, error) {
	thread, err := strconv.ParseUint(h.thread, 10, 32)
	if err != nil {
		return false, nil //nolint:nilerr // no number of ours
	}
	one, ours := s.mine[uint32(thread)]
	if _, port, err := net.SplitHostPort(h.host); ours && err == nil && port == one.port {
		return true, nil
	}
	for _, old := range s.of.store.OldThreads(storage.ShardID(s.id)) {
		if uint64(old.ID) == thread {
			one, ours = own{opened: old.Opened}, true
		}
	}
	if !ours {
		return false, nil
	}
	up, known := indexer.ServerUptime(ctx, maintenanceConn{conn})
	if conn.Broken {
		return false, errors.New("the connection was lost while its server was asked how long it has run")
	}
	// Numbers grow: one over this connection's is of before the server's start.
	age := time.Since(one.opened)
	return known && 0 <= age && age <= up && thread < uint64(conn.ThreadID), nil
}

func (s *claimed) holder(ctx context.Context, conn *shard.Conn, thread string) (*holder, error) {
	h := &holder{shard: s.name, thread: thread, account: "an unknown account", host: "an unknown host"}
	res, err := conn.Query(ctx, "SELECT USER, HOST FROM information_schema.PROCESSLIST WHERE ID = "+thread)
	if err != nil && conn.Broken {
		return nil, err
	}
	if err == nil && len(res.Rows) == 1 {
		h.account, h.host = string(res.Rows[0][0]), string(res.Rows[0][1])
	}
	return h, nil
}

// lock takes all locks of the shard, or none: other is who has one.
func (s *claimed) lock(ctx context.Context, conn *shard.Conn) (other *holder, err error) {
	for range 5 { // who had one may just have ended
		res, err := conn.Query(ctx, ofEach(*s.locks, "GET_LOCK('%s', 0)"))
		if s.without(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(res.Rows[0], func(cell []byte) bool { return string(cell) != "1" }) {
			return nil, nil
		}
		other, err = s.held(ctx, conn)
		s.release(ctx, conn)
		if err != nil || other != nil {
			return other, err
		}
	}
	return nil, errors.New("its locks change hands")
}

func (s *claimed) release(ctx context.Context, conn *shard.Conn) {
	if !s.lockless {
		_, _ = conn.Query(ctx, ofEach(*s.locks, "RELEASE_LOCK('%s')")) // else they go with the connection
	}
}

func (s *claimed) unlock(ctx context.Context) {
	if s.conn == nil {
		return
	}
	_ = s.within(ctx, 0, func(ctx context.Context) error { s.release(ctx, s.conn); return nil })
	if s.conn.Broken {
		s.lose(errors.New("the connection was lost"))
	}
}

// claim is the Claim of the shard's Health.
func (s *claimed) claim(ctx context.Context, conn *shard.Conn) error {
	locks := s.of.locks.Load()
	if conn == s.conn && locks == s.locks {
		if !s.writeAgain.IsZero() && time.Now().After(s.writeAgain) {
			return s.write(ctx, conn)
		}
		return nil
	}
	s.conn, s.locks = nil, locks
	// A connection of before may still have the locks.
	other, err := s.held(ctx, conn)
	if err == nil {
		if err = s.prepare(ctx, conn); err == nil && other == nil {
			other, err = s.lock(ctx, conn)
		}
	}
	if err == nil && other == nil {
		err = s.record(ctx, conn)
	}
	switch {
	case err != nil:
		return err
	case other != nil:
		s.of.lost(s, other)
		return other
	}
	s.conn = conn
	s.forget(conn.ThreadID)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.held[s], s.of.had[s] = s.locks, true
	return nil
}

// record reads who had the shard last, and writes that it is this life. REQUIRES: the
// locks are held.
func (s *claimed) record(ctx context.Context, conn *shard.Conn) error {
	if err := s.of.records.judge(ctx, s.name, conn); err != nil {
		return err
	}
	return s.write(ctx, conn)
}

func (s *claimed) write(ctx context.Context, conn *shard.Conn) error {
	refused, err := s.of.records.write(ctx, s.name, conn)
	s.writeAgain = time.Time{}
	if refused {
		s.writeAgain = time.Now().Add(recordAgain)
	}
	return err
}

// add claims the schemas that a configuration has besides, by the shards' connections.
// An error is that another Shunt serves one of them: nothing is claimed then.
func (c *claims) add(ctx context.Context, cfg *config.Config, dial map[catalog.ShardID]shard.Config) error {
	now := *c.locks.Load()
	more := slices.DeleteFunc(lockNames(cfg), func(l string) bool { return slices.Contains(now, l) })
	if len(more) == 0 {
		return nil
	}
	for _, s := range c.shards {
		if err := s.free(ctx, dial[s.id], more); err != nil {
			return fmt.Errorf("a new schema: shard %s: %w", s.name, err)
		}
	}
	all := slices.Concat(now, more)
	c.records.add(more)
	c.locks.Store(&all)
	for began := time.Now(); !c.hold(&all) && time.Since(began) < returnTime && ctx.Err() == nil; {
		for _, s := range c.shards {
			dial[s.id].Health.Suspect()
		}
		time.Sleep(returnTime / 100)
	}
	return nil
}

// free is an error where somebody has one of the locks. A shard that doesn't answer is
// claimed when it does.
func (s *claimed) free(ctx context.Context, dial shard.Config, locks []string) error {
	conn, err := shard.Dial(ctx, dial, false)
	if err != nil {
		return nil // see above
	}
	defer conn.Close()
	res, err := conn.Query(ctx, ofEach(locks, usedBy))
	if err != nil {
		return nil // its health will tell
	}
	for _, cell := range res.Rows[0] {
		if cell != nil {
			if other, err := s.holder(ctx, conn, string(cell)); err == nil {
				return other
			}
		}
	}
	return nil
}

// hold reports that all shards that are in use are so by these locks.
func (c *claims) hold(locks *[]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, by := range c.held {
		if by != locks {
			return false
		}
	}
	return true
}

// lost says that another Shunt has the shard. One that this life never had is in the
// hands of somebody who serves, while others were to be had: he goes first. Without any
// shard there is nothing left to serve.
func (c *claims) lost(s *claimed, other *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, s)
	if c.had[s] && len(c.held) > 0 {
		return
	}
	select {
	case c.over <- fmt.Errorf("stopped serving: shard %s: %w", s.name, other):
	default:
	}
}

// away says that a shard is dead.
func (c *claims) away(s *claimed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, s)
}

// gauge tells whether this is a standby.
func (c *claims) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_standby", Help: "1 while another Shunt serves the same schemas, and this one waits."}, func() float64 {
		if c.waits.Load().standby {
			return 1
		}
		return 0
	})
}
