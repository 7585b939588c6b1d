package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// twins are Shunt over four shards and one plain server that holds all rows,
// both seen through a client that shows column definitions as they are.
type twins struct {
	t            *testing.T
	p            *process
	shunt, plain *client.Conn
}

func newTwins(t *testing.T, f *flavour, s setup) *twins {
	t.Helper()
	p := start(t, f, s)
	srv := p.servers[len(p.servers)-1]
	plainSchema := p.schema + "_plain"
	mustExec(t, onShard(t, srv, ""), "CREATE DATABASE "+plainSchema)
	t.Cleanup(func() {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", srv.User, srv.Password, srv.Addr()))
		if err == nil {
			_, _ = db.ExecContext(context.Background(), "DROP DATABASE "+plainSchema) // the servers go anyway
			db.Close()
		}
	})
	return &twins{t: t, p: p, shunt: rawClient(t, p.addr, "app", "secret", p.schema), plain: plainClient(t, srv, plainSchema)}
}

func rawClient(t *testing.T, addr, user, password, schema string) *client.Conn {
	t.Helper()
	c, err := client.Connect(addr, user, password, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Execute("SET NAMES utf8mb4"); err != nil {
		t.Fatal(err)
	}
	return c
}

func plainClient(t *testing.T, s *throwaway.Server, schema string) *client.Conn {
	t.Helper()
	return rawClient(t, s.Addr(), s.User, s.Password, schema)
}

// exec runs a statement on both.
func (w *twins) exec(statements ...string) {
	w.t.Helper()
	for _, s := range statements {
		for _, c := range []*client.Conn{w.shunt, w.plain} {
			if _, err := c.Execute(s); err != nil {
				w.t.Fatalf("%.200s: %v", s, err)
			}
		}
	}
}

// answerOf is a result with its column definitions, as text.
func answerOf(c *client.Conn, query string, args []any) (columns, rows []string, err error) {
	r, err := c.Execute(query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for _, f := range r.Fields {
		columns = append(columns, fmt.Sprintf("%s org=%s.%s type=%d charset=%d length=%d flags=%x decimals=%d",
			f.Name, f.OrgTable, f.OrgName, f.Type, f.Charset, f.ColumnLength, f.Flag, f.Decimal))
	}
	for _, values := range r.Values {
		var cells []string
		for i := range values {
			cells = append(cells, fmt.Sprintf("%q", fmt.Sprint(cellOf(&values[i]))))
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return columns, rows, nil
}

func cellOf(v *mysql.FieldValue) any {
	if s, ok := v.Value().([]byte); ok {
		return string(s)
	}
	return v.Value()
}

// same compares an answer, column definitions and all. ordered: in the order of
// the rows too.
func (w *twins) same(ordered bool, query string, args ...any) {
	w.t.Helper()
	gotColumns, got, err := answerOf(w.shunt, query, args)
	if err != nil {
		w.t.Errorf("shunt: %s %v: %v", query, args, err)
		return
	}
	wantColumns, want, err := answerOf(w.plain, query, args)
	if err != nil {
		w.t.Errorf("plain: %s %v: %v", query, args, err)
		return
	}
	if !ordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(gotColumns, wantColumns) {
		w.t.Errorf("%s %v: columns\n got %s\nwant %s", query, args, strings.Join(gotColumns, "\n     "), strings.Join(wantColumns, "\n     "))
	}
	if !slices.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		w.t.Errorf("%s %v: rows (%d, want %d) differ from row %d on\n got %v\nwant %v", query, args, len(got), len(want), at,
			got[at:min(len(got), at+5)], want[at:min(len(want), at+5)])
	}
}

// merged is same for a query that must be merged, in both protocols.
func (w *twins) merged(ordered bool, query string, args ...any) {
	w.t.Helper()
	if len(args) == 0 {
		if plan := w.planOf(query); plan != "merge" {
			w.t.Errorf("%s: plan %s, want merge", query, plan)
			return
		}
		w.prepared(ordered, query)
		w.same(ordered, query)
		return
	}
	w.executed(ordered, query, args...)
}

// executed compares what a driver's prepared statement answers.
func (w *twins) executed(ordered bool, query string, args ...any) {
	w.t.Helper()
	var rows [2][]string
	for i, db := range []*sql.DB{w.p.db(), onShard(w.t, w.p.servers[len(w.p.servers)-1], w.p.schema+"_plain")} {
		for _, r := range mustRows(w.t, db, query, args...) {
			rows[i] = append(rows[i], fmt.Sprint(r))
		}
		if !ordered {
			slices.Sort(rows[i])
		}
	}
	if len(rows[1]) == 0 {
		w.t.Errorf("%s %v: no rows: this says little", query, args)
	}
	if !slices.Equal(rows[0], rows[1]) {
		w.t.Errorf("executed %s %v: rows\n got %.600v\nwant %.600v", query, args, rows[0], rows[1])
	}
}

func (w *twins) planOf(query string) string {
	w.t.Helper()
	r, err := w.shunt.Execute("EXPLAIN ROUTE " + query)
	if err != nil {
		w.t.Errorf("EXPLAIN ROUTE %s: %v", query, err)
		return ""
	}
	plan, err := r.GetString(0, 0)
	if err != nil {
		w.t.Error(err)
	}
	return plan
}

// prepared runs a query in the binary protocol on both.
func (w *twins) prepared(ordered bool, query string) {
	w.t.Helper()
	var columns, rows [2][]string
	for i, c := range []*client.Conn{w.shunt, w.plain} {
		st, err := c.Prepare(query)
		if err != nil {
			w.t.Errorf("prepare %s: %v", query, err)
			return
		}
		r, err := st.Execute()
		if err != nil {
			w.t.Errorf("execute %s: %v", query, err)
			return
		}
		for _, f := range r.Fields {
			columns[i] = append(columns[i], fmt.Sprintf("%s type=%d charset=%d length=%d flags=%x decimals=%d", f.Name, f.Type, f.Charset, f.ColumnLength, f.Flag, f.Decimal))
		}
		for _, values := range r.Values {
			var cells []string
			for n := range values {
				cells = append(cells, fmt.Sprintf("%q", fmt.Sprint(cellOf(&values[n]))))
			}
			rows[i] = append(rows[i], strings.Join(cells, " "))
		}
		if !ordered {
			slices.Sort(rows[i])
		}
		_ = st.Close()
	}
	if !slices.Equal(columns[0], columns[1]) {
		w.t.Errorf("prepared %s: columns\n got %s\nwant %s", query, strings.Join(columns[0], "\n     "), strings.Join(columns[1], "\n     "))
	}
	if !slices.Equal(rows[0], rows[1]) {
		w.t.Errorf("prepared %s: rows\n got %.600v\nwant %.600v", query, rows[0], rows[1])
	}
}

// TestMergeOrder sorts by every type.
func TestMergeOrder(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"r: {shard_key: id}"}})
		w.exec(`CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, i INT, u BIGINT UNSIGNED, ti TINYINT, si SMALLINT UNSIGNED ZEROFILL, mi MEDIUMINT,
			d DECIMAL(65,30), d2 DECIMAL(10,2), f FLOAT, g DOUBLE, g2 DOUBLE(10,2), da DATE, dt DATETIME(6), dt0 DATETIME, ts TIMESTAMP(3) NULL, tm TIME(2), y YEAR,
			c CHAR(10), v VARCHAR(40), tx TEXT, b BINARY(4), vb VARBINARY(10), bl BLOB, e ENUM('z','a','m'), s SET('x','y','w'), bt BIT(12))`)
		r := newRandomRows(7)
		for range 12 {
			var rows []string
			for range 25 {
				rows = append(rows, "("+strings.Join(r.row(), ", ")+")")
			}
			w.exec("INSERT IGNORE INTO r VALUES " + strings.Join(rows, ", "))
		}
		for _, c := range strings.Fields("i u ti si mi d d2 f g g2 da dt dt0 ts tm y c v tx b vb bl e s bt") {
			w.merged(true, "SELECT id, "+c+" FROM r ORDER BY "+c+", id")
			w.merged(true, "SELECT id, e, "+c+" FROM r ORDER BY "+c+" DESC, id DESC LIMIT 40 OFFSET 100")
			w.merged(true, "SELECT id FROM r ORDER BY "+c+", id LIMIT 17")
		}
		w.merged(true, "SELECT * FROM r ORDER BY i, v, id DESC LIMIT 50")
		w.merged(true, "SELECT id, -i AS i, v FROM r ORDER BY i, v, id")
		w.merged(true, "SELECT v AS x, id FROM r ORDER BY x DESC, 2")
		w.merged(true, "SELECT id FROM r ORDER BY i + 1 DESC, id")
		w.merged(true, "SELECT id FROM r ORDER BY LOWER(v), CONCAT(c, 'x') DESC, id")
		w.merged(true, "SELECT id FROM r ORDER BY LENGTH(v), DATE(dt), id LIMIT 300 OFFSET 290")
		w.merged(true, "SELECT id FROM r ORDER BY i IS NULL, i, id")
		w.merged(true, "SELECT id FROM r ORDER BY IFNULL(i, 0), COALESCE(v, 'k'), id")
		w.merged(true, "SELECT id FROM r ORDER BY id LIMIT 1000000 OFFSET 5")
		w.merged(true, "SELECT id FROM r ORDER BY id LIMIT 0")
		w.merged(true, "SELECT id FROM r WHERE i > 100000000 ORDER BY v LIMIT 5")
		w.merged(true, "SELECT id, v FROM r WHERE i > ? ORDER BY FIELD(ti, ?, ?), id LIMIT ?", 2, 3, 5, 20)
		w.merged(true, "SELECT id, v FROM r WHERE i > ? ORDER BY v DESC, id LIMIT ?, ?", 2, 3, 5)
		w.merged(true, "SELECT id, v FROM r ORDER BY CONCAT(v, ?) DESC, id LIMIT ? OFFSET ?", "q", 30, 50)
		w.same(true, "SELECT COUNT(*) FROM r WHERE id = 5")
		if n := len(mustRows(t, w.p.db(), "SELECT id FROM r LIMIT 7")); n != 7 {
			t.Errorf("LIMIT 7 answered %d rows", n)
		}
		if n := len(mustRows(t, w.p.db(), "SELECT id FROM r LIMIT 7 OFFSET 1000000")); n != 0 {
			t.Errorf("OFFSET 1000000 answered %d rows", n)
		}
	})
}
