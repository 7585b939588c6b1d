package proxy

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/go-mysql-org/go-mysql/mysql"
	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestWriteProtocol runs sessions over shards that are none, and watches the steps of the
// write protocol (see rows): what a shard gets was registered and prepared before, by all
// indexes that were published when it was registered, and under the join that the connection
// is of; a registration doesn't end while what it is for may still happen. Each session is run
// again with each of its steps disturbed: a shard fails in it, an index is published, the store
// refuses, the process is fenced on all shards and has joined them anew. And all of it by an index that is
// added to beside a transaction's statements (see besides).
func TestWriteProtocol(t *testing.T) {
	t.Parallel()
	for _, session := range [][]string{
		{"INSERT INTO people VALUES (1, 'k1', 'k2')"},
		{"INSERT INTO people VALUES (1, 'k1', 'k1'), (2, 'k2', 'k2'), (3, 'k3', 'k3'), (4, 'k4', 'k4')"},
		{"UPDATE people SET email = 'k1', city = 'k1' WHERE id = 1"},
		{"UPDATE people SET email = CONCAT('k1', ''), city = 'k2' WHERE email = 'old'"},
		{"DELETE FROM people WHERE id IN (1, 2, 3, 4, 5, 6)"},
		{"SELECT * FROM people WHERE email = 'old'"},
		{"/* shunt: shard=s1 */ CREATE TRIGGER t BEFORE INSERT ON people FOR EACH ROW SET NEW.email = 'x'", "INSERT INTO people VALUES (1, 'k1', 'k2')"},
		{"/* shunt: shard=s1 */ UPDATE people SET email = 'k1'"},
		{"REPLACE INTO notes VALUES (1, 'k1', 'k2'), (2, 'k3', 'k4')"},
		{"BEGIN", "SELECT * FROM people WHERE id = 1", "UPDATE people SET email = 'k1', city = 'k1' WHERE id IN (1, 2, 3, 4)", "COMMIT"},
		{"BEGIN", "INSERT INTO people VALUES (1, 'k1', 'k1')", "SAVEPOINT a", "INSERT INTO people VALUES (2, 'k2', 'k2'), (5, 'k3', 'k3')", "ROLLBACK TO a", "INSERT INTO people VALUES (2, 'k4', 'k4')", "ROLLBACK"},
		{"BEGIN", "INSERT INTO people VALUES (1, 'k1', 'k1')", "SAVEPOINT a", "INSERT INTO people VALUES (2, 'k2', 'k2'), (5, 'k3', 'k3')", "ROLLBACK TO a", "COMMIT"},
		{"BEGIN", "INSERT INTO people VALUES (1, 'k1', 'k1'), (2, 'k2', 'k2'), (3, 'k3', 'k3'), (4, 'k4', 'k4'), (5, 'k5', 'k5')", "UPDATE people SET email = 'k6', city = 'k7' WHERE email = 'old'", "COMMIT"},
		{"START TRANSACTION WITH CONSISTENT SNAPSHOT", "INSERT INTO people VALUES (1, 'k1', 'k1')", "BEGIN", "INSERT INTO people VALUES (1, 'k2', 'k2')"},
		{"SET autocommit = 0", "INSERT INTO people VALUES (1, 'k1', 'k1'), (2, 'k2', 'k2'), (3, 'k3', 'k3')", "SET autocommit = 1", "INSERT INTO people VALUES (4, 'k4', 'k4')"},
	} {
		for _, beside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/beside=%v", session[0], beside), func(t *testing.T) {
				t.Parallel()
				n := newObserved(t, disturbance{}, beside).run(t, session)
				for _, d := range []disturbance{{what: "cut before"}, {what: "cut behind"}, {what: "cut later"}, {what: "error"}, {what: "errors"}, {what: "deadlock"}, {what: "circle"}, {what: "duplicate"}} {
					for d.at = 1; d.at <= n.sent; d.at++ {
						newObserved(t, d, beside).run(t, session)
					}
				}
				for _, d := range []disturbance{{what: "publish"}, {what: "refuse"}, {what: "fenced"}} {
					for d.at = 1; d.at <= n.called; d.at++ {
						newObserved(t, d, beside).run(t, session)
					}
				}
			})
		}
	}
}

