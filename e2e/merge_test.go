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

func rawClient(t *testing.T, addr, user, password, schema string, options ...client.Option) *client.Conn {
	t.Helper()
	c, err := client.Connect(addr, user, password, schema, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Execute("SET NAMES utf8mb4"); err != nil {
		t.Fatal(err)
	}
	return c
}

func plainClient(t *testing.T, s *throwaway.Server, schema string, options ...client.Option) *client.Conn {
	t.Helper()
	return rawClient(t, s.Addr(), s.User, s.Password, schema, options...)
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
	oneFlavour(t, func(t *testing.T, f *flavour) {
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
		for c := range strings.FieldsSeq("i u ti si mi d d2 f g g2 da dt dt0 ts tm y c v tx b vb bl e s bt") {
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

// TestMergeByPrimaryKey: rows that are asked for by their keys come as from one
// server, whose order no statement asks for and clients count on.
func TestMergeByPrimaryKey(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"parts: {shard_key: customer}"}})
		w.exec("CREATE TABLE objects (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, note VARCHAR(20), at TIMESTAMP NULL, KEY (note))",
			"CREATE TABLE parts (place INT NOT NULL, note VARCHAR(20), customer BINARY(2) NOT NULL, PRIMARY KEY (customer, place))",
			"INSERT INTO objects VALUES "+rowsFor(60, func(i int) string {
				return fmt.Sprintf("(%d, 'n%d', '2024-05-01')", uint64(i)+9223372036854775790, i*7%60)
			}),
			"INSERT INTO parts VALUES "+rowsFor(90, func(i int) string { return fmt.Sprintf("(%d, 'n%d', X'%04X')", i*37%97-40, i, 65530+i%6) }))
		for _, query := range []string{
			"SELECT * FROM objects WHERE id = 9223372036854775831 OR id = 9223372036854775802 OR id = 9223372036854775817 OR id = 9223372036854775803",
			"SELECT note, id, id + 1 AS at FROM objects FORCE INDEX (PRIMARY) WHERE id IN (9223372036854775831, 9223372036854775802, 9223372036854775803, 9223372036854775804) AND note <> 'n7'",
			"SELECT note, o.* FROM objects o WHERE id IN (9223372036854775810, 9223372036854775807, 9223372036854775808, 9223372036854775809) LIMIT 2 OFFSET 1",
			"SELECT id FROM objects FORCE INDEX (PRIMARY) WHERE id IN (9223372036854775831, 9223372036854775802, 9223372036854775803, 9223372036854775804) FOR UPDATE",
			"SELECT * FROM parts WHERE customer IN (X'FFFA', X'FFFB', X'FFFC', X'FFFF')",
			"SELECT note, customer, place FROM parts WHERE customer IN (X'FFFF', X'FFFD', X'FFFB', X'FFFC') AND place > 3",
		} {
			w.merged(true, query)
		}
		w.executed(true, "SELECT * FROM objects WHERE id IN (?, ?, ?, ?)", uint64(9223372036854775831), uint64(9223372036854775802), uint64(9223372036854775811), uint64(9223372036854775803))
		// Rows in another order are answered as they come.
		w.merged(false, "SELECT * FROM objects FORCE INDEX (note) WHERE id IN (9223372036854775831, 9223372036854775802, 9223372036854775803, 9223372036854775804) AND note > 'n'")
		// The column has a type that doesn't compare, which Shunt doesn't know of yet.
		for i := range w.p.servers {
			mustExec(t, w.p.shard(i), "ALTER TABLE parts MODIFY place TEXT, DROP PRIMARY KEY, ADD KEY (customer)")
		}
		if rows := mustRows(t, w.p.db(), "SELECT * FROM parts WHERE customer IN (X'FFFA', X'FFFB', X'FFFC', X'FFFF')"); len(rows) != 60 {
			t.Errorf("%d rows of 60", len(rows))
		}
		if rows := mustRows(t, w.p.db(), "SELECT * FROM parts WHERE customer IN (X'FFFA', X'FFFB', X'FFFC', X'FFFF') LIMIT 7"); len(rows) != 7 {
			t.Errorf("%d rows of 7", len(rows))
		}
	})
}

