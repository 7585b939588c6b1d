package e2e

import (
	"fmt"
	"testing"
)

// TestHintedDDL: what a hinted statement changes of a shard's tables is known before its
// answer.
func TestHintedDDL(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		onEach := func(sql string) {
			t.Helper()
			for i := range p.servers {
				mustExec(t, c, fmt.Sprintf("/* shunt: shard=s%d */ %s", i, sql))
			}
		}
		p.settled(c)
		t.Run("a trigger", func(t *testing.T) {
			onEach("CREATE TRIGGER t_email BEFORE INSERT ON people FOR EACH ROW SET NEW.email = CONCAT('t-', NEW.email)")
			p.settled(c)
			for id := 100; id < 120; id++ {
				mustExec(t, c, fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'p%d@x')", id, id))
			}
			p.settled(c)
			for id := 100; id < 120; id++ {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 't-p%d@x'", id), "id", fmt.Sprint(id))
			}
			onEach("DROP TRIGGER t_email")
		})
		t.Run("a collation", func(t *testing.T) {
			mustExec(t, c, "ALTER TABLE people MODIFY email VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
			p.waitIndex(c, "idx_email")
			onEach("ALTER TABLE people MODIFY email VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
			p.settled(c)
			for i := range 20 {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'P%d@X'", i), "id", fmt.Sprint(i))
			}
		})
		t.Run("in a transaction", func(t *testing.T) {
			mustExec(t, c, "BEGIN")
			mustExec(t, c, "INSERT INTO people (id, email) VALUES (200, 'a@x'), (201, 'b@x'), (202, 'c@x'), (203, 'd@x')")
			mustExec(t, c, "/* shunt: shard=s0 */ ALTER TABLE people COMMENT 'of s0'")
			mustExec(t, c, "ROLLBACK")
			want(t, c, "SELECT COUNT(*) AS n FROM people WHERE id >= 200", "n", "4")
			mustExec(t, c, "SET autocommit = 0")
			mustExec(t, c, "/* shunt: shard=s1 */ ALTER TABLE people COMMENT 'of s1'")
			mustExec(t, c, "DELETE FROM people WHERE id >= 200")
			mustExec(t, c, "ROLLBACK")
			mustExec(t, c, "SET autocommit = 1")
			want(t, c, "SELECT COUNT(*) AS n FROM people WHERE id >= 200", "n", "4")
			_, err := c.ExecContext(t.Context(), "/* shunt: shard=s1 */ ALTER TABLE people ADD COLUMN id INT")
			wantError(t, err, 1060, "Duplicate column")
		})
	})
}