// disturbance is what happens at the at-th statement that a shard gets, or at the at-th call
// of the index.
type disturbance struct {
	what string
	at   int
}

// observed is a proxy between shards and an index that watch it.
type observed struct {
	t *testing.T
	d disturbance
	p *Proxy

	mu    sync.Mutex
	conns map[deadlock.Thread]*observedConn
	opens []*observedOpen
	// join is the process's, on all shards, and joins those of connections.
	join  uint64
	joins map[deadlock.Thread]uint64
	// sent counts what shards got, called the calls of the index.
	sent, called int
	// beside: it is Beside; adding are the AddBesides that aren't waited for yet.
	beside bool
	adding int
	// stale: a lookup was of a catalog that isn't published any more. redefined: no marks have
	// been set behind the DDL of a shard.
	stale, redefined bool
	// at is the client's statement that is executed. done has the shards that have executed each,
	// committed those that have committed it.
	at              int
	done, committed map[int]catalog.ShardSet
	// refused: the first COMMIT of a transaction was. cutting are connections that are being cut.
	refused bool
	cutting sync.WaitGroup
	log     []string
}

// observedConn is a shard's connection.
type observedConn struct {
	// begun: a transaction is open. trial: behind the savepoint that all is undone to.
	begun, trial bool
	// open: what was sent may still happen: it was not answered, or its transaction is open.
	// ddl: it is DDL. cut: it is to be closed when it has answered.
	open, ddl, cut bool
	// unseen are writes of its transaction that nobody else sees before it commits.
	unseen []string
	// pending are the client's statements that its transaction has executed, saved how many it
	// had at each savepoint.
	pending []int
	saved   map[string]int
}

// observedOpen is a registration.
type observedOpen struct {
	o *observed
	// on has what was published when it was registered.
	on      map[catalog.ShardID]*catalog.Catalog
	joins   map[catalog.ShardID]uint64
	adds    []plan.Entry
	marks   []plan.Mark
	intends []catalog.ShardSet
}

const observedShards = 3

