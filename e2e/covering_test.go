package e2e

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// covered has a table of people with a covering index, whose shards' logs are followed.
func covered(t *testing.T, f *flavour, extra string) (p *process) {
	t.Helper()
	p = start(t, f, setup{
		servers: f.own(t, 3, f.binlogs()...), tables: []string{"people: {shard_key: id}", "dogs: {shard_key: owner}"},
		maintenance: "{follow: binlog, delay: 100ms}", extra: extra,
	})
	mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), name VARCHAR(50), age INT, seen TIMESTAMP(3) NULL, KEY (email))")
	mustExec(t, p.db(), "INSERT INTO people VALUES "+rowsFor(300, func(i int) string {
		return fmt.Sprintf("(%d, 'p%d@x', 'n%d', %d, '2024-05-06 07:08:09.123')", i, i, i, i)
	}))
	mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_email ON people (email) INCLUDE (name, seen)")
	coveringReady(t, p)
	return p
}

func coveringReady(t *testing.T, p *process) {
	t.Helper()
	eventually(t, "the index is ready", func() bool {
		rows := mustRows(t, p.db(), "SHOW VIRTUAL INDEXES")
		return len(rows) > 0 && rows[0]["Status"] == "ready"
	})
}

// answered counts the reads that Shunt has answered.
func (p *process) answered() int {
	n, _ := p.metric("shunt_covered_reads_total", `outcome="answered"`)
	return int(n)
}

// untilAnswered reads until Shunt answers by itself.
func untilAnswered(t *testing.T, p *process, q queryer, query string) []row {
	t.Helper()
	var rows []row
	eventually(t, query+" is answered by Shunt", func() bool {
		before := p.answered()
		rows = mustRows(t, q, query)
		return p.answered() > before
	})
	return rows
}

