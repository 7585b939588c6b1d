package planner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// FuzzPlan: no input makes Plan or Bind panic, and every error is an *Error.
func FuzzPlan(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n\n") {
			if cmd, rest, ok := strings.Cut(block, "\n"); ok && strings.HasPrefix(cmd, "plan") {
				sql, _, _ := strings.Cut(rest, "\n----")
				f.Add(sql, uint8(0))
			}
		}
	}
	f.Add("/* shunt: shard=s0 */ /*!", uint8(255))
	cat := buildCatalog(f, 4, worldDDL)
	p := New()
	f.Fuzz(func(t *testing.T, sql string, flags uint8) {
		s := text.Settings{
			Schema: "shop", Charset: "utf8mb4", ANSIQuotes: flags&1 != 0, NoBackslashEscapes: flags&2 != 0,
			PipesAsConcat: flags&4 != 0, IgnoreSpace: flags&8 != 0, Strict: flags&16 != 0,
		}
		parts, err := text.Split(sql, s)
		if err != nil || len(parts) == 0 {
			t.Fatalf("Split: %v", err)
		}
		for _, part := range append(parts, sql) {
			planned, err := p.Plan(part, s, cat)
			if err != nil {
				if _, ok := err.(*text.Error); !ok { //nolint:errorlint // the contract is *Error itself
					t.Fatalf("%T %v", err, err)
				}
				continue
			}
			r, ok := planned.(*plan.Rows)
			if !ok {
				continue
			}
			params := make([]keys.Value, r.Params)
			for i := range params {
				params[i] = []keys.Value{keys.Int(1), keys.String([]byte("a"), "utf8mb4"), keys.Null(), keys.Bytes([]byte{0})}[i%4]
			}
			b, err := p.Bind(r, params, entries{}.indexes())
			if err != nil {
				if _, ok := err.(*text.Error); !ok { //nolint:errorlint // the contract is *Error itself
					t.Fatalf("%T %v", err, err)
				}
				continue
			}
			if b.Gather != nil {
				for i := range b.Gather.Refs {
					b.Gather.Refs[i].Definition(true)
				}
				b.Gather.Query(func(int) string { return "copy" })
				continue
			}
			if len(b.Statements) == 0 {
				t.Fatal("no statement")
			}
			seen := catalog.ShardSet{}
			for _, st := range b.Statements {
				if seen.Has(st.Shard) {
					t.Fatal("one shard twice")
				}
				seen.Add(st.Shard)
			}
		}
	})
}

// TestDeepNesting: what overflows a stack kills the process.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, worldDDL)
	p := New()
	n := 3_000_000
	for name, sql := range map[string]string{
		"bang":     "SELECT " + strings.Repeat("!", n) + "1",
		"minus":    "SELECT " + strings.Repeat("- ", n) + "1",
		"tilde":    "SELECT " + strings.Repeat("~", n) + "1",
		"not":      "SELECT " + strings.Repeat("NOT ", n) + "1",
		"binary":   "SELECT " + strings.Repeat("BINARY ", n) + "1",
		"paren":    "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"or":       "SELECT * FROM u WHERE id = 1" + strings.Repeat(" OR id = 1", n/4),
		"plus":     "SELECT 1" + strings.Repeat("+1", n),
		"case":     "SELECT " + strings.Repeat("CASE ", n) + "1",
		"comma":    "SELECT * FROM u" + strings.Repeat(",u", n),
		"union":    "SELECT 1" + strings.Repeat(" UNION SELECT 1", n/4),
		"explain":  strings.Repeat("EXPLAIN ", n) + "SELECT 1",
		"collate":  "SELECT 'a'" + strings.Repeat(" COLLATE utf8mb4_bin", n/4),
		"interval": "SELECT " + strings.Repeat("INTERVAL ", n) + "1",
		"in row":   "INSERT INTO u (id) VALUES (" + strings.Repeat("(", n) + "1",
		"bang row": "INSERT INTO u (id) VALUES (" + strings.Repeat("!", n) + "1)",
		"not row":  "INSERT INTO u (id) VALUES (" + strings.Repeat("NOT ", n) + "1)",
		"plus row": "INSERT INTO u (id) VALUES (1" + strings.Repeat("+1", n) + ")",
		"is":       "SELECT 1" + strings.Repeat(" IS NULL", n/4),
		"with":     strings.Repeat("WITH a AS (", n) + "SELECT 1",
	} {
		if _, err := p.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLargeInsert: rows of literals are not parsed, so many fit.
func TestLargeInsert(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, worldDDL)
	p := New()
	row := "(1,2,'" + strings.Repeat("x", 8) + "','" + strings.Repeat("y", 8) + "',3)"
	sql := "INSERT INTO u VALUES " + strings.Repeat(row+",", 600_000) + row
	planned, err := p.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4", Strict: true}, cat)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Bind(planned.(*plan.Rows), nil, entries{}.indexes())
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Statements) != 1 || len(b.Statements[0].SQL) != len(sql) || len(b.Adds) != 3 {
		t.Errorf("%d statements, %d adds", len(b.Statements), len(b.Adds))
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	many := "CREATE PROCEDURE a (IN x INT" + strings.Repeat(", IN x INT", 100) + ") BEGIN SELECT 1; SELECT 2; END"
	for _, c := range []struct {
		sql  string
		want []string
	}{
		{"SELECT 1", []string{"SELECT 1"}},
		{"SELECT 1;", []string{"SELECT 1"}},
		{"SELECT ';'; SELECT 2 -- a;b\n; ;SELECT 3", []string{"SELECT ';'", " SELECT 2 -- a;b\n", "SELECT 3"}},
		{"", []string{""}},
		{";;", []string{""}},
		{"/*!40101 SET a = ';' */; SELECT `;`", []string{"/*!40101 SET a = ';' */", " SELECT `;`"}},
		{"SELECT 1; CREATE TRIGGER a BEFORE INSERT ON b FOR EACH ROW BEGIN SET @a = 1; SET @b = 2; END", []string{"SELECT 1", " CREATE TRIGGER a BEFORE INSERT ON b FOR EACH ROW BEGIN SET @a = 1; SET @b = 2; END"}},
		{"CREATE TRIGGER a BEFORE INSERT ON b FOR EACH ROW SET NEW.a = 1; SELECT 2", []string{"CREATE TRIGGER a BEFORE INSERT ON b FOR EACH ROW SET NEW.a = 1", " SELECT 2"}},
		{"SELECT 'a; SELECT 2", []string{"SELECT 'a; SELECT 2"}},
		{"CREATE PROCEDURE a () FOR i IN 1..3 DO SELECT i; END FOR", []string{"CREATE PROCEDURE a () FOR i IN 1..3 DO SELECT i; END FOR"}},
		{"CREATE PROCEDURE a () SELECT 1 FOR UPDATE; SELECT 2", []string{"CREATE PROCEDURE a () SELECT 1 FOR UPDATE", " SELECT 2"}},
		{"CREATE OR REPLACE PACKAGE a FUNCTION b() RETURNS INT; END", []string{"CREATE OR REPLACE PACKAGE a FUNCTION b() RETURNS INT; END"}},
		{"BEGIN; SELECT 2", []string{"BEGIN", " SELECT 2"}},
		{many, []string{many}},
	} {
		got, err := text.Split(c.sql, text.Settings{Charset: "utf8mb4"})
		if err != nil || strings.Join(got, "|") != strings.Join(c.want, "|") || len(got) != len(c.want) {
			t.Errorf("%q: %q %v", c.sql, got, err)
		}
	}
}

