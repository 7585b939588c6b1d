package planner

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

const mergeTables = `
CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(255), country CHAR(2), name VARCHAR(100) COLLATE utf8mb4_general_ci,
	czech VARCHAR(20), age INT, born DATE, updated TIMESTAMP, paid DECIMAL(10,2), big DECIMAL(40,10),
	f FLOAT, g DOUBLE, kind ENUM('a','b'), bits BIT(3), doc JSON, place BLOB);
CREATE TABLE orders (id BIGINT NOT NULL, user_id BIGINT NOT NULL, code VARCHAR(20), total DECIMAL(10,2), PRIMARY KEY (user_id, id));
-- @hash user_id
CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(50));
-- @reference
CREATE TABLE odd (id INT PRIMARY KEY, n INT);
-- @differs the type of n
CREATE TABLE active (id INT);
-- @view
`

// mergeCatalog has a collation and a type that the parser doesn't know.
func mergeCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	cat := buildCatalog(t, 4, mergeTables)
	users := cat.Table("shop", "users")
	users.Column("czech").Charset, users.Column("czech").Collation = "latin2", "latin2_czech_cs"
	users.Column("place").Type = "point"
	return cat
}

// TestNotMerged: what can't be merged exactly isn't. Each case goes wrong, or may,
// where its rule is dropped.
func TestNotMerged(t *testing.T) {
	cat := mergeCatalog(t)
	p := New()
	for _, c := range []struct{ why, sql string }{
		{"JSON sorts by rules of its own", "SELECT id FROM users ORDER BY doc"},
		{"JSON sorts by rules of its own", "SELECT id FROM users ORDER BY doc->'$.a'"},
		{"JSON sorts by rules of its own", "SELECT DISTINCT doc FROM users"},
		{"a shape has no order", "SELECT id FROM users ORDER BY place"},
		{"a FLOAT shows fewer digits than it has", "SELECT id FROM users ORDER BY IFNULL(f, 0)"},
		{"an ENUM sorts by its number", "SELECT id FROM users ORDER BY COALESCE(kind, 'a')"},
		{"a TIMESTAMP sorts by its moment", "SELECT id FROM users ORDER BY IF(age, updated, NULL)"},
		{"each shard draws numbers of its own", "SELECT id FROM users ORDER BY RAND()"},
		{"a user variable may be anything", "SELECT id FROM users ORDER BY age + @x"},
		{"weights in several levels don't compare bytewise under padding", "SELECT id FROM users ORDER BY czech"},
		{"a subquery's type isn't known", "SELECT id FROM users ORDER BY (SELECT name FROM countries c WHERE c.code = users.country)"},
		{"a stored function's type isn't known", "SELECT id FROM users ORDER BY rank_of(age)"},
		{"a client's column has the name of a hidden one", "SELECT id, 5 AS _shunt1 FROM users ORDER BY age"},
		{"an alias and a column of one name", "SELECT -age AS age, COUNT(*) FROM users GROUP BY age"},
		{"an alias within an expression", "SELECT -age AS born, id FROM users ORDER BY born + 1"},
		{"a sum of FLOAT depends on the order of adding", "SELECT SUM(f) FROM users"},
		{"a sum of DOUBLE depends on the order of adding", "SELECT AVG(g) FROM users"},
		{"a sum of texts is a DOUBLE", "SELECT SUM(name) FROM users"},
		{"a quotient has more digits than it shows", "SELECT SUM(age / 3) FROM users"},
		{"a product of more than 65 digits is cut", "SELECT SUM(big * big) FROM users"},
		{"an aggregate inside of an expression", "SELECT COUNT(*) + 1 FROM users"},
		{"an aggregate that isn't put together", "SELECT GROUP_CONCAT(name) FROM users"},
		{"an aggregate that isn't put together", "SELECT STD(age) FROM users"},
		{"an aggregate that isn't put together", "SELECT JSON_ARRAYAGG(age) FROM users"},
		{"SUM(DISTINCT) of two shards isn't their sum", "SELECT SUM(DISTINCT age) FROM users"},
		{"distinct values of two columns lie in two orders", "SELECT COUNT(DISTINCT age), COUNT(DISTINCT country) FROM users"},
		{"a value of any row, of shards that may have none", "SELECT COUNT(*), name FROM users"},
		{"a row of subtotals for each shard", "SELECT country FROM users GROUP BY country WITH ROLLUP"},
		{"a value of any row of the group", "SELECT age, name FROM users GROUP BY age ORDER BY name"},
		{"more rows than the list makes distinct", "SELECT DISTINCT age FROM users ORDER BY name"},
		{"DISTINCT of groups", "SELECT DISTINCT COUNT(*) FROM users GROUP BY age"},
		{"DISTINCT of whole groups", "SELECT DISTINCT COUNT(*) FROM orders GROUP BY user_id"},
		{"MIN of an ENUM compares texts or numbers", "SELECT MIN(kind) FROM users"},
		{"an average has more digits than it shows", "SELECT age, COUNT(*) FROM users GROUP BY age HAVING AVG(paid) > 3"},
		{"an approximate number in HAVING", "SELECT age, COUNT(*) FROM users GROUP BY age HAVING COUNT(*) > 1e0"},
		{"one of equal texts in HAVING", "SELECT country, COUNT(*) FROM users GROUP BY country HAVING country LIKE 'd%'"},
		{"an aggregate in ORDER BY alone makes one row", "SELECT id FROM users ORDER BY COUNT(*)"},
		{"a window over all shards", "SELECT id, ROW_NUMBER() OVER (ORDER BY age) FROM users ORDER BY id"},
		{"tables that differ may sort differently", "SELECT id FROM odd ORDER BY n"},
		{"a view's columns aren't known", "SELECT id FROM active ORDER BY id"},
		{"no shard has all pairs", "SELECT u.id FROM users u JOIN orders o ON o.code = u.name ORDER BY u.id"},
		{"a place in * isn't known", "SELECT * FROM users ORDER BY 2"},
		{"parts of a comment that a server runs", "SELECT id FROM users /*! ORDER BY age */"},
		{"a group that an outer join makes of NULLs is on all shards", "SELECT o.user_id, STD(u.age) FROM users u LEFT JOIN orders o ON o.user_id = u.id GROUP BY o.user_id"},
	} {
		planned, err := p.Plan(c.sql, text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}, cat)
		if err != nil {
			continue // refused altogether
		}
		b, err := p.Bind(planned.(*plan.Rows), nil, entries{}.indexes())
		if err == nil && b.Merge != nil {
			t.Errorf("%s: %s\nmerged by %s", c.why, c.sql, b.Statements[0].SQL)
		}
	}
}