// TestCovering: Shunt answers reads by covering indexes as the shards did, until what they are of changes.
func TestCovering(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := covered(t, f, "")
		db := p.db()
		one := p.conn()
		const by = " FROM people WHERE email = 'p7@x'"
		rows := mustRows(t, db, "SHOW VIRTUAL INDEXES")
		if rows[0]["Include"] != "name,seen" {
			t.Errorf("SHOW VIRTUAL INDEXES: %v", rows)
		}
		if r := mustRows(t, db, "EXPLAIN ROUTE SELECT id, name"+by)[0]; r["Plan"] != "covered" || !strings.Contains(r["Reason"], "idx_email") {
			t.Errorf("EXPLAIN ROUTE: %v %v %v %v", r, mustRows(t, db, "SHOW VIRTUAL INDEXES"), mustRows(t, db, "SHOW MAINTENANCE JOBS"), mustRows(t, db, "SELECT id, email FROM people WHERE id IN (7, 8)"))
		}
		if r := mustRows(t, db, "EXPLAIN ROUTE SELECT id, age"+by)[0]; r["Plan"] != "route" {
			t.Errorf("EXPLAIN ROUTE of what isn't covered: %v", r)
		}
		same := func(what, query string) {
			t.Helper()
			want := mustRows(t, db, routedText(query))
			if got := mustRows(t, one, query); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s is %v, on the shards %v", what, query, got, want)
			}
			if got := untilAnswered(t, p, one, query); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s is answered by %v, on the shards there is %v", what, query, got, want)
			}
		}
		queries := []string{
			"SELECT id, name" + by, "SELECT name, seen" + by, "SELECT COUNT(*) AS n, MAX(seen) AS m" + by, "SELECT UPPER(name) AS u, id * 2 AS d" + by + " AND id > 3 ORDER BY id DESC LIMIT 2",
			"SELECT id, email FROM people WHERE email = 'nobody'", "SELECT id FROM people WHERE email IN ('p7@x', 'P7@x')",
		}
		for _, q := range queries {
			same("at first", q)
		}
		// Each of these is seen by the next read.
		for i, sql := range []string{
			"UPDATE people SET name = 'changed' WHERE id = 7",
			"UPDATE people SET email = 'q@x' WHERE id = 7",
			"UPDATE people SET email = LOWER('P7@x') WHERE id = 8",
			"INSERT INTO people VALUES (1007, 'p7@x', 'another', 1, NULL)",
			"DELETE FROM people WHERE id = 1007",
			"REPLACE INTO people VALUES (8, 'nobody', 'z', 1, NULL)",
			"UPDATE people SET seen = '2020-01-01 00:00:00' WHERE name LIKE 'n%'",
			"INSERT INTO people VALUES (7, 'p7@x', 'back', 1, NULL) ON DUPLICATE KEY UPDATE email = 'p7@x', name = 'back'",
			"BEGIN; DELETE FROM people WHERE id < 5; UPDATE people SET name = 'in it' WHERE id = 7; COMMIT",
			"ALTER TABLE people MODIFY name VARCHAR(70)",
			"TRUNCATE TABLE people",
			"INSERT INTO people VALUES (7, 'p7@x', 'again', 1, NULL)",
		} {
			for part := range strings.SplitSeq(sql, ";") {
				mustExec(t, one, part)
			}
			if i == 9 || i == 10 {
				coveringReady(t, p)
			}
			for _, q := range queries {
				same(sql, q)
			}
		}
		// A change of other columns drops nothing, and what changes on a shard is seen.
		q := "SELECT id, name" + by
		untilAnswered(t, p, db, q)
		before, _ := p.metric("shunt_covered_reads_total", `outcome="changed"`)
		mustExec(t, db, "UPDATE people SET age = age + 1 WHERE id = 7")
		untilAnswered(t, p, db, q)
		if after, _ := p.metric("shunt_covered_reads_total", `outcome="changed"`); after != before {
			t.Errorf("%v answers were dropped for a column that isn't covered", after-before)
		}
		for _, s := range p.servers {
			mustExec(t, onShard(t, s, p.schema), "UPDATE people SET name = 'directly' WHERE id = 7")
		}
		eventually(t, "a direct change is seen", func() bool { return mustRows(t, db, q)[0]["name"] == "directly" })

		// What is a session's own.
		untilAnswered(t, p, one, q)
		n := p.answered()
		mustExec(t, one, "BEGIN")
		mustExec(t, one, "UPDATE people SET name = 'mine' WHERE id = 7")
		want(t, one, q, "name", "mine")
		want(t, db, q, "name", "directly")
		mustExec(t, one, "ROLLBACK")
		if got := p.answered(); got != n {
			t.Errorf("%d reads were answered beside a write", got-n)
		}
		untilAnswered(t, p, one, q)
		mustExec(t, one, "SET time_zone = '+05:00'")
		mustExec(t, db, "UPDATE people SET seen = '2024-05-06 07:08:09' WHERE id = 7")
		seen := "SELECT seen" + by
		untilAnswered(t, p, db, seen)
		if a, b := mustRows(t, db, seen)[0]["seen"], mustRows(t, one, seen)[0]["seen"]; a == b {
			t.Errorf("%s in both time zones", a)
		}
		mustExec(t, one, "SET shunt_index_reads = 'fast'")
		want(t, one, "SELECT @@shunt_index_reads AS v", "v", "fast")
		untilAnswered(t, p, one, q)
		want(t, one, "SELECT FOUND_ROWS() AS n", "n", "1")
		for _, arg := range []string{"p7@x", "nobody"} { // prepared: binary rows
			st, err := one.PrepareContext(t.Context(), "SELECT id, name, seen FROM people WHERE email = ?")
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "a prepared read is answered", func() bool {
				before := p.answered()
				rows, err := st.QueryContext(t.Context(), arg)
				if err != nil {
					t.Fatal(err)
				}
				got := 0
				for rows.Next() {
					var id int64
					var name, seen sql.NullString
					if err := rows.Scan(&id, &name, &seen); err != nil || id != 7 || name.String != "directly" {
						t.Errorf("%d %v %v %v", id, name, seen, err)
					}
					got++
				}
				rows.Close()
				if got != strings.Count(arg, "p7@x") {
					t.Errorf("%s: %d rows", arg, got)
				}
				return p.answered() > before
			})
			st.Close()
		}

		p.restart()
		coveringReady(t, p)
		if rows := mustRows(t, p.db(), "SHOW VIRTUAL INDEXES"); rows[0]["Include"] != "name,seen" {
			t.Errorf("behind a restart: %v", rows)
		}
		untilAnswered(t, p, p.db(), q)
		mustExec(t, p.db(), "REBUILD VIRTUAL INDEX idx_email ON people")
		coveringReady(t, p)
		untilAnswered(t, p, p.db(), q)
		mustExec(t, p.db(), "DROP VIRTUAL INDEX idx_email ON people")
		want(t, p.db(), q, "name", "directly")
		mustExec(t, p.db(), "CREATE TABLE noted (id INT PRIMARY KEY, k INT, v INT, KEY by_k (k) COMMENT 'virtual INCLUDE (id, v)')")
		if rows := mustRows(t, p.db(), "SHOW VIRTUAL INDEXES FROM noted"); len(rows) != 1 || rows[0]["Include"] != "id,v" {
			t.Errorf("by its comment: %v", rows)
		}
		for _, bad := range []string{"INCLUDE (nothing)", "INCLUDE (name, NAME)", "INCLUDE ()"} {
			if _, err := p.db().ExecContext(t.Context(), "CREATE VIRTUAL INDEX idx_email ON people (email) "+bad); err == nil {
				t.Errorf("%s is taken", bad)
			}
		}
	})
}

