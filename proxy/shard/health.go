package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Health judges whether a server answers, by a connection of its own. A
// statement may rightly take hours; a ping may not. So no statement has a time
// limit, but all that wait on a server that is judged dead fail at once: those
// that were sent, those that wait for a connection, and those that come until
// it answers again.
//
//	         no ping answered on the old connection nor on a new one
//	alive ─────────────────────────────────────────────────────────────> dead
//	  ^                                                                    │
//	  └──────────── a new connection's handshake and ping ─────────────────┘
//
// A Config that names a Health takes part in it with every connection that is
// dialed by it, whoever keeps it: pools, scratch pools, maintenance. What it
// costs a statement is one atomic load.
//
// Run is its goroutine. A Health that isn't run takes every server for alive.
type Health struct {
	cfg Config
	o   HealthOptions
	// failed is why the server is dead, nil while it is alive.
	failed atomic.Pointer[connError]
	// late: a ping has been waited for longer than is usual.
	late atomic.Bool
	// elsewhere: the address leads to another server than it did.
	elsewhere atomic.Bool
	deaths    atomic.Uint64
	wake      chan struct{}
	// claimed is when Claim last succeeded, refused why there is no connection for it.
	// They are Run's.
	claimed time.Time
	refused error

	// pinged is the connection that was pinged last.
	pinged atomic.Pointer[Conn]

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	life    context.Context // ends when the server is judged dead
	end     context.CancelFunc
	version string
	watch   []func(alive bool)
}

// HealthOptions of a Health.
type HealthOptions struct {
	// Timeout is how long after its last sign of life a server is judged dead:
	// what a statement waits at most for a server that fell silent. Default 5 s.
	Timeout time.Duration
	// Every is the time between pings; default 1 s, at most a quarter of Timeout.
	Every  time.Duration
	Logger *slog.Logger
	// Claim, when set, is called with the connection that is pinged after each
	// answer, and with a new one before the server counts as alive. Its error is why
	// the server may not be used: then it is dead. What it does to a connection is
	// gone with that; at once, since it is closed.
	Claim func(context.Context, *Conn) error
	// Conn is one that Claim knows already; Health closes it. Where there is none,
	// but a Claim, the server is dead until Run has reached it; Unreached is why.
	Conn      *Conn
	Unreached error
}

const (
	defaultHealthTimeout = 5 * time.Second
	defaultHealthEvery   = time.Second
	// lateAfter is how long a ping may take before other shards are preferred
	// where any would do.
	lateAfter = 250 * time.Millisecond
	// wakeGap bounds how often failing connections make it look again.
	wakeGap = 50 * time.Millisecond
	// reviveEvery is the pause between attempts to reach a dead server, and
	// reviveTimeout how long each waits for TCP: the system repeats a lost SYN
	// after 1 s, then too rarely.
	reviveEvery   = 500 * time.Millisecond
	reviveTimeout = 2 * time.Second
	// revivePatience is how long a connection waits for the greeting of a
	// frozen server, whose system has accepted it: it comes as soon as the
	// server goes on. Trying anew instead would leave it a queue of broken
	// handshakes, for which MySQL blocks a host (max_connect_errors).
	revivePatience = 5 * time.Minute
)

// NewHealth returns a Health of the server that cfg names.
func NewHealth(cfg Config, o HealthOptions) *Health {
	if o.Timeout <= 0 {
		o.Timeout = defaultHealthTimeout
	}
	if o.Every <= 0 {
		o.Every = defaultHealthEvery
	}
	o.Every = min(o.Every, o.Timeout/4)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Health = nil // its own connections are not judged by what they find out
	h := &Health{cfg: cfg, o: o, wake: make(chan struct{}, 1), conns: map[*Conn]struct{}{}}
	h.life, h.end = context.WithCancel(context.Background())
	switch {
	case o.Conn != nil:
		h.claimed, h.version = time.Now(), o.Conn.ServerVersion
		h.pinged.Store(o.Conn)
	case o.Claim != nil:
		h.judge(asText(o.Unreached))
	}
	return h
}

