package planner

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/cockroachdb/datadriven"

	"github.com/shunt-sql/shunt/e2e/generate"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

var shapeSettings = text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Strict: true}

// TestShape pins what is cut out of texts: by what kind of literal, in brackets.
func TestShape(t *testing.T) {
	t.Parallel()
	ansi, noBackslash, gbk := shapeSettings, shapeSettings, shapeSettings
	ansi.ANSIQuotes, noBackslash.NoBackslashEscapes, gbk.Charset = true, true, "gbk"
	for _, c := range []struct {
		sql, want string
		s         *text.Settings
	}{
		{"SELECT c FROM sbtest1 WHERE id=505", "SELECT c FROM sbtest1 WHERE id=[n]", nil},
		{"select c from t where id = -5 and b>='it''s' or c <> 1.50", "select c from t where id = [n] and b>=[t] or c <> [n]", nil},
		{"SELECT a = 5, 7, 'x' FROM t WHERE a = 5 GROUP BY a = 5 HAVING a = 5 ORDER BY 1, a = 5 LIMIT 3", "SELECT a = 5, 7, 'x' FROM t WHERE a = [n] GROUP BY a = 5 HAVING a = 5 ORDER BY 1, a = 5 LIMIT [l]", nil},
		{"SELECT * FROM t WHERE a IN (1, -2,'x') LIMIT 1, 2", "SELECT * FROM t WHERE a IN ([n], [n],[t]) LIMIT [l], [l]", nil},
		{"SELECT * FROM t WHERE a BETWEEN 1 AND 2 AND b NOT BETWEEN 'a' AND 'b' LIMIT 1 OFFSET 2 FOR UPDATE", "SELECT * FROM t WHERE a BETWEEN [n] AND [n] AND b NOT BETWEEN [t] AND [t] LIMIT [l] OFFSET [l] FOR UPDATE", nil},
		{"SELECT * FROM t WHERE a LIKE 'x%' AND b LIKE 'y' ESCAPE '|'", "SELECT * FROM t WHERE a LIKE [t] AND b LIKE 'y' ESCAPE '|'", nil},
		{"SELECT * FROM t WHERE b = 'x' 'y' AND c = 'x' COLLATE utf8mb4_bin AND 5 = d AND e = + 5 AND f || 5 AND g = DATE '2020-01-01' AND a = 5 - b", "=", nil},
		{"UPDATE t SET a = a - 5, b = b -6, c = c*-7, d = 8 + 9, e = 8 + 9 + e, f = f + 1 + 2", "UPDATE t SET a = a - [n], b = b -[n], c = c*-7, d = 8 + 9, e = 8 + 9 + e, f = f + 1 + 2", nil},
		{"SELECT * FROM t WHERE a = 1e5 AND b = 0x1f AND d = 5. AND e = 1.5e3 AND f = 1a", "=", nil},
		{"SELECT * FROM t WHERE a > NOW() - INTERVAL 5 DAY AND POSITION('x' IN 'y') AND f(a, 5) AND a->'$.x' = 6 AND a = (SELECT 5) AND b = (6 + 7)", "=", nil},
		{"SELECT * FROM t WHERE f(x) = 5 AND (a, b) = (1, 'x') AND (a, b) IN ((1, -2), (3, 'y'), 4) AND c IN (f(1, 2), 3) AND d = (5)", "SELECT * FROM t WHERE f(x) = [n] AND (a, b) = ([n], [t]) AND (a, b) IN (([n], [n]), ([n], [t]), [n]) AND c IN (f(1, 2), [n]) AND d = ([n])", nil},
		{"SELECT * FROM t JOIN u ON t.a = u.a AND u.b = 5 JOIN (SELECT 5 FROM v WHERE c = 6 LIMIT 7) d", "SELECT * FROM t JOIN u ON t.a = u.a AND u.b = [n] JOIN (SELECT 5 FROM v WHERE c = [n] LIMIT [l]) d", nil},
		{"SELECT t.where, a = 5 FROM t", "=", nil},
		{"SELECT * FROM t LIMIT 9223372036854775808", "=", nil},
		{"INSERT INTO t (a, b) VALUES (1, 'x', NULL, f(2), -3.5, (4)), (DEFAULT, 5 + 6, 'y', 'z' 'z')", "INSERT INTO t (a, b) VALUES ([n], [t], NULL, f(2), [n], (4)), (DEFAULT, 5 + 6, [t], 'z' 'z')", nil},
		{"insert t value (1) on duplicate key update a = 5, b = values(b) + 6 + 7, c = if(d = 7, 8, 9)", "insert t value ([n]) on duplicate key update a = [n], b = values(b) + 6 + 7, c = if(d = [n], 8, 9)", nil},
		{"REPLACE t SET a = 1, b = 'x'", "REPLACE t SET a = [n], b = [t]", nil},
		{"INSERT INTO t SELECT 1, a FROM u WHERE b = 2", "INSERT INTO t SELECT 1, a FROM u WHERE b = [n]", nil},
		{"INSERT INTO t VALUES ROW(1, 2)", "=", nil},
		{"UPDATE t SET a = 1, b = b + 2 WHERE c = 3 ORDER BY d LIMIT 4", "UPDATE t SET a = [n], b = b + [n] WHERE c = [n] ORDER BY d LIMIT [l]", nil},
		{"DELETE FROM t WHERE a = 1", "DELETE FROM t WHERE a = [n]", nil},
		{`SELECT * FROM t WHERE a = "x" AND b = "y\"z"`, "SELECT * FROM t WHERE a = [t] AND b = [t]", nil},
		{`SELECT * FROM t WHERE "a" = 'x"'`, `SELECT * FROM t WHERE "a" = [t]`, &ansi},
		{`SELECT * FROM t WHERE a = 'x\' AND b = 5`, `SELECT * FROM t WHERE a = [t] AND b = [n]`, &noBackslash},
		{"SELECT * FROM t WHERE `a``'` = 5", "SELECT * FROM t WHERE `a``'` = [n]", nil},
		{"SELECT 'é' FROM t WHERE a = 'é'", "SELECT 'é' FROM t WHERE a = [t]", nil},
		// no shape
		{"SELECT * FROM t WHERE a = 5 AND b = 'x", "", nil},
		{"SELECT * FROM t WHERE a = 5;", "", nil},
		{"SELECT * FROM t WHERE (a = 5", "", nil},
		{"SELECT * FROM t WHERE a) = 5", "", nil},
		{"SELECT 1 /*!80000 , 2 */", "", nil},
		{"/* app:x */ SELECT * FROM t /* it's ?; */ WHERE a = /**/ 5 /* */ AND b = 'x'/**/'y' AND c = -/**/5", "/* app:x */ SELECT * FROM t /* it's ?; */ WHERE a = /**/ [n] /* */ AND b = 'x'/**/'y' AND c = -/**/5", nil},
		{"/* shunt: shard=s1 */ SELECT 1", "", nil},
		{"SELECT /* shunt: shrad=s1 */ 1", "", nil},
		{"SELECT 1 /* x", "", nil},
		{"SELECT 1 /*", "", nil},
		{"SELECT 1 /*M!100000 , 2 */", "", nil},
		{"SELECT /*+ SET_VAR(sql_mode='') */ 1", "", nil},
		{"SELECT 1 -- x", "", nil},
		{"SELECT 1 --1", "", nil},
		{"SELECT 1 # x", "", nil},
		{"SELECT * FROM t WHERE a = @x", "", nil},
		{"SELECT * FROM t WHERE a = ?", "", nil},
		{"SELECT * FROM t WHERE a = _latin1'x'", "", nil},
		{"SELECT * FROM t WHERE a = _latin1 'x'", "", nil},
		{"SELECT * FROM t WHERE a = N'x' OR b = x'41'", "", nil},
		{"SELECT {d '2020-01-01'}", "", nil},
		{"SELECT \u00a0 1", "", nil},
		{"SELECT é FROM t", "", nil},
		{"SELECT 1é", "", nil},
		{"SELECT @a := 5", "", nil},
		{"SELECT t.5 FROM t", "", nil},
		{"SELECT * FROM t WHERE a = .5", "", nil},
		{"SELECT a\x00", "", nil},
		{"(SELECT 5)", "", nil},
		{"WITH x AS (SELECT 5) SELECT * FROM x", "", nil},
		{"SHOW TABLES", "", nil},
		{"SET a = 5", "", nil},
		{"SELECT * FROM t WHERE a = 5", "", &gbk},
		{"", "", nil},
		{" ", "", nil},
		{"5", "", nil},
		{"'x'", "", nil},
		{"SELECT " + strings.Repeat("x", maxShape), "", nil},
		{"SELECT " + strings.Repeat("(", 100) + strings.Repeat(")", 100), "", nil},
	} {
		s := c.s
		if s == nil {
			s = &shapeSettings
		}
		var sh Shape
		got := ""
		if sh.Read(c.sql, s) {
			from := uint32(0)
			for _, l := range sh.literals {
				got += c.sql[from:l.start] + "[" + string(l.kind) + "]"
				from = l.end
			}
			got += c.sql[from:]
		}
		want := c.want
		if want == "=" {
			want = c.sql
		}
		if got != want {
			t.Errorf("%s\n  got  %s\n  want %s", c.sql, got, want)
		}
	}
}

