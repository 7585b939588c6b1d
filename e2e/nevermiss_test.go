package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// The never-miss test: writers of every kind and readers by virtual index
// beside each other, with kill -9 of the proxy in between. No read may lack a
// row whose write was acknowledged before it began.
const (
	writers = 8
	readers = 8
	// Each writer owns this many row ids and emails, so that it alone knows
	// what its rows hold.
	idsPerWriter    = 120
	emailsPerWriter = 40
	tenantsPerOwner = 5
)

var cities = []string{"Rome", "Oslo", "nowhere", "Lima", "Kyiv"}

// stored is what a row holds.
type stored struct {
	present bool
	tenant  int
	// email "" stands for NULL.
	email, city string
}

// cell is one row id in a writer's ledger.
type cell struct {
	stored
	// version rises with each change and each beginning of one.
	version int
	// pending: a statement that may change the row is on its way, or nobody
	// knows what became of one.
	pending bool
}

// ledger is what a writer knows of its rows: the oracle.
type ledger struct {
	mu    sync.Mutex
	cells map[int]cell
}

// begin notes that a statement will be sent that may change the rows.
func (l *ledger) begin(ids ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		c := l.cells[id]
		c.pending = true
		c.version++
		l.cells[id] = c
	}
}

// settle notes what the rows hold after an acknowledgement.
func (l *ledger) settle(rows map[int]stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range rows {
		l.cells[id] = cell{stored: s, version: l.cells[id].version + 1}
	}
}

func (l *ledger) view() map[int]cell {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.cells)
}

// compare judges the ids that a read returned, given the ledger before it
// began and after it ended. Rows that changed meanwhile, or may have, say
// nothing.
func compare(before, after map[int]cell, matches func(id int, s stored) bool, got map[int]bool) (missed, wrong []int) {
	for id, b := range before {
		if a := after[id]; b.pending || a.pending || a.version != b.version {
			continue
		}
		switch expected := b.present && matches(id, b.stored); {
		case expected && !got[id]:
			missed = append(missed, id)
		case !expected && got[id]:
			wrong = append(wrong, id)
		}
	}
	return missed, wrong
}

// contest is one run of the test.
type contest struct {
	t       *testing.T
	p       *process
	db      *sql.DB
	account string
	ledgers [writers]*ledger
	// ways are the Shunts that statements go by. The first is p.
	ways []*way
	// answerTime is how long a client waits for an answer; 0: 30 s.
	answerTime time.Duration

	// shards are connections around Shunt.
	shards []*sql.DB
	// numbered, if set, are of a table whose rows are numbered.
	numbered *numbered
	// outages: shards fail.
	outages bool
	// ended, where shards fail, waits until nothing runs any more on a shard for connections that are gone. The proxy
	// gives a shard up, and all connections to it, at any time while others fail, and behind that.
	ended func()
	// tolerated are further error codes that what the test does explains, excused those of a way that is disturbed.
	tolerated, excused []uint16
	// still is held by a writer for each of its changes, and to keep all of
	// them still.
	still sync.RWMutex

	mu sync.Mutex
	// up is closed when the proxy serves again after the last kill, settled
	// when the killed one's last statement is over on the shards too.
	up, settled chan struct{}

	// forgotten: a shard lacks its last second, so that a row may be there twice until the writers have learned that.
	forgotten atomic.Bool

	// told is what has become of each row, the newest last: see tell.
	told map[int][]string

	// crossed are reads of what another Shunt has written.
	reads, writes, transactions, kills, crossed atomic.Int64
	failures                                    atomic.Int64
}

const contestMaintenance = "{delay: 50ms, scan_duty: 0.5, reconcile_every: 5s, workers: 2, audit: 0.2}"

func TestNeverMiss(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) { neverMiss(t, f, f.servers(t), contestMaintenance) })
}

