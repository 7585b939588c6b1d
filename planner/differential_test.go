package planner

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestRouteHoldsAnswer compares, for random queries over random rows, the
// answer of one server with the joined answers of the shards that the plan
// visits, each evaluated by brute force, or with the answer from the rows that a
// gather copies.
// SEED in the environment repeats a run.
func TestRouteHoldsAnswer(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	seed := time.Now().UnixNano()
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	rounds := suite.Size(50, 300)
	var counts [4]int
	narrowed, fewer := 0, 0
	for round := range rounds {
		w := newWorld(t, rand.New(rand.NewSource(seed+int64(round))))
		for range 60 {
			w.check(t, seed+int64(round), &counts)
		}
		narrowed, fewer = narrowed+w.narrowed, fewer+w.fewer
	}
	t.Logf("gathered %d, one shard %d, some %d, all %d", counts[0], counts[1], counts[2], counts[3])
	if narrowed < rounds || fewer < rounds/2 {
		t.Errorf("only %d copies are narrowed by others, %d to fewer shards", narrowed, fewer)
	}
	for i, n := range counts {
		if n == 0 {
			t.Errorf("no query of sort %d (gathered, one, some, all): the generator tests nothing", i)
		}
	}
}

// world is a small database over four shards.
type world struct {
	r    *rand.Rand
	cat  *catalog.Catalog
	rows map[string][]row
	ix   entries
	p    *Planner
	// subqueries allows EXISTS; depth numbers their aliases.
	subqueries bool
	aliases    int
	// preds are the conditions generated, by their text.
	preds map[string]func(env) tri

	// copies, when set, are all rows that there are, by alias.
	copies map[string]*plan.GatherRef
	gather *plan.Gather
	values map[[2]int][]any // of a copy's column, by reference and place
	// narrowed counts the references that others narrow, fewer those that so are read
	// from fewer shards.
	narrowed, fewer int
}

// seen reports whether a reference sees a row: on one shard (-1: on all), or in
// its copy.
func (w *world) seen(alias string, r row, shard int) bool {
	if w.copies == nil {
		return shard < 0 || r.shard < 0 || r.shard == shard
	}
	c := w.copies[alias]
	if r.shard >= 0 && !c.Shards.Has(catalog.ShardID(r.shard)) {
		return false
	}
	for _, j := range c.Joins {
		if !w.partner(j, r.vals[j.Column.Name]) {
			return false
		}
	}
	e := env{}
	for k, v := range r.vals {
		e[alias+"."+k] = v
	}
	for _, f := range c.Filters {
		if w.filter(f.Text)(e) != 1 {
			return false
		}
	}
	return true
}

// filter is the meaning of a copy's filter: a condition generated, or those that
// each part of a chain of ORs says.
func (w *world) filter(text string) func(env) tri {
	if eval := w.preds[text]; eval != nil {
		return eval
	}
	for _, op := range []string{" OR ", " AND "} {
		parts := splitOutside(text, op)
		if len(parts) == 1 {
			continue
		}
		var all []func(env) tri
		for _, part := range parts {
			all = append(all, w.filter(part))
		}
		either := op == " OR "
		return func(e env) tri {
			if slices.ContainsFunc(all, func(eval func(env) tri) bool { return (eval(e) == 1) == either }) == either {
				return 1
			}
			return 0
		}
	}
	if strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")") {
		return w.filter(text[1 : len(text)-1])
	}
	panic("a filter that no query had: " + text)
}

// splitOutside splits a text at the separators outside of parentheses.
func splitOutside(text, sep string) []string {
	var out []string
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 && strings.HasPrefix(text[i:], sep) {
			out = append(out, text[start:i])
			start = i + len(sep)
		}
	}
	return append(out, text[start:])
}

