package planner

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestEffectsCoverWrites runs random INSERT, ODKU, REPLACE, UPDATE and DELETE
// by brute force on the shards of their plans, and checks that every row that
// matched was reached, that each row is on the shard of its key, and that every
// key is in the index: by an entry or by a mark that doesn't contradict it.
func TestEffectsCoverWrites(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	done := 0
	for round := range 200 {
		w := newWorld(t, rand.New(rand.NewSource(seed+int64(round))))
		var marks []plan.Mark
		for range 15 {
			sql, apply := w.write()
			planned, err := w.p.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4", Strict: true}, w.cat)
			if err != nil {
				continue
			}
			b, err := w.p.Bind(planned.(*plan.Rows), nil, w.marked(marks))
			far, farErr := w.p.Bind(planned.(*plan.Rows), nil, remotely(w.marked(marks)))
			if near, far := goldenBound(planned.(*plan.Rows), b, err), goldenBound(planned.(*plan.Rows), far, farErr); near != far {
				t.Fatalf("%s\n-- asked at once:\n%s\n-- one after the other:\n%s", sql, far, near)
			}
			if err != nil || b.Refuse != nil {
				continue
			}
			done++
			for _, a := range b.Adds {
				w.ix.add(a.Index.Name, a.Key, a.Shard)
			}
			marks = append(marks, b.Marks...)
			var set catalog.ShardSet
			for _, s := range b.Statements {
				set.Add(s.Shard)
			}
			if missed := apply(set); missed != "" {
				t.Fatalf("SEED=%d %s: route %s misses %s", seed+int64(round), sql, b.Reason, missed)
			}
			if missing := w.missing(t, marks); missing != "" {
				t.Fatalf("SEED=%d %s: %s", seed+int64(round), sql, missing)
			}
		}
	}
	if done < 500 {
		t.Errorf("only %d statements were not refused", done)
	}
}

// TestManyEffects: of many entries each is there once, whichever shards and indexes share a key.
func TestManyEffects(t *testing.T) {
	t.Parallel()
	e, indexes := &effects{}, []*catalog.Index{{ID: 1}, {ID: 2}}
	want := map[addKey]bool{}
	for range 2 {
		for n := range 160 {
			k := addKey{indexes[n%2], fmt.Sprint(n / 8), catalog.ShardID(n / 2 % 4)}
			e.add(k.index, []byte(k.key), k.shard)
			want[k] = true
		}
	}
	for _, a := range e.adds {
		delete(want, addKey{a.Index, string(a.Key), a.Shard})
	}
	if len(want) > 0 || len(e.adds) != 160 {
		t.Errorf("%d entries; without %v", len(e.adds), want)
	}
}

// TestHintedDoubt: what is in a comment that a server of unknown version may execute may
// change anything.
func TestHintedDoubt(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 2, "CREATE TABLE t (id INT PRIMARY KEY, a INT);\n-- @virtual by_a a\nCREATE TABLE u (id INT PRIMARY KEY);\n")
	cat.ServerVersion = ""
	for _, sql := range []string{"SELECT 1 /*!99999 FROM u */", "UPDATE u SET id = 1 /*!99999 WHERE id = 2 */"} {
		planned, err := New().Plan("/* shunt: shard=s1 */ "+sql, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New().Bind(planned.(*plan.Rows), nil, nil)
		if err != nil || len(b.Marks) != 1 {
			t.Errorf("%s: %d marks, %v", sql, len(b.Marks), err)
		}
	}
}

// marked answers lookups from entries and marks, as the store does.
func (w *world) marked(marks []plan.Mark) *fakeIndexes {
	f := w.ix.indexes()
	with := func(ix *catalog.Index, s catalog.ShardSet) catalog.ShardSet {
		for _, m := range marks {
			if m.Index == ix {
				s.Add(m.Shard)
			}
		}
		return s
	}
	lookup, ranged := f.lookup, f.ranged
	f.lookup = func(ix *catalog.Index, key []byte) (catalog.ShardSet, error) {
		s, err := lookup(ix, key)
		return with(ix, s), err
	}
	f.ranged = func(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
		s, ok, err := ranged(ix, from, to, limit)
		return with(ix, s), ok, err
	}
	return f
}