func newObserved(t *testing.T, d disturbance, beside bool) *observed {
	o := &observed{t: t, d: d, beside: beside, join: 1, joins: map[deadlock.Thread]uint64{}, conns: map[deadlock.Thread]*observedConn{}, done: map[int]catalog.ShardSet{}, committed: map[int]catalog.ShardSet{}}
	var shards []catalog.Shard
	pools := map[catalog.ShardID]*shard.Pool{}
	for id := range catalog.ShardID(observedShards) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go o.shard(id, l)
		shards = append(shards, catalog.Shard{ID: id, Name: fmt.Sprint("s", id)})
		pools[id] = shard.New(shard.Config{Name: fmt.Sprint("s", id), Addr: l.Addr().String(), User: "root"}, shard.Options{OnConnect: func(_ context.Context, c *shard.Conn) error {
			o.mu.Lock()
			c.Join = o.join
			o.joins[deadlock.Thread{Shard: id, ID: c.ThreadID}] = c.Join
			o.mu.Unlock()
			return nil
		}})
	}
	dir := schema.NewDirectory(schema.DirectoryOptions{
		Shards: shards, Logger: slog.New(slog.DiscardHandler),
		Open: func(context.Context, catalog.ShardID) (schema.Querier, func(), error) { return nil, nil, errCut },
	})
	dir.Put(observedCatalog(shards, 1, "by_email"))
	index := Index(o)
	if beside {
		index = observedBeside{o}
	}
	o.p = New(Options{
		Users: map[string]User{"root": {}}, Directory: dir, Pools: pools, Cluster: &alone{}, Index: index,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	for version := range uint64(3) {
		o.p.undoable.Store(fmt.Sprintf("shop.notes@%d", version), true)
	}
	return o
}

func observedCatalog(shards []catalog.Shard, version uint64, indexes ...string) *catalog.Catalog {
	c := &catalog.Catalog{Version: version, ServerVersion: "9.7.4", SQLMode: "STRICT_TRANS_TABLES", Shards: shards, DefaultCollation: map[string]string{"utf8mb4": "utf8mb4_0900_ai_ci"}}
	for _, s := range shards {
		c.All.Add(s.ID)
	}
	for i := range c.Slots {
		c.Slots[i] = shards[i%len(shards)].ID
	}
	shop := &catalog.Schema{Name: "shop", Tables: map[string]*catalog.Table{}}
	c.Schemas = map[string]*catalog.Schema{"shop": shop}
	for name, placement := range map[string]catalog.Placement{"people": catalog.Hash, "notes": catalog.Anywhere} {
		id, email := &catalog.Column{Name: "id", Type: "bigint"}, &catalog.Column{Name: "email", Position: 1, Type: "varbinary(20)"}
		city := &catalog.Column{Name: "city", Position: 2, Type: "varbinary(20)"}
		t := &catalog.Table{
			Schema: "shop", Name: name, Placement: placement, ShardKey: id, Shards: c.All,
			Columns: []*catalog.Column{id, email, city}, PrimaryKey: []*catalog.Column{id}, Unique: [][]*catalog.Column{{id}},
		}
		for i, ix := range indexes {
			t.Indexes = append(t.Indexes, &catalog.Index{ID: catalog.IndexID(len(name)*10 + i), Name: ix, Table: t, Columns: t.Columns[i+1 : i+2], Partitions: 1, Status: catalog.Ready})
		}
		shop.Tables[name] = t
	}
	return c
}

// run executes a session's statements, whatever becomes of each, and ends the session.
func (o *observed) run(t *testing.T, statements []string) *observed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = o.p.Serve(context.WithoutCancel(ctx), l) }()
	db, err := sql.Open("mysql", "root@tcp("+l.Addr().String()+")/shop")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	told := told{o: o}
	for i, sql := range statements {
		o.mu.Lock()
		o.at = i
		o.mu.Unlock()
		_, err := conn.ExecContext(ctx, sql)
		o.cutting.Wait()
		o.note("client: %s: %v", sql, err)
		told.answered(i, sql, err)
		if ctx.Err() != nil {
			t.Fatal("it hangs")
		}
		if err != nil && o.d.what == "" && !strings.Contains(err.Error(), "the schema could not be read again") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	conn.Close()
	db.Close()
	if err := o.p.Drain(ctx); err != nil {
		t.Error(err)
	}
	for _, p := range o.p.opts.Pools {
		p.Close(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	told.end()
	for _, open := range o.opens {
		if len(open.on) > 0 {
			o.fail("a registration was not ended")
		}
	}
	if o.redefined && o.d.what != "refuse" {
		o.fail("no marks behind DDL")
	}
	if t.Failed() {
		t.Fatalf("%+v:\n%s", o.d, strings.Join(o.log, "\n"))
	}
	return o
}

func (o *observed) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprintf(format, args...))
}

// fail REQUIRES: mu.
func (o *observed) fail(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	o.log = append(o.log, "FAILED: "+msg)
	o.t.Error(msg)
}

// shard serves the connections of a shard.
func (o *observed) shard(id catalog.ShardID, l net.Listener) {
	for number := uint32(1); ; number++ {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			c, err := wire.Accept(context.Background(), nc, wire.Options{
				ServerVersion: "9.7.4", ConnectionID: number,
				Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
			})
			if err != nil {
				return
			}
			at, x := deadlock.Thread{Shard: id, ID: number}, &observedConn{saved: map[string]int{}}
			o.mu.Lock()
			o.conns[at] = x
			o.mu.Unlock()
			if c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}) != nil || c.Flush() != nil {
				return
			}
			for {
				cmd, payload, err := c.ReadCommand()
				if err != nil || cmd == mysql.COM_QUIT {
					return
				}
				if o.executed(at, x, c, string(payload)) != nil || c.Flush() != nil {
					return
				}
				if x.cut {
					nc.Close()
					o.cutting.Done()
				}
			}
		}()
	}
}

var errCut = errors.New("the connection is cut")

