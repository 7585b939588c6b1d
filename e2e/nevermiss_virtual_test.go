package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestNeverWrongVirtual: exact reads of virtual columns never differ from the aggregates over the rows, whatever
// becomes of Shunt and the shards meanwhile (SHUNT_NEVERMISS=10m: for so long).
//
// Each writer has conversations of its own, whose messages it knows; so it knows what their columns are to be at each
// read, but for a write whose outcome it wasn't told. It writes through Shunt, and straight to the shards. Fast reads are never
// later than SHOW VIRTUAL COLUMNS has said before.
func TestNeverWrongVirtual(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		p := conversations(t, f, setup{})
		createVirtuals(t, p)
		lasts := contestTime(t, 20*time.Second, 8*time.Second)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var work sync.WaitGroup
		var all [4]virtualWriter
		var n virtualCounts
		for i := range all {
			w := &all[i]
			fast := p.db(func(c *mysql.Config) { c.Params = map[string]string{"shunt_virtual_columns": "'fast'"} })
			*w = virtualWriter{t: t, p: p, db: p.db(), fast: fast, virtualCounts: &n, rnd: rand.New(rand.NewPCG(seed, uint64(i))), first: 100 + i*10, rows: map[int]message{}, unsure: true}
			for c := range 10 {
				mustExec(t, p.db(), fmt.Sprintf("INSERT INTO conversations VALUES (%d, 'w%d', %d)", w.first+c, i, i))
			}
			work.Go(func() { w.run(ctx) })
		}
		rnd, db := rand.New(rand.NewPCG(seed, 99)), p.db()
		work.Go(func() {
			for ctx.Err() == nil {
				pause(ctx, time.Duration(1000+rnd.IntN(2500))*time.Millisecond)
				switch rnd.IntN(5) {
				case 0:
					n.restarts.Add(1)
					p.kill()
					p.run()
				case 1:
					s := p.servers[rnd.IntN(len(p.servers))]
					s.Kill()
					if err := s.Start(t.Context()); err != nil {
						t.Errorf("start: %v", err)
						return
					}
				case 2:
					_, _ = db.ExecContext(ctx, "REBUILD VIRTUAL COLUMN total_price ON conversations")
				default:
					for name := range virtuals {
						_, _ = db.ExecContext(ctx, "CONSOLIDATE VIRTUAL COLUMN "+name+" ON conversations")
					}
				}
			}
		})
		work.Go(func() { // a slow machine has its time, and then goes on until all was seen
			defer stop()
			for pause(ctx, lasts); !n.worked() && !t.Failed(); pause(ctx, 50*time.Millisecond) {
			}
		})
		work.Wait()
		durable, _ := p.metric("shunt_virtual_column_reads_total", `from="durable"`)
		query, _ := p.metric("shunt_virtual_column_reads_total", `from="query"`)
		t.Logf("%d exact reads, %d fast ones, of which %d were late; %d files loaded, %d writes on the shards, %d statements failed; since the last start %.0f by durable values, %.0f by queries", n.reads.Load(), n.fasts.Load(), n.late.Load(), n.loaded.Load(), n.direct.Load(), n.failed.Load(), durable, query)
		if !n.worked() {
			t.Error("the test did not work")
		}
		p.shardsUp() // one may have been killed last
		virtualsReady(t, p)
		sameVirtuals(t, p, p.db())
		for name := range virtuals {
			want(t, p.db(), "CHECK VIRTUAL COLUMN "+name+" ON conversations", "Wrong", "0")
		}
	})
}

type message struct{ conversation, deleted, size int }

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// virtualWriter writes the messages of ten conversations.
type virtualWriter struct {
	t        *testing.T
	p        *process
	db, fast *sql.DB
	rnd      *rand.Rand
	first    int // conversation
	rows     map[int]message
	next     int
	// is what each conversation's columns are by now, was what they were, and until when, since unsure.
	is    [10]string
	was   [10][]virtualState
	since time.Time

	// unsure: the rows aren't known until they are read.
	unsure bool
	*virtualCounts
}

// virtualCounts are of all writers: exact reads, fast ones, those that were late, files loaded, writes on the shards, and statements
// that failed; and how often Shunt was killed.
type virtualCounts struct{ reads, fasts, late, loaded, direct, failed, restarts atomic.Int64 }

// worked reports that there was some of all.
func (n *virtualCounts) worked() bool {
	return n.reads.Load() >= 50 && n.fasts.Load() > 0 && n.loaded.Load() > 0 && n.direct.Load() > 0
}

// virtualState is what a conversation's columns were until the write was acknowledged that changed them.
type virtualState struct {
	text  string
	until time.Time
}

