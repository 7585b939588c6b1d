package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
)

const (
	defaultMax  = 128
	defaultWait = 10 * time.Second
	// restCheck: a connection over which nothing was sent for longer is checked for a sign that
	// the server closed it, which costs a system call.
	restCheck = 50 * time.Millisecond
	// retryAfter: how long after a failed connect the next is tried. Until
	// then Get fails at once with what the last one said, so that a dead
	// shard delays nobody but the one who tries.
	retryAfter = 500 * time.Millisecond
	// downFor: how long a failed connect speaks for the server's state where a Health
	// judges it.
	downFor = 5 * time.Second
	// stateSearch: how many idle connections are looked at for one in the right
	// State.
	stateSearch = 8
)

// Options of a Pool.
type Options struct {
	Max         int           // connections at most; default 128
	IdleMax     int           // idle ones at most; default Max
	WaitTimeout time.Duration // for a free connection; default 10 s
	Logger      *slog.Logger

	// OnConnect is called for each new connection before it is used.
	OnConnect func(context.Context, *Conn) error
	// OnEnd is called after a connection was closed. lost: it was Busy, so its
	// statement may still run on the server, as ThreadID.
	OnEnd func(c *Conn, lost bool)

	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Stats of a Pool.
type Stats struct {
	InUse, Idle, Waiting int
}

// Pool holds the connections to one shard.
type Pool struct {
	cfg Config
	o   Options

	mu sync.Mutex
	// idle connections by FoundRows, the one returned last at the end.
	idle [2][]*Conn
	// inUse has each at its place.
	inUse []*Conn
	// open counts idle and used connections and those being dialed.
	// Invariant: open <= o.Max.
	open int
	// shares are of the connections that are in use or being dialed; those in Get wait.
	// Invariant: while one waits, there is such a connection: one of his own, or open
	// == o.Max, or the server has refused to open more.
	shares shares
	// pins are of those that are kept: see Pin.
	pins shares

	// room is how many connections the server had room for when it refused one more, at
	// refused; 0: it has refused none.
	room    int
	refused time.Time

	down    bool
	trying  bool // somebody is dialing while down
	tried   time.Time
	lastErr error
	version string
	// barred is why nobody may have a connection though the server answers.
	barred atomic.Pointer[connError]

	closed bool
	// empty is closed when closed and open == 0.
	empty chan struct{}
}

// grant is a connection, or a place to dial one, counted in open and in the holder's
// tally. The place may have been that of replaced, which is to be closed.
type grant struct{ conn, replaced *Conn }

// New returns a pool. It doesn't connect yet.
func New(cfg Config, o Options) *Pool {
	if o.Max <= 0 {
		o.Max = defaultMax
	}
	if o.IdleMax <= 0 || o.IdleMax > o.Max {
		o.IdleMax = o.Max
	}
	if o.WaitTimeout <= 0 {
		o.WaitTimeout = defaultWait
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		cfg: cfg, o: o,
		empty: make(chan struct{}),
	}
	if cfg.Health != nil {
		cfg.Health.Watch(p.judged)
	}
	return p
}

// judged is told when the server is judged dead, and when it is alive again.
func (p *Pool) judged(alive bool) {
	p.mu.Lock()
	p.down, p.lastErr = false, nil
	var idle []*Conn
	if !alive {
		for kind := range p.idle {
			idle = append(idle, p.idle[kind]...)
			p.idle[kind] = nil
		}
		p.open -= len(idle)
		p.serveLocked()
	}
	p.mu.Unlock()
	for _, c := range idle {
		p.end(c)
	}
}

// dead is why the server is judged dead, nil while it isn't.
func (p *Pool) dead() error {
	if p.cfg.Health != nil {
		if err := p.cfg.Health.Err(); err != nil {
			return err
		}
	}
	if b := p.barred.Load(); b != nil {
		return b
	}
	return nil
}

// Bar keeps the pool from handing out connections, and says why; nil ends that. Dial goes on.
func (p *Pool) Bar(why error) {
	if why == nil {
		p.barred.Store(nil)
		return
	}
	p.barred.Store(&connError{ErrShard, p.cfg.where(), why})
}

// Rebar is Bar with another reason, where the pool is barred.
func (p *Pool) Rebar(why error) {
	if was := p.barred.Load(); was != nil {
		p.barred.CompareAndSwap(was, &connError{ErrShard, p.cfg.where(), why})
	}
}

// Barred reports that Bar keeps connections back.
func (p *Pool) Barred() bool { return p.barred.Load() != nil }

// Lively reports whether there is no sign that the server doesn't answer. It is
// cheap: for a choice between servers of which any would do.
func (p *Pool) Lively() bool {
	h := p.cfg.Health
	return h == nil || h.failed.Load() == nil && !h.late.Load()
}

// Health is what judges the server, nil where nothing does.
func (p *Pool) Health() *Health { return p.cfg.Health }

// Name returns the shard's name.
func (p *Pool) Name() string { return p.cfg.Name }

// Addr returns the shard's address.
func (p *Pool) Addr() string { return p.cfg.Current().Addr }

func kindOf(foundRows bool) int {
	if foundRows {
		return 1
	}
	return 0
}

// Get returns a connection for Shunt's own use, for the caller alone, an idle one
// if there is one that no session has settings on (rule its own). It must be given to Put or Discard. It may
// be in another State and Schema than the caller's.
//
// Errors: ErrShard naming the shard where it can't be reached (and soon after
// that, without a try), ErrPoolExhausted, ErrPoolClosed, ctx's.
func (p *Pool) Get(ctx context.Context, foundRows bool) (*Conn, error) {
	return p.GetFor(ctx, nil, foundRows, "")
}

// GetFor is Get for a holder who will bring the connection to a State: one that is
// there already is preferred. Errors: a *ShareError, too.
func (p *Pool) GetFor(ctx context.Context, h *Holder, foundRows bool, state string) (*Conn, error) {
	for waited := time.Duration(0); ; {
		g, w, err := p.take(h, foundRows, state)
		if err != nil {
			return nil, err
		}
		if w != nil {
			began := p.now()
			if g, err = p.wait(ctx, w); err != nil {
				return nil, err
			}
			waited += max(1, p.now().Sub(began))
		}
		switch {
		case g.conn == nil:
			c, err := p.dial(ctx, h, foundRows, g)
			if err == nil {
				c.Waited = waited
			}
			return c, err
		case p.usable(g.conn):
			g.conn.Waited = waited
			return g.conn, nil
		}
		p.Discard(g.conn)
	}
}

// GetNew is GetFor a holder who has found an idle connection dead, though it
// had looked alive: it dials, instead of an idle connection if it must be.
func (p *Pool) GetNew(ctx context.Context, h *Holder, foundRows bool) (*Conn, error) {
	if err := p.dead(); err != nil {
		return nil, err
	}
	var g grant
	p.mu.Lock()
	t := p.shares.of(h)
	switch kind := kindOf(foundRows); {
	case p.closed:
		p.mu.Unlock()
		return nil, ErrPoolClosed
	case !p.mayLocked(t):
		p.mu.Unlock()
		return p.GetFor(ctx, h, foundRows, "")
	case p.opensLocked():
	case len(p.idle[kind]) > 0:
		g.replaced = p.idle[kind][0]
		p.idle[kind] = slices.Delete(p.idle[kind], 0, 1)
	default:
		p.mu.Unlock()
		return p.GetFor(ctx, h, foundRows, "")
	}
	p.shares.take(t)
	p.mu.Unlock()
	return p.dial(ctx, h, foundRows, g)
}

// take finds what is there, or a place in the queue w.
func (p *Pool) take(h *Holder, foundRows bool, state string) (g grant, w *waiter, err error) {
	if err := p.dead(); err != nil {
		return grant{}, nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return grant{}, nil, ErrPoolClosed
	}
	t := p.shares.of(h)
	if p.mayLocked(t) {
		if g, ok := p.findLocked(t, foundRows, state); ok {
			p.mu.Unlock()
			return g, nil, nil
		}
	}
	w = &waiter{holder: h, foundRows: foundRows, state: state, ready: make(chan grant, 1)}
	p.shares.enqueue(t, w)
	tell := !p.mayLocked(t) && t.tells(p.now())
	held := t.held
	p.mu.Unlock()
	if tell {
		p.o.Logger.Warn("statements of a user wait for the user's own: these hold as many of a shard's connections as they may", "user", h.Name, "shard", p.cfg.Name, "held", held, "of", p.o.Max)
	}
	return grant{}, w, nil
}

// findLocked gives a holder what is free: an idle connection, else a place.
func (p *Pool) findLocked(t *tally, foundRows bool, state string) (g grant, ok bool) {
	kind := kindOf(foundRows)
	if n := len(p.idle[kind]); n > 0 {
		at, fits := p.idleLocked(kind, t.holder == nil, state)
		// Rule its own: between a session's statements Shunt reads and writes over other connections than the session.
		// Counter-example: it reads what has become of a table behind each DDL of a dump; the connection that has all
		// of the session's settings is reset for that, and gets them anew for the next statement.
		if !fits && t.holder == nil && n < 2 && p.opensLocked() {
			p.shares.take(t)
			return grant{}, true
		}
		c := p.idle[kind][at]
		if at == n-1 { // as mostly
			p.idle[kind][at], p.idle[kind] = nil, p.idle[kind][:at]
		} else {
			p.idle[kind] = slices.Delete(p.idle[kind], at, at+1)
		}
		p.shares.take(t)
		p.useLocked(c, t.holder)
		return grant{conn: c}, true
	}
	if p.opensLocked() {
		p.shares.take(t)
		return grant{}, true
	}
	if other := p.idle[1-kind]; len(other) > 0 {
		g.replaced = other[0]
		p.idle[1-kind] = slices.Delete(other, 0, 1)
		p.shares.take(t)
		return g, true
	}
	return grant{}, false
}

// idleLocked is the place of the idle connection that a session, or Shunt for its own use, gets: one in the State (fits), else
// one that a session, or Shunt, had last. REQUIRES: a connection is idle.
func (p *Pool) idleLocked(kind int, own bool, state string) (at int, fits bool) {
	idle := p.idle[kind]
	last := len(idle) - 1
	at = last
	for i := last; i >= max(0, last+1-stateSearch); i-- {
		switch c := idle[i]; {
		case c.State == state:
			return i, true
		case (c.holder == nil) == own && (idle[at].holder == nil) != own:
			at = i
		}
	}
	return at, false
}

// opensLocked takes a place for a new connection, if there is one. A server that had no
// room for more is tried again in a while, by one at a time.
func (p *Pool) opensLocked() bool {
	if p.open >= p.o.Max {
		return false
	}
	if p.room > 0 && p.open >= p.room {
		now := p.now()
		if now.Sub(p.refused) < retryAfter {
			return false
		}
		p.refused = now
	}
	p.open++
	return true
}

// mayLocked reports whether a holder may have one more connection.
func (p *Pool) mayLocked(t *tally) bool {
	if t.holder == nil {
		return true
	}
	if most := t.holder.most.Load(); most > 0 {
		return int64(t.held) < most
	}
	most := p.o.Max
	if p.room > 0 {
		most = min(most, p.room)
	}
	return p.shares.mayShare(t, most)
}

// serveLocked gives what is free to those who wait for it.
func (p *Pool) serveLocked() {
	for len(p.shares.hungry) > 0 && !p.closed {
		w := p.shares.next(p.mayLocked)
		if w == nil {
			return
		}
		g, ok := p.findLocked(p.shares.of(w.holder), w.foundRows, w.state)
		if !ok {
			return
		}
		p.shares.dequeue(w)
		w.ready <- g
	}
}

func (p *Pool) useLocked(c *Conn, h *Holder) {
	c.place, c.holder = len(p.inUse), h
	p.inUse = append(p.inUse, c)
}

func (p *Pool) usesLocked(c *Conn) bool { return c.place < len(p.inUse) && p.inUse[c.place] == c }

func (p *Pool) restLocked(c *Conn) {
	c.Client.Store(0)
	p.shares.giveBack(c.holder)
	last := len(p.inUse) - 1
	p.inUse[c.place], p.inUse[last].place = p.inUse[last], c.place
	p.inUse[last] = nil
	p.inUse = p.inUse[:last]
}

// Use is a connection that somebody has.
type Use struct {
	// Thread is the server's number of it, Client is as Conn's.
	Thread, Client uint32
}

// Uses are the connections that are in use.
func (p *Pool) Uses() []Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	uses := make([]Use, len(p.inUse))
	for i, c := range p.inUse {
		uses[i] = Use{c.ThreadID, c.Client.Load()}
	}
	return uses
}

