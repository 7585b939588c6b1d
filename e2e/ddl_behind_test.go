package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestDDLBehind: a tool alters the table on each shard itself. Once Shunt sees it, the
// index of the old definition is not used, and built again.
func TestDDLBehind(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"people: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)")
		for i := range 20 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		mustExec(t, c, "INSERT INTO people VALUES (100, 'straße')")
		p.createIndex(c, "idx_email", "people (email)")
		alter := func(collation string) {
			for i := range p.servers {
				mustExec(t, p.shard(i), "ALTER TABLE people MODIFY email VARCHAR(50) CHARACTER SET utf8mb4 COLLATE "+collation)
			}
		}
		alter("utf8mb4_general_ci")
		p.restart()
		c = p.conn()
		for i := range 20 {
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'P%d@X'", i), "id", fmt.Sprint(i))
		}
		p.waitIndex(c, "idx_email")
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'P7@X'", 1, "index:idx_email")
		// While it runs it notices when something else asks for the schema.
		alter("utf8mb4_unicode_ci")
		if _, err := c.ExecContext(t.Context(), "SELECT nothing FROM people"); err == nil {
			t.Error("there is no such column")
		}
		// To the collation of before ß is s, to this one ss: who finds it so looks by new keys.
		eventually(t, "the index is built again", func() bool {
			return len(mustRows(t, c, "SELECT id FROM people WHERE email = 'STRASSE'")) == 1 && routeOf(t, c, "SELECT id FROM people WHERE email = 'P7@X'").access == "index:idx_email"
		})
		for i := range 20 {
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'P%d@X'", i), "id", fmt.Sprint(i))
		}
	})
}

// TestColumnGoneBehind: a column was dropped on the shards, then the table. SHOW VIRTUAL INDEXES
// says why an index isn't used, and it can be dropped.
func TestColumnGoneBehind(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		p.createIndex(c, "by_age", "people (age)")
		for i := range p.servers {
			mustExec(t, p.shard(i), "ALTER TABLE people DROP COLUMN age")
		}
		if _, err := c.ExecContext(t.Context(), "SELECT age FROM people"); err == nil {
			t.Error("there is no such column")
		}
		eventually(t, "the index has failed for it", func() bool {
			rows := mustRows(t, c, "SHOW VIRTUAL INDEXES FROM people")
			return len(rows) == 2 && rows[0]["Status"] == "failed" && strings.Contains(rows[0]["Error"], "column age is gone")
		})
		mustExec(t, c, "DROP VIRTUAL INDEX by_age ON people")
		for i := range p.servers {
			mustExec(t, p.shard(i), "DROP TABLE people")
		}
		if _, err := c.ExecContext(t.Context(), "SELECT * FROM people"); err == nil {
			t.Error("there is no such table")
		}
		eventually(t, "the index has failed for it", func() bool {
			rows := mustRows(t, c, "SHOW VIRTUAL INDEXES")
			return len(rows) == 1 && rows[0]["Status"] == "failed" && strings.Contains(rows[0]["Error"], "no shard has its table")
		})
		mustExec(t, c, "DROP VIRTUAL INDEX idx_email ON people")
		_, err := c.ExecContext(t.Context(), "DROP VIRTUAL INDEX idx_email ON people")
		wantError(t, err, 1146, "")
	})
}

// TestCreateAsBehind: a table was dropped on the shards, and is made anew with rows. They
// have no entries in the index that Shunt had kept.
func TestCreateAsBehind(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"legacy: {placement: anywhere}", "source: {placement: anywhere}"}})
		c := p.conn()
		for _, table := range []string{"legacy", "source"} {
			mustExec(t, c, "CREATE TABLE "+table+" (id INT PRIMARY KEY, ref VARCHAR(20))")
		}
		p.createIndex(c, "by_ref", "legacy (ref)")
		for i := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO source VALUES (%d, 'r%d')", i, i))
		}
		p.settled(c)
		for i := range p.servers {
			mustExec(t, p.shard(i), "DROP TABLE legacy")
		}
		mustExec(t, c, "CREATE TABLE legacy (id INT PRIMARY KEY, ref VARCHAR(20)) SELECT id, ref FROM source")
		for i := range 8 {
			want(t, c, fmt.Sprintf("SELECT id FROM legacy WHERE ref = 'r%d'", i), "id", fmt.Sprint(i))
		}
	})
}
