package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Options wire a Proxy to the rest.
type Options struct {
	Users map[string]User // by name
	// ServerVersion is told to clients; "": the shards'.
	ServerVersion string
	Limits        Limits
	Timeouts      Timeouts
	Directory     *Directory
	Pools         map[catalog.ShardID]*shard.Pool
	Index         Index
	Admin         IndexAdmin
	Replicas      *replica.Set // nil: none
	Scratch       *Scratch     // nil: nothing is gathered
	Sequences     Sequences
	Cursors       SpoolOptions
	Ring          *wire.Ring // nil: clients' connections are Go's
	Logger        *slog.Logger
	Metrics       prometheus.Registerer
}

// Proxy accepts clients and runs a session for each.
type Proxy struct {
	opts     Options
	planner  *planner.Planner
	planning planningRoom
	metrics  *metrics
	pins     pins
	sessions sessions
	lookout  lookout
	// deadlocks are those over several shards, which no shard sees.
	deadlocks deadlocks
	draining  atomic.Bool
	// drainIdle is how long a session must have waited for a command to be ended
	// while it waits; Drain sets it.
	drainIdle  time.Duration
	nextID     atomic.Uint32
	denials    denials
	strangers  strangers
	handshakes handshakes
	began      time.Time
	// ddl has an element while DDL runs: one at a time, so that catalogs follow in
	// order.
	ddl      chan struct{}
	users    atomic.Pointer[map[string]User]
	usage    sync.Map // by the name of a user: *usage
	tls      atomic.Pointer[clientTLS]
	timeouts atomic.Pointer[Timeouts]
	limits   atomic.Pointer[Limits]
	// tries are DDL statements that some shards lack.
	tries tries
	// systemColumns are the columns of information_schema's tables, by name.
	systemColumns sync.Map
	// undoable are tables, by name and catalog version, whose changes every shard
	// can undo.
	undoable sync.Map
	// meetings has a *meeting for each planner.TableName.
	meetings sync.Map
	spools   *spools
	// balancers are the networks of SetProxyProtocol.
	balancers atomic.Pointer[[]netip.Prefix]
}

// New returns a Proxy; Serve runs it.
func New(o Options) *Proxy {
	plans := planner.New()
	p := &Proxy{opts: o, planner: plans, metrics: newMetrics(o.Metrics, plans), pins: newPins(o.Pools), sessions: sessions{open: map[*session]struct{}{}}, spools: newSpools(o.Cursors), lookout: newLookout(), deadlocks: newDeadlocks()}
	o.Metrics.MustRegister(&pinsCollector{p.pins, o.Pools})
	p.began = time.Now()
	p.handshakes, p.ddl, p.planning = newHandshakes(), make(chan struct{}, 1), newPlanningRoom()
	p.SetUsers(o.Users)
	p.SetTLS(nil, false)
	p.SetTimeouts(o.Timeouts)
	p.SetLimits(o.Limits)
	return p
}

// SetUsers replaces the users; sessions that are open go on, with what their user
// may do now.
func (p *Proxy) SetUsers(users map[string]User) { p.users.Store(&users) }

// SetTimeouts replaces the defaults of sessions that begin from now on, and how
// long a statement may read.
func (p *Proxy) SetTimeouts(t Timeouts) {
	t = t.withDefaults()
	p.timeouts.Store(&t)
}

// Limits bound what all clients, and each of them, may have.
type Limits struct {
	// Connections of all clients; default 10,000.
	Connections int
	// Prepared statements of a connection; 0: none.
	Prepared int
	// Packet is the largest command that a client may send, in bytes; default
	// wire.DefaultMaxPacket.
	Packet int
}

// SetLimits replaces the limits for what comes from now on.
func (p *Proxy) SetLimits(l Limits) {
	if l.Connections <= 0 {
		l.Connections = 10000
	}
	p.limits.Store(&l)
}

// clientTLS is how clients encrypt their connections.
type clientTLS struct {
	config   *tls.Config // nil: they can't
	required bool
}

// SetTLS replaces what clients that connect from now on are offered; nil is no
// TLS, which is how a Proxy begins.
func (p *Proxy) SetTLS(c *tls.Config, required bool) { p.tls.Store(&clientTLS{c, required}) }