// checkShape holds a shape against the lexer: its literals are tokens, a sign
// before them perhaps, of the values that text.Evaluate reads, and put back they
// give the text.
func checkShape(t *testing.T, sh *Shape, sql string, s text.Settings) {
	t.Helper()
	parts, err := text.Split(sql, s)
	if err != nil || len(parts) != 1 || parts[0] != sql {
		t.Fatalf("%q has a shape and is not one statement: %q %v", sql, parts, err)
	}
	st, lexed := text.Read(sql, s, nil)
	if lexed != nil {
		t.Fatalf("%q has a shape and can't be read: %v", sql, lexed)
	}
	if len(st.Params) > 0 || slices.ContainsFunc(st.Comments, func(c text.Comment) bool { return c.Kind != text.PlainComment }) {
		t.Fatalf("%q has a shape, with comments that count or parameters", sql)
	}
	var toks []text.Token
	for lx := text.NewLexer(sql, s, text.ServerVersion{}); ; {
		tok := lx.Next()
		if tok.Kind == text.EOF {
			break
		}
		toks = append(toks, tok)
	}
	values := sh.Values()
	if len(values) != len(sh.literals) {
		t.Fatalf("%d values of %d literals", len(values), len(sh.literals))
	}
	for i, l := range sh.literals {
		at := slices.IndexFunc(toks, func(t text.Token) bool { return t.Start == l.start })
		end := slices.IndexFunc(toks, func(t text.Token) bool { return t.End == l.end })
		if at < 0 || end < at || end > at+1 {
			t.Fatalf("%q: %q is no token", sql, sql[l.start:l.end])
		}
		o := st.Evaluate(toks[at : end+1])
		if o.Kind != text.Literal || o.Value != values[i] || o.Class != l.kind.Class() {
			t.Fatalf("%q: %q is %v, not %v", sql, sql[l.start:l.end], o.Value, values[i])
		}
		if c := text.ClassOf(values[i]); c != o.Class {
			t.Fatalf("%q: class %d, not %d", sql, c, o.Class)
		}
	}
	text := sh.text()
	if !sh.is(text, sh.kinds()) {
		t.Fatalf("%q has not its own shape", sql)
	}
	if back, ok := sh.filled(text, nil); !ok || back != sql {
		t.Fatalf("%q became %q", sql, back)
	}
}