// missing finds a row without an entry or mark.
func (w *world) missing(t *testing.T, marks []plan.Mark) string {
	for name, rows := range w.rows {
		tab := w.cat.Table("shop", name)
		for _, r := range rows {
			if tab.Placement == catalog.Hash {
				if at := w.cat.ShardOf(w.key(t, tab.ShardKey, r.vals[tab.ShardKey.Name])); int(at) != r.shard {
					return fmt.Sprintf("row %v of %s is on s%d and belongs on s%d", r.vals, name, r.shard, at)
				}
			}
			for _, ix := range tab.Indexes {
				if r.vals[ix.Columns[0].Name] == nil {
					continue
				}
				var key []byte
				var comps [][]byte
				for _, c := range ix.Columns {
					k := w.key(t, c, r.vals[c.Name])
					key, comps = append(key, k...), append(comps, k)
				}
				if w.ix[ix.Name][string(key)].Has(catalog.ShardID(r.shard)) {
					continue
				}
				found := false
				for _, m := range marks {
					if m.Index != ix || int(m.Shard) != r.shard {
						continue
					}
					fits := true
					for i, k := range m.Known {
						fits = fits && (k == nil || string(k) == string(comps[i]))
					}
					found = found || fits
				}
				if !found {
					return fmt.Sprintf("row %v of %s on s%d has no entry in %s", r.vals, name, r.shard, ix.Name)
				}
			}
		}
	}
	return ""
}

func sqlText(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + v + "'"
	default:
		return fmt.Sprint(v)
	}
}

// setter is one random assignment.
type setter struct {
	sql string
	col string
	set func(old map[string]any, inserted map[string]any) any
}

func (w *world) setter(tab *catalog.Table, odku bool) setter {
	c := tab.Columns[w.r.Intn(len(tab.Columns))]
	v := w.value(c)
	s := setter{c.Name + " = " + sqlText(v), c.Name, func(map[string]any, map[string]any) any { return v }}
	switch w.r.Intn(6) {
	case 0:
		s.sql, s.set = c.Name+" = "+c.Name, func(old, _ map[string]any) any { return old[c.Name] }
	case 1, 2:
		if odku {
			s.sql, s.set = c.Name+" = VALUES("+c.Name+")", func(_, ins map[string]any) any { return ins[c.Name] }
			break
		}
		fallthrough
	case 3:
		if c.Charset != "" {
			s.sql = c.Name + " = CONCAT(" + c.Name + ", 'z')"
			s.set = func(old, _ map[string]any) any {
				x, ok := old[c.Name].(string)
				if !ok || len(x) > 8 {
					return old[c.Name]
				}
				return x + "z"
			}
			if w.r.Intn(2) == 0 {
				d := tab.Columns[w.r.Intn(len(tab.Columns))]
				if d.Charset != "" && (c.Nullable || !d.Nullable) {
					s.sql, s.set = c.Name+" = "+d.Name, func(old, _ map[string]any) any { return old[d.Name] }
				}
			}
		} else if c.Nullable {
			s.sql = c.Name + " = " + c.Name + " + 1"
			s.set = func(old, _ map[string]any) any {
				if x, ok := old[c.Name].(int64); ok {
					return x + 1
				}
				return nil
			}
		}
	}
	return s
}

