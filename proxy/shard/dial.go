package shard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

const (
	defaultConnectTimeout = 5 * time.Second
	// dialCollation is known to MySQL and MariaDB alike, as 0900_ai_ci is not,
	// and its id fits into the handshake's byte.
	dialCollation   = "utf8mb4_general_ci"
	dialCollationID = 45
)

// Config of a shard.
type Config struct {
	Name     string // as configured: s0
	Addr     string // host:port, or the path of a Unix socket
	User     string
	Password string
	// TLS, when set, is required. ServerName defaults to the host of Addr.
	TLS *tls.Config
	// Target, when set, has Addr, User, Password and TLS in their place, once it is
	// given some: all copies of a Config see the change.
	Target *Target
	// ConnectTimeout bounds dialing and the handshake; default 5 s.
	ConnectTimeout time.Duration
	// Statements bounds the prepared statements that a connection keeps;
	// default 64.
	Statements int
	// ReadOnly has the server refuse what would change rows: the session's
	// transactions, and so its statements, are READ ONLY.
	ReadOnly bool
	// Health, when set, judges the server: its connections fail when it is
	// judged dead, and none is dialed until it is alive.
	Health *Health
	// Admit, when set, looks at each new connection: its error is why this is
	// not the server to talk to, and counts as one that can't be reached.
	Admit func(context.Context, *Conn) error

	// Ring, when set, sends and receives.
	Ring *wire.Ring
	// Connect, when set, makes the connections in place of a net.Dialer.
	Connect func(ctx context.Context, network, addr string) (net.Conn, error)

	// greeting, when set, bounds the handshake instead, once TCP is connected.
	greeting  time.Duration
	keepAlive net.KeepAliveConfig
}

// Target is where connections from now on go, and what they log in with.
type Target struct {
	now atomic.Pointer[login]
}

type login struct {
	addr, user, password string
	tls                  *tls.Config
}

// Set changes it. Connections that are open stay.
func (t *Target) Set(addr, user, password string, encrypt *tls.Config) {
	t.now.Store(&login{addr, user, password, encrypt})
}

// Current is the Config with the target of connections from now on.
func (c Config) Current() Config {
	if c.Target != nil {
		if l := c.Target.now.Load(); l != nil {
			c.Addr, c.User, c.Password, c.TLS = l.addr, l.user, l.password, l.tls
		}
	}
	return c
}

func (c *Config) where() string { return fmt.Sprintf("shard %s (%s)", c.Name, c.Current().Addr) }

// Dial connects to a shard. The session's character set is utf8mb4 with
// utf8mb4_general_ci, on every server. An error names the shard; it wraps a
// *ServerError where the server refused.
func Dial(ctx context.Context, cfg Config, foundRows bool) (*Conn, error) {
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	if cfg.Statements <= 0 {
		cfg.Statements = defaultStatements
	}
	cfg = cfg.Current()
	if cfg.Health != nil {
		if err := cfg.Health.Err(); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(cfg.ConnectTimeout, cancel)
	defer timer.Stop()
	if cfg.Health != nil {
		defer context.AfterFunc(cfg.Health.alive(), cancel)()
	}

	var stop func() bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dial := cfg.Connect
		if dial == nil {
			dial = (&net.Dialer{KeepAliveConfig: cfg.keepAlive}).DialContext
		}
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		nc = cfg.Ring.Adopt(nc, true)
		if cfg.greeting > 0 {
			timer.Reset(cfg.greeting)
		}
		// go-mysql's handshake knows no context.
		stop = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(longAgo) })
		return nc, nil
	}
	gc, err := connect(limited, &cfg, foundRows, dial)
	if stop != nil && !stop() && err == nil {
		_ = gc.Close()
		err = limited.Err()
	}
	if err != nil {
		return nil, cfg.unreached(ctx, limited, err)
	}
	version := strings.TrimPrefix(gc.GetServerVersion(), "5.5.5-")
	// The handshake's reader has nothing left: a server speaks only when it is
	// spoken to.
	nc := gc.Conn.Conn
	c := &Conn{
		Shard:         cfg.Name,
		ThreadID:      gc.GetConnectionID(),
		Opened:        time.Now(),
		ServerVersion: version,
		MariaDB:       strings.Contains(version, "MariaDB"),
		FoundRows:     foundRows,
		LocalAddr:     nc.LocalAddr(),
		Charset:       dialCollationID,
		Status:        mysql.SERVER_STATUS_AUTOCOMMIT,
		cfg:           cfg,
		nc:            nc,
		r:             wire.NewReader(nc),
		w:             wire.NewWriter(nc),
		stmts:         statements{max: cfg.Statements},
	}
	c.exchange = wire.NewExchange(nc, c.r, c.w)
	if cfg.Health != nil {
		if err := cfg.Health.add(c); err != nil {
			_ = nc.Close()
			return nil, err
		}
	}
	if err := c.ready(limited); err != nil {
		_ = c.Close()
		return nil, &connError{ErrShard, cfg.where(), shortened(err)}
	}
	return c, nil
}