// TestUnknownVersion: what only some servers run is refused.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, worldDDL)
	p := New()
	for _, c := range []struct {
		version string
		maria   bool
		sql     string
		shards  int // 0: refused
	}{
		{"", false, "SELECT * FROM u WHERE id = 1 /*!80000 OR 1 */", 0},
		{"", false, "SELECT * FROM u WHERE id = 1 /*!50000 OR 1 */", 4},
		{"9.7.4", false, "SELECT * FROM u WHERE id = 1 /*!80000 OR 1 */", 4},
		{"9.7.4", false, "SELECT * FROM u WHERE id = 1 /*!90800 OR 1 */", 1},
		{"9.7.4", false, "SELECT * FROM u WHERE id = 1 /*M!100000 OR 1 */", 1},
		{"10.11.8-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*M!100000 OR 1 */", 4},
		{"10.11.8-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*!80000 OR 1 */", 1},
		{"10.11.8-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*! OR 1 */", 4},
		{"10.11.8-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*!999999 OR 1 */", 1},
		{"10.11.8-MariaDB and 11.8.2-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*M!110000 OR 1 */", 0},
		{"10.11.8-MariaDB and 11.8.2-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*M!101108 OR 1 */", 4},
		{"10.11.8-MariaDB and 11.8.2-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*M!110803 OR 1 */", 1},
		{"10.11.8-MariaDB and 11.8.2-MariaDB", true, "SELECT * FROM u WHERE id = 1 /*!80000 OR 1 */", 1},
		{"8.0.36 and 8.0.36-28-something 9.7.4", false, "SELECT * FROM u WHERE id = 1 /*!80036 OR 1 */", 4},
		{"8.0.36 and 8.0.36-28-something 9.7.4", false, "SELECT * FROM u WHERE id = 1 /*!80037 OR 1 */", 0},
		{"9.7.4 and 10.11.8-MariaDB", false, "SELECT * FROM u WHERE id = 1 /*!80000 OR 1 */", 0},
		{"9.7.4 and 10.11.8-MariaDB", false, "SELECT * FROM u WHERE id = 1 /*M! OR 1 */", 0},
		{"9.7.4 and 10.11.8-MariaDB", false, "SELECT * FROM u WHERE id = 1 /*!50000 OR 1 */", 4},
		{"10.11.8-MariaDB and 9.7.4", true, "SELECT * FROM u WHERE id = 1 /*!80000 OR 1 */", 0},
		{"10.11.8-MariaDB and 9.7.4", true, "SELECT * FROM u WHERE id = 1 /*!90800 OR 1 */", 1},
	} {
		version, others, _ := strings.Cut(c.version, " and ")
		cat.ServerVersion, cat.OtherVersions, cat.MariaDB = version, strings.Fields(others), c.maria
		n := 0
		planned, err := p.Plan(c.sql, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat)
		if err == nil {
			b, err := p.Bind(planned.(*plan.Rows), nil, entries{}.indexes())
			if err != nil {
				t.Fatal(err)
			}
			n = len(b.Statements)
		}
		if n != c.shards {
			t.Errorf("%s %s: %d shards, want %d (%v)", c.version, c.sql, n, c.shards, err)
		}
	}
}
