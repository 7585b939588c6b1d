package planner

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/bench/instructions"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
)

const benchDDL = `
CREATE TABLE sbtest1 (id INT NOT NULL PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL);
CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(100), name VARCHAR(100), age INT);
-- @virtual idx_email email`

var benchTexts = []struct {
	name, sql string
	// What planning costs at most once the shape is known; of instructions a sixth
	// less were measured.
	allocs, instructions int
}{
	{"key", "SELECT c FROM sbtest1 WHERE id = 505", 0, 2200},
	{"index", "SELECT id, name FROM users WHERE email = 'someone@example.com'", 0, 6900},
	{"range", "SELECT c FROM sbtest1 WHERE id BETWEEN 500 AND 599", 0, 3700},
	{"update", "UPDATE users SET age = 33 WHERE id = 505", 0, 4200},
	{"update_indexed", "UPDATE users SET email = 'other@example.com' WHERE id = 505", 6, 10800},
	{"insert", "INSERT INTO users (id, email, name, age) VALUES (505, 'someone@example.com', 'Some One', 33)", 5, 10900},
	{"delete", "DELETE FROM users WHERE id = 505", 2, 4200},
}

// oneShard finds every key on one shard.
var oneShard plan.Indexes = onShardOne{}

type onShardOne struct{}

func (onShardOne) Lookup(*catalog.Index, []byte, [][]byte) (catalog.ShardSet, error) {
	return catalog.Only(1), nil
}

func (onShardOne) Removals() uint64 { return 0 }
func (onShardOne) End()             {}

func (onShardOne) Range(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) {
	return catalog.Only(1), true, nil
}

func BenchmarkShape(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var sh Shape
			for b.Loop() {
				sh.Read(c.sql, &shapeSettings)
			}
		})
	}
}

// BenchmarkBindShape is all that planning does for a statement whose shape is
// known.
func BenchmarkBindShape(b *testing.B) {
	cat := buildCatalog(b, 4, benchDDL)
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			p := New()
			var sh Shape
			for b.Loop() {
				if bindShape(p, &sh, c.sql, cat) == nil {
					sh.Read(c.sql, &shapeSettings)
					if p.Find(&sh, cat) == nil {
						b.Fatal("no plan")
					}
				}
			}
		})
	}
}

func bindShape(p *Planner, sh *Shape, sql string, cat *catalog.Catalog) *plan.Bound {
	if !p.ReadShape(sh, sql, &shapeSettings) {
		return nil
	}
	r := p.Find(sh, cat)
	if r == nil {
		return nil
	}
	sh.Values()
	first := uint64(0)
	if n, err := p.Increment(r, sh.values); err != nil {
		return nil
	} else if n != nil {
		first = 1000
	}
	out, _ := p.BindShape(r, sh, oneShard, first)
	return out
}