// executed executes a statement, checks that it may be, and answers.
func (o *observed) executed(at deadlock.Thread, x *observedConn, c *wire.Conn, text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprintf("%v: %s", at, text))
	word, _, _ := strings.Cut(strings.TrimPrefix(text, "/* shunt: shard=s1 */ "), " ")
	write, ddl := slices.Contains([]string{"INSERT", "REPLACE", "UPDATE", "DELETE"}, word), word == "CREATE"
	ends := word == "COMMIT" || text == "ROLLBACK"
	savepoint := savepoints.FindStringSubmatch(text)
	disturbed, was := "", x.open
	if write || ddl || ends || word == "BEGIN" || word == "START" || strings.Contains(text, "SAVEPOINT") {
		o.sent++
		if o.sent == o.d.at || o.sent > o.d.at && o.d.what == "errors" && strings.HasPrefix(text, "ROLLBACK") {
			disturbed = o.d.what
		}
	}
	switch disturbed {
	case "cut before":
		x.pending = nil
		return errCut
	case "error", "errors":
		o.refused = word == "COMMIT" && len(x.pending) > 0 && o.committed[x.pending[0]].Empty()
		return c.WriteError(mysqlerr.New(mysqlerr.UnknownError, "it could not be done"))
	case "deadlock":
		if x.open = false; x.begun {
			x.begun, x.pending, x.unseen = false, nil, nil
			return c.WriteError(mysqlerr.New(mysqlerr.LockDeadlock, "Deadlock found"))
		}
	case "circle":
		if x.begun && write {
			o.interrupt(at)
			return c.WriteError(mysqlerr.New(mysqlerr.QueryInterrupted, "interrupted"))
		}
	case "duplicate":
		if x.trial {
			return c.WriteError(mysqlerr.New(mysqlerr.DupEntry, "Duplicate entry"))
		}
	}
	switch {
	case word == "BEGIN", word == "START":
		o.commit(at, x) // as servers do
		x.begun = true
		if !slices.ContainsFunc(o.opens, func(open *observedOpen) bool { return open.fits(at) }) {
			o.fail("a transaction that isn't registered on s%d", at.Shard)
		}
	case ends:
		x.begun, x.open = false, false
		if clear(x.saved); word == "ROLLBACK" {
			x.pending, x.unseen = nil, nil
		}
		o.commit(at, x)
	case savepoint != nil && savepoint[1] == "SAVEPOINT":
		x.trial = x.trial || savepoint[2] == trialSavepoint
		x.saved[savepoint[2]] = len(x.pending)
	case savepoint != nil && savepoint[1] == "ROLLBACK TO SAVEPOINT":
		x.trial = x.trial && savepoint[2] != trialSavepoint
		n, known := x.saved[savepoint[2]]
		if !known {
			return c.WriteError(mysqlerr.New(mysqlerr.SPDoesNotExist, "SAVEPOINT does not exist"))
		}
		x.pending = x.pending[:n]
	case write:
		x.pending = append(x.pending, o.at)
		if !x.trial {
			x.open = x.begun
			if o.beside && x.begun && strings.Contains(text, "people") {
				x.unseen = append(x.unseen, text)
			} else {
				o.prepared(at, text)
			}
			o.done[o.at] = o.done[o.at].Union(catalog.Only(at.Shard))
		}
		if !x.begun {
			o.commit(at, x)
		}
	case ddl:
		o.redefined = disturbed == ""
	case word == "SELECT":
		x.open = x.begun // its snapshot is
		if o.stale {
			o.fail("%v is read by a lookup of an old catalog", at)
		}
	}
	if disturbed == "cut behind" {
		x.open, x.ddl, x.pending = was || write || ddl, ddl, nil
		return errCut
	}
	if disturbed == "cut later" {
		x.open, x.begun, x.pending, x.cut = false, false, nil, true
		o.cutting.Add(1)
	}
	ok := wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}
	if x.begun {
		ok.Status |= mysql.SERVER_STATUS_IN_TRANS
	}
	return c.WriteOK(ok)
}

var savepoints = regexp.MustCompile("^(SAVEPOINT|ROLLBACK TO SAVEPOINT) `?([a-z_]+)`?$")

// commit ends what a connection's transaction has done: others see it. REQUIRES: mu.
func (o *observed) commit(at deadlock.Thread, x *observedConn) {
	for _, text := range x.unseen {
		o.prepared(at, text)
	}
	x.unseen = nil
	for _, i := range x.pending {
		o.committed[i] = o.committed[i].Union(catalog.Only(at.Shard))
	}
	x.pending = nil
}

// told is what a client makes of the answers that it gets: which of its statements must have
// been committed on all shards that have executed them, and which on none.
type told struct {
	o *observed
	// open: statements are a transaction's; manual: autocommit is off.
	open, manual bool
	// executed are the statements of the open transaction that were answered well, saved how many
	// of them there were at SAVEPOINT a.
	executed []int
	saved    int
	// all must have been committed, none must not.
	all, none []int
}

