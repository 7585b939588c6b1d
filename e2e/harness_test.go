package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// built is the built shunt.
var built string

// binary is the built shunt. By asking for the project's files it tells the cache
// of test results, while a test runs, what the results depend on: it knows only
// what tests import, and these import nothing of Shunt. Counter-example: a change
// in proxy/, after which `go test ./e2e` answered "ok (cached)".
func binary(t *testing.T) string {
	t.Helper()
	sources()
	return built
}

var sources = sync.OnceFunc(func() {
	for _, name := range []string{"SHUNT_E2E_FLAVOURS", "SHUNT_E2E_RACE", "SHUNT_E2E_MYSQL_ROOT", "SHUNT_E2E_MYSQL_IMAGE", "SHUNT_E2E_MARIADB_ROOT"} {
		os.Getenv(name)
	}
	_ = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pgo") || d.Name() == "go.mod") {
			_, _ = os.Stat(path) // what is gone by now has changed the directory
		}
		return nil
	})
})

// race says that it is built with the race detector, which takes several times
// the memory.
var race = os.Getenv("SHUNT_E2E_RACE") != ""

// envInt is a test's size or seed: what the environment says, if it does.
func envInt(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// soon is how long it may take what is to end at once, or within a second: longer than any machine holds it up. What
// would end it otherwise gives another answer, or never comes.
const soon = 2 * time.Minute

// shardPassword is the password of the account root on the shared servers.
const shardPassword = "shard secret"

// serverArgs: a short timeout ends what waits for a lock that nobody gives up. No
// test pulls the plug, only processes die: nothing need reach the disk. Tables
// without files of their own are made and dropped in half the time.
var serverArgs = []string{"--innodb-lock-wait-timeout=5", "--innodb-flush-method=nosync", "--innodb-file-per-table=OFF"}

// flavour is one kind of server.
type flavour struct {
	name throwaway.Flavour
	// base has no servers, but the data directory that all of them start from; shared
	// are those that all tests share.
	base, shared func() (*throwaway.Set, error)

	mu   sync.Mutex
	stop []func()
}

var flavours []*flavour

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "shunt-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = filepath.Join(dir, "shunt")
		args := []string{"build", "-o", built}
		if race {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, "../cmd/shunt")...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build shunt: %v\n%s", err, out)
			return 1
		}
		names := os.Getenv("SHUNT_E2E_FLAVOURS")
		if names == "" {
			names = "mysql,mariadb"
		}
		for name := range strings.SplitSeq(names, ",") {
			f := newFlavour(throwaway.Flavour(name))
			flavours = append(flavours, f)
			defer f.stopAll()
		}
		return m.Run()
	}())
}

func newFlavour(name throwaway.Flavour) *flavour {
	f := &flavour{name: name}
	ctx := context.Background()
	f.base = sync.OnceValues(func() (*throwaway.Set, error) {
		src, err := throwaway.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "e2e: %s\n", src)
		return f.kept(throwaway.Start(ctx, src, throwaway.Options{Password: shardPassword}))
	})
	f.shared = sync.OnceValues(func() (*throwaway.Set, error) { return f.kept(f.start(ctx, 4)) })
	return f
}

// start starts servers.
func (f *flavour) start(ctx context.Context, n int, args ...string) (*throwaway.Set, error) {
	base, err := f.base()
	if err != nil {
		return nil, err
	}
	return throwaway.Start(ctx, base.Source, throwaway.Options{Servers: n, Base: base, Password: shardPassword, Args: slices.Concat(serverArgs, args)})
}

// kept has a set stopped after all tests.
func (f *flavour) kept(set *throwaway.Set, err error) (*throwaway.Set, error) {
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stop = append(f.stop, set.Stop)
	}
	return set, err
}

func (f *flavour) stopAll() {
	for _, stop := range f.stop {
		stop()
	}
}

