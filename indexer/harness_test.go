package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

// handClock is a clock that the test moves.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*handTimer]bool
}

type handTimer struct {
	at time.Time
	c  chan time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &handTimer{c.now.Add(d), make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- c.now
		return t.c, func() {}
	}
	c.timers[t] = true
	return t.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
	}
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for t := range c.timers {
		if !t.at.After(c.now) {
			t.c <- c.now
			delete(c.timers, t)
		}
	}
}

// bench is an Indexer over the real store (in memory) and fake shards, with a
// clock of its own.
type bench struct {
	t     *testing.T
	clock *handClock
	x     *Indexer
	store *storage.Store
	opts  Options

	mu      sync.Mutex
	cat     *catalog.Catalog
	version uint64
	column  catalog.Column
	primary catalog.Column
	table   string
	shards  []*fakeShard
	events  []string
}

// fakeShard is a server with one table (id, k) without concurrent snapshots:
// rows change only between the steps of a test.
type fakeShard struct {
	clock *handClock
	mu    sync.Mutex
	rows  map[int]string
	// fail is asked before each statement.
	fail func(sql string) error
	// row is called for each row that a scan sends.
	row     func(pk int) error
	took    time.Duration // of a scan
	threads [][]string    // of SHOW PROCESSLIST, beside the connection's own
	uptime  string
	said    []string
	engine  string
	order   bool // there is a secondary index on k
}