var committedOn = regexp.MustCompile(`; committed: (.*); rolled back: (.*)$`)

func (x *told) answered(i int, text string, err error) {
	var failed *mysqldriver.MySQLError
	errors.As(err, &failed)
	word, _, _ := strings.Cut(strings.TrimPrefix(text, "/* shunt: shard=s1 */ "), " ")
	switch {
	case slices.Contains([]string{"INSERT", "REPLACE", "UPDATE", "DELETE"}, word):
		switch x.executed = append(x.executed, i); {
		case !x.open:
			x.ended(err)
		case err != nil:
			x.executed = x.executed[:len(x.executed)-1]
			x.none = append(x.none, i)
		}
	case text == "SAVEPOINT a":
		x.saved = len(x.executed)
	case text == "ROLLBACK TO a" && err == nil:
		x.none, x.executed = append(x.none, x.executed[x.saved:]...), x.executed[:x.saved]
	case text == "ROLLBACK":
		x.none, x.executed, x.open = append(x.none, x.executed...), nil, x.manual
	case text == "COMMIT", text == "BEGIN", word == "START", strings.HasPrefix(text, "SET autocommit"):
		x.ended(err)
		x.manual = text == "SET autocommit = 0" && err == nil || x.manual && (text != "SET autocommit = 1" || err != nil)
		x.open = x.manual || (text == "BEGIN" || word == "START") && err == nil
	}
	if failed != nil && failed.Number == mysqlerr.LockDeadlock {
		x.none, x.executed, x.open = append(x.none, x.executed...), nil, x.manual
	}
}

// ended says what must have become of the transaction that a commit was to end.
func (x *told) ended(err error) {
	switch {
	case err == nil:
		x.all = append(x.all, x.executed...)
	case len(x.executed) > 0:
		x.o.mu.Lock()
		x.o.undone(x.executed, err)
		x.o.mu.Unlock()
	}
	x.executed = nil
}

// end checks what was committed when the session has ended.
func (x *told) end() {
	for _, i := range x.all {
		if x.o.committed[i] != x.o.done[i] {
			x.o.fail("statement %d is committed on %v of %v", i, x.o.committed[i], x.o.done[i])
		}
	}
	for _, i := range append(x.none, x.executed...) {
		if !x.o.committed[i].Empty() {
			x.o.fail("statement %d is committed on %v", i, x.o.committed[i])
		}
	}
}

// undone checks what an error says of where statements were committed. REQUIRES: mu.
func (o *observed) undone(statements []int, err error) {
	var committed, open catalog.ShardSet // open: it isn't known
	said := committedOn.FindStringSubmatch(err.Error())
	for id := range catalog.ShardID(observedShards) {
		name := fmt.Sprint("s", id)
		switch lost := strings.Contains(err.Error(), "shard "+name+" was lost") || strings.Contains(err.Error(), "on shard "+name+": ") && strings.Contains(err.Error(), "unknown"); {
		case said != nil && strings.Contains(said[1], name):
			committed.Add(id)
		case lost && said != nil, lost && o.done[statements[0]].Len() == 1:
			open.Add(id)
		}
	}
	// What failed on the first shard, or was lost before COMMIT, is nowhere.
	none := o.refused || o.d.what == "cut later" && statements[0] != o.at
	for _, i := range statements {
		if none && !o.committed[i].Empty() {
			o.fail("statement %d is committed on %v", i, o.committed[i])
		}
		for id := range o.done[i].All {
			if is := o.committed[i].Has(id); is != committed.Has(id) && !open.Has(id) {
				o.fail("statement %d is committed on s%d: %v, and the client was told otherwise", i, id, is)
			}
		}
	}
}

// interrupt marks the statement that a connection is at as one that was ended for a
// deadlock over several shards.
func (o *observed) interrupt(at deadlock.Thread) {
	o.p.sessions.mu.Lock()
	defer o.p.sessions.mu.Unlock()
	for s := range o.p.sessions.open {
		s.activity.mu.Lock()
		for _, x := range s.activity.running {
			if x.shard == at.Shard && x.conn.ThreadID == at.ID {
				x.conn.InterruptedBy(deadlock.Err)
			}
		}
		s.activity.mu.Unlock()
	}
}