// exists is [NOT] EXISTS or a count over another table, mostly correlated.
func (w *world) exists(from []source) pred {
	w.aliases++
	name := []string{"u", "o", "l", "r", "o", "u"}[w.r.Intn(6)]
	inner := source{fmt.Sprintf("x%d", w.aliases), w.cat.Table("shop", name)}
	w.subqueries = false
	where := w.pred(append([]source{inner}, from...), 1)
	w.subqueries = true
	if outer := from[w.r.Intn(len(from))]; inner.table.ShardKey != nil && outer.table.ShardKey != nil && w.r.Intn(4) > 0 {
		x, y := inner.alias+"."+inner.table.ShardKey.Name, outer.alias+"."+outer.table.ShardKey.Name
		old := where
		where = pred{x + " = " + y + " AND (" + old.sql + ")", func(e env) tri { return andTri(equalTri(e[x], e[y]), old.eval(e)) }}
	}
	count := func(e env) int {
		shard := e["#"].(int)
		n := 0
		for _, r := range w.rows[name] {
			if !w.seen(inner.alias, r, shard) {
				continue
			}
			in := env{}
			maps.Copy(in, e)
			for k, v := range r.vals {
				in[inner.alias+"."+k] = v
			}
			if where.eval(in) == 1 {
				n++
			}
		}
		return n
	}
	tail := "FROM " + name + " " + inner.alias + " WHERE " + where.sql + ")"
	switch w.r.Intn(3) {
	case 0:
		return pred{"NOT EXISTS (SELECT 1 " + tail, func(e env) tri { return truth(count(e) == 0) }}
	case 1:
		return pred{"(SELECT COUNT(*) " + tail + " = 1", func(e env) tri { return truth(count(e) == 1) }}
	}
	return pred{"EXISTS (SELECT 1 " + tail, func(e env) tri { return truth(count(e) > 0) }}
}

// partner reports whether a value is one of those that narrow a copy.
func (w *world) partner(j plan.GatherJoin, v any) bool {
	at := [2]int{j.Ref, j.From}
	values, known := w.values[at]
	if !known {
		from := &w.gather.Refs[j.Ref]
		joins := from.Joins
		from.Joins = nil // or it would go round
		for _, r := range w.rows[from.Table.Name] {
			if w.seen(from.Alias, r, -1) {
				values = append(values, r.vals[from.Columns[j.From].Name])
			}
		}
		from.Joins = joins
		w.values[at] = values
	}
	for _, x := range values {
		if equalTri(v, x) == 1 {
			return true
		}
	}
	return false
}

// narrowing looks for rows of a copy that have partners in the others, and are not on the
// shards that these narrow it to. That is right where a condition says so that is no filter of
// the copy: as the copy is then, the answer must be the same.
func (w *world) narrowing(t *testing.T, seed int64, sql string, ref int, answer func() string) {
	t.Helper()
	c := &w.gather.Refs[ref]
	if len(c.Joins) == 0 {
		return
	}
	want := answer()
	var values [][]string
	for _, j := range c.Joins {
		w.partner(j, nil)
		var list []string
		for _, v := range w.values[[2]int{j.Ref, j.From}] {
			if v != nil {
				list = append(list, fmt.Sprint(v))
			}
		}
		values = append(values, list)
	}
	_, set, ok := w.gather.Narrow(w.gather, ref, c.Joins, values, w.ix.indexes())
	if _, far, _ := w.gather.Narrow(w.gather, ref, c.Joins, values, remotely(w.ix.indexes())); far != set {
		panic(fmt.Sprintf("narrowed to %v, and to %v by what is asked at once", set, far))
	}
	if !ok {
		return
	}
	if !set.Empty() && set.Len() < c.Shards.Len() {
		w.fewer++
	}
	for _, r := range w.rows[c.Table.Name] {
		if r.shard >= 0 && !set.Has(catalog.ShardID(r.shard)) && w.seen(c.Alias, r, -1) {
			narrow := *c
			narrow.Shards = set
			w.copies[c.Alias] = &narrow
			got := answer()
			if w.copies[c.Alias] = c; got != want {
				t.Fatalf("SEED=%d %s\ncopy %d narrowed to %v misses %v on s%d: want\n%s\ngot\n%s", seed, sql, ref, set, r.vals, r.shard, want, got)
			}
			return
		}
	}
}

// row is one row: values by column, and where it is (-1: everywhere).
type row struct {
	vals  map[string]any
	shard int
}

