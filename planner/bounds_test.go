package planner

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestPlanningGrows: what planning takes grows as the statement does, as far as it is planned.
func TestPlanningGrows(t *testing.T) {
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(100));\nCREATE TABLE orders (id BIGINT PRIMARY KEY, x INT);")
	settings := text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}
	for name, c := range map[string]struct {
		n       int
		text    func(n int) string
		refusal string
	}{
		"strings beside each other": {n: text.MaxJoined, text: func(n int) string { return "SELECT id FROM users WHERE name = " + strings.Repeat("'a' ", n) }},
		"more strings":              {n: 8000, refusal: "beside each other", text: func(n int) string { return "SELECT id FROM users WHERE name = " + strings.Repeat("'a' ", n) }},
		"more strings in a row": {n: 8000, refusal: "beside each other", text: func(n int) string {
			return "INSERT INTO users VALUES (1, " + strings.Repeat("'a' ", n) + ")"
		}},
		"subqueries": {n: 250, text: func(n int) string {
			return "SELECT 1 FROM users u WHERE 1" + strings.Repeat(" AND EXISTS (SELECT 1 FROM orders o WHERE o.id = u.id)", n)
		}},
		"too many subqueries": {n: 5000, refusal: "conditions of", text: func(n int) string {
			return "SELECT 1 FROM users u WHERE 1" + strings.Repeat(" AND EXISTS (SELECT 1 FROM orders o WHERE o.id = u.id)", n)
		}},
		"joins": {n: 5000, refusal: "Too many tables", text: func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, " JOIN users u%d ON u%d.id = u.id", i, i)
			}
			return "SELECT 1 FROM users u" + b.String()
		}},
		"tables of an UPDATE": {n: 5000, refusal: "Too many tables", text: func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, ", users u%d", i)
			}
			return "UPDATE users u" + b.String() + " SET u.name = ''"
		}},
		"literals": {n: text.MaxLiterals + 1, refusal: "literals", text: func(n int) string { return "SELECT id FROM users WHERE id IN (0" + strings.Repeat(",7", n) + ")" }},
		"literals in rows": {n: text.MaxLiterals / 2, refusal: "literals", text: func(n int) string {
			return "INSERT INTO users VALUES (1, 'a')" + strings.Repeat(",(1+1,'a')", n)
		}},
	} {
		taken := func(text string) int {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := New().Plan(text, settings, cat)
			runtime.ReadMemStats(&after)
			switch {
			case c.refusal == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
				t.Errorf("%s: %v, want a refusal with %q", name, err, c.refusal)
			}
			return int(after.TotalAlloc-before.TotalAlloc) / len(text)
		}
		// Parsing alone takes up to 500.
		if n := taken(c.text(c.n)); n > 1500 {
			t.Errorf("%s: %d bytes for each of the text's", name, n)
		}
	}
}

// TestManyItems: items that would be looked for in each other one by one are no merge's.
func TestManyItems(t *testing.T) {
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(100));")
	settings := text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}
	for n, merges := range map[int]bool{maxItems: true, maxItems + 1: false} {
		for _, sql := range []string{
			"SELECT DISTINCT id + 1" + strings.Repeat(", id + 1", n-1) + " FROM users",
			"SELECT id FROM users ORDER BY id" + strings.Repeat(", id", n-1),
			"SELECT MAX(name) FROM users GROUP BY name" + strings.Repeat(", name", n-1),
		} {
			p := New()
			planned, err := p.Plan(sql, settings, cat)
			if err != nil {
				t.Fatal(err)
			}
			b, err := p.Bind(planned.(*plan.Rows), nil, entries{}.indexes())
			if err != nil || (b.Merge != nil) != merges || (b.Gather != nil) == merges {
				t.Errorf("%.60s (%d): merge %v, gather %v, %v", sql, n, b.Merge != nil, b.Gather != nil, err)
			}
		}
	}
}