// Serve accepts clients until the listener is closed. It returns nil when that
// was Drain's doing.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	var wait time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			wait = 0
			go p.serve(ctx, nc)
		case p.draining.Load() || errors.Is(err, net.ErrClosed):
			return nil
		default:
			// Out of file descriptors and the like: clients wait in the backlog.
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			p.opts.Logger.Warn("accept client", "error", err, "retry_in", wait)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// serve is the goroutine of one client.
func (p *Proxy) serve(ctx context.Context, nc net.Conn) {
	id := p.nextID.Add(1)
	log := p.opts.Logger.With("client", nc.RemoteAddr().String(), "connection", id)
	defer func() {
		// A bug in one statement must not end everybody's connections. The
		// session's own defers have given back what it held.
		if r := recover(); r != nil {
			log.Error("session ended by a panic", "panic", r, "stack", stack())
		}
		nc.Close()
	}()
	if p.balancer(nc) {
		client, err := wire.AcceptProxied(ctx, nc, 0)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.strangers.info(log, "connection without a PROXY protocol header", err)
			}
			return
		}
		log = p.opts.Logger.With("client", client.RemoteAddr().String(), "through", nc.RemoteAddr().String(), "connection", id)
		nc = client
	}
	if p.denials.blocked(hostOf(nc.RemoteAddr()), time.Now()) {
		p.metrics.logins.WithLabelValues("blocked").Inc()
		_ = wire.Reject(nc, errBlocked.code, errBlocked.state, errBlocked.msg)
		return
	}
	s := &session{proxy: p, log: log}
	if !p.sessions.add(s, p.limits.Load().Connections) {
		// A connection that ends before its greeting is opened anew, at the next
		// process, by drivers that would hand an error on.
		if !p.draining.Load() {
			_ = wire.Reject(nc, errTooMany.code, errTooMany.state, errTooMany.msg)
		}
		return
	}
	defer p.sessions.remove(s)
	nc = p.opts.Ring.Adopt(nc, false)
	conn := p.greet(ctx, nc, s, id)
	if conn == nil {
		return
	}
	defer conn.Close()
	p.denials.passed(hostOf(nc.RemoteAddr()), conn.User)
	p.metrics.sessions.Inc()
	defer p.metrics.sessions.Dec()
	s.start(ctx, conn)
}

// greet does the handshake; nil: the client has been refused, or has left. It is apart from serve,
// as welcome from start, since what stands below an idle client's frame is part of what the client
// costs: a stack halves when less than a quarter of it is in use.
func (p *Proxy) greet(ctx context.Context, nc net.Conn, s *session, id uint32) *wire.Conn {
	end, ok := p.handshakes.begin(ctx, hostOf(nc.RemoteAddr()))
	if !ok {
		_ = wire.Reject(nc, errTooMany.code, errTooMany.state, errTooMany.msg)
		return nil
	}
	greeted := sync.OnceFunc(end)
	defer greeted()
	encryption := p.tls.Load()
	conn, err := wire.Accept(ctx, nc, wire.Options{
		Users:         p.user,
		ServerVersion: p.serverVersion(),
		ConnectionID:  id,
		TLS:           encryption.config,
		RequireTLS:    encryption.required,
		WriteTimeout:  p.timeouts.Load().NetWrite,
		MaxPacket:     p.limits.Load().Packet,
		Denied: func(user string) {
			greeted() // who waits for his refusal keeps nobody out
			s.denied(ctx, nc.RemoteAddr(), user)
		},
	})
	switch {
	case err == nil:
		return conn
	case errors.Is(err, wire.ErrLeft): // each few seconds, where a balancer looks
		p.metrics.logins.WithLabelValues("left").Inc()
		s.log.Debug("handshake failed", "error", err)
	default:
		p.metrics.logins.WithLabelValues("failed").Inc()
		if !errors.Is(err, wire.ErrDenied) { // which s.denied has logged
			p.strangers.info(s.log, "handshake failed", err)
		}
	}
	return nil
}

func (p *Proxy) user(name string) (wire.Credential, bool) {
	c, ok := (*p.users.Load())[name]
	return c.Credential, ok
}

// serverVersion is what clients are told in the handshake: that of the shards,
// since drivers choose their dialect by it.
func (p *Proxy) serverVersion() string {
	if p.opts.ServerVersion != "" {
		return p.opts.ServerVersion
	}
	if v := p.opts.Directory.Catalog().ServerVersion; v != "" {
		return v
	}
	return "8.0.0-shunt"
}

// maxDrainIdle: a client that has had an answer just now is likely to send its
// next statement at the moment at which its connection would be closed, and
// couldn't tell whether that was executed; it ends with the answer to that. One
// that has long been quiet, or lies deep in a pool, hardly ever does.
const maxDrainIdle = 3 * time.Second

// Drain ends the service: idle sessions are closed, busy ones when their
// statement or transaction ends, all of them when ctx does. The listener must
// be closed by the caller.
func (p *Proxy) Drain(ctx context.Context) error {
	p.drainIdle = maxDrainIdle
	if end, ok := ctx.Deadline(); ok {
		p.drainIdle = min(p.drainIdle, time.Until(end)/2)
	}
	p.draining.Store(true)
	p.sessions.each((*session).drain)
	done := p.sessions.empty()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	n := p.sessions.each((*session).kill)
	// One that waits for a frozen shard notices when the pools are closed.
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
	return fmt.Errorf("%d sessions were still busy and have been cut off", n)
}

// sessions is the set of open sessions.
type sessions struct {
	mu   sync.Mutex
	open map[*session]struct{}
	gone chan struct{} // closed when draining and open is empty
}

func (t *sessions) add(s *session, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= limit || t.gone != nil {
		return false
	}
	t.open[s] = struct{}{}
	return true
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, s)
	if t.gone != nil && len(t.open) == 0 {
		select {
		case <-t.gone:
		default:
			close(t.gone)
		}
	}
}

func (t *sessions) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

func (t *sessions) each(f func(*session)) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.open {
		f(s)
	}
	return len(t.open)
}

// empty returns a channel that is closed once no session is left; none is
// added any more.
func (t *sessions) empty() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone == nil {
		t.gone = make(chan struct{})
		if len(t.open) == 0 {
			close(t.gone)
		}
	}
	return t.gone
}