// TestMergeGroups compares aggregates, groups and distinct rows.
func TestMergeGroups(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"g: {shard_key: id}", "h: {shard_key: gid}", "none: {shard_key: id}"}})
		w.groupRows(newRandomRows(11))
		aggregates := "COUNT(*), COUNT(i) AS c, SUM(i), SUM(u), SUM(d), SUM(q) AS total, AVG(i), AVG(u), AVG(d), AVG(d5), AVG(q), MIN(i), MAX(u), MIN(d), MAX(q), MIN(da), MAX(dt), MIN(tm), MAX(y)," +
			" BIT_AND(u), BIT_OR(i), BIT_XOR(u), SUM(i + q * 2), SUM(i > 0), SUM(IF(i > 0, q, 0)), SUM(CASE WHEN k = 1 THEN i END), MIN(vb), MAX(i + 1)"
		w.merged(true, "SELECT "+aggregates+" FROM g")
		w.merged(true, "SELECT "+aggregates+" FROM g WHERE i > 5000")
		w.merged(true, "SELECT "+aggregates+" FROM g WHERE i > 5000 LIMIT 0")
		w.merged(true, "SELECT "+aggregates+", 5 FROM g LIMIT 1 OFFSET 1")
		w.merged(true, "SELECT k, "+aggregates+" FROM g GROUP BY k ORDER BY k")
		w.merged(false, "SELECT k, "+aggregates+" FROM g GROUP BY k")
		w.merged(true, "SELECT "+aggregates+", k, e FROM g GROUP BY e, k ORDER BY k DESC, e LIMIT 5 OFFSET 3")
		w.merged(true, "SELECT k, COUNT(*) AS n, SUM(i) FROM g GROUP BY k ORDER BY n DESC, SUM(i), k LIMIT 4")
		w.merged(true, "SELECT k, MIN(da) FROM g GROUP BY k ORDER BY MAX(da) DESC, k")
		w.merged(true, "SELECT COUNT(*), k FROM g GROUP BY 2 ORDER BY SUM(q) DESC, k")
		w.merged(true, "SELECT y + 1 AS z, COUNT(*) FROM g GROUP BY z ORDER BY z")
		w.merged(true, "SELECT YEAR(da), MONTH(da) AS m, COUNT(*) FROM g GROUP BY YEAR(da), m ORDER BY 1, m DESC")
		for c := range strings.FieldsSeq("da dt f e s vb y tm d q u") {
			w.merged(true, "SELECT "+c+", COUNT(*), SUM(i) FROM g GROUP BY "+c+" ORDER BY "+c)
			w.merged(true, "SELECT DISTINCT "+c+" FROM g ORDER BY "+c+" DESC LIMIT 4 OFFSET 1")
			w.merged(false, "SELECT DISTINCT "+c+", k FROM g")
			w.merged(true, "SELECT COUNT(DISTINCT "+c+"), SUM(q), MIN(i), AVG(q) FROM g")
			w.merged(true, "SELECT k, COUNT(DISTINCT "+c+"), COUNT(*), AVG(d5) FROM g GROUP BY k ORDER BY k LIMIT 3")
		}
		// Which of equal texts is shown isn't said: their weights are.
		for c := range strings.FieldsSeq("name bin l") {
			w.merged(false, "SELECT COUNT(*), SUM(i) FROM g GROUP BY "+c)
			w.merged(true, "SELECT COUNT(DISTINCT "+c+"), COUNT(*) FROM g")
			w.merged(true, "SELECT k, COUNT(DISTINCT "+c+", e) FROM g GROUP BY k ORDER BY k")
			w.distinctTexts(c)
		}
		w.merged(false, "SELECT COUNT(*), SUM(i) FROM g GROUP BY LOWER(name), k")
		w.merged(true, "SELECT MIN(bin), MAX(bin), MIN(name), MAX(l) FROM g WHERE bin > '' AND RIGHT(bin, 1) <> BINARY ' ' AND RIGHT(name, 1) <> BINARY ' ' AND l <> 'a'")
		w.merged(true, "SELECT k, MIN(bin), MAX(bin) FROM g WHERE RIGHT(bin, 1) <> BINARY ' ' GROUP BY k ORDER BY MIN(bin), k")
		w.merged(true, "SELECT k, COUNT(*) AS n FROM g GROUP BY k HAVING n > 30 ORDER BY k")
		w.merged(true, "SELECT k, COUNT(*) AS n FROM g GROUP BY k HAVING (n BETWEEN 10 AND 35 OR SUM(q) > 12.5) AND NOT MIN(i) = 3 ORDER BY n DESC, k LIMIT 3")
		w.merged(true, "SELECT k FROM g GROUP BY k HAVING k > 3 ORDER BY k LIMIT 2")
		w.merged(true, "SELECT COUNT(*) FROM g HAVING COUNT(*) > 1000000")
		w.merged(true, "SELECT h.gid, SUM(h.w), COUNT(*) + 1, AVG(h.w * 1.5), STD(h.w) IS NULL, GROUP_CONCAT(h.n ORDER BY h.n) FROM g JOIN h ON h.gid = g.id GROUP BY h.gid HAVING AVG(h.w) > 2 ORDER BY SUM(h.w) DESC, h.gid LIMIT 20")
		w.merged(false, "SELECT g.k, SUM(h.w), COUNT(DISTINCT g.e) FROM g LEFT JOIN h ON h.gid = g.id GROUP BY g.k")
		w.merged(true, "SELECT COUNT(*), COUNT(DISTINCT a), SUM(a), AVG(a), MIN(a), MAX(a), BIT_AND(a), BIT_OR(a), MIN(b) FROM none")
		w.merged(true, "SELECT a, COUNT(*) FROM none GROUP BY a")
		w.merged(true, "SELECT DISTINCT a FROM none")
		w.merged(true, "SELECT k, COUNT(*) FROM g WHERE i > ? GROUP BY k HAVING COUNT(*) > ? ORDER BY k LIMIT ?", 0, 3, 4)
		w.merged(true, "SELECT k, SUM(i), COUNT(DISTINCT e) FROM g WHERE i > ? GROUP BY k ORDER BY SUM(q), k LIMIT ? OFFSET ?", 3, 4, 1)
	})
}

