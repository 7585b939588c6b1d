package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestWidenShardKey: a shard key gets a larger integer type, as Rails and Django change their
// ids, beside sessions that read and write by it. Rows stay where they are, and are found.
func TestWidenShardKey(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}", "orders: {shard_key: user_id}"}})
		mustExec(t, p.db(), "CREATE TABLE users (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
		mustExec(t, p.db(), "CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, user_id INT UNSIGNED, KEY (user_id))")
		p.createIndex(p.db(), "idx_name", "users (name)")
		p.createIndex(p.db(), "idx_order", "orders (id)")
		const rows = 40
		prepared, err := p.conn().PrepareContext(t.Context(), "SELECT name FROM users WHERE id = ?")
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		found := func(id, order int, name string) {
			t.Helper()
			wantRoute(t, p.db(), fmt.Sprintf("SELECT name FROM users WHERE id = %d", id), 1, "shard_key")
			want(t, p.db(), fmt.Sprintf("SELECT name FROM users WHERE id = %d", id), "name", name)
			want(t, p.db(), fmt.Sprintf("SELECT id FROM users WHERE name = '%s'", name), "id", fmt.Sprint(id))
			want(t, p.db(), fmt.Sprintf("SELECT u.name FROM users u JOIN orders o ON o.user_id = u.id WHERE o.id = %d", order), "name", name)
			var got string
			if err := prepared.QueryRowContext(t.Context(), id).Scan(&got); err != nil || got != name {
				t.Errorf("prepared: %d is %q, %v, want %q", id, got, err, name)
			}
		}
		for i := range rows {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO users (name) VALUES ('n%d')", i))
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO orders VALUES (%d, %d)", i+1, i+1))
		}
		for _, ddl := range []string{
			"ALTER TABLE users MODIFY id BIGINT NOT NULL AUTO_INCREMENT", // Django
			"ALTER TABLE orders CHANGE user_id user_id BIGINT UNSIGNED",  // Rails
			"ALTER TABLE users CHANGE `id` `id` BIGINT AUTO_INCREMENT",
		} {
			mustExec(t, p.db(), ddl)
			for i := range rows {
				found(i+1, i+1, fmt.Sprintf("n%d", i))
			}
		}
		const large = 3_000_000_000 // no INT
		for i := range rows {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO users VALUES (%d, 'l%d')", large+i, i))
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO orders VALUES (%d, %d)", 1000+i, large+i))
			found(large+i, 1000+i, fmt.Sprintf("l%d", i))
		}
		mustExec(t, p.db(), "INSERT INTO users (name) VALUES ('next')")
		want(t, p.db(), "SELECT id FROM users WHERE name = 'next'", "id", fmt.Sprint(large+rows))

		for _, ddl := range []string{
			"ALTER TABLE users MODIFY id INT NOT NULL AUTO_INCREMENT",
			"ALTER TABLE users MODIFY id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT",
			"ALTER TABLE users CHANGE id uid BIGINT NOT NULL AUTO_INCREMENT",
			"ALTER TABLE orders MODIFY user_id BIGINT UNSIGNED NOT NULL",
			"ALTER TABLE orders MODIFY user_id BIGINT UNSIGNED DEFAULT 5",
			"ALTER TABLE orders ALTER user_id SET DEFAULT 5",
			"ALTER TABLE orders MODIFY user_id VARCHAR(20)",
		} {
			_, err := p.db().ExecContext(t.Context(), ddl)
			wantError(t, err, 1235, "rows would have to move between shards")
		}
	})
}

// TestUnfitShardKey: a table whose primary key begins with what can't be a shard key says so when it is made, and refuses rows
// with the way out, which works.
func TestUnfitShardKey(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"chosen: {shard_key: a}"}})
		c := p.conn()
		columns, row := "a INT NOT NULL, b FLOAT NOT NULL, PRIMARY KEY (b, a)", "(a, b) VALUES (%d, 1.5)"
		if f.name == throwaway.MySQL { // MariaDB allows no such primary key
			columns, row = "a INT NOT NULL, b INT AS (a + 1) STORED NOT NULL, PRIMARY KEY (b, a)", "(a) VALUES (%d)"
		}
		const way = "in the configuration, give unfit another shard_key or placement: single"
		mustExec(t, c, "CREATE TABLE unfit ("+columns+")")
		if notes := mustRows(t, c, "SHOW WARNINGS"); len(notes) != 1 || !strings.Contains(notes[0]["Message"], "unfit takes no rows: b can't be a shard key: ") || !strings.Contains(notes[0]["Message"], way) {
			t.Errorf("CREATE TABLE warns of %v", notes)
		}
		_, err := c.ExecContext(t.Context(), "INSERT INTO unfit "+fmt.Sprintf(row, 1))
		wantError(t, err, 1235, way)
		mustExec(t, c, "CREATE TABLE chosen ("+columns+")")
		if notes := mustRows(t, c, "SHOW WARNINGS"); len(notes) != 0 {
			t.Errorf("CREATE TABLE with another shard key warns of %v", notes)
		}
		for a := range 9 {
			mustExec(t, c, "INSERT INTO chosen "+fmt.Sprintf(row, a))
		}
		want(t, c, "SELECT a FROM chosen WHERE a = 3", "a", "3")
		want(t, c, "SELECT COUNT(*) AS n FROM chosen", "n", "9")
	})
}