// routedText is a query that no kept answer is given for.
func routedText(query string) string {
	return strings.Replace(query, "SELECT ", "SELECT SQL_NO_CACHE ", 1)
}

// TestNeverStale: exact reads by covering indexes never differ from the rows, whatever becomes of Shunt and the shards
// meanwhile (SHUNT_NEVERMISS=10m: for so long).
//
// Each writer has people of its own; so it knows what a read of theirs is to answer, but for a write whose outcome it
// wasn't told.
func TestNeverStale(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		p := covered(t, f, "")
		lasts := contestTime(t, 15*time.Second, 6*time.Second)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		ctx, stop := context.WithTimeout(t.Context(), lasts)
		defer stop()
		var work sync.WaitGroup
		writers := make([]personWriter, 4)
		for i := range writers {
			writers[i] = personWriter{t: t, db: p.db(), rnd: rand.New(rand.NewPCG(seed, uint64(i))), n: i, rows: map[int]person{}}
			work.Go(func() { writers[i].run(ctx) })
		}
		for i := range 3 { // who reads beside them, so that there are answers that are older than a write
			work.Go(func() {
				rnd, db := rand.New(rand.NewPCG(seed, uint64(i)+50)), p.db()
				for ctx.Err() == nil {
					_, _ = rowsOf(ctx, db, readPeople(rnd.IntN(len(writers)), rnd.IntN(3)))
				}
			})
		}
		answered := 0
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 99))
			for ctx.Err() == nil {
				pause(ctx, time.Duration(1500+rnd.IntN(2500))*time.Millisecond)
				if rnd.IntN(3) == 0 {
					answered += p.answered()
					p.kill()
					p.run()
					continue
				}
				s := p.servers[rnd.IntN(len(p.servers))]
				s.Kill()
				if err := s.Start(t.Context()); err != nil {
					t.Errorf("start: %v", err)
					return
				}
			}
		})
		work.Wait()
		answered += p.answered()
		reads, failed := 0, 0
		for i := range writers {
			reads, failed = reads+writers[i].reads, failed+writers[i].failed
		}
		t.Logf("%d reads, %d statements failed; Shunt has answered %d", reads, failed, answered)
		if reads < 100 || answered < 100 {
			t.Errorf("%d reads only, %d answered", reads, answered)
		}
		p.shardsUp() // one may have been killed last
	})
}

type person struct {
	email int
	name  int
}

func personEmail(writer, email int) string { return fmt.Sprintf("w%d-%d@x", writer, email) }

func readPeople(writer, email int) string {
	return fmt.Sprintf("SELECT id, name FROM people WHERE email = '%s' ORDER BY id", personEmail(writer, email))
}

// personWriter writes people of few addresses.
type personWriter struct {
	t             *testing.T
	db            *sql.DB
	rnd           *rand.Rand
	n             int
	rows          map[int]person
	names         int
	reads, failed int
	unsure        bool
}

