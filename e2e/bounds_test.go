package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestBounds: statements at Shunt's bounds, and beyond them, are answered as by one server.
func TestBounds(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}})
		shunt, plain := p.conn(), plainServer(t, p.servers[0], newSchemaName(t))
		both := []queryer{shunt, plain}
		joined := strings.Repeat("'a' ", 300)
		for _, q := range both {
			mustExec(t, q, "CREATE TABLE users (id BIGINT PRIMARY KEY, name VARCHAR(700), KEY (name))")
			mustExec(t, q, "INSERT INTO users VALUES (1, 'x'), (2, "+joined+"), (3, CONCAT('b', "+joined+")), (4, 'y')")
		}
		mustExec(t, shunt, "CREATE VIRTUAL INDEX idx_name ON users (name)")
		p.waitIndex(shunt, "idx_name")
		join := func(n int, by string) string {
			var b strings.Builder
			for i := range n - 1 {
				fmt.Fprintf(&b, " JOIN users u%d ON u%d.%s = u.%s", i, i, by, by)
			}
			return "SELECT u.id FROM users u" + b.String() + " WHERE u.id < 3"
		}
		for _, sql := range []string{
			"SELECT id FROM users WHERE name = " + joined,
			"SELECT id, " + joined + ", 5 FROM users WHERE name <> " + joined + " ORDER BY id",
			"SELECT COUNT(*) AS c, " + joined + " FROM users a JOIN users b ON a.name = b.name WHERE b.name IN (" + joined + ", 'x')",
			"UPDATE users SET name = " + joined + " WHERE id = 1",
			"SELECT id FROM users WHERE name = CONCAT(" + joined + ") ORDER BY id",
			"DELETE FROM users WHERE name = " + joined + " AND id = 1",
			join(61, "id"), join(62, "id"), join(62, "name"),
			strings.Replace(strings.Replace(join(62, "id"), "SELECT u.id FROM", "UPDATE", 1), " WHERE", " SET u.name = 'z' WHERE", 1),
			"SELECT id, name FROM users ORDER BY id",
		} {
			got, err := rowsOf(t.Context(), shunt, sql)
			expected, wanted := rowsOf(t.Context(), plain, sql)
			if errorCode(err) != errorCode(wanted) || (err == nil) != (wanted == nil) || fmt.Sprint(got) != fmt.Sprint(expected) {
				t.Errorf("%.60s: %v %v\none server: %v %v", sql, got, err, expected, wanted)
			}
		}
	})
}
