package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// server is one that all tests share. Each test has a schema of its own.
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

const password = "home"

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range servers {
		if s.set != nil {
			s.set.Stop()
		}
	}
	os.Exit(code)
}

// start starts the server, once.
func (s *server) start(t *testing.T) *throwaway.Server {
	t.Helper()
	s.once.Do(func() {
		ctx := context.Background() // the server outlives the test
		var src throwaway.Source
		if src, s.err = throwaway.Find(ctx, s.flavour); s.err == nil {
			s.set, s.err = throwaway.Start(ctx, src, throwaway.Options{Servers: 1, Password: password})
		}
	})
	if errors.Is(s.err, throwaway.ErrNotFound) {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.set.Servers[0]
}

// place is where a test's home is.
type place struct {
	*Home
	config Config
	// direct is for what the home's methods don't do.
	direct *sql.DB
	server *throwaway.Server
}

// eachServer runs a test against all kinds of server.
func eachServer(t *testing.T, run func(t *testing.T, p *place)) {
	t.Parallel()
	for _, s := range servers {
		t.Run(string(s.flavour), func(t *testing.T) {
			t.Parallel()
			srv := s.start(t)
			c := Config{Addr: srv.Addr(), User: srv.User, Password: srv.Password, Schema: fmt.Sprintf("home_%d", schemas.Add(1))}
			p := &place{Home: openHome(t, c), config: c, server: srv}
			var err error
			if p.direct, _, err = connect(c, p.flavour, c.Schema); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.direct.Close() })
			run(t, p)
		})
	}
}

func openHome(t *testing.T, c Config) *Home {
	t.Helper()
	c.Connections = 8
	h, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
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

func set(shards ...catalog.ShardID) (s catalog.ShardSet) {
	for _, id := range shards {
		s.Add(id)
	}
	return s
}

func entry(id catalog.IndexID, key string, shard catalog.ShardID, e storage.Epoch) storage.Entry {
	return storage.Entry{Index: id, Key: []byte(key), Shard: shard, Epoch: e}
}

// ready makes an index with a readable generation.
func (p *place) ready(t *testing.T, id catalog.IndexID) catalog.IndexID {
	t.Helper()
	g, err := p.CreateIndex(t.Context(), id)
	check(t, err)
	check(t, p.FinishBuild(t.Context(), id, g, nil))
	return id
}

func (p *place) wantLookup(t *testing.T, id catalog.IndexID, key string, want ...catalog.ShardID) {
	t.Helper()
	if got := p.look(t, Question{Index: id, Key: []byte(key)}); !got.OK || got.Shards != set(want...) {
		t.Fatalf("%.20q is on %v (OK %v), want %v", key, list(got.Shards), got.OK, want)
	}
}

func (p *place) look(t *testing.T, q Question) Found {
	t.Helper()
	return must[[]Found](t)(p.Lookup(t.Context(), []Question{q}))[0]
}

func list(s catalog.ShardSet) (ids []catalog.ShardID) {
	for id := range s.All {
		ids = append(ids, id)
	}
	return ids
}

// remove retires entries as a scan of the epoch gate does.
func (p *place) remove(t *testing.T, id catalog.IndexID, shard catalog.ShardID, gate, before storage.Epoch, keys ...string) (removed int) {
	t.Helper()
	gates := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(t.Context(), []catalog.IndexID{id}, shard, gate))
	n, _, err := p.Retire(t.Context(), storage.Retirement{
		Index: id, Shard: shard, Gate: behind(gate, gates[id].Life), Keys: kept(keys...), Before: before, After: gate + 1,
	})
	check(t, err)
	return n
}

func kept(keys ...string) (all [][]byte) {
	for _, k := range keys {
		all = append(all, Kept([]byte(k)))
	}
	return all
}

// dump is all that an index has.
func (p *place) dump(t *testing.T, id catalog.IndexID, building bool) (all []string) {
	t.Helper()
	check(t, p.Entries(t.Context(), id, nil, building, func(key []byte, pairs []storage.ShardEpoch) bool {
		all = append(all, fmt.Sprintf("%s%v", key, pairs))
		return true
	}))
	return all
}

// tables is all that is in the schema, but for the numbers given out and what differs by nature.
func (p *place) tables(t *testing.T) string {
	t.Helper()
	var names []string
	check(t, each(t.Context(), p.direct, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, "SHOW TABLES"))
	var all strings.Builder
	for _, name := range names {
		var rows []string
		check(t, each(t.Context(), p.direct, func(r *sql.Rows) error {
			columns, err := r.Columns()
			if err != nil {
				return err
			}
			row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := r.Scan(into...); err != nil {
				return err
			}
			text := ""
			for i, v := range row {
				if differs := []string{"head.id", "heads.marked", "turns.since", "jobs.id", "jobs.created", "jobs.not_before", "jobs.claimed_until", "numbers.restarts"}; slices.Contains(differs, name+"."+columns[i]) {
					continue
				}
				text += fmt.Sprintf(" %s=%q", columns[i], v.String)
			}
			rows = append(rows, text)
			return nil
		}, "SELECT * FROM `"+name+"`"))
		slices.Sort(rows)
		fmt.Fprintf(&all, "%s:\n%s\n", name, strings.Join(rows, "\n"))
	}
	return all.String()
}

// waiting returns when n transactions of the test's schema wait for locks.
func (p *place) waiting(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		waits, err := p.server.LockWaits(t.Context(), p.direct, p.config.Schema)
		if err != nil && strings.Contains(err.Error(), "3854") { // MySQL can't tell while anybody's statement has bytes that are no text
			continue
		}
		check(t, err)
		if len(waits) >= n {
			return
		}
	}
	t.Fatal("nobody waits")
}

// behind is a gate that a scan has opened which knows of all generations.
func behind(e storage.Epoch, life uint64) storage.Gate {
	return storage.Gate{Epoch: e, Life: life, Generation: math.MaxUint32}
}