func (w *personWriter) run(ctx context.Context) {
	for ctx.Err() == nil {
		if w.unsure && !w.learn(ctx) {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		w.write(ctx)
		for range 1 + w.rnd.IntN(6) {
			if !w.unsure {
				w.read(ctx)
			}
		}
		pause(ctx, time.Duration(w.rnd.IntN(20))*time.Millisecond)
	}
}

// learn reads what rows there are.
func (w *personWriter) learn(ctx context.Context) bool {
	rows, err := rowsOf(ctx, w.db, fmt.Sprintf("SELECT id, email, name FROM people WHERE id BETWEEN %d AND %d", 1000*(w.n+1), 1000*(w.n+1)+99))
	if err != nil {
		return false
	}
	w.rows = map[int]person{}
	for _, r := range rows {
		id, _ := strconv.Atoi(r["id"])
		name, _ := strconv.Atoi(r["name"])
		for e := range 3 {
			if r["email"] == personEmail(w.n, e) {
				w.rows[id] = person{e, name}
			}
		}
	}
	w.unsure = false
	return true
}

// write writes once, and knows the outcome or is unsure.
func (w *personWriter) write(ctx context.Context) {
	w.names++
	id, made := 1000*(w.n+1)+w.rnd.IntN(12), person{w.rnd.IntN(3), w.names}
	was, there := w.rows[id]
	var texts []string
	after := func() { w.rows[id] = made }
	switch kind := w.rnd.IntN(8); {
	case kind < 2 || !there:
		verb := "REPLACE"
		if !there {
			verb = "INSERT"
		}
		texts = []string{fmt.Sprintf("%s INTO people (id, email, name) VALUES (%d, '%s', '%d')", verb, id, personEmail(w.n, made.email), made.name)}
	case kind == 2:
		texts = []string{fmt.Sprintf("DELETE FROM people WHERE id = %d", id)}
		after = func() { delete(w.rows, id) }
	case kind == 3:
		texts = []string{fmt.Sprintf("UPDATE people SET email = CONCAT('w%d', '-%d@x') WHERE id = %d", w.n, made.email, id)}
		after = func() { w.rows[id] = person{made.email, was.name} }
	case kind == 4:
		texts = []string{fmt.Sprintf("UPDATE people SET name = '%d' WHERE email = '%s'", made.name, personEmail(w.n, made.email))}
		after = func() {
			for id, r := range w.rows {
				if r.email == made.email {
					w.rows[id] = person{r.email, made.name}
				}
			}
		}
	case kind == 5:
		texts = []string{"BEGIN", fmt.Sprintf("UPDATE people SET name = '%d' WHERE id = %d", made.name, id), "COMMIT"}
		after = func() { w.rows[id] = person{was.email, made.name} }
	case kind == 6:
		texts = []string{"BEGIN", fmt.Sprintf("DELETE FROM people WHERE id = %d", id), "ROLLBACK"}
		after = func() {}
	default:
		texts = []string{fmt.Sprintf("UPDATE people SET age = %d WHERE id = %d", made.name, id)}
		after = func() {}
	}
	c, err := w.db.Conn(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	for _, sql := range texts {
		if _, err := c.ExecContext(ctx, sql); err != nil {
			w.failed++
			w.unsure = true
			_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
			return
		}
	}
	after()
}

// read compares the people of an address with what is known.
func (w *personWriter) read(ctx context.Context) {
	email := w.rnd.IntN(3)
	rows, err := rowsOf(ctx, w.db, readPeople(w.n, email))
	if err != nil {
		w.failed++
		return
	}
	w.reads++
	var is, of []string
	for _, r := range rows {
		is = append(is, r["id"]+" "+r["name"])
	}
	for id, r := range w.rows {
		if r.email == email {
			of = append(of, fmt.Sprintf("%d %d", id, r.name))
		}
	}
	slices.Sort(of)
	if !slices.Equal(is, of) {
		w.t.Errorf("%s: %v, wanted %v", personEmail(w.n, email), is, of)
	}
}

// TestCoveringReplaced: a shard's address leads to another server while connections to the old one live on, the one
// over which its log is read among them. No answer of the old one is given then, and new ones are kept.
func TestCoveringReplaced(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2, f.binlogs()...)
		v := valveTo(t, servers[0])
		p := start(t, f, setup{servers: servers[:1], addrs: []string{v.Addr()}, tables: []string{"people: {shard_key: id}"}, maintenance: "{follow: binlog, delay: 100ms}", extra: "shard_timeout: 2s"})
		const table = "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), name VARCHAR(50), KEY (email))"
		mustExec(t, p.db(), table)
		mustExec(t, p.db(), "INSERT INTO people VALUES (1, 'a@x', 'old')")
		to := onShard(t, servers[1], "")
		mustExec(t, to, "CREATE DATABASE "+p.schema)
		to = onShard(t, servers[1], p.schema)
		mustExec(t, to, table)
		mustExec(t, to, "INSERT INTO people VALUES (1, 'a@x', 'new')")
		mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_email ON people (email) INCLUDE (name)")
		coveringReady(t, p)
		const q = "SELECT name FROM people WHERE email = 'a@x'"
		if rows := untilAnswered(t, p, p.db(), q); rows[0]["name"] != "old" {
			t.Errorf("%v", rows)
		}
		v.Lead(servers[1].Addr())
		for range 20 { // one of them is new
			go func() { _, _ = rowsOf(t.Context(), p.db(), "SELECT SLEEP(1) FROM people WHERE id = 1") }()
		}
		eventually(t, "the new server is noticed", func() bool { return strings.Contains(p.log.String(), "another server than before") })
		eventually(t, "it serves", func() bool {
			rows, err := rowsOf(t.Context(), p.db(), q)
			if err == nil && (len(rows) != 1 || rows[0]["name"] != "new") {
				t.Fatalf("%s is %v", q, rows)
			}
			return err == nil
		})
		before := p.answered()
		eventually(t, "answers are kept again", func() bool {
			rows, err := rowsOf(t.Context(), p.db(), q)
			if err == nil && rows[0]["name"] != "new" {
				t.Fatalf("%s is %v", q, rows)
			}
			return p.answered() > before
		})
		mustExec(t, p.db(), "UPDATE people SET name = 'newer' WHERE id = 1")
		want(t, p.db(), q, "name", "newer")
		if rows := untilAnswered(t, p, p.db(), q); rows[0]["name"] != "newer" {
			t.Errorf("%v", rows)
		}
	})
}