// unreached is why a connection could not be made: err, or what has ended the attempt,
// the caller's ctx or the time that it was limited to.
func (c *Config) unreached(ctx, limited context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case c.Health != nil && c.Health.Err() != nil:
		return c.Health.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("connect: no answer within %v", c.ConnectTimeout)
	default:
		err = dialError(err)
	}
	if _, refused := errors.AsType[*ServerError](err); !refused && c.Health != nil && ctx.Err() == nil {
		c.Health.Suspect()
	}
	return &connError{ErrShard, c.where(), err}
}

// ready sets what a new connection has to have, and asks whether it may be used.
//
// Rule own autocommit: whoever wants a transaction here begins one, and a statement without one is
// to be committed, whatever the server's global setting. Counter-example: SET GLOBAL autocommit = 0.
// MySQL's handshake tells that it is on, an INSERT is answered, and gone with the connection.
func (c *Conn) ready(ctx context.Context) error {
	statements := []string{setAutocommit}
	if c.cfg.ReadOnly {
		statements = append(statements, setReadOnly)
	}
	refused, err := c.ExecAll(ctx, statements...)
	if err != nil {
		return err
	}
	for _, e := range refused {
		if e != nil {
			return e
		}
	}
	if c.cfg.Admit != nil {
		return c.cfg.Admit(ctx, c)
	}
	return nil
}

var longAgo = time.Unix(1, 0)

// connect runs go-mysql's handshake. It indexes what a server sends without
// looking, so nonsense from the other side is a panic: here an error.
func connect(ctx context.Context, cfg *Config, foundRows bool, dial client.Dialer) (gc *client.Conn, err error) {
	var nc net.Conn
	defer func() {
		if r := recover(); r != nil {
			gc, err = nil, fmt.Errorf("handshake: not a MySQL server's: %v", r)
		}
		if err != nil && nc != nil {
			_ = nc.Close()
		}
	}()
	network := "tcp"
	if strings.HasPrefix(cfg.Addr, "/") {
		network = "unix"
	}
	return client.ConnectWithDialer(ctx, network, cfg.Addr, cfg.User, cfg.Password, "",
		func(ctx context.Context, network, addr string) (net.Conn, error) {
			var err error
			nc, err = dial(ctx, network, addr)
			return nc, err
		},
		func(gc *client.Conn) error {
			gc.UnsetCapability(mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_QUERY_ATTRIBUTES |
				mysql.CLIENT_SESSION_TRACK | mysql.CLIENT_MULTI_STATEMENTS | mysql.CLIENT_LOCAL_FILES |
				mysql.CLIENT_COMPRESS | mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM)
			on := []uint32{mysql.CLIENT_MULTI_RESULTS, mysql.CLIENT_PS_MULTI_RESULTS}
			if foundRows {
				on = append(on, mysql.CLIENT_FOUND_ROWS)
			}
			for _, c := range on {
				if err := gc.SetCapability(c); err != nil {
					return err
				}
			}
			gc.SetAttributes(map[string]string{"program_name": "shunt"})
			if cfg.TLS != nil {
				t := cfg.TLS
				if t.ServerName == "" && !t.InsecureSkipVerify {
					t = t.Clone()
					t.ServerName = cfg.Addr
					if host, _, err := net.SplitHostPort(cfg.Addr); err == nil {
						t.ServerName = host
					}
				}
				gc.SetTLSConfig(t)
			}
			return gc.SetCollation(dialCollation)
		})
}

// dialError makes an error short: "connect: connection refused".
func dialError(err error) error {
	if refused, ok := errors.AsType[*mysql.MyError](err); ok {
		return fmt.Errorf("connect: %w", &ServerError{refused.Code, refused.State, refused.Message})
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		err = op.Err
	}
	if strings.HasPrefix(err.Error(), "connect: ") {
		return err
	}
	return fmt.Errorf("connect: %w", err)
}