// contestTime is how long a contest lasts: SHUNT_NEVERMISS if that is set (10m), in short tests less.
func contestTime(t *testing.T, usual, short time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv("SHUNT_NEVERMISS")
	if s == "" {
		return suite.Size(short, usual)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func neverMiss(t *testing.T, f *flavour, servers []*throwaway.Server, maintenance string) {
	duration := contestTime(t, 20*time.Second, 8*time.Second)
	killEvery := min(20*time.Second, max(duration/4, 5*time.Second))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %s, %d writers, %d readers, kill -9 each %s", seed, duration, writers, readers, killEvery)

	// An account of its own on the shards tells this proxy's sessions there.
	n := &contest{t: t, account: fmt.Sprintf("nm%d", schemaCounter.Add(1))}
	for _, s := range servers {
		db := onShard(t, s, "")
		mustExec(t, db, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'pw'", n.account))
		mustExec(t, db, fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%'", n.account))
		t.Cleanup(func() {
			db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", s.User, s.Password, s.Addr()))
			if err == nil {
				_, _ = db.ExecContext(context.Background(), "DROP USER '"+n.account+"'@'%'") // the servers go anyway
				db.Close()
			}
		})
	}
	n.p = start(t, f, setup{
		servers: servers,
		tables:  []string{"people: {shard_key: tenant}", "templates: {shard_key: tenant}"},
		user:    n.account, password: "pw",
		maintenance: maintenance,
	})
	n.prepare()
	n.run(seed, duration, killEvery, n.restart)
	n.verify()
	t.Logf("%d reads, %d writes, %d transactions, %d kills", n.reads.Load(), n.writes.Load(), n.transactions.Load(), n.kills.Load())
}

func (n *contest) prepare() {
	suite.Promise(n.t)
	n.ways = []*way{n.wayBy(n.p)}
	n.db = n.ways[0].db
	for _, s := range n.p.servers {
		n.shards = append(n.shards, onShard(n.t, s, ""))
	}
	mustExec(n.t, n.db, `CREATE TABLE people (tenant BIGINT NOT NULL, id BIGINT NOT NULL, email VARCHAR(80),
		city VARCHAR(40) NOT NULL DEFAULT 'nowhere', n INT NOT NULL DEFAULT 0, PRIMARY KEY (tenant, id), KEY (email), KEY (city, email), KEY (id))`)
	mustExec(n.t, n.db, "CREATE TABLE templates (tenant BIGINT NOT NULL, id BIGINT NOT NULL, email VARCHAR(80), city VARCHAR(40) NOT NULL, PRIMARY KEY (tenant, id))")
	var b strings.Builder
	for w := range writers {
		n.ledgers[w] = &ledger{cells: map[int]cell{}}
		for id := w * idsPerWriter; id < (w+1)*idsPerWriter; id++ {
			n.ledgers[w].cells[id] = cell{}
		}
		for k := range tenantsPerOwner {
			tenant := w*tenantsPerOwner + k
			for e := range emailsPerWriter {
				if b.Len() > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, "(%d,%d,'%s','%s')", tenant, e, email(w, e), cities[e%len(cities)])
			}
		}
	}
	mustExec(n.t, n.db, "INSERT INTO templates (tenant, id, email, city) VALUES "+b.String())
	n.p.createIndex(n.db, "idx_email", "people (email)")
	n.p.createIndex(n.db, "idx_city_email", "people (city, email) PARTITIONS 3")
	n.p.createIndex(n.db, "idx_id", "people (id)")
}

// email is the e-th email of a writer.
func email(w, e int) string { return fmt.Sprintf("w%d-e%d@x", w, e) }

// run lets writers and readers work for a time, and disturbs them. What runs beside ends with its context.
func (n *contest) run(seed uint64, duration, disturbEvery time.Duration, disturb func(), beside ...func(context.Context)) {
	ctx, cancel := context.WithTimeout(n.t.Context(), duration)
	defer cancel()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			(&writer{contest: n, w: w, l: n.ledgers[w], rnd: rand.New(rand.NewPCG(seed, uint64(w)))}).run(ctx)
		})
	}
	for r := range readers {
		wg.Go(func() { n.read(ctx, rand.New(rand.NewPCG(seed, uint64(1000+r)))) })
	}
	for _, fn := range beside {
		wg.Go(func() { fn(ctx) })
	}
	tick := time.NewTicker(disturbEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			wg.Wait()
			return
		case <-tick.C:
			if n.failures.Load() > 0 { // more disturbances would hide what it comes from
				cancel()
				continue
			}
			disturb()
		}
	}
}

