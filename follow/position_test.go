package follow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestPosition(t *testing.T) {
	t.Parallel()
	const a, b = "0c7e5a3e-0000-0000-0000-000000000001", "0c7e5a3e-0000-0000-0000-000000000002"
	for _, c := range []struct {
		position string
		covers   []string
		lacks    []string
	}{
		{"", []string{""}, []string{a + ":1", "0-1-1"}},
		{a + ":1-5:7,\n" + b + ":1-2", []string{"", a + ":5", a + ":7", a + ":1-3," + b + ":2"}, []string{a + ":6", a + ":1-6", b + ":3", a + ":tag:1", "0-1-1"}},
		{a + ":1-5:tag:1-3:9", []string{a + ":tag:2", a + ":4:tag:9"}, []string{a + ":tag:4", a + ":tag2:1", a + ":6"}},
		{"0-1-7,3-2-9", []string{"0-1-7", "0-2-6", "3-2-1,0-1-1"}, []string{"0-1-8", "1-1-1", "3-2-10,0-1-1", a + ":1"}},
	} {
		p, err := ParsePosition(c.position)
		check(t, err)
		again, err := ParsePosition(p.String())
		check(t, err)
		if !again.Covers(p) || !p.Covers(again) {
			t.Errorf("%s reads back as %s", p, again)
		}
		for _, text := range c.covers {
			other, err := ParsePosition(text)
			check(t, err)
			if !p.Covers(other) {
				t.Errorf("%s doesn't cover %s", p, other)
			}
		}
		for _, text := range c.lacks {
			other, err := ParsePosition(text)
			check(t, err)
			if p.Covers(other) {
				t.Errorf("%s covers %s", p, other)
			}
		}
	}
	for _, text := range []string{"x", "1", a, a + ":", "0-1", "0-1-x", ":", a + ":1,,"} {
		if p, err := ParsePosition(text); err == nil {
			t.Errorf("%q is read as %s", text, p)
		}
	}
}

// TestGTIDs: transactions have the GTIDs that their sessions are told.
func TestGTIDs(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		statements := []string{"INSERT INTO t VALUES (1)"}
		if !s.mariaDB {
			statements = append(statements, "SET gtid_next = 'AUTOMATIC:follow'", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "SET gtid_next = 'AUTOMATIC'")
		}
		s.exec(statements...)
		var last string
		if s.mariaDB {
			check(t, s.db.QueryRow("SELECT @@last_gtid").Scan(&last))
		}
		until := s.written()
		stream := s.open(p)
		for tagged := 0; !p.Passed(until); {
			e, err := stream.Next()
			check(t, err)
			c, ok := e.(*Commit)
			if !ok {
				continue
			}
			g, err := ParsePosition(c.GTID)
			check(t, err)
			if p.Passed(g) {
				t.Errorf("%s is passed before it is consumed", g)
			}
			if tagged++; c.GTID == last {
				last = ""
			}
		}
		if last != "" {
			t.Errorf("%s has not come", last)
		}
		if text := p.Position().String(); !s.mariaDB && !strings.Contains(text, ":follow:") {
			t.Errorf("position %s has no tag", text)
		}
		s.want(s.changes("INSERT INTO t VALUES (4)"), "insert t {id=4}")
	})
}

// TestDiverged: a domain whose numbers go back.
func TestDiverged(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		if !s.mariaDB {
			t.Skip("MySQL's GTIDs are sets")
		}
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		s.exec("INSERT INTO t VALUES (1)", "SET SESSION server_id = 50", "SET SESSION gtid_seq_no = 1", "INSERT INTO t VALUES (2)")
		stream, err := Open(t.Context(), s.source, p)
		for err == nil {
			_, err = stream.Next()
		}
		if !errors.Is(err, ErrDiverged) && !errors.Is(err, ErrPurged) {
			t.Errorf("got %v", err)
		}
	})
}

// TestNow: what a position of Now covers, a snapshot that is opened later has. Writers commit all the while.
func TestNow(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const writers, rounds = 4, 30
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (0, 0), (1, 0), (2, 0), (3, 0)")
		begin := NewProgress(s.now())
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w := range writers {
			db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", s.User, s.Password, s.Addr(), s.schema))
			check(t, err)
			wg.Go(func() {
				defer db.Close()
				for ctx.Err() == nil {
					if _, err := db.Exec("UPDATE t SET n = n + 1 WHERE id = ?", w); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		type taken struct {
			at   Position
			rows string
		}
		var snapshots []taken
		for range rounds {
			at := s.now()
			var rows string
			check(t, s.db.QueryRow("SELECT GROUP_CONCAT(n ORDER BY id) FROM t").Scan(&rows))
			snapshots = append(snapshots, taken{at, rows})
		}
		stop()
		wg.Wait()
		until := s.written()
		stream := s.open(begin)
		count := [writers]int{}
		for !begin.Passed(until) {
			e, err := stream.Next()
			check(t, err)
			for len(snapshots) > 0 && begin.Passed(snapshots[0].at) {
				for w, text := range strings.Split(snapshots[0].rows, ",") {
					var n int
					_, err := fmt.Sscan(text, &n)
					check(t, err)
					if n < count[w] {
						t.Fatalf("a snapshot has %s, but a position of before it covers %v", snapshots[0].rows, count)
					}
				}
				snapshots = snapshots[1:]
			}
			if r, ok := e.(*Rows); ok && r.Table.Schema == s.schema {
				check(t, r.Each(func(_, after *Row) error {
					var w, n int
					id, _ := after.Append(nil, 0)
					text, _ := after.Append(nil, 1)
					_, err := fmt.Sscan(string(id)+" "+string(text), &w, &n)
					count[w] = n
					return err
				}))
			}
		}
		if len(snapshots) > 0 {
			t.Errorf("%d snapshots' positions were not passed", len(snapshots))
		}
	})
}

// TestPlus: a sum has what either has, of each MariaDB domain by itself.
func TestPlus(t *testing.T) {
	t.Parallel()
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, c := range [][3]string{
		{"", "0-1-5", "0-1-5"},
		{"0-1-5", "", "0-1-5"},
		{"0-1-9,1-1-2", "0-1-7,1-1-3", "0-1-9,1-1-3"},
		{"0-1-7", "2-1-1", "0-1-7,2-1-1"},
		{a + ":1-5", a + ":7", a + ":1-5:7"},
		{a + ":1-5:7", a + ":6," + b + ":1", a + ":1-7," + b + ":1"},
	} {
		parse := func(text string) Position {
			p, err := ParsePosition(text)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		x, y, want := parse(c[0]), parse(c[1]), parse(c[2])
		for _, sum := range []Position{x.Plus(y), y.Plus(x)} {
			if !sum.Covers(want) || !want.Covers(sum) {
				t.Errorf("%q and %q: %q, wanted %q", c[0], c[1], sum, c[2])
			}
		}
		if x.String() != c[0] || y.String() != c[1] {
			t.Errorf("%q or %q has changed", c[0], c[1])
		}
	}
}