// FuzzShape: whatever has a shape is read alike by the lexer.
func FuzzShape(f *testing.F) {
	for _, sql := range shapeCorpus(f) {
		f.Add(sql, uint8(0))
	}
	f.Fuzz(func(t *testing.T, sql string, flags uint8) {
		s := text.Settings{
			Schema: "shop", Charset: []string{"utf8mb4", "latin1", "gbk", "sjis", "binary", "ascii"}[flags>>4%6],
			ANSIQuotes: flags&1 != 0, NoBackslashEscapes: flags&2 != 0,
		}
		var sh Shape
		if sh.Read(sql, &s) {
			checkShape(t, &sh, sql, s)
		}
	})
}

// shapeCorpus are the statements of the golden plans.
func shapeCorpus(t testing.TB) (out []string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n\n") {
			if cmd, rest, ok := strings.Cut(block, "\n"); ok && strings.HasPrefix(cmd, "plan") {
				sql, _, _ := strings.Cut(rest, "\n----")
				out = append(out, sql)
			}
		}
	}
	return out
}

// shapeWorld compares plans of the cache with fresh ones.
type shapeWorld struct {
	r   *rand.Rand
	p   *Planner // with the cache
	new *Planner // without
	cat *catalog.Catalog
	ix  *fakeIndexes
	sh  Shape

	checked, hits, bound, several, written int
}