// breathe is what a client does between statements, so that a contest leaves other tests some of the
// processors; one of a length of its own (make soak) has them for itself.
func breathe() {
	if os.Getenv("SHUNT_NEVERMISS") == "" {
		time.Sleep(5 * time.Millisecond)
	}
}

// restart kills the proxy, starts it again on its store at once, and tells when
// the killed one's last statement is over: until then a write whose outcome
// nobody knows may still be done.
func (n *contest) restart() {
	up, settled := make(chan struct{}), make(chan struct{})
	n.mu.Lock()
	n.up, n.settled = up, settled
	n.mu.Unlock()
	n.p.kill()
	n.kills.Add(1)
	old := make([]map[string]bool, len(n.shards))
	for i := range n.shards {
		old[i] = n.sessions(i)
	}
	if err := n.p.launch(); err != nil {
		n.fail("restart: %v", err)
	}
	close(up)
	for i := range n.shards {
		eventually(n.t, "the shards notice that the proxy was killed", func() bool {
			for id := range n.sessions(i) {
				if old[i][id] {
					return false
				}
			}
			return true
		})
	}
	close(settled)
}

// sessions are the ids of the proxy's connections on a shard.
func (n *contest) sessions(shard int) map[string]bool {
	rows, err := rowsOf(context.Background(), n.shards[shard], "SELECT id FROM information_schema.processlist WHERE user = '"+n.account+"'")
	if err != nil {
		n.fail("list sessions of s%d: %v", shard, err)
	}
	ids := map[string]bool{}
	for _, r := range rows {
		ids[r["id"]] = true
	}
	return ids
}

// awaitUp waits until a proxy that is being killed serves again, awaitSettled
// until what it left on the shards is over, too.
func (n *contest) awaitUp() { await(n, func() chan struct{} { return n.up }) }

func (n *contest) awaitSettled() { await(n, func() chan struct{} { return n.settled }) }

func await(n *contest, which func() chan struct{}) {
	n.mu.Lock()
	c := which()
	n.mu.Unlock()
	if c != nil {
		<-c
	}
}

func (n *contest) fail(format string, args ...any) {
	if n.failures.Add(1) <= 20 {
		n.t.Errorf(format, args...)
	}
}

// direct reads rows on the shards themselves: id -> what it holds, where.
func (n *contest) direct(ids ...int) (map[int]stored, map[int]string) {
	rows, at := map[int]stored{}, map[int]string{}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
	query := "SELECT tenant, id, COALESCE(email, '') AS email, city FROM " + n.p.schema + ".people"
	if len(ids) > 0 {
		query += " WHERE id IN (" + list + ")"
	}
	for i, db := range n.shards {
		answer, err := rowsOf(context.Background(), db, query)
		for began := time.Now(); (noTable(err) || err != nil && n.outages) && time.Since(began) < changeTime; {
			// It is being renamed, or the shard is down, and comes back.
			time.Sleep(time.Millisecond)
			answer, err = rowsOf(context.Background(), db, query)
		}
		if err != nil {
			n.fail("read shard s%d: %v", i, err)
		}
		for _, r := range answer {
			var id, tenant int
			if _, err := fmt.Sscan(r["id"]+" "+r["tenant"], &id, &tenant); err != nil {
				n.fail("read shard s%d: %v", i, err)
			}
			if _, twice := rows[id]; twice && !n.forgotten.Load() {
				n.fail("row %d is there twice, on %s and s%d:\n%s", id, at[id], i, n.toldOf(id))
			}
			rows[id] = stored{true, tenant, r["email"], r["city"]}
			at[id] = fmt.Sprintf("s%d", i)
		}
	}
	return rows, at
}

// tell notes what becomes of rows, for who wonders later.
func (n *contest) tell(ids []int, format string, args ...any) {
	const most = 12
	text := time.Now().UTC().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told == nil {
		n.told = map[int][]string{}
	}
	for _, id := range ids {
		told := append(n.told[id], text)
		n.told[id] = told[max(0, len(told)-most):]
	}
}

func (n *contest) toldOf(id int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.told[id], "\n")
}

func noTable(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1146
}

// connectionLost tells a lost connection, after which nobody knows what became
// of the statement, from an answer of the server.
func connectionLost(err error) bool {
	var e *mysql.MySQLError
	return err != nil && !errors.As(err, &e)
}

