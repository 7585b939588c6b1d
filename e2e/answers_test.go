package e2e

import (
	"fmt"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestInfoOfParts: what an INSERT says of its rows over several shards.
func TestInfoOfParts(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("CREATE TABLE cities (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO cities VALUES (1, 'a')", "REPLACE INTO cities VALUES (1, 'b')", "INSERT INTO cities VALUES (2, 'a'), (3, 'b')",
			"INSERT INTO people (id) VALUES (1), (2), (3)", "INSERT IGNORE INTO people (id) VALUES (1), (51)", "INSERT IGNORE INTO people (id) VALUES (1), (2), (3), (4)", "REPLACE INTO people (id) VALUES (1), (2), (60)",
			"INSERT INTO people (id) VALUES (1), (61) ON DUPLICATE KEY UPDATE age = 5", "INSERT INTO people (id) VALUES (1), (62) ON DUPLICATE KEY UPDATE age = 5")
	})
}

// TestPreparedNumbers: statements' numbers over a reset, what is none, and that a client
// is told of a result that has other columns than its preparation told of.
func TestPreparedNumbers(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		for name, capabilities := range map[string]uint32{"EOF": 0, "no EOF": mysql.CLIENT_DEPRECATE_EOF} {
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				for _, sql := range []string{"", " ", ";", "SELECT 1; SELECT 2", "SELECT 1;"} {
					p.both("prepare "+sql, func(c *packetClient) string {
						_, out := c.prepare(sql)
						return out
					})
				}
				numbers := func() {
					t.Helper()
					p.both("prepare", func(c *packetClient) string {
						id, _ := c.prepare("SELECT 1")
						return fmt.Sprint(id > 1)
					})
				}
				numbers()
				// One of before that is closed late must not take a younger one with it.
				p.both("reset", func(c *packetClient) string { c.say(mysql.COM_RESET_CONNECTION); return c.answer() })
				numbers()

				p.query("DELETE FROM people", "INSERT INTO people (id) VALUES (1), (2), (3)")
				ids := map[*packetClient][]uint32{}
				statements := []string{"SELECT * FROM people WHERE id = 2", "SELECT * FROM people ORDER BY id", "SELECT COUNT(*) FROM people"}
				for _, sql := range statements {
					p.both("prepare "+sql, func(c *packetClient) string {
						id, out := c.prepare(sql)
						ids[c] = append(ids[c], id)
						return out
					})
				}
				for _, change := range []string{"SELECT 1", "ALTER TABLE people ADD COLUMN more INT", "ALTER TABLE people DROP COLUMN more"} {
					p.query(change)
					for i, sql := range statements {
						for range 2 {
							p.both(fmt.Sprintf("%s, then %s", change, sql), func(c *packetClient) string {
								c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c][i]), []byte{0}, uint32s(1))
								return c.answer()
							})
						}
					}
				}
				if capabilities != 0 {
					p.query("SELECT id FROM people WHERE id = 1", "SELECT FOUND_ROWS()", "SHOW WARNINGS")
				}
			})
		}
	})
}