// distinctTexts: as many distinct texts, and each equal to one of the other's.
func (w *twins) distinctTexts(column string) {
	w.t.Helper()
	for _, query := range []string{
		"SELECT DISTINCT " + column + " FROM g", "SELECT DISTINCT " + column + " FROM g ORDER BY " + column + " DESC LIMIT 8 OFFSET 2", "SELECT DISTINCT " + column + ", k FROM g ORDER BY k, 1 LIMIT 30",
	} {
		if plan := w.planOf(query); plan != "merge" {
			w.t.Errorf("%s: plan %s", query, plan)
		}
		plain := w.plainDB()
		got, want := mustRows(w.t, w.p.db(), query), mustRows(w.t, plain, query)
		if len(got) != len(want) {
			w.t.Errorf("%s: %d rows, want %d", query, len(got), len(want))
			continue
		}
		if !strings.Contains(query, "ORDER BY") {
			continue
		}
		for i := range got {
			r := mustRows(w.t, plain, "SELECT COUNT(*) AS n FROM g WHERE "+column+" <=> ? AND "+column+" <=> ?", null(got[i][column]), null(want[i][column]))
			if r[0]["n"] == "0" {
				w.t.Errorf("%s: row %d is %q, want %q", query, i, got[i][column], want[i][column])
			}
		}
	}
}

func null(s string) any {
	if s == "NULL" {
		return nil
	}
	return s
}

func (w *twins) plainDB() *sql.DB {
	w.t.Helper()
	return onShard(w.t, w.p.servers[len(w.p.servers)-1], w.p.schema+"_plain")
}

// groupRows makes and fills the tables g and h, and none.
func (w *twins) groupRows(r *randomRows) {
	w.t.Helper()
	w.exec("CREATE TABLE g (id BIGINT NOT NULL PRIMARY KEY, k INT, name VARCHAR(20) COLLATE utf8mb4_general_ci, bin VARCHAR(20) COLLATE utf8mb4_bin, l VARCHAR(20) CHARACTER SET latin1,"+
		" u BIGINT UNSIGNED, i INT, d DECIMAL(65,30), d5 DECIMAL(20,5), q DECIMAL(10,2), da DATE, dt DATETIME(3), f FLOAT, e ENUM('z','a'), s SET('p','q'), vb VARBINARY(10), y YEAR, tm TIME)",
		"CREATE TABLE h (gid BIGINT NOT NULL, n INT NOT NULL, w DECIMAL(8,3), PRIMARY KEY (gid, n))",
		"CREATE TABLE none (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(10))")
	for range 10 {
		var rows, more []string
		for range 30 {
			r.id++
			n := r.rnd.IntN
			rows = append(rows, "("+strings.Join([]string{
				fmt.Sprint(r.id), r.null(fmt.Sprint(n(8))), r.null(r.text()), r.null(r.text()), r.null(r.any("'a'", "'A'", "'a '", "'b'", "'ä'")),
				r.null(r.any("18446744073709551615", "9223372036854775808", "7")), r.null(fmt.Sprint(n(2000) - 1000)),
				r.null(r.any("-", "") + r.any("9999999999999999999999999999999999.999999999999999999999999999999", "0.000000000000000000000000000001", "12.5")),
				r.null(fmt.Sprintf("%d.%05d", n(50)-25, n(100000))), r.null(fmt.Sprintf("%d.%02d", n(50)-25, n(100))),
				r.null(fmt.Sprintf("'2020-0%d-01'", 1+n(9))), r.null(fmt.Sprintf("'2020-0%d-01 10:00:00.%03d'", 1+n(9), n(3))), r.null(fmt.Sprintf("%d.%d", n(3), n(3))),
				r.null(r.any("'z'", "'a'")), r.null(r.any("''", "'p'", "'p,q'")), r.null(r.text()), r.null(fmt.Sprint(2000 + n(5))), r.null(fmt.Sprintf("'%s%d:00:00'", r.any("-", ""), n(100))),
			}, ", ")+")")
			for j := range n(3) {
				more = append(more, fmt.Sprintf("(%d, %d, %d.%03d)", r.id, j, n(9), n(1000)))
			}
		}
		w.exec("INSERT IGNORE INTO g VALUES "+strings.Join(rows, ", "), "INSERT INTO h VALUES "+strings.Join(more, ", "))
	}
}