func newShapeWorld(r *rand.Rand, cat *catalog.Catalog) *shapeWorld {
	// Any key is somewhere: by its hash on no shard, one or two.
	some := func(b []byte) (set catalog.ShardSet) {
		h := fnv.New64a()
		h.Write(b)
		sum := h.Sum64()
		for n := sum % 3; n > 0; n-- {
			set.Add(catalog.ShardID(sum / 3 % uint64(len(cat.Shards))))
			sum /= 16
		}
		return set
	}
	return &shapeWorld{r: r, p: New(), new: New(), cat: cat, ix: &fakeIndexes{
		lookup: func(ix *catalog.Index, key []byte) (catalog.ShardSet, error) {
			return some(append([]byte(ix.Name), key...)), nil
		},
		ranged: func(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
			set := some(append(append([]byte(ix.Name), from...), to...))
			return set, set.Len() < 2, nil
		},
	}}
}

// boundText is all of a Bound but its closures.
func boundText(r *plan.Rows, b *plan.Bound) string {
	var out strings.Builder
	c := *b
	refuse := ""
	if c.Refuse != nil {
		refuse = c.Refuse.Error()
	}
	fmt.Fprintf(&out, "returning=%t ", r.Returning)
	fmt.Fprintf(&out, "%v %v gather=%t system=%t refuse=%q\n", r.Kind, r.Tables, c.Gather != nil, c.System != nil, refuse)
	if c.Merge != nil {
		m := *c.Merge
		having := ""
		eachComparison(m.Having, func(c *plan.MergeCondition) { having += fmt.Sprint(c.Op, " ", c.Column, " ", c.Value, ";") })
		m.Having = nil
		fmt.Fprintf(&out, "merge %+v having %s\n", m, having)
	}
	found := c.Found
	found.Offset = nil
	fmt.Fprintf(&out, "found %+v\n", found)
	if c.Generated != nil {
		fmt.Fprintf(&out, "generated %+v\n", *c.Generated)
	}
	for _, st := range c.Statements {
		fmt.Fprintf(&out, "%d %v %v: %s\n", st.Shard, st.Params, st.Rows, st.SQL)
	}
	fmt.Fprintf(&out, "%v %v %v %s %s %s\n", c.Alternatives, c.Doubts, c.SameTime, c.Plan, c.Access, c.Reason)
	// (Of a view that is read as a table each plan has one of its own.)
	name := func(ix *catalog.Index) string {
		return fmt.Sprint(ix.ID, " ", ix.Name, " of ", ix.Table.Schema, ".", ix.Table.Name)
	}
	probes := func(list []plan.Probe) {
		for _, p := range list {
			fmt.Fprintf(&out, "probe %s %x %v\n", name(p.Index), p.Key, p.Values)
		}
	}
	for _, a := range c.Adds {
		fmt.Fprintf(&out, "add %s %x %d\n", name(a.Index), a.Key, a.Shard)
	}
	for _, m := range c.Marks {
		fmt.Fprintf(&out, "mark %s %x %d\n", name(m.Index), m.Known, m.Shard)
	}
	for _, m := range c.Maintain {
		fmt.Fprintf(&out, "maintain %s %s %v %v\n", m.Table.Name, m.Operation, m.Shards, m.Columns)
		for _, ix := range m.Indexes {
			fmt.Fprintln(&out, name(ix))
		}
		probes(m.Keys)
	}
	probes(c.Probes)
	return out.String()
}

// fresh is what planning a statement by itself says.
func (w *shapeWorld) fresh(sql string, s text.Settings, ix plan.Indexes, next uint64) string {
	planned, err := w.new.Plan(sql, s, w.cat)
	if err != nil {
		return err.Error()
	}
	r, ok := planned.(*plan.Rows)
	if !ok {
		return fmt.Sprintf("%T", planned)
	}
	if r.Meets != nil || r.Lock != nil {
		return "meets"
	}
	n, err := w.new.Increment(r, nil)
	if err != nil {
		return err.Error()
	}
	count := ""
	var b *plan.Bound
	if n == nil {
		b, err = w.new.Bind(r, nil, ix)
	} else {
		b, err = w.new.BindGenerated(r, nil, ix, next, false)
		count = fmt.Sprintf("%+v", *n)
	}
	if err != nil {
		return err.Error()
	}
	return count + boundText(r, b)
}