var literalKeys = regexp.MustCompile(`'(k\d)'`)

// prepared checks that for all keys of a statement there are entries or marks, by a
// registration that is open.
func (o *observed) prepared(at deadlock.Thread, text string) {
	id := at.Shard
	for _, open := range o.opens {
		c := open.on[id]
		if !open.fits(at) || !slices.ContainsFunc(open.intends, func(s catalog.ShardSet) bool { return s.Has(id) }) {
			continue
		}
		table := c.Table("shop", "people")
		if strings.Contains(text, "notes") {
			table = c.Table("shop", "notes")
		}
		lacks := ""
		for _, ix := range table.Indexes {
			marked := slices.ContainsFunc(open.marks, func(m plan.Mark) bool { return m.Index.ID == ix.ID && m.Shard == id })
			for i, k := range literalKeys.FindAllStringSubmatch(text, -1) {
				ours := i%2 == int(ix.ID%10) // by_email has the first of each two, by_city the second
				added := slices.ContainsFunc(open.adds, func(e plan.Entry) bool {
					return e.Index.ID == ix.ID && e.Shard == id && bytes.Contains(e.Key, []byte(k[1]))
				})
				if ours && !marked && !added {
					lacks = ix.Name + " of " + k[1]
				}
			}
		}
		if lacks != "" {
			o.fail("s%d got %s: nothing in %s", id, text, lacks)
		}
		return
	}
	o.fail("s%d got %s: nothing was prepared", id, text)
}

// called counts a call of the index.
func (o *observed) call(what string) (disturbed string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, "index: "+what)
	if o.called++; o.called != o.d.at {
		return ""
	}
	if o.d.what == "publish" {
		o.p.opts.Directory.Put(observedCatalog(o.p.opts.Directory.Catalog().Shards, 2, "by_email", "by_city"))
	}
	if o.d.what == "fenced" {
		o.join++
	}
	return o.d.what
}

// observedBeside is an index over a network.
type observedBeside struct{ *observed }

func (o observedBeside) AddBeside(x Open, adds []plan.Entry) (wait func() error, err error) {
	if o.call("AddBeside") == "refuse" {
		return nil, ErrIndexFull
	}
	adds = slices.Clone(adds)
	for i := range adds {
		adds[i].Key = bytes.Clone(adds[i].Key)
	}
	o.mu.Lock()
	o.adding++
	o.mu.Unlock()
	return func() error {
		disturbed := o.call("Added")
		open := x.(*observedOpen)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.adding--; disturbed == "refuse" {
			return ErrIndexFull
		}
		open.adds = append(open.adds, adds...)
		return nil
	}, nil
}

func (o observedBeside) Ask(_ context.Context, questions []plan.Question) error {
	return o.ask(questions)
}

// Ask has the transaction look up by what it has added.
func (x *observedOpen) Ask(_ context.Context, questions []plan.Question) error {
	return x.o.ask(questions)
}