// write makes a random statement, and what it does on a set of shards; that
// returns a row that it should have changed on another shard.
func (w *world) write() (sql string, apply func(set catalog.ShardSet) string) {
	name := []string{"u", "o", "l"}[w.r.Intn(3)]
	tab := w.cat.Table("shop", name)
	from := []source{{name, tab}}
	matches := func(r row, p pred) bool {
		e := env{}
		for k, v := range r.vals {
			e[name+"."+k] = v
		}
		return p.eval(e) == 1
	}
	same := func(x, y map[string]any) bool {
		for _, c := range tab.PrimaryKey {
			if x[c.Name] != y[c.Name] {
				return false
			}
		}
		return true
	}
	switch w.r.Intn(4) {
	case 0:
		p := w.pred(from, w.r.Intn(2))
		return "DELETE FROM " + name + " WHERE " + p.sql, func(set catalog.ShardSet) string {
			var kept []row
			for _, r := range w.rows[name] {
				if !matches(r, p) {
					kept = append(kept, r)
				} else if !set.Has(catalog.ShardID(r.shard)) {
					return fmt.Sprint(r.vals)
				}
			}
			w.rows[name] = kept
			return ""
		}
	case 1:
		p := w.pred(from, w.r.Intn(2))
		var sets []setter
		var text []string
		for range 1 + w.r.Intn(3) {
			s := w.setter(tab, false)
			sets, text = append(sets, s), append(text, s.sql)
		}
		return "UPDATE " + name + " SET " + strings.Join(text, ", ") + " WHERE " + p.sql, func(set catalog.ShardSet) string {
			for i, r := range w.rows[name] {
				if !matches(r, p) {
					continue
				}
				if !set.Has(catalog.ShardID(r.shard)) {
					return fmt.Sprint(r.vals)
				}
				next := map[string]any{}
				maps.Copy(next, r.vals)
				for _, s := range sets { // from left to right
					next[s.col] = s.set(next, nil)
				}
				clash := false
				for j, x := range w.rows[name] {
					clash = clash || j != i && x.shard == r.shard && same(x.vals, next)
				}
				if !clash {
					w.rows[name][i].vals = next
				}
			}
			return ""
		}
	}
	verb := []string{"INSERT", "REPLACE", "INSERT IGNORE"}[w.r.Intn(3)]
	var cols []string
	for _, c := range tab.Columns {
		if !c.Nullable || w.r.Intn(4) > 0 {
			cols = append(cols, c.Name)
		}
	}
	var inserted []map[string]any
	var lists []string
	for range 1 + w.r.Intn(3) {
		v := map[string]any{}
		var text []string
		for _, c := range tab.Columns {
			v[c.Name] = nil
		}
		for _, name := range cols {
			c := tab.Column(name)
			v[name] = w.value(c)
			lit := sqlText(v[name])
			if x, ok := v[name].(string); ok && w.r.Intn(5) == 0 {
				lit = "CONCAT('" + x + "', '')"
			}
			text = append(text, lit)
		}
		inserted = append(inserted, v)
		lists = append(lists, "("+strings.Join(text, ", ")+")")
	}
	sql = verb + " INTO " + name + " (" + strings.Join(cols, ", ") + ") VALUES " + strings.Join(lists, ", ")
	var sets []setter
	if verb == "INSERT" && w.r.Intn(2) == 0 {
		var text []string
		for range 1 + w.r.Intn(2) {
			s := w.setter(tab, true)
			sets, text = append(sets, s), append(text, s.sql)
		}
		sql += " ON DUPLICATE KEY UPDATE " + strings.Join(text, ", ")
	}
	return sql, func(set catalog.ShardSet) string {
		for _, v := range inserted {
			shard := -1
			for s := range set.All { // by hash of the key, for all three tables
				if w.place(tab, v) == s {
					shard = int(s)
				}
			}
			if shard < 0 {
				return fmt.Sprint(v)
			}
			clash := -1
			for i, x := range w.rows[name] {
				if x.shard == shard && same(x.vals, v) {
					clash = i
				}
			}
			switch {
			case clash < 0:
				w.rows[name] = append(w.rows[name], row{v, shard})
			case verb == "REPLACE":
				w.rows[name][clash].vals = v
			case sets != nil:
				next := map[string]any{}
				maps.Copy(next, w.rows[name][clash].vals)
				for _, s := range sets {
					next[s.col] = s.set(next, v)
				}
				for i, x := range w.rows[name] {
					if i != clash && x.shard == shard && same(x.vals, next) {
						next = w.rows[name][clash].vals
					}
				}
				w.rows[name][clash].vals = next
			}
		}
		return ""
	}
}

func (w *world) place(tab *catalog.Table, v map[string]any) catalog.ShardID {
	b := &binder{cat: w.cat, settings: &text.Settings{}}
	o := operandFor((&text.Statement{Settings: text.Settings{Charset: "utf8mb4"}}), sqlText(v[tab.ShardKey.Name]))
	i := &insertAction{table: tab, needed: []*catalog.Column{tab.ShardKey}}
	id, err := i.shardOf(b, &insertRow{values: []text.Operand{o}})
	if err != nil {
		panic(err)
	}
	return id
}

func operandFor(st *text.Statement, sql string) text.Operand {
	st.Src = sql
	lx := text.NewLexer(sql, st.Settings, text.ServerVersion{})
	var toks []text.Token
	for t := lx.Next(); t.Kind != text.EOF; t = lx.Next() {
		toks = append(toks, t)
	}
	return st.Evaluate(toks)
}
