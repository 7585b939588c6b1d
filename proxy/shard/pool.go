package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

const (
	defaultMax  = 128
	defaultWait = 10 * time.Second
	// restCheck: a connection that rested longer is checked for a sign that
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
	MaxLifetime time.Duration // a connection older than this is closed; 0: never
	WaitTimeout time.Duration // for a free connection; default 10 s
	Logger      *slog.Logger

	// OnConnect is called for each new connection before it is used.
	OnConnect func(context.Context, *Conn) error
	// OnEnd is called after a connection was closed. lost: it was Busy, so its
	// statement may still run on the server, as ThreadID.
	OnEnd func(c *Conn, lost bool)
}

// Stats of a Pool.
type Stats struct {
	InUse, Idle, Waiting int
}

// Pool holds the connections to one shard.
type Pool struct {
	cfg Config
	o   Options
	now func() time.Time

	mu sync.Mutex
	// idle connections by FoundRows, the one returned last at the end.
	idle [2][]*Conn
	// inUse has each at its place.
	inUse []*Conn
	// open counts idle and used connections and those being dialed.
	// Invariant: open <= o.Max.
	open int
	// pinned counts connections that their users keep: see Pin.
	pinned int
	// waiting are those in Get, the first come first. Invariant: while there
	// is one, a connection is in use or being dialed, and open == o.Max unless
	// the server has refused to open more.
	waiting []*waiter

	down    bool
	trying  bool // somebody is dialing while down
	tried   time.Time
	lastErr error
	version string

	closed bool
	// empty is closed when closed and open == 0.
	empty chan struct{}
}

// waiter waits for a connection of its kind, or for a place to dial one.
type waiter struct {
	foundRows bool
	// ready gets one value: a connection, or nil for a place (counted in open
	// already) or because the pool is closed.
	ready chan *Conn
}

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
		cfg: cfg, o: o, now: time.Now,
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
		for range idle {
			p.releaseLocked()
		}
	}
	p.mu.Unlock()
	for _, c := range idle {
		p.end(c)
	}
}

// dead is why the server is judged dead, nil while it isn't.
func (p *Pool) dead() error {
	if p.cfg.Health == nil {
		return nil
	}
	return p.cfg.Health.Err()
}

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
func (p *Pool) Addr() string { return p.cfg.Addr }

func kindOf(foundRows bool) int {
	if foundRows {
		return 1
	}
	return 0
}

// Get returns a connection for the caller alone, the one returned last if
// there is an idle one. It must be given to Put or Discard. It may be in
// another State and Schema than the caller's.
//
// Errors: ErrShard naming the shard where it can't be reached (and soon after
// that, without a try), ErrPoolExhausted, ErrPoolClosed, ctx's.
func (p *Pool) Get(ctx context.Context, foundRows bool) (*Conn, error) {
	return p.GetIn(ctx, foundRows, "")
}

// GetIn is Get for a caller who will bring the connection to a State: one that
// is there already is preferred.
func (p *Pool) GetIn(ctx context.Context, foundRows bool, state string) (*Conn, error) {
	for {
		c, w, replaced, err := p.take(foundRows, state)
		if replaced != nil {
			p.end(replaced)
		}
		switch {
		case err != nil:
			return nil, err
		case c != nil:
			if p.usable(c) {
				return c, nil
			}
			p.Discard(c)
			continue
		case w == nil:
			return p.dial(ctx, foundRows)
		}
		if c, err = p.wait(ctx, w); err != nil || c != nil {
			return c, err
		}
		return p.dial(ctx, foundRows)
	}
}

// GetNew is Get for a caller who has found an idle connection dead, though it
// had looked alive: it dials, instead of an idle connection if it must be.
func (p *Pool) GetNew(ctx context.Context, foundRows bool) (*Conn, error) {
	if err := p.dead(); err != nil {
		return nil, err
	}
	var replaced *Conn
	p.mu.Lock()
	switch kind := kindOf(foundRows); {
	case p.closed:
		p.mu.Unlock()
		return nil, ErrPoolClosed
	case p.open < p.o.Max:
		p.open++
	case len(p.idle[kind]) > 0:
		replaced = p.idle[kind][0]
		p.idle[kind] = slices.Delete(p.idle[kind], 0, 1)
	default:
		p.mu.Unlock()
		return p.Get(ctx, foundRows)
	}
	p.mu.Unlock()
	if replaced != nil {
		p.end(replaced)
	}
	return p.dial(ctx, foundRows)
}