// Err is why the server is dead, as ErrShard that names it; nil while it is
// alive.
func (h *Health) Err() error {
	if e := h.failed.Load(); e != nil {
		return e
	}
	return nil
}

// Deaths is how often the server was judged dead.
func (h *Health) Deaths() uint64 { return h.deaths.Load() }

// Version is the server's version as last seen, "" before that.
func (h *Health) Version() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

// Watch calls fn, one call at a time, when the server dies or is alive again.
func (h *Health) Watch(fn func(alive bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watch = append(h.watch, fn)
}

// Suspect asks for a check now: a connection has failed.
func (h *Health) Suspect() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run judges until ctx ends.
func (h *Health) Run(ctx context.Context) {
	conn := h.o.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	for {
		err := h.look(ctx, &conn)
		h.pinged.Store(conn)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			err = asText(err)
		}
		h.judge(err)
		wait, wake := h.o.Every, h.wake
		if err != nil {
			wait, wake = reviveEvery, nil
		}
		if !pause(ctx, wakeGap, nil) || !pause(ctx, wait-wakeGap, wake) {
			return
		}
	}
}

// pause waits, or until wake; false if ctx ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// look checks and claims, on another connection if that ended meanwhile: whoever
// kills connections while they are made or asked leaves the server alive.
func (h *Health) look(ctx context.Context, conn **Conn) error {
	var err error
	for range 2 {
		if err = h.check(ctx, conn); err == nil && h.o.Claim != nil {
			err = h.claim(ctx, conn)
		}
		if !ended(err) || h.Err() != nil {
			break
		}
	}
	return err
}

// ended: the server has closed the connection.
func ended(err error) bool {
	if e, ok := errors.AsType[*ServerError](err); ok {
		return endsConnection(e.Code)
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// check looks for a sign of life, and returns why there is none. conn is the
// connection that is pinged, nil for none.
func (h *Health) check(ctx context.Context, conn **Conn) (err error) {
	defer func() { h.late.Store(err != nil) }()
	if h.Err() != nil {
		return h.revive(ctx, conn)
	}
	budget := h.o.Timeout - h.o.Every
	limited, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	late := time.AfterFunc(lateAfter, func() { h.late.Store(true) })
	defer late.Stop()
	if h.elsewhere.Swap(false) && *conn != nil {
		_ = (*conn).Close()
		*conn = nil
	}
	if *conn != nil {
		// One connection may break alone: half of the time is for a new one.
		ping, cancel := context.WithTimeout(limited, budget/2)
		err := (*conn).Ping(ping)
		cancel()
		if err == nil {
			return nil
		}
		_ = (*conn).Close()
		*conn = nil
	}
	cfg := h.cfg
	cfg.ConnectTimeout = budget
	c, err := h.greet(limited, cfg)
	*conn = c
	if err != nil && limited.Err() != nil {
		return fmt.Errorf("no answer to a health check within %v", h.o.Timeout)
	}
	return err
}

// claimTimeout bounds a Claim, which may write to the server's disk.
const claimTimeout = 15 * time.Second

// claim says why a server that answers may not be used. One that refuses the
// connection may be in somebody else's hands by now.
func (h *Health) claim(ctx context.Context, conn **Conn) error {
	if *conn == nil {
		if time.Since(h.claimed) < h.o.Timeout {
			return nil
		}
		return fmt.Errorf("it refuses the connection by which it would be claimed: %w", asText(h.refused))
	}
	limited, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := h.o.Claim(limited, *conn); err != nil {
		_ = (*conn).Close()
		*conn = nil
		return err
	}
	h.claimed = time.Now()
	return nil
}

// asText leaves of an error what it says: a server's refusal that is why a server is dead
// is no answer to a statement.
func asText(err error) error { return errors.New(shortened(err).Error()) }

// revive is check for a dead server.
func (h *Health) revive(ctx context.Context, conn **Conn) error {
	cfg := h.cfg
	cfg.ConnectTimeout, cfg.greeting = reviveTimeout, revivePatience
	// A network that is cut while the greeting is waited for shows by these.
	cfg.keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}
	c, err := h.greet(ctx, cfg)
	*conn = c
	return err
}

// greet makes a connection and pings. A server that refuses the connection
// lives: a nil connection and a nil error.
func (h *Health) greet(ctx context.Context, cfg Config) (*Conn, error) {
	c, err := Dial(ctx, cfg, false)
	if _, refused := errors.AsType[*ServerError](err); refused {
		h.refused = shortened(err)
		return nil, nil
	}
	if err != nil {
		return nil, shortened(err)
	}
	limited, cancel := context.WithTimeout(ctx, reviveTimeout)
	defer cancel()
	if err := c.Ping(limited); err != nil {
		_ = c.Close()
		return nil, shortened(err)
	}
	h.mu.Lock()
	h.version = c.ServerVersion
	h.mu.Unlock()
	return c, nil
}

// shortened takes the shard's name away, which is put there again.
func shortened(err error) error {
	if e, ok := errors.AsType[*connError](err); ok {
		return e.err
	}
	return err
}

// judge takes over what a check found.
func (h *Health) judge(err error) {
	was := h.failed.Load()
	if (was != nil) == (err != nil) {
		if err != nil {
			h.failed.Store(&connError{ErrShard, h.cfg.where(), err})
		}
		return
	}
	h.mu.Lock()
	var cut []*Conn
	if err != nil {
		h.deaths.Add(1)
		h.failed.Store(&connError{ErrShard, h.cfg.where(), err})
		h.end()
		for c := range h.conns {
			cut = append(cut, c)
		}
	} else {
		h.life, h.end = context.WithCancel(context.Background())
		h.failed.Store(nil)
	}
	watch := slices.Clone(h.watch)
	h.mu.Unlock()
	for _, c := range cut {
		c.cutOff()
	}
	if err != nil {
		h.o.Logger.Warn("shard is down", "shard", h.cfg.Name, "addr", h.cfg.Current().Addr, "error", err)
	} else {
		h.o.Logger.Info("shard is up", "shard", h.cfg.Name, "addr", h.cfg.Current().Addr)
	}
	for _, fn := range watch {
		fn(err == nil)
	}
}

// alive is a context that ends when the server is judged dead.
func (h *Health) alive() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life
}