// check plans a statement both ways, through the cache when that has met its
// shape.
func (w *shapeWorld) check(t *testing.T, sql string, s text.Settings) {
	t.Helper()
	w.checked++
	if !readAlike(t, w.p, &w.sh, sql, &s) {
		return
	}
	checkShape(t, &w.sh, sql, s)
	w.p.Find(&w.sh, w.cat)
	r := w.p.Find(&w.sh, w.cat)
	if again := w.p.Find(&w.sh, w.cat); again != r {
		t.Fatalf("%s: found another plan", sql)
	}
	if r == nil {
		return
	}
	w.hits++
	var ix plan.Indexes = w.ix
	if w.r.Intn(10) == 0 {
		ix = nil
	}
	next := uint64(100)
	values := w.sh.Values()
	n, err := w.p.Increment(r, values)
	if err != nil {
		return // planned by itself
	}
	count := ""
	if n != nil {
		count = fmt.Sprintf("%+v", *n)
	} else {
		next = 0
	}
	explaining := func() *binder {
		b := newBinder(r, values, ix)
		b.next = next
		return b
	}
	b, ok := w.sh.bind(r, explaining())
	if ok {
		b.Reason = "" // and once more without
		explained := boundText(r, b)
		brief, _ := w.p.BindShape(r, &w.sh, ix, next)
		if got := boundText(r, brief); got != explained {
			t.Fatalf("%s\n-- in a Binding:\n%s\n-- by itself:\n%s", sql, got, explained)
		}
		b, ok = w.sh.bind(r, explaining())
	}
	if !ok {
		return
	}
	w.bound++
	if len(b.Statements) > 1 {
		w.several++
	}
	if len(b.Adds)+len(b.Marks) > 0 {
		w.written++
	}
	if got, want := count+boundText(r, b), w.fresh(sql, s, ix, max(next, 100)); got != want {
		t.Fatalf("%s\nsettings %+v\nshape %s\n-- by the cache:\n%s\n-- fresh:\n%s", sql, s, bindableOf(r).shape, got, want)
	}
}

// shapeMutants are literals to put in the place of others.
var shapeMutants = []string{
	"0", "1", "2", "5", "-5", "7", "42", "100", "-1", "1000000", "007", "-0", "2147483648", "9223372036854775807", "9223372036854775808",
	"-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", strings.Repeat("9", 59), strings.Repeat("9", 70), strings.Repeat("9", 90),
	"1.5", "-1.50", "0.0", "1.005", "5.0", "12345678901234567890.12345", "5.", ".5", "1e3", "-2.5e-1", "1e400", "0x41", "x'41'", "b'1'", "NULL", "TRUE", "DEFAULT",
	"''", "'a'", "'A '", "'5'", "' 5'", "'5x'", "'9007199254740993'", "'it''s'", `'it\'s'`, `'a\\'`, `'a\nb\0c'`, `'50\%'`, `'x%'`, `'%x'`, `'_'`, `"dq"`, `"d""q"`,
	"'é'", "'日本'", "'\xc3'", "'\xff\xfe'", "'\x95\\'", "'\x81\x5c'", "'?'", "'a;b'", "'-- x'", "'/* x */'", "'2020-02-29'", "'2020-01-01 10:11:12'", "'de' 'f'", "_latin1'x'", "N'x'",
	"DATE '2020-01-01'", "'x' COLLATE utf8mb4_bin", "5 + 1", "@v", "?", "'" + strings.Repeat("x", 300) + "'",
}

// mutants are a statement with other literals.
func (w *shapeWorld) mutant(sql string, s text.Settings) string {
	lx := text.NewLexer(sql, s, text.ServerVersion{})
	var out strings.Builder
	from := 0
	all := w.r.Intn(3) == 0
	for {
		tok := lx.Next()
		switch tok.Kind {
		case text.EOF, text.Bad:
			out.WriteString(sql[from:])
			return out.String()
		case text.Int, text.Decimal, text.Float, text.String:
			if !all && w.r.Intn(3) == 0 {
				continue
			}
			out.WriteString(sql[from:tok.Start])
			switch k := w.r.Intn(4); {
			case k == 0 && tok.Kind == text.Int, k == 1 && tok.Kind == text.Int:
				out.WriteString(strconv.Itoa(w.r.Intn(50)))
			case k == 0:
				out.WriteString("'" + string(rune('a'+w.r.Intn(26))) + "'")
			default:
				out.WriteString(shapeMutants[w.r.Intn(len(shapeMutants))])
			}
			from = int(tok.End)
		default:
		}
	}
}

