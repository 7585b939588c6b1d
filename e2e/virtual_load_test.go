package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// TestVirtualLoad measures virtual columns in pairs (A B A B), for SHUNT_VIRTUAL_TIME each: reads by what they replace
// and by a read without them, writes to the child's rows with and without. It only runs when asked to: make virtual-load.
func TestVirtualLoad(t *testing.T) {
	each, err := time.ParseDuration(os.Getenv("SHUNT_VIRTUAL_TIME"))
	if err != nil {
		t.Skip("SHUNT_VIRTUAL_TIME is not set")
	}
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) { virtualLoad(t, f, each) })
	}
}

func virtualLoad(t *testing.T, f *flavour, each time.Duration) {
	const parents, large, connections = 10000, 10000, 8
	p := start(t, f, setup{servers: f.own(t, 4, f.binlogs()...), tables: []string{"conversations: {shard_key: id}", "messages: {shard_key: id}"}})
	db := p.db()
	db.SetMaxIdleConns(4*connections + 3)
	mustExec(t, db, "CREATE TABLE conversations (id BIGINT PRIMARY KEY, title VARCHAR(50), user_id BIGINT)")
	mustExec(t, db, "CREATE TABLE messages (id BIGINT PRIMARY KEY, conversation_id BIGINT, deleted INT, sent DATETIME, body VARCHAR(100), KEY (conversation_id))")
	for from := 0; from < parents; from += 1000 {
		mustExec(t, db, "INSERT INTO conversations VALUES "+rowsFor(1000, func(i int) string { return fmt.Sprintf("(%d, 't', 1)", from+i) }))
	}
	id := 0
	add := func(n int, conversation func(int) int) {
		for from := 0; from < n; from += 1000 {
			mustExec(t, db, "INSERT INTO messages VALUES "+rowsFor(1000, func(i int) string {
				id++
				return fmt.Sprintf("(%d, %d, 0, '2026-01-01 00:00:00', 'a message of some words')", id, conversation(from+i))
			}))
		}
	}
	add(large, func(int) int { return 1 })
	add(5*parents, func(i int) int { return 1 + i%parents })
	next := atomic.Int64{}
	next.Store(int64(id))

	fast := p.db(func(c *mysql.Config) { c.Params = map[string]string{"shunt_virtual_columns": "'fast'"} })
	fast.SetMaxIdleConns(4 * connections)
	rateOf := func(db *sql.DB, statement func(*rand.Rand) string, connections int) float64 {
		ctx, cancel := context.WithTimeout(t.Context(), each)
		defer cancel()
		var done atomic.Int64
		var running sync.WaitGroup
		began := time.Now()
		for w := range connections {
			running.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 1))
				for ctx.Err() == nil {
					sql := statement(rnd)
					var err error
					if sql[0] == 'S' {
						_, err = rowsOf(ctx, db, sql)
					} else {
						_, err = db.ExecContext(ctx, sql)
					}
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
					if err == nil {
						done.Add(1)
					}
				}
			})
		}
		running.Wait()
		return float64(done.Load()) / time.Since(began).Seconds()
	}
	rate := func(statement func(*rand.Rand) string, connections int) float64 {
		return rateOf(db, statement, connections)
	}
	const total, last, sent = "(SELECT COUNT(*) FROM messages m WHERE m.conversation_id = conversations.id)", "(SELECT MAX(m.id) FROM messages m WHERE m.conversation_id = conversations.id)", "(SELECT MAX(m.sent) FROM messages m WHERE m.conversation_id = conversations.id)"
	define := func(on bool) {
		for name, query := range map[string]string{"total_messages": total, "last_msg_id": last, "last_sent": sent} {
			if on {
				mustExec(t, db, "CREATE VIRTUAL COLUMN "+name+" ON conversations AS "+query)
			} else {
				mustExec(t, db, "DROP VIRTUAL COLUMN "+name+" ON conversations")
			}
		}
		if on {
			eventually(t, "they are ready", func() bool {
				ready := 0
				for _, r := range mustRows(t, db, "SHOW VIRTUAL COLUMNS") {
					if r["Status"] == "ready" {
						ready++
					}
				}
				return ready == 3
			})
		}
	}
	define(true)
	one := func(sql string) func(*rand.Rand) string { return func(*rand.Rand) string { return sql } }
	any := func(sql string) func(*rand.Rand) string {
		return func(r *rand.Rand) string { return fmt.Sprintf(sql, 1+r.IntN(parents)) }
	}
	pairs := func(what string, connections int, a, b func(*rand.Rand) string) {
		var as, bs float64
		for range 2 {
			as += rate(a, connections) / 2
			bs += rate(b, connections) / 2
		}
		t.Logf("%s: %.0f/s against %.0f/s: %.2f", what, as, bs, as/bs)
	}
	pairs("a conversation of 10,000 messages, by virtual columns against the aggregates", connections,
		one("SELECT total_messages, last_msg_id, last_sent FROM conversations WHERE id = 1"),
		one("SELECT "+total+", "+last+", "+sent+" FROM conversations WHERE id = 1"))
	warm := time.Now()
	for kept := 0; kept < 3*parents*9/10 && time.Since(warm) < patience; {
		rate(any("SELECT title, total_messages, last_msg_id, last_sent FROM conversations WHERE id = %d"), connections)
		kept = 0
		for _, r := range mustRows(t, db, "SHOW VIRTUAL COLUMNS") {
			n, _ := strconv.Atoi(r["Kept"])
			kept += n
		}
	}
	for _, n := range []int{connections, 4 * connections} {
		pairs(fmt.Sprintf("any conversation, exact, by %d connections, against a read without", n), n,
			any("SELECT title, total_messages, last_msg_id, last_sent FROM conversations WHERE id = %d"), any("SELECT title, user_id, user_id, user_id FROM conversations WHERE id = %d"))
	}
	var fastly, plainly float64
	for range 2 {
		fastly += rateOf(fast, any("SELECT title, total_messages, last_msg_id, last_sent FROM conversations WHERE id = %d"), connections) / 2
		plainly += rate(any("SELECT title, user_id, user_id, user_id FROM conversations WHERE id = %d"), connections) / 2
	}
	t.Logf("any conversation, fast, by %d connections, against a read without: %.0f/s against %.0f/s: %.2f", connections, fastly, plainly, fastly/plainly)
	pairs("SUM over 10,000 conversations, against the join that it replaces", 1,
		one("SELECT SUM(total_messages) FROM conversations"), one("SELECT COUNT(*) FROM conversations c JOIN messages m ON m.conversation_id = c.id"))
	insert := func(*rand.Rand) string {
		n := next.Add(1)
		return fmt.Sprintf("INSERT INTO messages VALUES (%d, %d, 0, '2026-01-01 00:00:00', 'a message of some words')", n, 1+n%parents)
	}
	var with, without float64
	for range 2 {
		with += rate(insert, connections) / 2
		define(false)
		without += rate(insert, connections) / 2
		define(true)
	}
	t.Logf("inserts with three virtual columns against none: %.0f/s against %.0f/s: %.2f", with, without, with/without)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		tick := time.NewTicker(time.Second / 500)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = db.ExecContext(t.Context(), insert(nil))
			case <-stop:
				return
			}
		}
	})
	pairs("any conversation beside 500 inserts a second, exact, against a read without", connections,
		any("SELECT title, total_messages, last_msg_id, last_sent FROM conversations WHERE id = %d"), any("SELECT title, user_id, user_id, user_id FROM conversations WHERE id = %d"))
	close(stop)
	writing.Wait()
	for _, name := range []string{"total_messages", "last_msg_id", "last_sent"} {
		want(t, db, "CHECK VIRTUAL COLUMN "+name+" ON conversations", "Wrong", "0")
	}
	durable, _ := p.metric("shunt_virtual_column_reads_total", `from="durable"`)
	query, _ := p.metric("shunt_virtual_column_reads_total", `from="query"`)
	memory, _ := p.metric("shunt_virtual_column_reads_total", `from="memory"`)
	t.Logf("%.0f reads by values in memory, %.0f by durable ones, %.0f by queries", memory, durable, query)
}
