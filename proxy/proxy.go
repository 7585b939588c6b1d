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
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/door"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/spool"
	"github.com/shunt-sql/shunt/proxy/tracing"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Options wire a Proxy to the rest.
type Options struct {
	Users map[string]User // by name
	// ServerVersion is told to clients; "": the shards'.
	ServerVersion string
	Limits        Limits
	Timeouts      Timeouts
	Directory     *schema.Directory
	Pools         map[catalog.ShardID]*shard.Pool
	Cluster       Cluster
	// Several: others serve the same shards. What is kept from happening in this process alone
	// is refused then.
	Several bool
	// Members are those of SHOW MEMBERS: all that serve together.
	Members func(context.Context) ([]MemberRow, error)
	// Standing says why this process isn't fit for clients though others may be, and what it lacks;
	// with why also the addresses. nil: nothing.
	Standing   func(why bool) (unready string, degraded []string)
	Others     Others // nil: there are none
	Index      Index
	Admin      IndexAdmin
	Virtual    VirtualColumns // nil: there are none
	Answers    Answers        // of covering indexes; nil: none are kept
	Replicas   *replica.Set   // nil: none
	Scratch    *scratch.Space // nil: nothing is gathered
	Sequences  Sequences
	Cursors    spool.Options
	Ring       *wire.Ring // nil: clients' connections are Go's
	Apart      Apart
	Unfinished *Unfinished // nil: it is kept nowhere
	// Advice is SHOW INDEX ADVICE by what was executed.
	Advice func(context.Context, []insights.Row) ([]AdviceRow, error)
	// LogState is what SHOW SHARDS tells of a shard's binary log; nil: nothing.
	LogState func(catalog.ShardID) string
	// Shapes is how many shapes SHOW STATEMENT STATISTICS tells apart, 0: it counts nothing. Samples: it keeps the values of
	// each shape's longest one.
	Shapes  int
	Samples bool
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Proxy accepts clients and runs a session for each.
type Proxy struct {
	opts    Options
	planner *planner.Planner
	own     map[string]*own // by form
	ways    ways
	// pools are those of opts, found without a map.
	pools [catalog.MaxShards]*shard.Pool
	// remote: opts.Index is Asked.
	remote bool
	// guessing is opts.Index where that is one, else nil.
	guessing Guessing
	// beside is opts.Index where that is one, else nil.
	beside   Beside
	planning planningRoom
	// statementLog is where statements are logged.
	statementLog statementLog
	// tracer is nil where no statements are traced.
	tracer atomic.Pointer[tracing.Tracer]
	// insights is nil where no statements are counted.
	insights *insights.Statistics
	metrics  *metrics
	pins     pins
	// held are bytes that all sessions keep: see hold.
	held     atomic.Int64
	sessions sessions
	lookout  lookout
	stalls   stalls
	// deadlocks are those over several shards, which no shard sees.
	deadlocks *deadlock.Spread
	draining  atomic.Bool
	// drainIdle is how long a session must have waited for a command to be ended
	// while it waits; Drain sets it.
	drainIdle  time.Duration
	denials    door.Denials
	strangers  door.Strangers
	handshakes *door.Handshakes
	began      time.Time
	lockedDDL  lockedDDL
	copies     *copies
	users      atomic.Pointer[map[string]User]
	usage      sync.Map // by the name of a user: *usage
	// lockOwners are the clients (uint32) that have a connection for locks by name, by its thread on the shard (uint32).
	lockOwners sync.Map
	tls        atomic.Pointer[clientTLS]
	timeouts   atomic.Pointer[Timeouts]
	limits     atomic.Pointer[Limits]
	// systemColumns are the columns of information_schema's tables, by name.
	systemColumns sync.Map
	// undoable are tables, by name and catalog version, whose changes every shard
	// can undo.
	undoable sync.Map
	ddlTurns ddlTurns
	readLock readLock
	claims   claims
	answers  *spool.Answers
	// balancers are the networks of SetProxyProtocol.
	balancers atomic.Pointer[[]netip.Prefix]
}

// New returns a Proxy; Serve runs it.
func New(o Options) *Proxy {
	if o.Unfinished == nil {
		o.Unfinished = &Unfinished{store: nowhere{}, log: o.Logger, open: map[string]*try{}}
	}
	plans := planner.New(ownForms()...)
	p := &Proxy{opts: o, planner: plans, own: ownByForm(), ways: allWays(), metrics: newMetrics(o.Metrics, plans), pins: newPins(o.Pools), sessions: sessions{open: map[*session]struct{}{}}, answers: spool.New(o.Cursors), lookout: newLookout(), deadlocks: deadlock.NewSpread(), claims: newClaims(), copies: newCopies()}
	o.Metrics.MustRegister(&pinsCollector{p.pins, o.Pools}, o.Unfinished.gauge(), stallsGauge{p})
	_, p.remote = o.Index.(Asked)
	p.guessing, _ = o.Index.(Guessing)
	p.beside, _ = o.Index.(Beside)
	for id, pool := range o.Pools {
		p.pools[id] = pool
	}
	p.began = time.Now()
	p.insights = insights.New(o.Shapes)
	p.handshakes, p.planning = door.NewHandshakes(), newPlanningRoom()
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_session_bytes", Help: "Bytes that sessions keep between statements: prepared statements, their parameters, user variables."}, func() float64 { return float64(p.held.Load()) }))
	p.SetUsers(o.Users)
	p.SetTLS(nil, false)
	p.SetTimeouts(o.Timeouts)
	p.SetLimits(o.Limits)
	return p
}

// pool is a shard's, nil for none.
func (p *Proxy) pool(id catalog.ShardID) *shard.Pool { return p.pools[id] }

// SetUsers replaces the users; sessions that are open go on, with what their user
// may do now.
func (p *Proxy) SetUsers(users map[string]User) {
	for name, u := range users {
		h := p.usageOf(name).holder
		if h.Bound(u.MaxShardConnections); len(users) == 1 && u.MaxShardConnections == 0 {
			h.Unbound() // there is nobody to leave something to
		}
	}
	p.users.Store(&users)
}

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
	// SessionBytes is what a session may keep between statements (see hold), SessionsBytes
	// what all may together; default 128 MiB and 1 GiB.
	SessionBytes, SessionsBytes int64
}

