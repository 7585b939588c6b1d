package e2e

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCoveringLoad measures reads by a covering index against the same ones routed, and writes of its table against those
// of one without INCLUDE, in pairs (A B A B), for SHUNT_COVERING_TIME each. It only runs when asked to: make covering-load.
func TestCoveringLoad(t *testing.T) {
	each, err := time.ParseDuration(os.Getenv("SHUNT_COVERING_TIME"))
	if err != nil {
		t.Skip("SHUNT_COVERING_TIME is not set")
	}
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) { coveringLoad(t, f, each) })
	}
}

// half is what was measured of one way.
type half struct {
	latency   time.Duration // median
	rate      float64       // a second
	processor time.Duration // of Shunt, by statement
}

func coveringLoad(t *testing.T, f *flavour, each time.Duration) {
	const people, connections = 1000, 8
	p := start(t, f, setup{servers: f.own(t, 4, f.binlogs()...), tables: []string{"covering: {shard_key: id}", "plain: {shard_key: id}"}, maintenance: "{follow: binlog}"})
	db := p.db()
	db.SetMaxIdleConns(connections + 3)
	for _, table := range []string{"covering", "plain"} {
		mustExec(t, db, "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY, email VARCHAR(50), name VARCHAR(50), age INT, KEY (email))")
		mustExec(t, db, "INSERT INTO "+table+" VALUES "+rowsFor(people, func(i int) string { return fmt.Sprintf("(%d, 'p%d@example.com', 'some name %d', %d)", i, i, i, i) }))
	}
	p.createIndex(db, "idx_covering", "covering (email) INCLUDE (name)")
	p.createIndex(db, "idx_plain", "plain (email)")
	p.settled(db)

	run := func(connections int, statement func(*rand.Rand) string) (h half) {
		var running sync.WaitGroup
		took := make([][]time.Duration, connections)
		before, began := processorOf(t, p), time.Now()
		for w := range connections {
			c := p.conn()
			running.Go(func() {
				defer c.Close()
				rnd := rand.New(rand.NewPCG(uint64(w), rand.Uint64()))
				for time.Since(began) < each {
					sql := statement(rnd)
					at := time.Now()
					if err := once(t, c, sql); err != nil {
						t.Error(err)
						return
					}
					took[w] = append(took[w], time.Since(at))
				}
			})
		}
		running.Wait()
		all := slices.Concat(took...)
		slices.Sort(all)
		h.latency, h.rate = all[len(all)/2], float64(len(all))/time.Since(began).Seconds()
		h.processor = (processorOf(t, p) - before) / time.Duration(len(all))
		return h
	}
	pairs := func(what string, connections int, a, b func(*rand.Rand) string) {
		var as, bs []half
		for range 3 {
			as, bs = append(as, run(connections, a)), append(bs, run(connections, b))
		}
		middle := func(of func(half) float64) (x, y, ratio float64) {
			var xs, ys, ratios []float64
			for i := range as {
				xs, ys = append(xs, of(as[i])), append(ys, of(bs[i]))
				ratios = append(ratios, of(as[i])/of(bs[i]))
			}
			slices.Sort(xs)
			slices.Sort(ys)
			slices.Sort(ratios)
			return xs[1], ys[1], ratios[1]
		}
		l1, l2, lr := middle(func(h half) float64 { return float64(h.latency.Microseconds()) })
		r1, r2, rr := middle(func(h half) float64 { return h.rate })
		c1, c2, cr := middle(func(h half) float64 { return float64(h.processor.Nanoseconds()) / 1000 })
		t.Logf("%s, %d connections: latency %.0f/%.0f us: %.2f; throughput %.0f/%.0f a second: %.2f; Shunt's processor %.1f/%.1f us a statement: %.2f", what, connections, l1, l2, lr, r1, r2, rr, c1, c2, cr)
	}
	read := func(with string) func(*rand.Rand) string {
		return func(r *rand.Rand) string {
			return fmt.Sprintf("SELECT %sid, name FROM covering WHERE email = 'p%d@example.com'", with, r.IntN(people))
		}
	}
	for i := range people { // kept, all of them
		mustRows(t, db, fmt.Sprintf("SELECT id, name FROM covering WHERE email = 'p%d@example.com'", i))
	}
	before := p.answered()
	for _, n := range []int{1, connections} {
		pairs("covered reads against routed ones", n, read(""), read("SQL_NO_CACHE "))
	}
	t.Logf("Shunt has answered %d", p.answered()-before)
	update := func(table, set string) func(*rand.Rand) string {
		return func(r *rand.Rand) string {
			return fmt.Sprintf("UPDATE %s SET %s = '%d' WHERE id = %d", table, set, r.IntN(1000), r.IntN(people))
		}
	}
	pairs("UPDATE of an included column against one without INCLUDE", connections, update("covering", "name"), update("plain", "name"))
	pairs("UPDATE of another column against one without INCLUDE", connections, update("covering", "age"), update("plain", "age"))
	mixed := func(table string) func(*rand.Rand) string {
		write, one := update(table, "age"), read("")
		return func(r *rand.Rand) string {
			if r.IntN(20) == 0 {
				return write(r)
			}
			return strings.Replace(one(r), "FROM covering", "FROM "+table, 1)
		}
	}
	before = p.answered()
	pairs("19 reads and an UPDATE of another column, covered against by index", connections, mixed("covering"), mixed("plain"))
	t.Logf("Shunt has answered %d", p.answered()-before)
}

// once executes a statement, and reads what it answers.
func once(t *testing.T, c *sql.Conn, statement string) error {
	if statement[0] != 'S' {
		_, err := c.ExecContext(t.Context(), statement)
		return err
	}
	rows, err := c.QueryContext(t.Context(), statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return err
		}
	}
	return rows.Err()
}

// processorOf is the processor time that Shunt has taken.
func processorOf(t *testing.T, p *process) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
