package planner

import (
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestLockedKeys: statements that have the same keys lock the same rows, whatever their verb and the way their values
// are written; those that may lock others have other keys, or none.
func TestLockedKeys(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, `CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(255), age INT);
-- @virtual idx_email email
CREATE TABLE orders (id BIGINT NOT NULL, user_id BIGINT NOT NULL, total INT, PRIMARY KEY (user_id, id));
-- @hash user_id
CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, text TEXT);
-- @hash user_id
CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(50));
-- @reference
CREATE TABLE legacy (id INT PRIMARY KEY, ref VARCHAR(50));
-- @anywhere`)
	keysOf := func(query string, values ...keys.Value) []string {
		planned, err := New().Plan(query, text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}, cat)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		table, list := LockedKeys(planned.(*plan.Rows), values)
		if (table == nil) != (list == nil) {
			t.Fatalf("%s: %v %q", query, table, list)
		}
		return list
	}
	for _, same := range [][]string{
		{
			"SELECT age FROM users WHERE id = 5 FOR UPDATE", "SELECT email FROM users u WHERE 5 = u.id ORDER BY age FOR UPDATE",
			"UPDATE users SET age = age + 1 WHERE id = 5", "UPDATE users SET age = 1 WHERE id = 5 AND age > 7 ORDER BY email LIMIT 1",
			"DELETE FROM users WHERE id IN (5)", "SELECT age FROM users WHERE id = 5 AND email LIKE 'a%' LIMIT 1 FOR UPDATE",
		},
		{"SELECT age FROM users WHERE email = 'a@x' FOR UPDATE", "UPDATE users SET age = 1 WHERE email = 'A@x'", "DELETE FROM users WHERE 'a@x' = email"},
		{"SELECT age FROM users WHERE email = 'a@x' AND age = 5 FOR UPDATE", "UPDATE users SET age = 1 WHERE age = 5 AND email = 'a@x'"},
		{"SELECT id FROM orders WHERE user_id = 1 AND id = 2 FOR UPDATE", "UPDATE orders SET total = 1 WHERE (id, user_id) = (2, 1) AND total > 5"},
		{"SELECT id FROM notes WHERE id = 1 AND user_id = 2 FOR UPDATE", "DELETE FROM notes WHERE user_id = 2 AND id = 1"},
		{"SELECT name FROM countries WHERE code = 'DE' FOR UPDATE", "UPDATE countries SET name = 'x' WHERE code = 'de' AND name = 'y'"},
		{"SELECT age FROM users WHERE id IN (1, 2, 3) FOR UPDATE", "DELETE FROM users WHERE id IN (3, 1, 2, 1)"},
	} {
		first := keysOf(same[0])
		if len(first) == 0 {
			t.Errorf("%s: none", same[0])
		}
		for _, query := range same[1:] {
			if got := keysOf(query); !slices.Equal(got, first) {
				t.Errorf("%s\nhas %q, want those of\n%s\n%q", query, got, same[0], first)
			}
		}
	}
	one, three := keysOf("DELETE FROM users WHERE id = 2"), keysOf("DELETE FROM users WHERE id IN (1, 2, 3)")
	if len(three) != 3 || !slices.Contains(three, one[0]) || !slices.IsSorted(three) {
		t.Errorf("%q and %q", one, three)
	}
	if got := keysOf("DELETE FROM users WHERE id = ?", keys.Int(2)); !slices.Equal(got, one) {
		t.Errorf("with a parameter %q, want %q", got, one)
	}
	for _, query := range []string{
		"SELECT age FROM users WHERE id = 5", "SELECT age FROM users WHERE id = 5 FOR SHARE",
		"SELECT age FROM users WHERE id = 5 FOR UPDATE NOWAIT", "SELECT age FROM users WHERE id = 5 FOR UPDATE SKIP LOCKED",
		"SELECT COUNT(*) FROM users WHERE id = 5 FOR UPDATE", // answers a row where there is none
		"SELECT age FROM users WHERE id = 5 GROUP BY age FOR UPDATE",
		"UPDATE users SET age = 1", "UPDATE users SET age = 1 WHERE id > 5", "UPDATE users SET age = 1 WHERE id = 5 OR age = 6",
		"UPDATE orders SET total = 1 WHERE user_id = 1 AND total > 5",
		"UPDATE notes SET text = '' WHERE id = 5 AND text LIKE 'a%'", // there may be one on each shard
		"UPDATE legacy SET ref = '' WHERE id = 5 AND ref LIKE 'a%'",
		"UPDATE users SET age = 1 WHERE email = 'a@x' LIMIT 1", "SELECT age FROM users WHERE email = 'a@x' LIMIT 1 FOR UPDATE",
		"UPDATE users SET age = 1 WHERE email = 5", // a number, by which MySQL compares as numbers
		"UPDATE users SET age = 1 WHERE id = NULL",
		"SELECT u.age FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = 5 FOR UPDATE",
		"UPDATE users SET age = 1 WHERE id = 5 AND EXISTS (SELECT 1 FROM orders WHERE user_id = 5)",
		"INSERT INTO users (id) VALUES (5)",
	} {
		if got := keysOf(query); got != nil {
			t.Errorf("%s: %q", query, got)
		}
	}
}