func (o *observed) ask(questions []plan.Question) error {
	for i := range questions {
		questions[i].Shards, questions[i].Err = o.Lookup(nil, nil, nil)
		questions[i].Within = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.adding > 0 {
		o.fail("a lookup beside what the transaction adds")
	}
	return nil
}

// alone is a process beside which there is none.
type alone struct {
	turn sync.Mutex
	lost error // the turn
	ids  atomic.Uint32
}

func (a *alone) TakeTurn(context.Context) error {
	a.turn.Lock()
	return nil
}

func (a *alone) GiveTurn()       { a.turn.Unlock() }
func (a *alone) TurnKept() error { return a.lost }
func (a *alone) TakeTables(context.Context, ...catalog.TableName) (kept func() error, give func(), err error) {
	return a.TurnKept, func() {}, nil
}
func (a *alone) TablesHeld(context.Context, catalog.Scope) (string, error) { return "", nil }
func (a *alone) AwaitTables(context.Context, catalog.Scope) error          { return nil }
func (a *alone) ConnectionID() uint32                                      { return a.ids.Add(1) }
func (a *alone) EndConnection(uint32)                                      {}

func (o *observed) Lookup(*catalog.Index, []byte, [][]byte) (catalog.ShardSet, error) {
	stale := o.call("Lookup") == "publish"
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stale = stale
	return catalog.Only(0).Union(catalog.Only(2)), nil
}

func (o *observed) Range(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) {
	return catalog.ShardSet{}, false, nil
}

func (o *observed) Removals() uint64 { return 0 }

func (o *observed) Begin(set catalog.ShardSet) Open {
	open := &observedOpen{o: o, on: map[catalog.ShardID]*catalog.Catalog{}, joins: map[catalog.ShardID]uint64{}}
	o.mu.Lock()
	o.opens = append(o.opens, open)
	o.mu.Unlock()
	open.Extend(set)
	return open
}

func (o *observed) Passing(context.Context, Open) plan.Indexes { return nil }

func (o *observed) AwaitOpen(context.Context, catalog.ShardSet) error { return nil }

func (o *observed) Prepare(_ context.Context, x Open, adds []plan.Entry, marks []plan.Mark, tables []*catalog.Table, shards catalog.ShardSet) error {
	if o.call("Prepare") == "refuse" {
		return ErrIndexFull
	}
	open := x.(*observedOpen)
	o.mu.Lock()
	defer o.mu.Unlock()
	open.adds, open.marks = append(open.adds, adds...), append(open.marks, marks...)
	o.redefined = o.redefined && len(marks) == 0
	if len(tables) > 0 {
		open.intends = append(open.intends, shards)
	}
	return nil
}

func (o *observed) After([]plan.Maintenance) { o.call("After") }

func (o *observed) Observe([]plan.Probe, catalog.ShardSet, catalog.ShardSet) {}

func (x *observedOpen) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	return x.o.Lookup(ix, key, components)
}

func (x *observedOpen) Range(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
	return x.o.Range(ix, from, to, limit)
}

func (x *observedOpen) Removals() uint64 { return x.o.Removals() }

func (x *observedOpen) Extend(set catalog.ShardSet) {
	x.o.call("Extend")
	x.o.mu.Lock()
	defer x.o.mu.Unlock()
	for id := range set.All {
		if x.on[id] == nil {
			x.on[id], x.joins[id] = x.o.p.opts.Directory.Catalog(), x.o.join
		}
	}
}

// fits reports that it is registered where a thread is, under the join of that connection.
func (x *observedOpen) fits(at deadlock.Thread) bool {
	return x.on[at.Shard] != nil && x.joins[at.Shard] == x.o.joins[at]
}

func (x *observedOpen) Fits(id catalog.ShardID, conn *shard.Conn) bool {
	x.o.mu.Lock()
	defer x.o.mu.Unlock()
	return x.fits(deadlock.Thread{Shard: id, ID: conn.ThreadID})
}

func (x *observedOpen) Writes(*plan.Change, catalog.ShardSet) {}

func (x *observedOpen) InDoubt(id catalog.ShardID, conn *shard.Conn, _ []plan.Maintenance) {
	x.inDoubt(id, conn.ThreadID, false)
}

func (x *observedOpen) DDLInDoubt(id catalog.ShardID, conn *shard.Conn) {
	number := uint32(0)
	if conn != nil {
		number = conn.ThreadID
	}
	x.inDoubt(id, number, true)
}

func (x *observedOpen) inDoubt(id catalog.ShardID, number uint32, ddl bool) {
	x.o.mu.Lock()
	defer x.o.mu.Unlock()
	x.o.log = append(x.o.log, fmt.Sprintf("index: InDoubt s%d %d %v", id, number, ddl))
	if c := x.o.conns[deadlock.Thread{Shard: id, ID: number}]; c != nil {
		c.open = c.open && c.ddl && !ddl
	}
	if x.ends(id); x.on[id] == nil {
		x.o.fail("s%d is in doubt and isn't registered", id)
	}
	delete(x.on, id)
}

func (x *observedOpen) End() {
	x.o.mu.Lock()
	defer x.o.mu.Unlock()
	if x.o.adding > 0 {
		x.o.fail("a registration ended before all was added")
	}
	for id := range x.on {
		x.ends(id)
		delete(x.on, id)
	}
}

// ends checks that nothing which the registration is for may still happen on a shard.
func (x *observedOpen) ends(id catalog.ShardID) {
	for at, c := range x.o.conns {
		if at.Shard == id && c.open {
			x.o.fail("the registration on s%d ended, and %v may still do something", id, at)
		}
	}
}