func newBench(t *testing.T, shards int, change func(*Options)) *bench {
	t.Helper()
	clock := &handClock{now: time.Unix(1e9, 0), timers: map[*handTimer]bool{}}
	store, err := storage.Open(storage.Options{InMemory: true, Logger: quiet, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, clock: clock, store: store, table: "t", primary: catalog.Column{Name: "id", Type: "int"}, column: catalog.Column{Name: "k", Type: "varchar(20)", Charset: "utf8mb4", Collation: "utf8mb4_bin", Nullable: true}}
	for range shards {
		b.shards = append(b.shards, &fakeShard{clock: clock, rows: map[int]string{}, engine: "InnoDB"})
	}
	b.opts = Options{
		Store: store, Shards: b, Catalog: b.Catalog, Publish: b.publish, Logger: quiet, Delay: time.Second, Clock: clock,
		Metrics: Metrics{
			Audited:    func(_ *catalog.Index, miss bool) { b.event(fmt.Sprint("audited ", miss)) },
			HeldBack:   func(catalog.ShardID) { b.event("held back") },
			AfterError: func(error) { b.event("after error") },
			JobDone:    func(_, outcome string, _ time.Duration) { b.event("job: " + outcome) },
		},
	}
	if change != nil {
		change(&b.opts)
	}
	if err := b.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() {
		b.x.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start starts an indexer, in a first or later life of the process.
func (b *bench) start() {
	b.t.Helper()
	b.x = b.life(b.opts)
	if err := b.x.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// life is a process that has the store, and knows nothing of another one.
func (b *bench) life(o Options) *Indexer {
	if o.Cluster == nil {
		o.Cluster = cluster.NewLocal(b.store)
	}
	return New(o)
}

func (b *bench) event(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, what)
}

func (b *bench) happened(what string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.events, what)
}

func (b *bench) Catalog() *catalog.Catalog {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cat
}

func (b *bench) publish(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	c := &catalog.Catalog{Version: b.version, Schemas: map[string]*catalog.Schema{"s": {Name: "s", Tables: map[string]*catalog.Table{}}}}
	for i := range b.shards {
		c.Shards = append(c.Shards, catalog.Shard{ID: catalog.ShardID(i), Name: fmt.Sprint("s", i)})
		c.All.Add(catalog.ShardID(i))
	}
	if b.table != "" {
		id, k := b.primary, b.column
		t := &catalog.Table{Schema: "s", Name: b.table, Shards: c.All, Columns: []*catalog.Column{&id, &k}, PrimaryKey: []*catalog.Column{&id}}
		for _, d := range b.store.Indexes() {
			if d.Table == b.table && strings.EqualFold(k.Name, d.Columns[0]) {
				ix := &catalog.Index{ID: d.ID, Name: d.Name, Table: t, Columns: []*catalog.Column{&k}, Status: d.Status}
				if ix.Status == catalog.Ready && d.Keyed != "" && d.Keyed != ix.Definition(c.MariaDB) { // as proxy/schema does
					ix.Status = catalog.Building
				}
				t.Indexes = append(t.Indexes, ix)
			}
		}
		c.Schemas["s"].Tables[b.table] = t
	}
	b.cat = c
	return nil
}

// index is the only index as the catalog has it; nil if there is none.
func (b *bench) index() *catalog.Index {
	t := b.Catalog().Table("s", b.table)
	if t == nil || len(t.Indexes) == 0 {
		return nil
	}
	return t.Indexes[0]
}

func (b *bench) create() {
	b.t.Helper()
	if err := b.x.CreateIndex(b.t.Context(), "s", "t", "ix", []string{"k"}, 0, ""); err != nil {
		b.t.Fatal(err)
	}
	b.ready()
}

// ready waits until reads may use the index.
func (b *bench) ready() {
	b.t.Helper()
	b.until("the index is ready", func() bool { return b.index() != nil && b.index().Usable() })
}

// until moves the clock on until cond holds.
func (b *bench) until(what string, cond func() bool) {
	b.t.Helper()
	for range 5000 {
		if cond() {
			return
		}
		b.tick(100 * time.Millisecond)
	}
	for _, j := range b.store.Jobs() {
		b.t.Logf("job %+v", j)
	}
	b.t.Fatalf("it never came that %s", what)
}

// tick moves the clock and lets the goroutines do what that starts.
func (b *bench) tick(d time.Duration) {
	b.clock.move(d)
	<-time.After(300 * time.Microsecond)
}

// pass lets time go by, in small steps.
func (b *bench) pass(d time.Duration) {
	for range 100 {
		b.tick(d / 100)
	}
}

func (b *bench) key(v string) []byte {
	b.t.Helper()
	c, err := keys.For(b.column.Type, b.column.Charset, b.column.Collation, false)
	if err != nil {
		b.t.Fatal(err)
	}
	k, ok := c.Equal(nil, keys.String([]byte(v), "utf8mb4"))
	if !ok {
		b.t.Fatalf("no key for %q", v)
	}
	return k
}

func (b *bench) probe(v string) plan.Probe {
	return plan.Probe{Index: b.index(), Key: b.key(v), Values: []keys.Value{keys.String([]byte(v), "utf8mb4")}}
}

// shardsOf looks a value up.
func (b *bench) shardsOf(v string) []catalog.ShardID {
	b.t.Helper()
	set, err := b.x.Lookup(b.index(), b.key(v), nil)
	if err != nil {
		b.t.Fatalf("look up %q: %v", v, err)
	}
	return slices.Collect(set.All)
}

func (b *bench) expect(v string, want ...catalog.ShardID) {
	b.t.Helper()
	if got := b.shardsOf(v); !slices.Equal(got, want) {
		b.t.Errorf("%q is looked for on %v, want %v", v, got, want)
	}
}

// update does what a session does for UPDATE t SET k = v WHERE id = pk.
func (b *bench) update(shard catalog.ShardID, pk int, v string) {
	b.t.Helper()
	o := b.x.Begin(catalog.Only(shard))
	if err := b.x.Prepare(context.Background(), o, []plan.Entry{{Index: b.index(), Key: b.key(v), Shard: shard}}, nil, nil, catalog.ShardSet{}); err != nil {
		b.t.Fatal(err)
	}
	b.shards[shard].set(pk, v)
	o.End()
	b.x.After(plan.Maintenance{Table: b.index().Table, Operation: "UPDATE", Shards: catalog.Only(shard), Indexes: []*catalog.Index{b.index()}, Columns: []string{"k"}})
}

// mark is a statement on a shard whose keys can't be computed, and which changes
// nothing.
func (b *bench) mark(shard catalog.ShardID) {
	b.t.Helper()
	o := b.x.Begin(catalog.Only(shard))
	defer o.End()
	if err := b.x.Prepare(context.Background(), o, nil, []plan.Mark{{Index: b.index(), Shard: shard}}, nil, catalog.ShardSet{}); err != nil {
		b.t.Fatal(err)
	}
}

func (s *fakeShard) set(pk int, v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[pk] = v
}

// change sets fields of a shard that is in use.
func (s *fakeShard) change(fn func(*fakeShard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

// statements are those sent so far that have a prefix.
func (s *fakeShard) statements(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, sql := range s.said {
		if strings.HasPrefix(sql, prefix) {
			list = append(list, sql)
		}
	}
	return list
}

type fakeConn struct{ s *fakeShard }

func (b *bench) Open(_ context.Context, id catalog.ShardID) (Conn, error) {
	if err := b.shards[id].refuses("CONNECT"); err != nil {
		return nil, err
	}
	return fakeConn{b.shards[id]}, nil
}

func (s *fakeShard) refuses(sql string) error {
	s.mu.Lock()
	fail := s.fail
	s.said = append(s.said, sql)
	s.mu.Unlock()
	if fail != nil {
		return fail(sql)
	}
	return nil
}

func (c fakeConn) Exec(_ context.Context, sql string) error { return c.s.refuses(sql) }
func (c fakeConn) Close() error                             { return nil }

func (c fakeConn) Stream(ctx context.Context, sql string, fn func([][]byte) error) error {
	if err := c.s.refuses(sql); err != nil {
		return err
	}
	one := func(values ...string) error {
		row := make([][]byte, len(values))
		for i, v := range values {
			row[i] = []byte(v)
		}
		return fn(row)
	}
	c.s.mu.Lock()
	rows, took, onRow, engine, order := maps.Clone(c.s.rows), c.s.took, c.s.row, c.s.engine, c.s.order
	c.s.mu.Unlock()
	pks := slices.Sorted(maps.Keys(rows))
	scan := func(after int, values func(pk int) []string) error {
		over, stop := c.s.clock.After(took)
		defer stop()
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, pk := range pks {
			if pk <= after {
				continue
			}
			if onRow != nil {
				if err := onRow(pk); err != nil {
					return err
				}
			}
			if err := one(values(pk)...); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	}
	switch {
	case strings.HasPrefix(sql, "SELECT ENGINE"):
		return one(engine)
	case strings.HasPrefix(sql, "SHOW INDEX"):
		if order {
			return fn([][]byte{[]byte("t"), []byte("1"), []byte("by_k"), []byte("1"), []byte("k"), []byte("A"), nil, nil, nil, nil, []byte("BTREE"), nil, nil, []byte("YES")})
		}
		return nil
	case sql == "SELECT CONNECTION_ID()":
		return one("100")
	case sql == "SHOW GLOBAL STATUS LIKE 'Uptime'":
		c.s.mu.Lock()
		uptime := c.s.uptime
		c.s.mu.Unlock()
		if uptime == "" {
			return errors.New("fake shard: " + sql)
		}
		return one("Uptime", uptime)
	case sql == "SHOW PROCESSLIST":
		c.s.mu.Lock()
		threads := append([][]string{{"100", "shunt", "", "", "Query", "0"}}, c.s.threads...)
		c.s.mu.Unlock()
		for _, th := range threads {
			if err := one(th...); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(sql, "(SELECT 1 FROM"):
		for n, branch := range strings.Split(sql, " UNION ALL ") {
			for _, v := range rows {
				if strings.Contains(branch, "'"+v+"'") {
					if err := one(strconv.Itoa(n + 1)); err != nil {
						return err
					}
					break
				}
			}
		}
		return nil
	case strings.HasPrefix(sql, "SELECT `k` FROM"), strings.HasPrefix(sql, "SELECT DISTINCT `k` FROM"):
		return scan(-1, func(pk int) []string { return []string{rows[pk]} })
	case strings.HasPrefix(sql, "SELECT `id`, `k` FROM"):
		after := -1
		if _, cond, ok := strings.Cut(sql, "`id` > "); ok {
			after, _ = strconv.Atoi(cond[:strings.IndexAny(cond, ") ")])
		}
		return scan(after, func(pk int) []string { return []string{strconv.Itoa(pk), rows[pk]} })
	}
	return errors.New("fake shard: " + sql)
}