func (p *Pool) now() time.Time {
	if p.o.Now != nil {
		return p.o.Now()
	}
	return time.Now()
}

func (p *Pool) usable(c *Conn) bool {
	now := time.Since(epoch)
	if p.o.Now != nil {
		now = Since(p.o.Now())
	}
	if now-c.used < restCheck && !c.suspect {
		return !c.cut.Load()
	}
	c.suspect = false
	return c.alive()
}

func (p *Pool) wait(ctx context.Context, w *waiter) (grant, error) {
	timer := time.NewTimer(p.o.WaitTimeout)
	defer timer.Stop()
	var died <-chan struct{}
	if p.cfg.Health != nil {
		died = p.cfg.Health.alive().Done()
	}
	var err error
	select {
	case g := <-w.ready:
		return p.woken(w.holder, g)
	case <-died:
		err = p.dead()
		if err == nil { // and is alive again
			err = &connError{ErrShard, p.cfg.where(), errCut}
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	p.mu.Lock()
	waits := p.shares.dequeue(w)
	tell := false
	if err == nil && waits {
		tell, err = p.lateLocked(w)
	}
	p.mu.Unlock()
	if tell {
		p.o.Logger.Warn("no connection to a shard became free for a statement", "shard", p.cfg.Name, "error", err)
	}
	if !waits {
		// It was served at the same moment.
		return p.woken(w.holder, <-w.ready)
	}
	return grant{}, err
}

// lateLocked is why a waiter has waited for too long.
func (p *Pool) lateLocked(w *waiter) (tell bool, err error) {
	t := p.shares.of(w.holder)
	err = fmt.Errorf("%s: %w within %v (%d in use)", p.cfg.where(), ErrPoolExhausted, p.o.WaitTimeout, p.o.Max)
	if !p.mayLocked(t) {
		t.refused++
		err = &ShareError{User: w.holder.Name, Where: p.cfg.where(), Held: t.held, Max: p.o.Max, Within: p.o.WaitTimeout}
	}
	return t.tells(p.now()), err
}

func (p *Pool) woken(h *Holder, g grant) (grant, error) {
	if g.conn != nil {
		return g, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.releaseLocked(h)
		return grant{}, ErrPoolClosed
	}
	return g, nil
}

// releaseLocked gives up a holder's place counted in open, to the next who waits.
func (p *Pool) releaseLocked(h *Holder) {
	p.open--
	p.shares.giveBack(h)
	p.serveLocked()
	p.emptyLocked()
}

func (p *Pool) emptyLocked() {
	if p.closed && p.open == 0 {
		close(p.empty)
	}
}

// dial makes a connection in a place that was granted.
func (p *Pool) dial(ctx context.Context, h *Holder, foundRows bool, g grant) (*Conn, error) {
	if g.replaced != nil {
		p.end(g.replaced)
	}
	p.mu.Lock()
	if p.down && (p.trying || p.now().Sub(p.tried) < retryAfter) {
		err := p.lastErr
		p.releaseLocked(h)
		p.mu.Unlock()
		return nil, err
	}
	probe := p.down
	p.trying = p.trying || probe
	p.mu.Unlock()

	c, err := Dial(ctx, p.cfg, foundRows)
	if err == nil && p.o.OnConnect != nil {
		if err = p.o.OnConnect(ctx, c); err != nil {
			p.end(c)
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if probe {
		p.trying = false
	}
	if err != nil && len(p.inUse)+len(p.idle[0])+len(p.idle[1]) > 0 && !p.closed && serverFull(err) {
		return p.dialedInVain(ctx, h, foundRows)
	}
	if err != nil {
		// The caller's impatience says nothing about the shard.
		if ctx.Err() == nil {
			if !p.down && p.tells(err) {
				p.o.Logger.Warn("shard is down", "shard", p.cfg.Name, "addr", p.Addr(), "error", err)
			}
			p.down, p.lastErr, p.tried = true, err, p.now()
		}
		p.releaseLocked(h)
		return nil, err
	}
	if p.down && p.tells(p.lastErr) {
		p.o.Logger.Info("shard is up", "shard", p.cfg.Name, "addr", p.Addr())
	}
	p.down, p.lastErr, p.version = false, nil, c.ServerVersion
	if p.room > 0 && p.open > p.room {
		p.room, p.refused = p.open, time.Time{} // the next may try at once
	}
	if p.closed {
		p.end(c)
		p.releaseLocked(h)
		return nil, ErrPoolClosed
	}
	p.useLocked(c, h)
	return c, nil
}

// tells: what a failed connect says is this pool's to log. That a server can't
// be reached is its Health's, which sees it too, and logs it for all its pools.
func (p *Pool) tells(err error) bool {
	_, refused := errors.AsType[*ServerError](err)
	return p.cfg.Health == nil || refused
}

// serverFull: the server lives, and has no room for another connection.
func serverFull(err error) bool {
	server, ok := errors.AsType[*ServerError](err)
	return ok && (server.Code == mysqlerr.TooManyConnections || server.Code == mysqlerr.TooManyUserConnections)
}

// dialedInVain gives up the place taken for a connection, and waits for one of
// those that are in use: the server's limit counts like the pool's own. The
// caller holds p.mu, and holds it again when this returns.
func (p *Pool) dialedInVain(ctx context.Context, h *Holder, foundRows bool) (*Conn, error) {
	p.open-- // not to the next in the queue, who would be refused as well
	p.room, p.refused = p.open, p.now()
	p.shares.giveBack(h)
	w := &waiter{holder: h, foundRows: foundRows, ready: make(chan grant, 1)}
	p.shares.enqueue(p.shares.of(h), w)
	p.serveLocked() // one may be idle
	p.mu.Unlock()
	defer p.mu.Lock()
	if g, err := p.wait(ctx, w); err != nil || g.conn != nil {
		return g.conn, err
	}
	return p.dial(ctx, h, foundRows, grant{})
}

// end closes a connection.
func (p *Pool) end(c *Conn) {
	lost := c.Busy()
	_ = c.Close()
	if p.o.OnEnd != nil {
		p.o.OnEnd(c, lost)
	}
}

// Put returns a connection. It is closed instead when it is Broken, Busy, or
// in a transaction: what one session left open must not reach another.
func (p *Pool) Put(c *Conn) {
	if c.Broken || c.cut.Load() || c.Busy() || c.Ahead() || c.InTransaction() || c.r.Buffered() > 0 {
		p.Discard(c)
		return
	}
	c.Await = false
	// An idle connection holds no buffers, nor statements on the server that
	// are to be closed with the next command.
	if c.w.Buffered() > 0 && c.w.Flush() != nil {
		p.Discard(c)
		return
	}
	c.r.Release()

	p.mu.Lock()
	if !p.usesLocked(c) {
		p.mu.Unlock()
		panic("shard: Put of a connection that isn't in use")
	}
	if p.closed {
		p.mu.Unlock()
		p.Discard(c)
		return
	}
	p.restLocked(c)
	if p.down {
		// It was refused a connection, and serves those that it has.
		if p.tells(p.lastErr) {
			p.o.Logger.Info("shard is up", "shard", p.cfg.Name, "addr", p.Addr())
		}
		p.down, p.lastErr = false, nil
	}
	kind := kindOf(c.FoundRows)
	p.idle[kind] = append(p.idle[kind], c)
	if len(p.shares.hungry) > 0 {
		p.serveLocked()
	}
	var surplus *Conn
	if len(p.idle[0])+len(p.idle[1]) > p.o.IdleMax {
		if len(p.idle[kind]) == 1 {
			kind = 1 - kind
		}
		surplus = p.idle[kind][0]
		p.idle[kind] = slices.Delete(p.idle[kind], 0, 1)
		p.open--
		p.serveLocked()
	}
	p.mu.Unlock()
	if surplus != nil {
		p.end(surplus)
	}
}

// Discard closes a connection that Get gave.
func (p *Pool) Discard(c *Conn) {
	// OnEnd comes before the place is free: whoever tracks the statement
	// knows of it before anything else happens.
	p.end(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.usesLocked(c) {
		panic("shard: Discard of a connection that isn't in use")
	}
	p.restLocked(c)
	p.open--
	p.serveLocked()
	p.emptyLocked()
}

// Dial makes a connection outside of the pool's limit, which the caller closes: the pool
// may be exhausted by what is to be looked into.
func (p *Pool) Dial(ctx context.Context) (*Conn, error) { return Dial(ctx, p.cfg, false) }

// Kill ends a statement (KILL QUERY), or a connection (KILL) of the shard, by a
// connection of its own, outside of the pool's limit: the pool may be exhausted
// by what is to be killed.
func (p *Pool) Kill(ctx context.Context, threadID uint32, connection bool) error {
	return kill(ctx, p.cfg, threadID, connection)
}

func kill(ctx context.Context, cfg Config, threadID uint32, connection bool) error {
	c, err := Dial(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer c.Close()
	// Counter-example: a commit that waits for a full disk. MySQL stops the whole server where that is
	// killed (binlog_error_action). Nor would anything come of it: what commits is done.
	list, err := c.Processes(ctx, false)
	if err != nil || slices.ContainsFunc(list, func(p Process) bool { return p.ID == threadID && p.Commits() }) {
		return err
	}
	what := "QUERY "
	if connection {
		what = ""
	}
	_, err = c.Exec(ctx, fmt.Sprintf("KILL %s%d", what, threadID))
	return err
}

// Ping reaches the shard over a connection of the pool, a new one if it must
// be: after it State is up to date.
func (p *Pool) Ping(ctx context.Context) error {
	c, err := p.Get(ctx, false)
	if err != nil {
		return err
	}
	defer p.Put(c)
	return c.Ping(ctx)
}

// Stats counts the connections.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := 0
	for _, h := range p.shares.hungry {
		waiting += len(p.shares.of(h).waiting)
	}
	return Stats{InUse: len(p.inUse), Idle: len(p.idle[0]) + len(p.idle[1]), Waiting: waiting}
}

// Holders are those who have, or have had, connections of the pool.
func (p *Pool) Holders() []Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shares.all()
}

// Pin notes that a connection will be kept for long. At most half of the
// connections may be, and a holder has his share of that: the other sessions need
// some that come back.
func (p *Pool) Pin(h *Holder) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.pins.of(h)
	if most := p.o.Max / 2; p.pins.used >= most || !t.unbound() && !p.pins.mayShare(t, most) {
		return fmt.Errorf("%s: %w: %d of %d are kept by sessions, %d of them by this user's", p.cfg.where(), ErrPoolExhausted, p.pins.used, p.o.Max, t.held)
	}
	p.pins.take(t)
	return nil
}

// Unpin takes a Pin back.
func (p *Pool) Unpin(h *Holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins.giveBack(h)
}

// Pinned is how many connections are kept.
func (p *Pool) Pinned() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pins.used
}

// State is "up", or "down" while the server is judged dead, and after a failed
// connect until one succeeds, or for a time if its Health says that it lives: without
// statements nobody tries to connect.
func (p *Pool) State() string {
	switch err := p.LastError(); {
	case err == nil:
	case errors.Is(err, p.barred.Load()):
		return "joining"
	default:
		return "down"
	}
	return "up"
}

// LastError is why State is "down", else nil.
func (p *Pool) LastError() error {
	if err := p.dead(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down && !p.tells(p.lastErr) && p.now().Sub(p.tried) > downFor {
		return nil
	}
	return p.lastErr
}

// Version is the server's version as last seen, "" before the first connect.
func (p *Pool) Version() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version == "" && p.cfg.Health != nil {
		return p.cfg.Health.Version()
	}
	return p.version
}

// Close closes idle connections, refuses further Gets and waits until those in
// use are returned. When ctx ends first they are interrupted and ctx's error is
// returned.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for _, h := range p.shares.hungry {
			t := p.shares.of(h)
			for _, w := range t.waiting {
				p.open++ // woken gives it up again
				p.shares.take(t)
				w.ready <- grant{}
			}
			t.waiting = nil
		}
		p.shares.hungry = nil
		for kind := range p.idle {
			for _, c := range p.idle[kind] {
				p.end(c)
				p.open--
			}
			p.idle[kind] = nil
		}
		if p.open == 0 {
			close(p.empty)
		}
	}
	p.mu.Unlock()
	select {
	case <-p.empty:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.inUse {
		c.Interrupt()
	}
	return ctx.Err()
}