// take finds an idle connection c, or a place in the queue w; neither: a place
// for a new connection is taken, which may have been that of replaced.
func (p *Pool) take(foundRows bool, state string) (c *Conn, w *waiter, replaced *Conn, err error) {
	kind := kindOf(foundRows)
	if err := p.dead(); err != nil {
		return nil, nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, nil, ErrPoolClosed
	}
	if n := len(p.idle[kind]); n > 0 {
		at := n - 1
		for i := at; i >= max(0, n-stateSearch); i-- {
			if p.idle[kind][i].State == state {
				at = i
				break
			}
		}
		c = p.idle[kind][at]
		p.idle[kind] = slices.Delete(p.idle[kind], at, at+1)
		p.useLocked(c)
		return c, nil, nil, nil
	}
	if p.open < p.o.Max {
		p.open++
		return nil, nil, nil, nil
	}
	if other := p.idle[1-kind]; len(other) > 0 {
		replaced = other[0]
		p.idle[1-kind] = slices.Delete(other, 0, 1)
		return nil, nil, replaced, nil
	}
	w = &waiter{foundRows: foundRows, ready: make(chan *Conn, 1)}
	p.waiting = append(p.waiting, w)
	return nil, w, nil, nil
}

func (p *Pool) useLocked(c *Conn) {
	c.place = len(p.inUse)
	p.inUse = append(p.inUse, c)
}

func (p *Pool) usesLocked(c *Conn) bool { return c.place < len(p.inUse) && p.inUse[c.place] == c }

func (p *Pool) restLocked(c *Conn) {
	last := len(p.inUse) - 1
	p.inUse[c.place], p.inUse[last].place = p.inUse[last], c.place
	p.inUse[last] = nil
	p.inUse = p.inUse[:last]
}

func (p *Pool) usable(c *Conn) bool {
	now := p.now()
	if p.o.MaxLifetime > 0 && now.Sub(c.Opened) > p.o.MaxLifetime {
		return false
	}
	if now.Sub(c.rested) < restCheck && !c.suspect {
		return !c.cut.Load()
	}
	c.suspect = false
	return c.alive()
}

// wait returns a connection, or nil for a place to dial one.
func (p *Pool) wait(ctx context.Context, w *waiter) (*Conn, error) {
	timer := time.NewTimer(p.o.WaitTimeout)
	defer timer.Stop()
	var died <-chan struct{}
	if p.cfg.Health != nil {
		died = p.cfg.Health.alive().Done()
	}
	var err error
	select {
	case c := <-w.ready:
		return p.woken(c)
	case <-died:
		err = p.dead()
		if err == nil { // and is alive again
			err = &connError{ErrShard, p.cfg.where(), errCut}
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%s: %w within %v (%d in use)", p.cfg.where(), ErrPoolExhausted, p.o.WaitTimeout, p.o.Max)
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, w)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		// It was served at the same moment.
		return p.woken(<-w.ready)
	}
	return nil, err
}

func (p *Pool) woken(c *Conn) (*Conn, error) {
	if c != nil {
		return c, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.releaseLocked()
		return nil, ErrPoolClosed
	}
	return nil, nil
}

// releaseLocked gives up a place counted in open, to the first who waits.
func (p *Pool) releaseLocked() {
	if len(p.waiting) > 0 && !p.closed {
		w := p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
		w.ready <- nil
		return
	}
	p.open--
	if p.closed && p.open == 0 {
		close(p.empty)
	}
}

