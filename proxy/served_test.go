package proxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestServedStatements: the console gets the rows that a client gets who has all rights, and nothing but
// Shunt's own statements is executed for it.
func TestServedStatements(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) { o.Shapes = 100 })
	s.answer("SELECT id", fakeAnswer{columns: []string{"id"}})
	x := &served{p: s.p}
	c := s.conn()
	if _, err := c.ExecContext(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), "SELECT id FROM people WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	until(t, "the session rests", func() bool { // its client has been answered before
		a, err := x.Execute(t.Context(), "", "SHOW FULL PROCESSLIST")
		if err != nil || len(a.Rows) != 1 || a.Columns[0] != "Id" || a.Rows[0][1] != "root" {
			t.Fatalf("%+v, %v", a, err)
		}
		return a.Rows[0][6] == "transaction or locks open"
	})
	if a, err := x.Execute(t.Context(), "", "SHOW SHARDS"); err != nil || len(a.Rows) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := x.Execute(t.Context(), "shop", "EXPLAIN ROUTE SELECT id FROM people"); err != nil || len(a.Rows) != 2 || !slices.Contains(a.Columns, "Access") {
		t.Errorf("%+v, %v", a, err)
	}
	for sql, code := range map[string]uint16{
		"SELECT id FROM shop.people": mysqlerr.NotSupportedYet, "DELETE FROM shop.people": mysqlerr.NotSupportedYet, "SET GLOBAL x = 1": 0, "KILL 4294967295": mysqlerr.NoSuchThread,
		"SHOW SHARDS; KILL 1": mysqlerr.ParseError, "EXPLAIN ROUTE SELECT id FROM people": mysqlerr.NoDB, "SELEC": mysqlerr.ParseError,
	} {
		if _, err := x.Execute(t.Context(), "", sql); err == nil || code > 0 && coded(err).Code != code {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if n := s.p.sessions.len(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// TestServedTraffic: what is executed counts for the tables that it names, whatever its literals were.
func TestServedTraffic(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) { o.Shapes = 100 })
	s.answer("SELECT id", fakeAnswer{columns: []string{"id"}})
	x := &served{p: s.p}
	c := s.conn()
	for _, sql := range []string{"SELECT id FROM people WHERE id = 1", "SELECT id FROM people WHERE id IN (1, 2)", "SELECT id FROM people WHERE id IN (3, 4, 5)"} {
		rows, err := c.QueryContext(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	people := []catalog.TableName{{Schema: "shop", Name: "people"}}
	for range 2 { // the second time by what is known
		named := 0
		for _, r := range x.Traffic() {
			if !strings.Contains(r.Statement, "people") {
				continue
			}
			named++
			if !slices.Equal(r.Tables, people) || r.Digest == "" || r.Route == "" || len(r.Shards) == 0 {
				t.Errorf("%+v", r)
			}
			if h := x.Histograms(r.Digest)[r.Digest]; len(h.Whole) == 0 || len(h.Part) == 0 {
				t.Errorf("%s has no times: %v", r.Statement, h)
			}
		}
		if named != 2 {
			t.Errorf("%d shapes: %+v", named, x.Traffic())
		}
	}
}