// servers are the flavour's shared ones.
func (f *flavour) servers(t *testing.T) []*throwaway.Server {
	t.Helper()
	set, err := f.shared()
	if err != nil {
		t.Fatal(err)
	}
	return set.Servers[:4]
}

// own starts servers for this test alone, which it may stop.
func (f *flavour) own(t *testing.T, n int, args ...string) []*throwaway.Server {
	t.Helper()
	set, err := f.start(t.Context(), n, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		set.Stop()
		for _, s := range set.Servers {
			suite.Used(t, s.Used())
		}
	})
	if slices.Equal(args, f.binlogs()) {
		logsOlder(t, set.Servers)
	}
	return set.Servers
}

// eachFlavour runs a test on every kind of server, in parallel.
func eachFlavour(t *testing.T, test func(t *testing.T, f *flavour)) {
	t.Helper()
	t.Parallel()
	on(t, flavours, func(t *testing.T, f *flavour) {
		t.Parallel()
		test(t, f)
	})
}

// oneFlavour is eachFlavour for a test of what Shunts do with each other, with their files, and while
// servers are away, where any kind of server is like the other: see turn.
func oneFlavour(t *testing.T, test func(t *testing.T, f *flavour)) {
	t.Helper()
	t.Parallel()
	oneFlavourAlone(t, func(t *testing.T, f *flavour) {
		t.Parallel()
		test(t, f)
	})
}

// oneFlavourAlone is oneFlavour for a test that other tests would disturb.
func oneFlavourAlone(t *testing.T, test func(t *testing.T, f *flavour)) {
	t.Helper()
	on(t, slices.DeleteFunc(slices.Clone(flavours), func(f *flavour) bool { return !f.turn(t.Name()) }), test)
}

func on(t *testing.T, some []*flavour, test func(t *testing.T, f *flavour)) {
	t.Helper()
	for _, f := range some {
		t.Run(string(f.name), func(t *testing.T) { test(t, f) })
	}
}

// turn says whether what need run on one kind of server runs on this one: in make test its name says
// which, and in make check it runs on every kind.
func (f *flavour) turn(name string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return suite.Size(false, true) || flavours[h.Sum32()%uint32(len(flavours))] == f
}

var schemaCounter atomic.Int64

// newSchemaName is a name that no other test uses; with a suffix it may be an account's, which MySQL
// bounds at 32 characters.
func newSchemaName(t *testing.T) string {
	base, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "Test"), "/")
	base = regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(base, "")
	return fmt.Sprintf("e2e_%s_%d", strings.ToLower(base[:min(len(base), 16)]), schemaCounter.Add(1))
}

