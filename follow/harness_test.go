package follow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// flavour is a kind of server. All tests share one server of it; who changes its settings starts another.
type flavour struct {
	name throwaway.Flavour
	once sync.Once
	set  *throwaway.Set
	err  error
}

var (
	flavours = []*flavour{{name: throwaway.MySQL}, {name: throwaway.MariaDB}}
	schemas  atomic.Int64
)

const password = "follow"

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range flavours {
		if f.set != nil {
			f.set.Stop()
		}
	}
	os.Exit(code)
}

var logging = map[throwaway.Flavour][]string{
	throwaway.MySQL:   {"--gtid-mode=ON", "--enforce-gtid-consistency=ON"},
	throwaway.MariaDB: {"--binlog-format=ROW"},
}

// start starts the shared server, once.
func (f *flavour) start(t testing.TB) *throwaway.Set {
	t.Helper()
	f.once.Do(func() {
		ctx := context.Background() // the server outlives the test
		var src throwaway.Source
		if src, f.err = throwaway.Find(ctx, f.name); f.err == nil {
			args := slices.Concat([]string{"--log-bin=bin", "--sync-binlog=0", "--binlog-row-metadata=FULL"}, logging[f.name])
			f.set, f.err = throwaway.Start(ctx, src, throwaway.Options{Servers: 1, Password: password, Args: args})
		}
	})
	if errors.Is(f.err, throwaway.ErrNotFound) {
		t.Skip(f.err)
	}
	check(t, f.err)
	return f.set
}

// server is a server with a schema for one test.
type server struct {
	*throwaway.Server
	t       testing.TB
	mariaDB bool
	source  Source
	schema  string
	db      *sql.DB // in the schema
	admin   *sql.DB // in none
}

func eachServer(t *testing.T, run func(t *testing.T, s *server)) {
	t.Parallel()
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) {
			t.Parallel()
			run(t, newServer(t, f, f.start(t).Servers[0]))
		})
	}
}

// eachOwnServer is eachServer with a server that no other test uses.
func eachOwnServer(t *testing.T, run func(t *testing.T, s *server), args ...string) {
	t.Parallel()
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, f, f.another(t, args...).Server)
			s.awaitNextSecond(t) // its log is told from another one then
			run(t, s)
		})
	}
}

// another starts a server that ends with the test.
func (f *flavour) another(t testing.TB, args ...string) ownServer {
	t.Helper()
	base := f.start(t)
	set, err := throwaway.Start(t.Context(), base.Source, throwaway.Options{
		Servers: 1, Base: base, Password: password,
		Args: slices.Concat([]string{"--log-bin=bin", "--sync-binlog=0", "--binlog-row-metadata=FULL"}, logging[f.name], args),
	})
	check(t, err)
	t.Cleanup(set.Stop)
	return ownServer{set.Servers[0], set.Dir()}
}

type ownServer struct {
	*throwaway.Server
	dir string
}

func newServer(t testing.TB, f *flavour, srv *throwaway.Server) *server {
	t.Helper()
	s := &server{
		Server: srv, t: t, mariaDB: f.name == throwaway.MariaDB, schema: fmt.Sprintf("follow_%d", schemas.Add(1)),
		source: Source{Addr: srv.Addr(), User: srv.User, Password: srv.Password},
	}
	open := func(schema string) *sql.DB {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s?maxAllowedPacket=0", srv.User, srv.Password, srv.Addr(), schema))
		check(t, err)
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(1) // settings and transactions hold for all
		return db
	}
	s.admin = open("")
	_, err := s.admin.Exec("CREATE DATABASE " + s.schema + " CHARACTER SET utf8mb4")
	check(t, err)
	s.db = open(s.schema)
	return s
}

func (s *server) exec(statements ...string) {
	s.t.Helper()
	for _, q := range statements {
		if _, err := s.db.Exec(q); err != nil {
			s.t.Fatalf("%.300s: %v", q, err)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *server) now() Position {
	s.t.Helper()
	p, err := Now(s.t.Context(), s.source)
	check(s.t, err)
	return p
}

func (s *server) written() Position {
	s.t.Helper()
	p, err := Written(s.t.Context(), s.source)
	check(s.t, err)
	return p
}

func (s *server) open(p *Progress) *Stream {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	s.t.Cleanup(cancel)
	stream, err := Open(ctx, s.source, p)
	check(s.t, err)
	s.t.Cleanup(stream.Close)
	return stream
}

// changes runs statements and tells what a stream says about the test's schema from before them until all is read.
func (s *server) changes(statements ...string) []string {
	s.t.Helper()
	p := NewProgress(s.written())
	s.exec(statements...)
	return s.read(p)
}

func (s *server) read(p *Progress) []string {
	s.t.Helper()
	until := s.written()
	stream := s.open(p)
	defer stream.Close()
	return s.collect(stream, p, until)
}

// collect writes down a stream's events about the schema, until the progress has come to a position.
func (s *server) collect(stream *Stream, p *Progress, until Position) (got []string) {
	s.t.Helper()
	for {
		e, err := stream.Next()
		if err != nil {
			s.t.Fatalf("%v; before it: %q", err, got)
		}
		got = append(got, s.describe(e)...)
		if p.Passed(until) {
			return got
		}
	}
}

// describe is an event's text, if it is about the schema. Transactions' ends are left out.
func (s *server) describe(e Event) (got []string) {
	switch e := e.(type) {
	case *Rows:
		if e.Table.Schema != s.schema {
			return nil
		}
		check(s.t, e.Each(func(before, after *Row) error {
			text := e.Kind.String() + " " + e.Table.Name
			for _, row := range []*Row{before, after} {
				if row != nil {
					text += " " + image(e.Table, row)
				}
			}
			got = append(got, text)
			return nil
		}))
	case *Unknown:
		if e.Schema == s.schema || e.Schema == "" {
			got = append(got, "unknown "+e.Table)
		}
	case *Schema:
		var names []string
		for _, t := range e.Tables {
			if t.Schema == s.schema || t.Schema == "" {
				names = append(names, t.Name)
			}
		}
		if names != nil {
			text := "schema " + strings.Join(names, ",")
			if e.Gone {
				text += " gone"
			}
			got = append(got, text)
		}
	}
	return got
}

func image(t *Table, row *Row) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, c := range t.Columns {
		text, state := row.Append(nil, i)
		if state == Absent {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(' ')
		}
		switch state {
		case Null:
			text = []byte("NULL")
		case Unreadable:
			text = []byte("?")
		case Absent, Present:
		}
		fmt.Fprintf(&b, "%s=%s", c.Name, text)
	}
	b.WriteByte('}')
	return b.String()
}

func (s *server) want(got []string, want ...string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