const worldDDL = `
CREATE TABLE u (id BIGINT PRIMARY KEY, a INT, b VARCHAR(10), c VARCHAR(10), d INT);
-- @virtual idx_a a
-- @virtual idx_b b
-- @virtual idx_cd c,d
CREATE TABLE o (k BIGINT, n BIGINT, a INT, b VARCHAR(10), PRIMARY KEY (k, n));
-- @virtual idx_oa a
-- @virtual idx_ba b,a
CREATE TABLE l (id BIGINT PRIMARY KEY, a INT, b VARCHAR(10));
-- @anywhere
-- @virtual idx_la a
CREATE TABLE r (code BIGINT PRIMARY KEY, b VARCHAR(10));
-- @reference
CREATE TABLE s (id BIGINT PRIMARY KEY, a INT);
-- @single s2`

func newWorld(t *testing.T, r *rand.Rand) *world {
	w := &world{r: r, cat: buildCatalog(t, 4, worldDDL), rows: map[string][]row{}, ix: entries{}, p: New(), preds: map[string]func(env) tri{}}
	for _, name := range []string{"u", "o", "l", "r", "s"} {
		tab := w.cat.Table("shop", name)
		seen := map[string]bool{}
		for range r.Intn(9) {
			v := map[string]any{}
			for _, c := range tab.Columns {
				v[c.Name] = w.value(c)
			}
			pk := ""
			for _, c := range tab.PrimaryKey {
				pk += fmt.Sprint(v[c.Name], ",")
			}
			if seen[pk] {
				continue
			}
			seen[pk] = true
			shard := -1
			switch tab.Placement {
			case catalog.Hash:
				shard = int(w.cat.ShardOf(w.key(t, tab.ShardKey, v[tab.ShardKey.Name])))
			case catalog.Anywhere:
				shard = r.Intn(4)
			case catalog.Single:
				shard = 2
			case catalog.Reference: // on all
			}
			w.rows[name] = append(w.rows[name], row{v, shard})
			for _, ix := range tab.Indexes {
				var key []byte
				if v[ix.Columns[0].Name] == nil {
					continue
				}
				for _, c := range ix.Columns {
					key = append(key, w.key(t, c, v[c.Name])...)
				}
				w.ix.add(ix.Name, key, catalog.ShardID(shard))
			}
		}
	}
	return w
}

func (w *world) key(t *testing.T, c *catalog.Column, v any) []byte {
	codec, err := plan.CodecOf(w.cat, c)
	if err != nil {
		t.Fatal(err)
	}
	val := keys.Null()
	switch v := v.(type) {
	case int64:
		val = keys.Int(v)
	case string:
		val = keys.String([]byte(v), "utf8mb4")
	}
	k, ok := codec.Stored(nil, val, true, false)
	if !ok {
		t.Fatalf("no key for %v", v)
	}
	return k
}

var words = []string{"a", "A", "b", "ab", "AB", "abc", "c", "ca", ""}

func (w *world) value(c *catalog.Column) any {
	if c.Nullable && w.r.Intn(6) == 0 {
		return nil
	}
	if c.Charset != "" {
		return words[w.r.Intn(len(words))]
	}
	return int64(w.r.Intn(8))
}

// tri is SQL truth: 1 true, 0 false, -1 unknown.
type tri int

type env map[string]any // alias.column -> value

// pred is a random condition with its meaning.
type pred struct {
	sql  string
	eval func(env) tri
}

type term struct {
	sql  string
	text bool
	eval func(env) any
}

// source is a table reference of the query under test.
type source struct {
	alias string
	table *catalog.Table
}

func (w *world) column(from []source) term {
	s := from[w.r.Intn(len(from))]
	c := s.table.Columns[w.r.Intn(len(s.table.Columns))]
	name := s.alias + "." + c.Name
	return term{name, c.Charset != "", func(e env) any { return e[name] }}
}

func (w *world) constant(text bool) term {
	if w.r.Intn(15) == 0 {
		return term{"NULL", text, func(env) any { return nil }}
	}
	if w.r.Intn(12) == 0 {
		text = !text // the other type, to be doubted
	}
	if text {
		v := words[w.r.Intn(len(words))]
		if w.r.Intn(5) == 0 {
			v = strconv.Itoa(w.r.Intn(8))
		}
		return term{"'" + v + "'", true, func(env) any { return v }}
	}
	n := int64(w.r.Intn(10) - 1)
	return term{strconv.FormatInt(n, 10), false, func(env) any { return n }}
}