// open makes a pool of connections; params are the driver's own.
func open(t *testing.T, addr, user, password, schema string, change ...func(*mysql.Config)) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", addr, user, password, schema
	c.Timeout = 10 * time.Second
	// Longer than any statement takes: what hangs fails its own test then, not all.
	c.ReadTimeout = 3 * time.Minute
	c.Logger = &mysql.NopLogger{}
	for _, f := range change {
		f(c)
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// valveTo is a valve in front of a server.
func valveTo(t *testing.T, s *throwaway.Server) *throwaway.Valve {
	t.Helper()
	v, err := throwaway.NewValve(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// direct has the pools of running tests to servers: *sql.DB by directKey.
var direct sync.Map

type directKey struct {
	t      *testing.T
	server *throwaway.Server
	schema string
}

// onShard connects to a server itself, around Shunt. A test has one pool for each server and schema, until it ends: what
// is asked again and again would else take all of the server's connections. Sessions aren't new ones.
func onShard(t *testing.T, s *throwaway.Server, schema string) *sql.DB {
	t.Helper()
	key := directKey{t, s, schema}
	if db, ok := direct.Load(key); ok {
		return db.(*sql.DB)
	}
	db := open(t, s.Addr(), s.User, s.Password, schema)
	if first, ok := direct.LoadOrStore(key, db); ok {
		return first.(*sql.DB)
	}
	t.Cleanup(func() { direct.Delete(key) })
	return db
}

// queryer is a *sql.DB, *sql.Conn or *sql.Tx.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// row is one row by column name; NULL is "NULL".
type row map[string]string

// rowsOf runs a query and reads the whole answer.
func rowsOf(ctx context.Context, q queryer, query string, args ...any) ([]row, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []row
	cells := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		r := row{}
		for i, c := range cells {
			r[names[i]] = c.String
			if !c.Valid {
				r[names[i]] = "NULL"
			}
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func mustRows(t *testing.T, q queryer, query string, args ...any) []row {
	t.Helper()
	rows, err := rowsOf(t.Context(), q, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return rows
}

func mustExec(t *testing.T, q queryer, query string, args ...any) sql.Result {
	t.Helper()
	r, err := q.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return r
}

// localFile is how LOAD DATA LOCAL names a file of the test's: the driver answers its text. What the driver
// registers is of the whole process, so each has a name of its own.
func localFile(t *testing.T, text string) string {
	t.Helper()
	file, remove := registerFile(text)
	t.Cleanup(remove)
	return file
}

var localFiles atomic.Int64

func registerFile(text string) (file string, remove func()) {
	name := fmt.Sprint("file", localFiles.Add(1))
	mysql.RegisterReaderHandler(name, func() io.Reader { return strings.NewReader(text) })
	return "'Reader::" + name + "'", func() { mysql.DeregisterReaderHandler(name) }
}

func affected(t *testing.T, r sql.Result) int64 {
	t.Helper()
	n, err := r.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// flat gives the rows' cells, columns in the named order, sorted: "1 ada".
func flat(rows []row, columns ...string) []string {
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = r[c]
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	slices.Sort(lines)
	return lines
}

// want compares a query's answer, in any order, with lines of its columns.
func want(t *testing.T, q queryer, query string, columns string, lines ...string) {
	t.Helper()
	got := flat(mustRows(t, q, query), strings.Fields(columns)...)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("%s\n got %q\nwant %q", query, got, lines)
	}
}

// route is what EXPLAIN ROUTE says.
type route struct {
	plan, access, reason string
	shards               []string
}

func routeOf(t *testing.T, q queryer, statement string) route {
	t.Helper()
	var r route
	for _, x := range mustRows(t, q, "EXPLAIN ROUTE "+statement) {
		r.plan, r.access, r.reason = x["Plan"], x["Access"], x["Reason"]
		for _, s := range strings.FieldsFunc(x["Shards"], func(c rune) bool { return c == ',' || c == ' ' }) {
			if !slices.Contains(r.shards, s) {
				r.shards = append(r.shards, s)
			}
		}
	}
	return r
}

// allKnown waits until no shard is unknown to an index: one that has connections which look
// like an earlier life's, and may be other tests', is scanned once they are settled, and
// lookups go there until then.
func allKnown(t *testing.T, q queryer) {
	t.Helper()
	eventually(t, "the indexes know all shards", func() bool {
		return !slices.ContainsFunc(mustRows(t, q, "SHOW VIRTUAL INDEXES"), func(r row) bool { return r["Unknown_shards"] != "" })
	})
}

// wantRoute checks the number of shards and the way they were found.
func wantRoute(t *testing.T, q queryer, statement string, shards int, access string) {
	t.Helper()
	r := routeOf(t, q, statement)
	if len(r.shards) > shards && r.access == access {
		allKnown(t, q)
		r = routeOf(t, q, statement)
	}
	if len(r.shards) != shards || r.access != access {
		t.Errorf("EXPLAIN ROUTE %s\n got %+v\nwant %d shards by %s", statement, r, shards, access)
	}
}

// wantError checks a server error's code; text, if not empty, is part of it.
func wantError(t *testing.T, err error, code uint16, text string) {
	t.Helper()
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		t.Errorf("got %v, want error %d", err, code)
		return
	}
	if e.Number != code || !strings.Contains(e.Message, text) {
		t.Errorf("got error %d %q, want %d with %q", e.Number, e.Message, code, text)
	}
}

// patience bounds each wait for what must come, of tests that fail alone: one that passes never reaches it,
// however slow the machine.
const patience = 5 * time.Minute

// eventually waits for a condition, and fails the test when its patience is at an end.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	eventuallyEach(t, 20*time.Millisecond, what, condition)
}

// eventuallyEach is eventually for a condition that is costly to ask for.
func eventuallyEach(t *testing.T, pause time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// lockWaits are the statements of the test's schema that wait for rows' locks on a shard, by thread.
func (p *process) lockWaits(on int) map[uint32]string {
	p.t.Helper()
	waits, err := p.servers[on].LockWaits(p.t.Context(), p.shard(on), p.schema)
	if err != nil {
		p.t.Fatal(err)
	}
	return waits
}

// execError is the error of a statement, nil for none.
func execError(t *testing.T, q queryer, query string) error {
	t.Helper()
	_, err := rowsOf(t.Context(), q, query)
	return err
}

// fail is execError of a statement that has to fail.
func fail(t *testing.T, c *sql.Conn, query string) error {
	t.Helper()
	err := execError(t, c, query)
	if err == nil {
		t.Errorf("%s: no error", query)
	}
	return err
}

// failsWith checks the error of a statement; code 0: any.
func failsWith(t *testing.T, q queryer, query string, code uint16, text string) {
	t.Helper()
	err := execError(t, q, query)
	var e *mysql.MySQLError
	if !errors.As(err, &e) || code != 0 && e.Number != code || !strings.Contains(e.Message, text) {
		t.Errorf("%s: got %v, want error %d with %q", query, err, code, text)
	}
}

// errorCode is the code of a server's error, 0 for any other.
func errorCode(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// plainServer is a schema on one server itself, to compare with.
func plainServer(t *testing.T, s *throwaway.Server, schema string) *sql.Conn {
	t.Helper()
	mustExec(t, onShard(t, s, ""), "CREATE DATABASE "+schema)
	t.Cleanup(func() {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", s.User, s.Password, s.Addr()))
		if err == nil {
			_, _ = db.ExecContext(context.Background(), "DROP DATABASE "+schema) // the servers go anyway
			db.Close()
		}
	})
	return connOf(t, onShard(t, s, schema))
}

// connOf is a connection that ends with the test: a pool that is closed leaves those in use, and what
// a transaction on one holds is held against all tests behind.
func connOf(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answer is what a client learns of a statement.
func answer(ctx context.Context, q queryer, statement string, args ...any) string {
	r, err := q.ExecContext(ctx, statement, args...)
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return fmt.Sprintf("error %d", e.Number)
	}
	if err != nil {
		return err.Error()
	}
	n, _ := r.RowsAffected()
	id, _ := r.LastInsertId()
	return fmt.Sprintf("affected %d, id %d", n, id)
}

// later runs a statement beside the test; its outcome comes over the channel.
func later(c *sql.Conn, query string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.ExecContext(context.Background(), query)
		done <- err
	}()
	return done
}

// waits holds that a statement is still waiting.
func waits(t *testing.T, done chan error, what string) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("%s: did not wait: %v", what, err)
	case <-time.After(300 * time.Millisecond):
	}
}

// ends holds that it has come to its end by itself.
func ends(t *testing.T, done chan error, what string) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(60 * time.Second):
		t.Fatalf("%s: still waits", what)
	}
}

// fill inserts n rows straight through Shunt.
func fill(t *testing.T, p *process, table string, n int, row func(id int) string) {
	t.Helper()
	db := p.db()
	for from := 1; from <= n; from += 1000 {
		var rows []string
		for id := from; id < from+1000 && id <= n; id++ {
			rows = append(rows, row(id))
		}
		mustExec(t, db, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ", "))
	}
}

// rowsFor are n rows of VALUES.
func rowsFor(n int, row func(i int) string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = row(i + 1)
	}
	return strings.Join(out, ", ")
}
