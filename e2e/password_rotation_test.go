package e2e

import (
	"testing"
)

// TestReloadAfterRotation: the shards' password was changed, and none of the connections
// from before is left by which they could be asked when the new one is told.
func TestReloadAfterRotation(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		for _, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER 'rotated'@'%' IDENTIFIED BY 'old secret'")
			mustExec(t, db, "GRANT ALL ON *.* TO 'rotated'@'%'")
		}
		p, c := startPeople(t, f, 20, setup{servers: servers, user: "rotated", password: "old secret"})
		p.settled(c)
		for _, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "ALTER USER 'rotated'@'%' IDENTIFIED BY 'new secret'")
			for _, r := range mustRows(t, db, "SELECT id FROM information_schema.processlist WHERE user = 'rotated'") {
				_, _ = db.ExecContext(t.Context(), "KILL "+r["id"]) // it may have gone
			}
		}
		for _, hint := range []string{"", "/* shunt: shard=s1 */ "} {
			_, err := rowsOf(t.Context(), c, hint+"SELECT COUNT(*) FROM people")
			wantError(t, err, 1429, "")
		}
		p.reload("old secret", "new secret")
		eventually(t, "the shards are logged in to anew", func() bool {
			rows, err := rowsOf(t.Context(), c, "SELECT COUNT(*) AS n FROM people")
			return err == nil && rows[0]["n"] == "20"
		})
		want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
	})
}