// read is one reader.
func (n *contest) read(ctx context.Context, rnd *rand.Rand) {
	for ; ctx.Err() == nil; breathe() {
		w := rnd.IntN(writers)
		e, e2 := email(w, rnd.IntN(emailsPerWriter)), email(w, rnd.IntN(emailsPerWriter))
		city := cities[rnd.IntN(len(cities))]
		id := w*idsPerWriter + rnd.IntN(idsPerWriter)
		var query string
		var args []any
		var matches func(int, stored) bool
		switch rnd.IntN(8) {
		case 0, 1:
			query, args = "SELECT id FROM people WHERE email = ?", []any{e}
			matches = func(_ int, s stored) bool { return s.email == e }
		case 2:
			query = fmt.Sprintf("SELECT id FROM people WHERE email = '%s'", e)
			matches = func(_ int, s stored) bool { return s.email == e }
		case 3:
			query = fmt.Sprintf("SELECT id FROM people WHERE email IN ('%s', '%s')", e, e2)
			matches = func(_ int, s stored) bool { return s.email == e || s.email == e2 }
		case 4:
			query = fmt.Sprintf("SELECT id FROM people WHERE city = '%s' AND email = '%s'", city, e)
			matches = func(_ int, s stored) bool { return s.email == e && s.city == city }
		case 5:
			query, args = "SELECT id FROM people WHERE id = ?", []any{id}
			matches = func(i int, _ stored) bool { return i == id }
		case 6:
			query = fmt.Sprintf("SELECT id FROM people WHERE email LIKE 'w%d-e1%%'", w)
			prefix := fmt.Sprintf("w%d-e1", w)
			matches = func(_ int, s stored) bool { return strings.HasPrefix(s.email, prefix) }
		case 7:
			n.readSnapshot(ctx, rnd, w)
			continue
		}
		by := n.pick(rnd)
		before := n.ledgers[w].view()
		rows, err := rowsOf(ctx, by.db, query, args...)
		if err != nil {
			n.readFailed(ctx, by, query, err)
			continue
		}
		after := n.ledgers[w].view()
		n.reads.Add(1)
		got := map[int]bool{}
		for _, r := range rows {
			var id int
			if _, err := fmt.Sscan(r["id"], &id); err != nil {
				n.fail("%s: %v", query, err)
			}
			// A row that is deleted and comes back on another shard while
			// both are read may be seen on each: a read over several shards
			// is no snapshot of all. One that nobody touched can't.
			b, a := before[id], after[id]
			if got[id] && !b.pending && !a.pending && a.version == b.version {
				n.fail("%s %v%s: row %d comes twice", query, args, by, id)
			}
			got[id] = true
		}
		missed, wrong := compare(before, after, matches, got)
		if len(missed)+len(wrong) > 0 {
			n.report(by, query, args, before, missed, wrong)
		}
	}
}

// report says all that helps to understand a miss.
func (n *contest) report(by going, query string, args []any, before map[int]cell, missed, wrong []int) {
	var b strings.Builder
	rows, at := n.direct(append(missed, wrong...)...)
	for _, id := range missed {
		fmt.Fprintf(&b, "\n  missed %d: known %+v; on the shards now: %+v at %s", id, before[id].stored, rows[id], at[id])
	}
	for _, id := range wrong {
		fmt.Fprintf(&b, "\n  wrong %d: known %+v; on the shards now: %+v at %s", id, before[id].stored, rows[id], at[id])
	}
	if explained, err := rowsOf(context.Background(), by.db, "EXPLAIN ROUTE "+query, args...); err == nil {
		fmt.Fprintf(&b, "\n  route now: %v", explained)
	}
	n.fail("%s %v%s%s", query, args, by, b.String())
}

// explained tells errors that a lock conflict or what the test does explains, or that the way was disturbed: a proxy
// that drains (1053), a shard's connection lost in the same moment (2013), its own connection lost. A contest of one
// way is always disturbed.
func (n *contest) explained(by going, err error) bool {
	disturbed := len(n.ways) == 1 || by.wasDisturbed()
	e, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case !ok:
		return disturbed
	case slices.Contains([]uint16{1205, 1213, 1020}, e.Number), slices.Contains(n.tolerated, e.Number):
		return true
	}
	return disturbed && (slices.Contains([]uint16{1053, 2013}, e.Number) || slices.Contains(n.excused, e.Number))
}