// dial makes a connection in a place that is counted in open.
func (p *Pool) dial(ctx context.Context, foundRows bool) (*Conn, error) {
	p.mu.Lock()
	if p.down && (p.trying || p.now().Sub(p.tried) < retryAfter) {
		err := p.lastErr
		p.releaseLocked()
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
	if err != nil && len(p.inUse) > 0 && !p.closed && serverFull(err) {
		return p.dialedInVain(ctx, foundRows)
	}
	if err != nil {
		// The caller's impatience says nothing about the shard.
		if ctx.Err() == nil {
			if !p.down && p.tells(err) {
				p.o.Logger.Warn("shard is down", "shard", p.cfg.Name, "addr", p.cfg.Addr, "error", err)
			}
			p.down, p.lastErr, p.tried = true, err, p.now()
		}
		p.releaseLocked()
		return nil, err
	}
	if p.down && p.tells(p.lastErr) {
		p.o.Logger.Info("shard is up", "shard", p.cfg.Name, "addr", p.cfg.Addr)
	}
	p.down, p.lastErr, p.version = false, nil, c.ServerVersion
	if p.closed {
		p.end(c)
		p.releaseLocked()
		return nil, ErrPoolClosed
	}
	p.useLocked(c)
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
	return ok && (server.Code == mysql.ER_CON_COUNT_ERROR || server.Code == mysql.ER_TOO_MANY_USER_CONNECTIONS)
}

// dialedInVain gives up the place taken for a connection, and waits for one of
// those that are in use: the server's limit counts like the pool's own. The
// caller holds p.mu, and holds it again when this returns.
func (p *Pool) dialedInVain(ctx context.Context, foundRows bool) (*Conn, error) {
	p.open-- // not to the next in the queue, who would be refused as well
	w := &waiter{foundRows: foundRows, ready: make(chan *Conn, 1)}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	defer p.mu.Lock()
	if c, err := p.wait(ctx, w); err != nil || c != nil {
		return c, err
	}
	return p.dial(ctx, foundRows)
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
	now := p.now()
	if c.Broken || c.cut.Load() || c.Busy() || c.Ahead() || c.InTransaction() || c.r.Buffered() > 0 ||
		p.o.MaxLifetime > 0 && now.Sub(c.Opened) > p.o.MaxLifetime {
		p.Discard(c)
		return
	}
	c.rested, c.Await = now, false
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
	if len(p.waiting) > 0 {
		if w := p.waiting[0]; w.foundRows == c.FoundRows {
			p.waiting = slices.Delete(p.waiting, 0, 1)
			w.ready <- c // still in use, by another
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		p.Discard(c)
		return
	}
	p.restLocked(c)
	if p.down {
		// It was refused a connection, and serves those that it has.
		if p.tells(p.lastErr) {
			p.o.Logger.Info("shard is up", "shard", p.cfg.Name, "addr", p.cfg.Addr)
		}
		p.down, p.lastErr = false, nil
	}
	kind := kindOf(c.FoundRows)
	p.idle[kind] = append(p.idle[kind], c)
	var surplus *Conn
	if len(p.idle[0])+len(p.idle[1]) > p.o.IdleMax {
		if len(p.idle[kind]) == 1 {
			kind = 1 - kind
		}
		surplus = p.idle[kind][0]
		p.idle[kind] = slices.Delete(p.idle[kind], 0, 1)
		p.releaseLocked()
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
	p.releaseLocked()
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
	return Stats{InUse: len(p.inUse), Idle: len(p.idle[0]) + len(p.idle[1]), Waiting: len(p.waiting)}
}

// Pin notes that a connection will be kept for long. At most half of the
// connections may be: the other sessions need some that come back.
func (p *Pool) Pin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pinned >= p.o.Max/2 {
		return fmt.Errorf("%s: %w: %d of %d are kept by sessions", p.cfg.where(), ErrPoolExhausted, p.pinned, p.o.Max)
	}
	p.pinned++
	return nil
}

// Unpin takes a Pin back.
func (p *Pool) Unpin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pinned--
}

// Pinned is how many connections are kept.
func (p *Pool) Pinned() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pinned
}

// State is "up", or "down" while the server is judged dead, and after a failed
// connect until one succeeds, or for a time if its Health says that it lives: without
// statements nobody tries to connect.
func (p *Pool) State() string {
	if p.LastError() != nil {
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
		for _, w := range p.waiting {
			p.open++ // woken gives it up again
			w.ready <- nil
		}
		p.waiting = nil
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
