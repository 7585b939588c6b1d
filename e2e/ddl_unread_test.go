package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestSchemaUnread: DDL is done, and the schema can't be read again behind it. No index
// is used by its old definition, and all is well when the schema can be read.
func TestSchemaUnread(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{tables: []string{"keyed: {shard_key: k}"}})
		wantAll := func() {
			t.Helper()
			for i := range 20 {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'P%d@X'", i), "id", fmt.Sprint(i))
			}
		}
		mustExec(t, c, "ALTER TABLE people MODIFY email VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
		p.settled(c)
		for _, table := range []string{"keyed (id INT PRIMARY KEY)", "keyed LIKE people"} {
			_, err := c.ExecContext(t.Context(), "CREATE TABLE "+table)
			wantError(t, err, 1235, "without the column k")
		}
		for i := range p.servers {
			mustExec(t, p.shard(i), "CREATE TABLE keyed (id INT PRIMARY KEY)")
		}
		_, err := c.ExecContext(t.Context(), "ALTER TABLE people CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
		wantError(t, err, 1105, "could not be read again")
		for range 10 {
			wantAll()
			time.Sleep(300 * time.Millisecond)
		}
		for i := range p.servers {
			mustExec(t, p.shard(i), "DROP TABLE keyed")
		}
		eventuallyEach(t, time.Second, "the index is used again", func() bool {
			return routeOf(t, c, "SELECT id FROM people WHERE email = 'P7@X'").access == "index:idx_email"
		})
		wantAll()
	})
}