// readFailed ignores what a kill explains.
func (n *contest) readFailed(ctx context.Context, by going, query string, err error) {
	if ctx.Err() == nil && !n.explained(by, err) {
		n.fail("%s%s: %v", query, by, err)
	}
	if connectionLost(err) {
		n.awaitUp()
	}
}

// readSnapshot reads by index inside of a transaction whose snapshot is older
// than the rows' newest state: what it saw once it must find again.
func (n *contest) readSnapshot(ctx context.Context, rnd *rand.Rand, w int) {
	by := n.pick(rnd)
	tx, err := by.db.BeginTx(ctx, nil) // REPEATABLE READ unless said otherwise
	if err != nil {
		n.readFailed(ctx, by, "BEGIN", err)
		return
	}
	defer func() { _ = tx.Rollback() }() // read only
	tenant := w*tenantsPerOwner + rnd.IntN(tenantsPerOwner)
	query := fmt.Sprintf("SELECT id, email FROM people WHERE tenant = %d AND email IS NOT NULL", tenant)
	first, err := rowsOf(ctx, tx, query)
	if err != nil {
		n.readFailed(ctx, by, query, err)
		return
	}
	for _, r := range first {
		query := fmt.Sprintf("SELECT id FROM people WHERE email = '%s'", r["email"])
		again, err := rowsOf(ctx, tx, query)
		if err != nil {
			n.readFailed(ctx, by, query, err)
			return
		}
		n.reads.Add(1)
		if !slices.ContainsFunc(again, func(x row) bool { return x["id"] == r["id"] }) {
			n.fail("in a snapshot%s: row %s of tenant %d had email %s, but %s finds %v", by, r["id"], tenant, r["email"], query, again)
		}
	}
}

// verify compares everything once the writers have stopped.
func (n *contest) verify() {
	t := n.t
	known := map[int]cell{}
	for _, l := range n.ledgers {
		maps.Copy(known, l.view())
	}
	rows, at := n.direct()
	for id, c := range known {
		if c.pending {
			t.Errorf("row %d is still pending", id)
		}
		if got := rows[id]; got != c.stored {
			t.Errorf("row %d: known %+v, on the shards %+v at %s", id, c.stored, got, at[id])
		}
	}
	if n.reads.Load() == 0 || n.writes.Load() == 0 || n.transactions.Load() == 0 {
		t.Errorf("%d reads, %d writes, %d transactions: the test did not work", n.reads.Load(), n.writes.Load(), n.transactions.Load())
	}
	// Every email by index, against what the shards hold.
	byEmail := map[string][]string{}
	for id, s := range rows {
		byEmail[s.email] = append(byEmail[s.email], fmt.Sprint(id))
	}
	for w := range writers {
		for e := range emailsPerWriter {
			want(t, n.ways[e%len(n.ways)].db, fmt.Sprintf("SELECT id FROM people WHERE email = '%s'", email(w, e)), "id", byEmail[email(w, e)]...)
		}
	}
	eventually(t, "the indexes are built", func() bool { // a shard that joins has them built anew
		return !slices.ContainsFunc(mustRows(t, n.db, "SHOW VIRTUAL INDEXES"), func(r row) bool { return r["Status"] == "building" })
	})
	for _, index := range []string{"idx_email", "idx_city_email", "idx_id"} {
		check := func() (missing, stale int) {
			for _, r := range mustRows(t, n.db, "CHECK VIRTUAL INDEX "+index+" ON people") {
				var m, s int
				if _, err := fmt.Sscan(r["Missing"]+" "+r["Stale"], &m, &s); err != nil {
					t.Fatal(err)
				}
				missing, stale = missing+m, stale+s
			}
			return missing, stale
		}
		if missing, _ := check(); missing != 0 {
			t.Errorf("%s: %d missing entries", index, missing)
		}
		eventuallyEach(t, time.Second, "all stale entries of "+index+" are gone", func() bool {
			_, stale := check()
			return stale == 0
		})
	}
}