// TestMergeLimits: numbers of LIMIT.
func TestMergeLimits(t *testing.T) {
	cat := mergeCatalog(t)
	p := New()
	for _, c := range []struct {
		sql           string
		params        []keys.Value
		limit         string
		offset, count uint64
		unmerged      bool
	}{
		{sql: "LIMIT 5", limit: "LIMIT 5", count: 5},
		{sql: "LIMIT 0", limit: "LIMIT 0", count: 0},
		{sql: "LIMIT 3, 5", limit: "LIMIT 8", offset: 3, count: 5},
		{sql: "LIMIT 5 OFFSET 3", limit: "LIMIT 8", offset: 3, count: 5},
		{sql: "LIMIT 18446744073709551615", limit: "LIMIT 18446744073709551615", count: 1<<64 - 1},
		{sql: "LIMIT 18446744073709551615 OFFSET 18446744073709551615", limit: "LIMIT 18446744073709551615", offset: 1<<64 - 1, count: 1<<64 - 1},
		{sql: "LIMIT ?", params: []keys.Value{keys.Uint(7)}, limit: "LIMIT ?", count: 7},
		{sql: "LIMIT ?, ?", params: []keys.Value{keys.Int(2), keys.Int(7)}, limit: "LIMIT 9", offset: 2, count: 7},
		{sql: "LIMIT ? OFFSET 4", params: []keys.Value{keys.Int(7)}, limit: "LIMIT 11", offset: 4, count: 7},
		{sql: "LIMIT ?", params: []keys.Value{keys.Int(-1)}, unmerged: true},
		{sql: "LIMIT ?", params: []keys.Value{keys.String([]byte("5"), "utf8mb4")}, unmerged: true},
		{sql: "LIMIT ?", params: []keys.Value{keys.Null()}, unmerged: true},
		{sql: "LIMIT ?", params: []keys.Value{keys.Float(2)}, unmerged: true},
	} {
		planned, err := p.Plan("SELECT id FROM users ORDER BY id "+c.sql, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat)
		if err != nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		b, err := p.Bind(planned.(*plan.Rows), c.params, entries{}.indexes())
		if c.unmerged {
			if err == nil && b.Merge != nil {
				t.Errorf("%s %v: merged", c.sql, c.params)
			}
			continue
		}
		if err != nil || b.Merge == nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		if !strings.HasSuffix(b.Statements[0].SQL, c.limit) || b.Merge.Offset != c.offset || b.Merge.Count != c.count {
			t.Errorf("%s: %s, offset %d, count %d", c.sql, b.Statements[0].SQL, b.Merge.Offset, b.Merge.Count)
		}
	}
}