func (w *shapeWorld) settings() text.Settings {
	s := shapeSettings
	switch w.r.Intn(13) {
	case 0:
		s.ANSIQuotes = true
	case 1:
		s.NoBackslashEscapes = true
	case 2:
		s.Charset, s.Collation = "latin1", "latin1_swedish_ci"
	case 3:
		s.Charset = []string{"gbk", "sjis", "binary", "ascii", "utf8mb3"}[w.r.Intn(5)]
	case 4:
		s.Strict = false
	case 5:
		s.PadCharToFullLength = true
	case 6:
		s.PipesAsConcat, s.IgnoreSpace = true, true
	case 7:
		s.NoAutoValueOnZero, s.Restricted = true, true
	case 8:
		s.LimitsSelect, s.SelectLimit = true, uint64(w.r.Intn(5))
	}
	return s
}

func shapeSeed(t *testing.T) int64 {
	seed := time.Now().UnixNano()
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	return seed
}

func (w *shapeWorld) log(t *testing.T) {
	t.Logf("%d statements, %d with a cached plan, %d bound by it: %d to several shards, %d with entries or marks", w.checked, w.hits, w.bound, w.several, w.written)
}

// TestShapeGolden: the statements of the golden plans, with their literals and
// many others, are bound through the cache exactly as they are when planned by
// themselves. SEED in the environment repeats a run.
func TestShapeGolden(t *testing.T) {
	t.Parallel()
	seed := shapeSeed(t)
	rounds := suite.Size(5, 15)
	var total shapeWorld
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		var w *shapeWorld
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "catalog":
				n := 4
				d.MaybeScanArgs(t, "shards", &n)
				cat := buildCatalog(t, n, d.Input)
				if d.HasArg("mariadb") {
					cat.MariaDB, cat.ServerVersion = true, "10.11.8-MariaDB"
				}
				w = newShapeWorld(rand.New(rand.NewSource(seed)), cat)
			case "plan":
				sql, _, _ := strings.Cut(d.Input, "\nparams:")
				w.check(t, sql, shapeSettings)
				for range rounds {
					s := w.settings()
					w.check(t, w.mutant(sql, s), s)
				}
				total.checked, total.hits, total.bound = total.checked+w.checked, total.hits+w.hits, total.bound+w.bound
				total.several, total.written = total.several+w.several, total.written+w.written
				w.checked, w.hits, w.bound, w.several, w.written = 0, 0, 0, 0, 0
			}
			return d.Expected
		})
	})
	total.log(t)
	if total.bound < rounds*200 || total.several < rounds*20 || total.written < rounds*30 {
		t.Error("too few statements are bound by the cache for this to test much")
	}
}

// TestShapeGenerated is TestShapeGolden for generated worlds.
func TestShapeGenerated(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	seed := shapeSeed(t)
	worlds := suite.Size(5, 25)
	var total shapeWorld
	for n := range worlds {
		dialect := generate.Dialect{MariaDB: n%2 == 1}
		g := generate.New(uint64(seed)+uint64(n), dialect)
		var ddl strings.Builder
		for _, st := range g.Setup() {
			if st.Kind != generate.Schema {
				continue
			}
			ddl.WriteString(st.SQL() + ";\n")
			for _, table := range g.Tables {
				if !strings.Contains(st.SQL(), " "+table.Name+" ") && !strings.Contains(st.SQL(), "`"+table.Name+"`") {
					continue
				}
				for i, cols := range table.Virtual {
					fmt.Fprintf(&ddl, "-- @virtual vi_%s_%d %s\n", table.Name, i, strings.Join(cols, ","))
				}
			}
		}
		cat := buildCatalog(t, 4, ddl.String())
		if dialect.MariaDB {
			cat.MariaDB, cat.ServerVersion = true, "10.11.8-MariaDB"
		}
		w := newShapeWorld(rand.New(rand.NewSource(seed)), cat)
		for range 300 {
			st := g.Next()
			if st.Kind != generate.Read && st.Kind != generate.Write {
				continue
			}
			w.check(t, st.SQL(), shapeSettings)
			for range 3 {
				s := w.settings()
				w.check(t, w.mutant(st.SQL(), s), s)
			}
		}
		total.checked, total.hits, total.bound = total.checked+w.checked, total.hits+w.hits, total.bound+w.bound
		total.several, total.written = total.several+w.several, total.written+w.written
	}
	total.log(t)
	if total.bound < worlds*50 || total.several < worlds*5 || total.written < worlds*5 {
		t.Error("too few statements are bound by the cache for this to test much")
	}
}