func number64(s string) float64 {
	i := 0
	for i < len(s) && text.IsDigit(s[i]) {
		i++
	}
	f, _ := strconv.ParseFloat(s[:i], 64)
	return f
}

// compare orders two values that are not NULL as MySQL does.
func compare(x, y any) int {
	xs, okx := x.(string)
	ys, oky := y.(string)
	if okx && oky {
		return strings.Compare(strings.ToLower(xs), strings.ToLower(ys))
	}
	f := func(v any) float64 {
		switch v := v.(type) {
		case int64:
			return float64(v)
		case string:
			return number64(v)
		}
		panic("no number")
	}
	a, b := f(x), f(y)
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func truth(b bool) tri {
	if b {
		return 1
	}
	return 0
}

func not(x tri) tri {
	if x < 0 {
		return x
	}
	return 1 - x
}

func andTri(x, y tri) tri {
	switch {
	case x == 0 || y == 0:
		return 0
	case x < 0 || y < 0:
		return -1
	}
	return 1
}

func orTri(x, y tri) tri { return not(andTri(not(x), not(y))) }

func equalTri(x, y any) tri {
	if x == nil || y == nil {
		return -1
	}
	return truth(compare(x, y) == 0)
}

func (w *world) pred(from []source, depth int) pred {
	p := w.newPred(from, depth)
	w.preds[strings.TrimPrefix(p.sql, "(")] = p.eval
	w.preds[p.sql] = p.eval
	if strings.HasPrefix(p.sql, "(") && strings.HasSuffix(p.sql, ")") {
		w.preds[p.sql[1:len(p.sql)-1]] = p.eval
	}
	return p
}

func (w *world) newPred(from []source, depth int) pred {
	if depth > 0 && w.r.Intn(3) > 0 {
		x, y := w.pred(from, depth-1), w.pred(from, depth-1)
		switch w.r.Intn(8) {
		case 0:
			return pred{"NOT (" + x.sql + ")", func(e env) tri { return not(x.eval(e)) }}
		case 1:
			return pred{"((" + x.sql + ") XOR (" + y.sql + "))", func(e env) tri {
				a, b := x.eval(e), y.eval(e)
				if a < 0 || b < 0 {
					return -1
				}
				return truth(a != b)
			}}
		case 2, 3:
			return pred{"(" + x.sql + " OR " + y.sql + ")", func(e env) tri { return orTri(x.eval(e), y.eval(e)) }}
		default:
			return pred{x.sql + " AND " + y.sql, func(e env) tri { return andTri(x.eval(e), y.eval(e)) }}
		}
	}
	if w.r.Intn(8) == 0 { // NOT IN, NOT BETWEEN, NOT LIKE
		x := w.pred(from, 0)
		for _, op := range []string{" IN ", " BETWEEN ", " LIKE "} {
			if strings.Contains(x.sql, op) && !strings.Contains(x.sql, "NOT") && !strings.Contains(x.sql, "SELECT") {
				return pred{strings.Replace(x.sql, op, " NOT"+op, 1), func(e env) tri { return not(x.eval(e)) }}
			}
		}
		return x
	}
	if w.subqueries && w.r.Intn(6) == 0 {
		return w.exists(from)
	}
	c := w.column(from)
	switch w.r.Intn(12) {
	case 0: // column = column
		d := w.column(from)
		return pred{c.sql + " = " + d.sql, func(e env) tri { return equalTri(c.eval(e), d.eval(e)) }}
	case 1:
		return pred{c.sql + " IS NULL", func(e env) tri { return truth(c.eval(e) == nil) }}
	case 2, 3:
		var list []term
		var sql []string
		for range 1 + w.r.Intn(3) {
			v := w.constant(c.text)
			list, sql = append(list, v), append(sql, v.sql)
		}
		return pred{c.sql + " IN (" + strings.Join(sql, ", ") + ")", func(e env) tri {
			out := tri(0)
			for _, v := range list {
				out = orTri(out, equalTri(c.eval(e), v.eval(e)))
			}
			return out
		}}
	case 4:
		lo, hi := w.constant(c.text), w.constant(c.text)
		if lo.text != hi.text || lo.text != c.text {
			return w.pred(from, depth) // MySQL's own rules: see golden ranges
		}
		return pred{c.sql + " BETWEEN " + lo.sql + " AND " + hi.sql, func(e env) tri {
			v, l, h := c.eval(e), lo.eval(e), hi.eval(e)
			ge, le := tri(-1), tri(-1)
			if v != nil && l != nil {
				ge = truth(compare(v, l) >= 0)
			}
			if v != nil && h != nil {
				le = truth(compare(v, h) <= 0)
			}
			return andTri(ge, le)
		}}
	case 5:
		if !c.text {
			return w.pred(from, depth)
		}
		p := words[w.r.Intn(len(words))]
		return pred{c.sql + " LIKE '" + p + "%'", func(e env) tri {
			v, ok := c.eval(e).(string)
			if !ok {
				return -1
			}
			return truth(strings.HasPrefix(strings.ToLower(v), strings.ToLower(p)))
		}}
	case 6:
		v := w.constant(c.text)
		return pred{c.sql + " <=> " + v.sql, func(e env) tri {
			x, y := c.eval(e), v.eval(e)
			if x == nil || y == nil {
				return truth(x == nil && y == nil)
			}
			return equalTri(x, y)
		}}
	case 7:
		d := w.column(from)
		v, x := w.constant(c.text), w.constant(d.text)
		return pred{"(" + c.sql + ", " + d.sql + ") = (" + v.sql + ", " + x.sql + ")", func(e env) tri {
			return andTri(equalTri(c.eval(e), v.eval(e)), equalTri(d.eval(e), x.eval(e)))
		}}
	case 8, 9:
		v := w.constant(c.text)
		op := []string{"<", "<=", ">", ">="}[w.r.Intn(4)]
		return pred{c.sql + " " + op + " " + v.sql, func(e env) tri {
			x, y := c.eval(e), v.eval(e)
			if x == nil || y == nil {
				return -1
			}
			switch n := compare(x, y); op {
			case "<":
				return truth(n < 0)
			case "<=":
				return truth(n <= 0)
			case ">":
				return truth(n > 0)
			}
			return truth(compare(x, y) >= 0)
		}}
	}
	v := w.constant(c.text)
	if w.r.Intn(4) == 0 {
		return pred{v.sql + " = " + c.sql, func(e env) tri { return equalTri(c.eval(e), v.eval(e)) }}
	}
	return pred{c.sql + " = " + v.sql, func(e env) tri { return equalTri(c.eval(e), v.eval(e)) }}
}

// tree is a random FROM clause with its meaning: the rows that a shard (-1: one
// server with all) makes of it.
type tree struct {
	sql  string
	from []source
	rows func(shard int) []env
}

func (w *world) from(n int, next *int) tree {
	if n == 1 {
		name := []string{"u", "o", "u", "o", "l", "r", "s"}[w.r.Intn(7)]
		tab := w.cat.Table("shop", name)
		alias := fmt.Sprintf("t%d", *next)
		*next++
		return tree{name + " " + alias, []source{{alias, tab}}, func(shard int) []env {
			var out []env
			for _, r := range w.rows[name] {
				if !w.seen(alias, r, shard) {
					continue
				}
				e := env{"#": shard}
				for k, v := range r.vals {
					e[alias+"."+k] = v
				}
				out = append(out, e)
			}
			return out
		}}
	}
	k := 1 + w.r.Intn(n-1)
	l, r := w.from(k, next), w.from(n-k, next)
	all := append(append([]source(nil), l.from...), r.from...)
	kind := []string{"JOIN", "LEFT JOIN", "RIGHT JOIN"}[w.r.Intn(3)]
	lsql := l.sql
	if w.r.Intn(2) == 0 { // joins group from the left
		lsql = strings.TrimSuffix(strings.TrimPrefix(lsql, "("), ")")
	}
	on := w.pred(all, 1)
	// Mostly on the shard keys, else all is refused.
	if w.r.Intn(5) > 0 {
		x, y := l.from[w.r.Intn(len(l.from))], r.from[w.r.Intn(len(r.from))]
		if x.table.ShardKey != nil && y.table.ShardKey != nil {
			cx, cy := x.alias+"."+x.table.ShardKey.Name, y.alias+"."+y.table.ShardKey.Name
			eq := pred{cx + " = " + cy, func(e env) tri { return equalTri(e[cx], e[cy]) }}
			if w.r.Intn(3) > 0 {
				on = eq
			} else {
				old := on
				on = pred{eq.sql + " AND (" + old.sql + ")", func(e env) tri { return andTri(eq.eval(e), old.eval(e)) }}
			}
		}
	}
	clause := " ON " + on.sql
	if kind == "JOIN" && w.r.Intn(6) == 0 {
		clause, on = "", pred{"", func(env) tri { return 1 }}
	}
	return tree{"(" + lsql + " " + kind + " " + r.sql + clause + ")", all, func(shard int) []env {
		ls, rs := l.rows(shard), r.rows(shard)
		left, right := kind == "LEFT JOIN", kind == "RIGHT JOIN"
		var out []env
		matched := make([]bool, len(rs))
		for _, x := range ls {
			any := false
			for j, y := range rs {
				e := env{}
				maps.Copy(e, x)
				maps.Copy(e, y)
				if on.eval(e) == 1 {
					any, matched[j] = true, true
					out = append(out, e)
				}
			}
			if left && !any {
				out = append(out, x) // the other side's columns are absent: NULL
			}
		}
		if right {
			for j, y := range rs {
				if !matched[j] {
					out = append(out, y)
				}
			}
		}
		return out
	}}
}

func render(rows []env, where pred) []string {
	var out []string
	for _, e := range rows {
		if where.eval(e) != 1 {
			continue
		}
		var cols []string
		for k, v := range e {
			if k == "#" {
				continue
			}
			cols = append(cols, fmt.Sprintf("%s=%v", k, v))
		}
		sort.Strings(cols)
		out = append(out, strings.Join(cols, " "))
	}
	return out
}

func (w *world) check(t *testing.T, seed int64, counts *[4]int) {
	t.Helper()
	next := 0
	w.subqueries = true
	defer func() { w.subqueries = false }()
	f := w.from(1+w.r.Intn(4)*w.r.Intn(2), &next)
	where := w.pred(f.from, 1+w.r.Intn(3))
	from := strings.TrimSuffix(strings.TrimPrefix(f.sql, "("), ")")
	sql := "SELECT * FROM " + from + " WHERE " + where.sql

	planned, err := w.p.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4", Strict: true}, w.cat)
	if err != nil {
		t.Fatalf("SEED=%d %s: %v", seed, sql, err)
	}
	b, err := w.p.Bind(planned.(*plan.Rows), nil, w.ix.indexes())
	if err != nil {
		t.Fatalf("SEED=%d %s: %v", seed, sql, err)
	}
	far, err := w.p.Bind(planned.(*plan.Rows), nil, remotely(w.ix.indexes()))
	if near, far := goldenBound(planned.(*plan.Rows), b, nil), goldenBound(planned.(*plan.Rows), far, err); near != far {
		t.Fatalf("SEED=%d %s\n-- asked at once:\n%s\n-- one after the other:\n%s", seed, sql, far, near)
	}
	if b.Refuse != nil {
		t.Fatalf("SEED=%d %s: %v", seed, sql, b.Refuse)
	}
	switch len(b.Statements) {
	case 0:
		counts[0]++
	case 1:
		counts[1]++
	case 4:
		counts[3]++
	default:
		counts[2]++
	}
	want := render(f.rows(-1), where)
	var got []string
	if b.Gather != nil {
		w.copies, w.gather, w.values = map[string]*plan.GatherRef{}, b.Gather, map[[2]int][]any{}
		for i := range b.Gather.Refs {
			w.copies[b.Gather.Refs[i].Alias] = &b.Gather.Refs[i]
			w.narrowed += len(b.Gather.Refs[i].Joins)
		}
		got = render(f.rows(-1), where)
		for i := range b.Gather.Refs {
			w.narrowing(t, seed, sql, i, func() string {
				rows := render(f.rows(-1), where)
				sort.Strings(rows)
				return strings.Join(rows, "\n")
			})
		}
		w.copies = nil
	}
	for _, s := range b.Statements {
		got = append(got, render(f.rows(int(s.Shard)), where)...)
	}
	sort.Strings(want)
	sort.Strings(got)
	if strings.Join(want, "\n") != strings.Join(got, "\n") {
		t.Fatalf("SEED=%d %s\nroute %s\nwant\n%s\ngot\n%s", seed, sql, b.Reason, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