// add has a connection cut off when the server is judged dead. It returns the
// error where that has happened.
func (h *Health) add(c *Conn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Err(); err != nil {
		return err
	}
	h.conns[c] = struct{}{}
	return nil
}

// Only cuts off the connections that were accepted, but for one, which leads to another server than they do. Those that are
// being made are judged by themselves.
//
// Counter-example: a start reads the schema of a shard whose server was replaced, as another connection finds that out.
func (h *Health) Only(c *Conn) {
	h.mu.Lock()
	var cut []*Conn
	for other := range h.conns {
		if other != c && other.accepted.Load() {
			cut = append(cut, other)
		}
	}
	h.mu.Unlock()
	for _, other := range cut {
		other.cutOff()
	}
	h.elsewhere.Store(true)
	h.Suspect()
}

// Cut cuts all connections off, and why is what their statements fail with: what they run ends with
// them.
func (h *Health) Cut(why error) {
	h.mu.Lock()
	cut := slices.Collect(maps.Keys(h.conns))
	h.mu.Unlock()
	for _, c := range cut {
		c.cutBy.Store(&why)
		c.cutOff()
	}
}

// Opened reports that a connection of the server's is an open one of this Health's, by its number
// and its client's port. The number alone doesn't tell: where another server stands behind the
// address by now, one of before may be open here, and its number somebody else's there.
func (h *Health) Opened(thread uint64, port int) bool {
	is := func(c *Conn) bool {
		tcp, ok := c.LocalAddr.(*net.TCPAddr)
		return ok && uint64(c.ThreadID) == thread && tcp.Port == port
	}
	if c := h.pinged.Load(); c != nil && is(c) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		if is(c) {
			return true
		}
	}
	return false
}

func (h *Health) remove(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}
