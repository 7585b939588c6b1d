package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestNeverWrongVirtual: exact reads of virtual columns never differ from the aggregates over the rows, whatever
// becomes of Shunt and the shards meanwhile (SHUNT_NEVERMISS=10m: for so long).
//
// Each writer has conversations of its own, whose messages it knows; so it knows what their columns are to be at each
// read, but for a write whose outcome it wasn't told.
func TestNeverWrongVirtual(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		p := conversations(t, f, setup{})
		createVirtuals(t, p)
		lasts := contestTime(t, 20*time.Second, 8*time.Second)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		ctx, stop := context.WithTimeout(t.Context(), lasts)
		defer stop()
		var work sync.WaitGroup
		var counts [4]virtualWriter
		for i := range counts {
			w := &counts[i]
			*w = virtualWriter{t: t, db: p.db(), rnd: rand.New(rand.NewPCG(seed, uint64(i))), first: 100 + i*10, rows: map[int]message{}}
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
		work.Wait()
		reads, failed := 0, 0
		for i := range counts {
			reads += counts[i].reads
			failed += counts[i].failed
		}
		durable, _ := p.metric("shunt_virtual_column_reads_total", `from="durable"`)
		query, _ := p.metric("shunt_virtual_column_reads_total", `from="query"`)
		t.Logf("%d reads, %d statements failed; since the last start %.0f by durable values, %.0f by queries", reads, failed, durable, query)
		if reads < 50 {
			t.Errorf("%d reads only", reads)
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
	t             *testing.T
	db            *sql.DB
	rnd           *rand.Rand
	first         int // conversation
	rows          map[int]message
	next          int
	reads, failed int
	// unsure are conversations whose rows aren't known until they are read.
	unsure bool
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
		if !w.unsure {
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
	w.unsure = false
	return true
}

// write writes once, and knows the outcome or is unsure.
func (w *virtualWriter) write(ctx context.Context) {
	id, m, ok := w.any()
	conversation := w.first + w.rnd.IntN(10)
	var sql string
	var after func()
	switch kind := w.rnd.IntN(8); {
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
	if _, err := w.db.ExecContext(ctx, sql); err != nil {
		w.failed++
		w.unsure = true
		return
	}
	after()
}

// read compares the columns of a conversation with what is known.
func (w *virtualWriter) read(ctx context.Context) {
	conversation := w.first + w.rnd.IntN(10)
	rows, err := rowsOf(ctx, w.db, fmt.Sprintf("SELECT total_messages, last_msg_id, total_price, least_size, sizes FROM conversations WHERE id = %d", conversation))
	if err != nil || len(rows) != 1 {
		if err == nil {
			w.t.Errorf("conversation %d: %v", conversation, rows)
		}
		w.failed++
		return
	}
	w.reads++
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
	is := strings.Join([]string{rows[0]["total_messages"], rows[0]["last_msg_id"], rows[0]["total_price"], rows[0]["least_size"], rows[0]["sizes"]}, " ")
	if of := strings.Join([]string{strconv.Itoa(n), null(last), price, null(least), strconv.Itoa(sizes)}, " "); is != of {
		w.t.Errorf("conversation %d has %s, wanted %s", conversation, is, of)
	}
}