func BenchmarkPlan(b *testing.B) {
	cat := buildCatalog(b, 4, benchDDL)
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			p := New()
			for b.Loop() {
				planned, err := p.Plan(c.sql, shapeSettings, cat)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Bind(planned.(*plan.Rows), nil, oneShard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestBindAllocations: what a statement costs whose shape is known, or that is
// prepared, allocates nothing, but for the entries and maintenance of a write.
func TestBindAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	cat := buildCatalog(t, 4, benchDDL)
	p := New()
	for _, c := range benchTexts {
		var sh Shape
		for range 3 {
			bindShape(p, &sh, c.sql, cat)
		}
		got := int(testing.AllocsPerRun(100, func() {
			if bindShape(p, &sh, c.sql, cat) == nil {
				t.Fatal(c.sql)
			}
			sh.Clear()
		}))
		if got > c.allocs {
			t.Errorf("%s: %d allocations, at most %d were expected", c.sql, got, c.allocs)
		}
	}
	planned, err := p.Plan("SELECT c FROM sbtest1 WHERE id = ?", shapeSettings, cat)
	if err != nil {
		t.Fatal(err)
	}
	var bd Binding
	params := []keys.Value{keys.Int(5)}
	if got := testing.AllocsPerRun(100, func() {
		if _, err := p.BindIn(&bd, planned.(*plan.Rows), params, oneShard); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("prepared: %v allocations", got)
	}
}

// TestBindInstructions: a lexer or a binder that does more for a statement whose
// shape is known is noticed.
func TestBindInstructions(t *testing.T) {
	cat := buildCatalog(t, 4, benchDDL)
	for _, c := range benchTexts {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			var sh Shape
			bindShape(p, &sh, c.sql, cat) // plans it
			instructions.Check(t, c.instructions, func() {
				if bindShape(p, &sh, c.sql, cat) == nil {
					t.Error("no plan")
				}
			})
		})
	}
}

// TestBindIn: a Binding gives what Bind does but for the Reason, which a prepared
// EXPLAIN tells all the same.
func TestBindIn(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, worldDDL)
	p := New()
	ix := newShapeWorld(nil, cat).ix
	var bd Binding
	for _, sql := range []string{
		"SELECT * FROM u WHERE id = ?", "SELECT * FROM u WHERE a = ? ORDER BY b LIMIT 3", "SELECT * FROM u WHERE b = ? OR id = 5", "SELECT * FROM u x JOIN u y ON x.a = y.a WHERE x.a = ?",
		"UPDATE u SET a = ?", "UPDATE u SET b = 'x', a = 3 WHERE id = ?", "DELETE FROM o WHERE a = ?", "INSERT INTO u (id, a, b) VALUES (?, 1, 'x'), (7, 2, 'y')",
		"EXPLAIN SELECT * FROM u WHERE id = ?",
		"SELECT * FROM u WHERE id = ? AND b = ?", "SELECT * FROM u WHERE a < ? AND id = ?", "SELECT * FROM u WHERE id = ? AND a = NULL", "SELECT * FROM u WHERE id = ? AND id = 6",
		"SELECT * FROM u WHERE id <=> ?", "SELECT * FROM u WHERE id IN (?, 7)", "SELECT * FROM u WHERE (id, a) = (?, 3)", "SELECT b, COUNT(*) FROM u WHERE id = ? GROUP BY b",
		"SELECT * FROM u WHERE id = ? AND (a = 1 OR id = 9)", "SELECT * FROM (SELECT * FROM u WHERE id = ?) v", "UPDATE u SET b = 'y' WHERE id = ? AND a IS NULL", "DELETE FROM u WHERE id = ? AND b > ?",
	} {
		planned, err := p.Plan(sql, shapeSettings, cat)
		if err != nil {
			t.Fatal(err)
		}
		r := planned.(*plan.Rows)
		values := []keys.Value{keys.Null(), keys.Text("7", "utf8mb4"), keys.Text("7x", "utf8mb4"), keys.Text("9007199254740993", "utf8mb4"), keys.Decimal("7.0"), keys.Decimal("7.5"), keys.Uint(1 << 63)}
		for n := range int64(20) {
			values = append(values, keys.Int(n))
		}
		for _, v := range values {
			params := slices.Repeat([]keys.Value{v}, r.Params)
			want, err1 := p.Bind(r, params, ix)
			got, err2 := p.BindIn(&bd, r, params, ix)
			if fmt.Sprint(err1) != fmt.Sprint(err2) {
				t.Fatal(sql, v, err1, err2)
			}
			if err1 != nil {
				continue
			}
			want.Reason = ""
			if x, y := boundText(r, got), boundText(r, want); x != y {
				t.Fatalf("%s, %v\n-- in a Binding:\n%s\n-- by Bind:\n%s", sql, v, x, y)
			}
			if got.System != nil && (got.System.Route.Reason == "" || got.System.Route.Reason != want.System.Route.Reason) {
				t.Fatalf("%s: reason %q, not %q", sql, got.System.Route.Reason, want.System.Route.Reason)
			}
		}
	}
}

// BenchmarkBind is what is done for each execution of a prepared statement.
func BenchmarkBind(b *testing.B) {
	cat := buildCatalog(b, 4, benchDDL)
	for _, c := range []struct {
		name, sql string
		params    []keys.Value
	}{
		{"key", "SELECT c FROM sbtest1 WHERE id = ?", []keys.Value{keys.Int(505)}},
		{"index", "SELECT id, name FROM users WHERE email = ?", []keys.Value{keys.Text("someone@example.com", "utf8mb4")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			p := New()
			planned, err := p.Plan(c.sql, shapeSettings, cat)
			if err != nil {
				b.Fatal(err)
			}
			var bd Binding
			for b.Loop() {
				if _, err := p.BindIn(&bd, planned.(*plan.Rows), c.params, oneShard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