// loads notes rows that come to several shards, and so not at once.
func (w *virtualWriter) loads(made map[int]message) {
	before, ids, now := w.rows, slices.Collect(maps.Keys(made)), time.Now()
	for some := 1; some < 1<<len(ids); some++ {
		w.rows = maps.Clone(before)
		for i, id := range ids {
			if some&(1<<i) != 0 {
				w.rows[id] = made[id]
			}
		}
		for i := range w.is {
			if text := w.columns(w.first + i); text != w.is[i] {
				w.was[i] = append(w.was[i], virtualState{text, now})
			}
		}
	}
}

// changed notes what the columns are by now.
func (w *virtualWriter) changed() {
	now := time.Now()
	for i := range w.is {
		if text := w.columns(w.first + i); text != w.is[i] {
			w.was[i] = append(w.was[i], virtualState{w.is[i], now})
			w.is[i] = text
		}
	}
}

func (w *virtualWriter) any() (id int, m message, ok bool) {
	n := w.rnd.IntN(max(1, len(w.rows)))
	for i := w.first * 1000; i < w.first*1000+w.next; i++ {
		if m, ok := w.rows[i]; ok {
			if n == 0 {
				return i, m, true
			}
			n--
		}
	}
	return 0, m, false
}

func (w *virtualWriter) run(ctx context.Context) {
	for ctx.Err() == nil {
		if w.unsure && !w.learn(ctx) {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		w.write(ctx)
		switch {
		case w.unsure:
		case w.rnd.IntN(4) == 0:
			w.readFast(ctx)
		default:
			w.read(ctx)
		}
	}
}

// learn reads what rows there are.
func (w *virtualWriter) learn(ctx context.Context) bool {
	rows, err := rowsOf(ctx, w.db, fmt.Sprintf("SELECT id, conversation_id, deleted, size FROM messages WHERE id BETWEEN %d AND %d", w.first*1000, w.first*1000+9999))
	if err != nil {
		return false
	}
	w.rows = map[int]message{}
	for _, r := range rows {
		id, _ := strconv.Atoi(r["id"])
		c, _ := strconv.Atoi(r["conversation_id"])
		d, _ := strconv.Atoi(r["deleted"])
		s, _ := strconv.Atoi(r["size"])
		w.rows[id] = message{conversation: c, deleted: d, size: s}
	}
	w.unsure, w.was, w.since = false, [10][]virtualState{}, time.Now()
	for i := range w.is {
		w.is[i] = w.columns(w.first + i)
	}
	return true
}

// write writes once, and knows the outcome or is unsure.
func (w *virtualWriter) write(ctx context.Context) {
	id, m, ok := w.any()
	conversation := w.first + w.rnd.IntN(10)
	var sql string
	var after func()
	send := func() error {
		_, err := w.db.ExecContext(ctx, sql)
		return err
	}
	switch kind := w.rnd.IntN(10); {
	case kind < 3 || !ok:
		id = w.first*1000 + w.next
		if w.next++; w.next > 900 {
			w.next = 0
		}
		made := message{conversation: conversation, deleted: w.rnd.IntN(3), size: w.rnd.IntN(100)}
		sql = fmt.Sprintf("REPLACE INTO messages VALUES (%d, %d, %d, %d, 1.25)", id, conversation, made.deleted, made.size)
		after = func() { w.rows[id] = made }
	case kind == 3:
		sql = fmt.Sprintf("DELETE FROM messages WHERE id = %d", id)
		after = func() { delete(w.rows, id) }
	case kind == 4:
		sql = fmt.Sprintf("UPDATE messages SET conversation_id = %d WHERE id = %d", conversation, id)
		after = func() { m.conversation = conversation; w.rows[id] = m }
	case kind == 5:
		sql = fmt.Sprintf("UPDATE messages SET deleted = 1 - deleted WHERE id = %d AND deleted < 2", id)
		after = func() {
			if m.deleted < 2 {
				m.deleted = 1 - m.deleted
				w.rows[id] = m
			}
		}
	case kind == 6:
		sql = fmt.Sprintf("UPDATE messages SET size = size + 7 WHERE id = %d", id)
		after = func() { m.size += 7; w.rows[id] = m }
	case kind == 7: // on the shard that has it
		sql = fmt.Sprintf("UPDATE %s.messages SET size = size + 11, conversation_id = %d WHERE id = %d", w.p.schema, conversation, id)
		send = func() error {
			for i := range w.p.servers {
				if _, err := w.p.shard(i).ExecContext(ctx, sql); err != nil {
					return err
				}
			}
			w.direct.Add(1)
			return nil
		}
		after = func() { m.size += 11; m.conversation = conversation; w.rows[id] = m }
	case kind == 8: // a file
		var file strings.Builder
		made := map[int]message{}
		for range 5 {
			id := w.first*1000 + w.next
			w.next = (w.next + 1) % 900
			m := message{conversation: w.first + w.rnd.IntN(10), deleted: w.rnd.IntN(3), size: w.rnd.IntN(100)}
			made[id] = m
			fmt.Fprintf(&file, "%d\t%d\t%d\t%d\t1.25\n", id, m.conversation, m.deleted, m.size)
		}
		name := fmt.Sprintf("%s-%d", w.p.schema, w.first)
		mysql.RegisterReaderHandler(name, func() io.Reader { return strings.NewReader(file.String()) })
		sql = "LOAD DATA LOCAL INFILE 'Reader::" + name + "' REPLACE INTO TABLE messages (id, conversation_id, deleted, size, price)"
		after = func() { w.loads(made); w.loaded.Add(1) }
	default: // rolled back
		c, err := w.db.Conn(ctx)
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.ExecContext(ctx, "BEGIN"); err == nil {
			_, _ = c.ExecContext(ctx, fmt.Sprintf("DELETE FROM messages WHERE id = %d", id))
			_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
		return
	}
	if err := send(); err != nil {
		w.failed.Add(1)
		w.unsure = true
		return
	}
	after()
	w.changed()
}

// columns are what a conversation's virtual columns are to be.
func (w *virtualWriter) columns(conversation int) string {
	n, last, least, sizes := 0, -1, -1, 0
	for id, m := range w.rows {
		if m.conversation != conversation {
			continue
		}
		n++
		if m.deleted == 0 {
			last = max(last, id)
		}
		if m.deleted == 0 || m.deleted == 2 {
			sizes++
		}
		if least < 0 || m.size < least {
			least = m.size
		}
	}
	null := func(n int) string {
		if n < 0 {
			return "NULL"
		}
		return strconv.Itoa(n)
	}
	price := "NULL"
	if n > 0 {
		price = fmt.Sprintf("%.2f", 1.25*float64(n))
	}
	return strings.Join([]string{strconv.Itoa(n), null(last), price, null(least), strconv.Itoa(sizes)}, " ")
}

// readColumns are those that readBy reads.
var readColumns = []string{"total_messages", "last_msg_id", "total_price", "least_size", "sizes"}

// readBy reads a conversation's columns, by one of the ways to write its key. ok is false where nobody has answered.
func (w *virtualWriter) readBy(ctx context.Context, db *sql.DB, conversation int) (text string, ok bool) {
	query, args := fmt.Sprintf("SELECT %s FROM conversations WHERE id = %d", strings.Join(readColumns, ", "), conversation), []any(nil)
	switch w.rnd.IntN(3) {
	case 0:
		query = strings.Replace(query, strconv.Itoa(conversation), "?", 1)
		args = []any{conversation}
	case 1:
		query = strings.Replace(query, strconv.Itoa(conversation), "'"+strconv.Itoa(conversation)+"'", 1)
	}
	rows, err := rowsOf(ctx, db, query, args...)
	if err != nil || len(rows) != 1 {
		if err == nil {
			w.t.Errorf("conversation %d: %v", conversation, rows)
		}
		w.failed.Add(1)
		return "", false
	}
	var is []string
	for _, name := range readColumns {
		is = append(is, rows[0][name])
	}
	return strings.Join(is, " "), true
}

// read compares the columns of a conversation with what is known.
func (w *virtualWriter) read(ctx context.Context) {
	i := w.rnd.IntN(len(w.is))
	if is, ok := w.readBy(ctx, w.db, w.first+i); ok {
		w.reads.Add(1)
		if is != w.is[i] {
			w.t.Errorf("conversation %d has %s, wanted %s", w.first+i, is, w.is[i])
		}
	}
}

// readFast compares what a fast read has with what there was when SHOW VIRTUAL COLUMNS had said how late it is at most.
func (w *virtualWriter) readFast(ctx context.Context) {
	restarts, began := w.restarts.Load(), time.Now()
	shown, err := rowsOf(ctx, w.db, "SHOW VIRTUAL COLUMNS")
	if err != nil {
		return
	}
	lag := time.Duration(0)
	for _, r := range shown {
		if slices.Contains(readColumns, r["Name"]) {
			seconds, err := strconv.ParseFloat(r["Lag"], 64)
			if err != nil {
				return // it isn't known
			}
			lag = max(lag, time.Duration(seconds*float64(time.Second))+50*time.Millisecond) // which is rounded
		}
	}
	from := began.Add(-lag)
	if from.Before(w.since) {
		return
	}
	i := w.rnd.IntN(len(w.is))
	is, ok := w.readBy(ctx, w.fast, w.first+i)
	if !ok || w.restarts.Load() != restarts {
		return
	}
	w.fasts.Add(1)
	if is == w.is[i] {
		return
	}
	w.late.Add(1)
	// Each column is as late as it is.
	for k, value := range strings.Fields(is) {
		of := func(text string) bool { return strings.Fields(text)[k] == value }
		if !of(w.is[i]) && !slices.ContainsFunc(w.was[i], func(s virtualState) bool { return !s.until.Before(from) && of(s.text) }) {
			w.t.Errorf("fast, conversation %d: %s is %s, which it wasn't in the last %s: %s; it is %s, and was %v", w.first+i, readColumns[k], value, time.Since(from), is, w.is[i], w.was[i][max(0, len(w.was[i])-5):])
		}
	}
}
