package seat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// server is one of a flavour that all tests share. Each test has a schema of its own.
type server struct {
	flavour throwaway.Flavour
	once    sync.Once
	set     *throwaway.Set
	err     error
}

var (
	servers = []*server{{flavour: throwaway.MySQL}, {flavour: throwaway.MariaDB}}
	schemas atomic.Int64
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range servers {
		if s.set != nil {
			s.set.Stop()
		}
	}
	os.Exit(code)
}

func launch(ctx context.Context, f throwaway.Flavour, args ...string) (*throwaway.Set, error) {
	src, err := throwaway.Find(ctx, f)
	if err != nil {
		return nil, err
	}
	return throwaway.Start(ctx, src, throwaway.Options{Servers: 1, Password: "seat", Args: append(args, "--innodb-flush-log-at-trx-commit=1")})
}

// start starts the server, once.
func (s *server) start(t *testing.T) *throwaway.Server {
	t.Helper()
	s.once.Do(func() {
		s.set, s.err = launch(context.Background(), s.flavour) // the server outlives the test
	})
	if errors.Is(s.err, throwaway.ErrNotFound) {
		t.Skip(s.err)
	}
	check(t, s.err)
	return s.set.Servers[0]
}

// place is a seat, and how clients connect to its server.
type place struct {
	cluster.Seat
	connect func(t *testing.T) client
}

// client is a connection to the server.
type client struct {
	id uint32
	// end closes it, and returns when the server has noticed.
	end func()
}

// eachSeat runs a test with the fake and with all kinds of server.
func eachSeat(t *testing.T, run func(t *testing.T, p place)) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		s, last := &clustertest.Seat{}, uint32(0)
		run(t, place{s, func(*testing.T) client {
			last++
			id := last
			s.Connect(id, "app", fmt.Sprint("h:", id))
			return client{id, func() { s.End(id) }}
		}})
	})
	eachServer(t, func(t *testing.T, c Config, direct *sql.DB) {
		run(t, place{openSeat(t, c), func(t *testing.T) client {
			conn := link(t, direct)
			id := number(t, conn)
			return client{id, func() {
				check(t, conn.Raw(func(c any) error { return c.(interface{ Close() error }).Close() }))
				until(t, "the thread ends", func() bool { return !listed(t, direct, id) })
			}}
		}})
	})
}

// eachServer runs a test with each kind of server.
func eachServer(t *testing.T, run func(t *testing.T, c Config, direct *sql.DB)) {
	for _, s := range servers {
		t.Run(string(s.flavour), func(t *testing.T) {
			t.Parallel()
			c := configOf(s.start(t))
			run(t, c, plain(t, c))
		})
	}
}

func configOf(srv *throwaway.Server) Config {
	return Config{Addr: srv.Addr(), User: srv.User, Password: srv.Password, Cluster: "c", Shard: "s0", Schema: "seat_" + strconv.FormatInt(schemas.Add(1), 10)}
}

func openSeat(t *testing.T, c Config) *Seat {
	t.Helper()
	s, err := Open(t.Context(), c)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// plain connects without what the seat's connections have.
func plain(t *testing.T, c Config) *sql.DB {
	t.Helper()
	o := mysql.NewConfig()
	o.Net, o.Addr, o.User, o.Passwd, o.Logger = "tcp", c.Addr, c.User, c.Password, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(o)
	check(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// link is a connection of its own.
func link(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func number(t *testing.T, conn *sql.Conn) (id uint32) {
	t.Helper()
	check(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	return id
}

func listed(t *testing.T, db *sql.DB, id uint32) bool {
	t.Helper()
	return ask[int](t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", id) > 0
}

func ask[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	check(t, db.QueryRowContext(t.Context(), query, args...).Scan(&v))
	return v
}

func do(t *testing.T, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string,
) {
	t.Helper()
	for _, q := range statements {
		if _, err := on.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		check(t, err)
		return v
	}
}