// SetLimits replaces the limits for what comes from now on.
func (p *Proxy) SetLimits(l Limits) {
	if l.Connections <= 0 {
		l.Connections = 10000
	}
	if l.SessionBytes <= 0 {
		l.SessionBytes = 128 << 20
	}
	if l.SessionsBytes <= 0 {
		l.SessionsBytes = 1 << 30
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
	id := p.opts.Cluster.ConnectionID()
	log := p.opts.Logger.With("client", nc.RemoteAddr().String(), "connection", id)
	defer func() {
		// A bug in one statement must not end everybody's connections. The
		// session's own defers have given back what it held.
		if r := recover(); r != nil {
			log.Error("session ended by a panic", "panic", r, "stack", stack())
		}
		nc.Close()
		p.opts.Cluster.EndConnection(id)
	}()
	if p.balancer(nc) {
		client, err := wire.AcceptProxied(ctx, nc, 0)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.strangers.Info(log, "connection without a PROXY protocol header", err)
			}
			return
		}
		log = p.opts.Logger.With("client", client.RemoteAddr().String(), "through", nc.RemoteAddr().String(), "connection", id)
		nc = client
	}
	if p.denials.Blocked(door.HostOf(nc.RemoteAddr()), time.Now()) {
		p.metrics.logins.WithLabelValues("blocked").Inc()
		_ = wire.Reject(nc, errBlocked)
		return
	}
	s := &session{proxy: p, log: log}
	if !p.sessions.add(s, p.limits.Load().Connections) {
		// A connection that ends before its greeting is opened anew, at the next
		// process, by drivers that would hand an error on.
		if !p.draining.Load() {
			_ = wire.Reject(nc, errTooMany)
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
	p.denials.Passed(door.HostOf(nc.RemoteAddr()), conn.User)
	p.metrics.sessions.Inc()
	defer p.metrics.sessions.Dec()
	s.serve(ctx, conn)
}

// greet does the handshake; nil: the client has been refused, or has left. It is apart from serve,
// as welcome from start, since what stands below an idle client's frame is part of what the client
// costs: a stack halves when less than a quarter of it is in use.
func (p *Proxy) greet(ctx context.Context, nc net.Conn, s *session, id uint32) *wire.Conn {
	end, ok := p.handshakes.Begin(ctx, door.HostOf(nc.RemoteAddr()))
	if !ok {
		_ = wire.Reject(nc, errTooMany)
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
			p.strangers.Info(s.log, "handshake failed", err)
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
