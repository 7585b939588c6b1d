package proxy

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestCancel: what a shard does for a client that has gone is ended, and its connections serve others.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"SELECT city FROM people WHERE id = 3", "SELECT city FROM people", "UPDATE people SET city = 'x' WHERE id = 3"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			s := serve(t, 2, fakeOptions{Options: shard.Options{Max: 2}})
			for _, f := range s.shards {
				defer f.hold(statement)()
			}
			waiting := func() int { return s.shards[0].waiting(statement) + s.shards[1].waiting(statement) }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, ended := s.conn(), make(chan error, 1)
			go func() {
				_, err := c.ExecContext(ctx, statement)
				ended <- err
			}()
			until(t, "the statement runs", func() bool { return waiting() > 0 })
			cancel()
			if err := <-ended; err == nil {
				t.Error("a cancelled statement succeeds")
			}
			until(t, "the statement has ended", func() bool { return waiting() == 0 && s.inUse() == 0 })
			if _, err := s.conn().ExecContext(t.Context(), "UPDATE people SET city = 'y'"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestQueryTimeout: the configuration's bound for reads, and none for writes.
func TestQueryTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	bounded := Timeouts{Query: 50 * time.Millisecond}
	s.ids("SELECT", 10)
	c := s.conn()
	for i, sql := range []string{"SELECT id, city FROM people WHERE id = 3", "SELECT id, city FROM people", "SELECT id, city FROM people ORDER BY id"} {
		var releases []func()
		for _, f := range s.shards {
			releases = append(releases, f.hold("SELECT"))
		}
		s.p.SetTimeouts(bounded)
		fails(t, c, sql, 3024, "execution time exceeded")
		s.p.SetTimeouts(Timeouts{}) // a slow machine would end the next one, too
		for _, release := range releases {
			release()
		}
		if n := s.metric("shunt_statements_late_total"); int(n) != i+1 {
			t.Errorf("shunt_statements_late_total is %v, want %d", n, i+1)
		}
		if _, err := rowsOf(t.Context(), c, "SELECT id, city FROM people WHERE id = 4"); err != nil {
			t.Errorf("behind %s: %v", sql, err)
		}
	}
	s.p.SetTimeouts(bounded)
	release := s.shards[0].hold("UPDATE")
	ended := s.later("UPDATE people SET city = 'x'")
	until(t, "it waits", func() bool { return s.shards[0].waiting("UPDATE") == 1 })
	select {
	case err := <-ended:
		t.Errorf("a write has ended: %v", err)
	case <-time.After(100 * time.Millisecond): // twice what a read may take
	}
	release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestConditionsTold: what is told behind an error, of a shard's and of Shunt's own.
func TestConditionsTold(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	s.answer("SELECT nope", fakeAnswer{err: mysqlerr.New(mysqlerr.BadField, "Unknown column 'nope'")})
	c := s.conn()
	fails(t, c, "SELECT nope FROM people WHERE id = 1", 1054, "nope")
	answers(t, c, "SHOW WARNINGS", "Error 1054 Unknown column 'nope'")
	fails(t, c, "HANDLER people OPEN", 1235, "HANDLER")
	if rows, err := rowsOf(t.Context(), c, "SHOW ERRORS"); err != nil || len(rows) != 1 || rows[0][:10] != "Error 1235" {
		t.Errorf("SHOW ERRORS: %q, %v", rows, err)
	}
	answers(t, c, "SHOW COUNT(*) ERRORS", "1")
	if _, err := c.ExecContext(t.Context(), "UPDATE people SET city = 'x' WHERE id = 1"); err != nil {
		t.Error(err)
	}
	answers(t, c, "SHOW WARNINGS")
}

// TestClientLeaves: of a client that has gone in the midst of an answer the log tells the cause, once.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	ended := regexp.MustCompile(`msg="session ended".* error="?(.*?)"? program=`)
	for _, x := range []struct {
		sql      string
		prepared bool
	}{
		{sql: "SELECT id, city FROM people WHERE id = 3"},
		{sql: "SELECT id, city FROM people"},
		{sql: "SELECT id, city FROM people ORDER BY id"},
		{sql: "SELECT id, city FROM people WHERE id = ?", prepared: true},
	} {
		t.Run(x.sql, func(t *testing.T) {
			t.Parallel()
			s := serve(t, 2, fakeOptions{})
			rows := make([][]any, 1000)
			for i := range rows {
				rows[i] = []any{i, strings.Repeat("x", 1<<16)}
			}
			s.answer("SELECT", fakeAnswer{columns: []string{"#id", "city"}, rows: rows})
			var nc net.Conn
			db := s.open("root", "", func(c *mysqldriver.Config) {
				c.DialFunc = func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
					nc, err = s.dial(ctx, network, addr)
					return nc, err
				}
			})
			var args []any
			if x.prepared {
				args = append(args, 3)
			}
			answer, err := db.QueryContext(t.Context(), x.sql, args...)
			if err != nil {
				t.Fatal(err)
			}
			if !answer.Next() {
				t.Fatal(answer.Err())
			}
			nc.Close()
			_ = answer.Close() // it has no connection any more
			var told [][]string
			until(t, "the log tells of it", func() bool {
				told = ended.FindAllStringSubmatch(s.log.String(), -1)
				return len(told) > 0
			})
			parts := strings.Split(told[0][1], ": ")
			slices.Sort(parts)
			if len(told) != 1 || len(slices.Compact(parts)) != strings.Count(told[0][1], ": ")+1 {
				t.Errorf("%q", told)
			}
		})
	}
}