// TestCacheShared: sessions share plans, and bind them at the same time.
func TestCacheShared(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, worldDDL)
	p := New()
	texts := []string{
		"SELECT * FROM u WHERE id = %d", "SELECT a FROM u WHERE a = %d ORDER BY b LIMIT %[1]d", "SELECT COUNT(*) FROM u WHERE d > %d",
		"INSERT INTO u (id, a) VALUES (%d, 1), (2, %[1]d)", "UPDATE u SET a = %d WHERE b = 'x'", "DELETE FROM o WHERE k = %d",
		"SELECT COUNT(*) FROM (SELECT id FROM u WHERE a = %d) AS t",
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			w := newShapeWorld(rand.New(rand.NewSource(int64(n))), cat)
			w.p = p
			for i := range 200 {
				sql := fmt.Sprintf(texts[i%len(texts)], w.r.Intn(100))
				w.check(t, sql, shapeSettings)
			}
			if w.bound == 0 {
				t.Error("nothing was bound by the cache")
			}
		})
	}
	wg.Wait()
	if n := p.CachedPlans(); n == 0 || n > len(texts) {
		t.Errorf("%d plans are cached", n)
	}
}

// TestCacheBounds: a newer catalog empties the cache, an older one isn't served
// from it, and it doesn't grow beyond its bound.
func TestCacheBounds(t *testing.T) {
	t.Parallel()
	older, newer := buildCatalog(t, 4, worldDDL), buildCatalog(t, 4, worldDDL)
	newer.Version = older.Version + 1
	p := New()
	var sh Shape
	find := func(cat *catalog.Catalog, sql string) *plan.Rows {
		t.Helper()
		if !p.ReadShape(&sh, sql, &shapeSettings) {
			t.Fatal("no shape")
		}
		return p.Find(&sh, cat)
	}
	sql := "SELECT * FROM u WHERE id = 1"
	if find(older, sql) != nil {
		t.Error("planned at the first look")
	}
	if r := find(older, sql); r == nil || r.Catalog != older {
		t.Error("not planned at the second")
	}
	if find(newer, sql) != nil {
		t.Error("a plan of an older catalog")
	}
	if r := find(newer, sql); r == nil || r.Catalog != newer {
		t.Error("no plan of the newer catalog")
	}
	for range 3 {
		if find(older, sql) != nil {
			t.Error("a plan for a catalog that is over")
		}
	}
	other := shapeSettings
	other.Schema = "other"
	if sh.Read(sql, &other); p.Find(&sh, newer) != nil {
		t.Error("a plan of other settings")
	}
	for i := range 3 * cacheSets * cacheWays {
		for range 2 {
			find(newer, fmt.Sprintf("SELECT %d FROM u WHERE id = 1", i))
		}
	}
	if n := p.CachedPlans(); n > cacheSets*cacheWays || n < cacheSets*cacheWays/2 {
		t.Errorf("%d plans are cached", n)
	}
	p = New()
	for i := range 3 * cacheSets * cacheWays {
		for range 2 {
			find(newer, fmt.Sprintf("SELECT %d FROM u WHERE id = 1", i)+strings.Repeat(" OR id = 1", fewLiterals))
		}
	}
	if n := p.CachedPlans(); n > cacheSets*cacheLarge || n < cacheSets*cacheLarge/2 {
		t.Errorf("%d large plans are cached", n)
	}
	var e *text.Error
	if _, err := p.Plan("SELECT * FROM u WHERE nope(", shapeSettings, newer); !errors.As(err, &e) {
		t.Error(err)
	}
}
