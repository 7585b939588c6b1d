package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestVirtualIndexesOfTables: keys of CREATE TABLE and ALTER TABLE with COMMENT
// 'virtual' are virtual indexes too, and end with what they are of.
func TestVirtualIndexesOfTables(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"members: {shard_key: id}", "moved: {shard_key: id}", "everywhere: {placement: reference}"}})
		c := p.conn()
		names := func(expected ...string) {
			t.Helper()
			var got []string
			for _, name := range p.indexNames(c) {
				name, _, _ = strings.Cut(name, " ") // its state
				_, name, _ = strings.Cut(name, ".")
				got = append(got, name)
			}
			if !slices.Equal(got, expected) {
				t.Errorf("virtual indexes %v, want %v", got, expected)
			}
		}
		const members = "CREATE TABLE IF NOT EXISTS members (`id` INT NOT NULL, `email` VARCHAR(50) DEFAULT NULL COMMENT 'virtual', `city` VARCHAR(50), n INT, PRIMARY KEY (`id`), KEY `by_email` (`email`) COMMENT 'virtual', KEY `by_city` (`city`)) COMMENT='virtual'"
		mustExec(t, c, members)
		names("by_email")
		mustExec(t, c, members) // is there already
		mustExec(t, c, "INSERT INTO members VALUES (1, 'a@x', 'A', 1), (2, 'b@x', 'B', 2), (3, 'c@x', 'C', 3), (4, 'd@x', 'D', 4), (5, 'e@x', 'E', 5)")
		p.waitIndex(c, "by_email")
		wantRoute(t, c, "SELECT id FROM members WHERE email = 'c@x'", 1, "index:by_email")
		want(t, c, "SELECT id FROM members WHERE email = 'c@x'", "id", "3")

		mustExec(t, c, "ALTER TABLE members ADD COLUMN m INT DEFAULT 7, ADD INDEX by_m (m, n) COMMENT 'virtual', ADD INDEX plain (m)")
		p.waitIndex(c, "by_m")
		names("by_email", "by_m")
		want(t, c, "SELECT id FROM members WHERE m = 7 AND n = 4", "id", "4")
		wantRoute(t, c, "SELECT id FROM members WHERE m = 7 AND n = 4", 1, "index:by_m")
		if n := p.onShards("SHOW INDEX FROM members WHERE Key_name = 'by_m' AND Seq_in_index = 2"); !slices.Equal(n, []int{1, 1, 1, 1}) {
			t.Errorf("the shards have %v indexes by_m", n)
		}
		// A name that is taken: nothing is made of either.
		_, err := c.ExecContext(t.Context(), "ALTER TABLE members ADD INDEX by_m (n) COMMENT 'virtual'")
		wantError(t, err, 1061, "by_m")
		names("by_email", "by_m")

		mustExec(t, c, "RENAME TABLE members TO moved")
		p.waitIndex(c, "by_email")
		p.waitIndex(c, "by_m")
		wantRoute(t, c, "SELECT id FROM moved WHERE email = 'c@x'", 1, "index:by_email")
		want(t, c, "SELECT id FROM moved WHERE email = 'c@x'", "id", "3")
		mustExec(t, c, "ALTER TABLE moved ADD UNIQUE KEY by_city_n (city, n) COMMENT 'virtual', RENAME TO members")
		p.waitIndex(c, "by_city_n")
		want(t, c, "SELECT id FROM members WHERE city = 'E' AND n = 5", "id", "5")
		wantRoute(t, c, "SELECT id FROM members WHERE city = 'E' AND n = 5", 1, "index:by_city_n")
		// As with CREATE INDEX, the virtual index is dropped by a statement of its own.
		mustExec(t, c, "ALTER TABLE members DROP INDEX by_m")
		names("by_city_n", "by_email", "by_m")
		mustExec(t, c, "DROP VIRTUAL INDEX by_m ON members")
		mustExec(t, c, "DROP TABLE members")
		names()

		mustExec(t, c, "CREATE TABLE everywhere (id INT PRIMARY KEY, v INT, KEY by_v (v) COMMENT 'virtual')")
		want(t, c, "SHOW WARNINGS", "Level Message", "Note virtual index by_v was not made: everywhere is on every shard")
		names()
		_, err = c.ExecContext(t.Context(), "CREATE TABLE other (id INT PRIMARY KEY, v INT, KEY (v) COMMENT 'virtual')")
		wantError(t, err, 1235, "name")
		if f.name == "mariadb" {
			mustExec(t, c, members)
			mustExec(t, c, "INSERT INTO members (id, email) VALUES (1, 'x1')")
			mustExec(t, c, "CREATE OR REPLACE TABLE members (id INT PRIMARY KEY, email INT, KEY by_email (email) COMMENT 'virtual')")
			mustExec(t, c, "INSERT INTO members VALUES (1, 5), (2, 6), (3, 7)")
			p.waitIndex(c, "by_email")
			wantRoute(t, c, "SELECT id FROM members WHERE email = 6", 1, "index:by_email")
			want(t, c, "SELECT id FROM members WHERE email = 6", "id", "2")
		}
	})
}
