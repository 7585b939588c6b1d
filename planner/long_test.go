package planner

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestLongStrings: a statement may be as long as its strings make it, goes by
// what stands beside them, and reaches the shard as it is.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, name LONGTEXT);")
	settings := text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}
	for _, quote := range []string{"'", `"`} {
		for _, before := range []string{"_binary", "'a' "} {
			text := before + quote + strings.Repeat(`\'\"-- `, text.MaxParsed/6) + quote
			for _, sql := range []string{"UPDATE users SET name = " + text + " WHERE id = 5", "SELECT " + text + " /* c */ FROM users WHERE id IN (5)", "INSERT INTO users VALUES (5, " + text + ")"} {
				p := New()
				planned, err := p.Plan(sql, settings, cat)
				if err != nil {
					t.Errorf("%.40s: %v", sql, err)
					continue
				}
				b, err := p.Bind(planned.(*plan.Rows), nil, entries{}.indexes())
				if err != nil || len(b.Statements) != 1 || b.Statements[0].SQL != sql {
					t.Errorf("%.40s: %v", sql, err)
				}
			}
		}
	}
	sql := "SELECT " + strings.Repeat("'"+strings.Repeat("x", 1<<19)+"', ", text.MaxParsed>>19) + "1 FROM users WHERE id = 5"
	if _, err := New().Plan(sql, settings, cat); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Error(err)
	}
}

// TestLongStringsGathered: a copy isn't bounded by a string that the parser didn't see.
func TestLongStringsGathered(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, name LONGTEXT);")
	settings := text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}
	text := "'" + strings.Repeat("x", text.MaxParsed) + "'"
	p := New()
	planned, err := p.Plan("SELECT COUNT(*) FROM users a JOIN users b ON a.name = b.name WHERE b.name IN ("+text+", 'y')", settings, cat)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Bind(planned.(*plan.Rows), nil, entries{}.indexes())
	if err != nil || b.Gather == nil {
		t.Fatal(b, err)
	}
	for _, r := range b.Gather.Refs {
		if strings.Contains(r.Select, "''") {
			t.Error(r.Select)
		}
	}
}
