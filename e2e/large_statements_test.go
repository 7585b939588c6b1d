package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargeStatements: large INSERTs that come side by side are planned in turn, without what is
// dropped as soon as they are sent.
func TestLargeStatements(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		// There is room for two to be planned.
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}, env: []string{"GOMEMLIMIT=64MiB"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(30), KEY (email))")
		mustExec(t, c, "CREATE VIRTUAL INDEX idx_email ON users (email)")
		p.waitIndex(c, "idx_email")
		const clients, rows = 5, 22_000 // 400 KiB
		var came []chan error
		for i := range clients {
			var b strings.Builder
			b.WriteString("INSERT IGNORE INTO users VALUES (0, 'dup')")
			for id := 1 + i*rows; id <= (i+1)*rows; id++ {
				fmt.Fprintf(&b, ",(%d,'e%d')", id, id)
			}
			came = append(came, later(p.conn(), b.String()))
		}
		for _, done := range came {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		want(t, c, "SELECT COUNT(*) AS n, MAX(id) AS m FROM users", "n m", fmt.Sprint(1+clients*rows, " ", clients*rows))
		want(t, c, fmt.Sprintf("SELECT id FROM users WHERE email = 'e%d'", clients*rows), "id", fmt.Sprint(clients*rows))
	})
}
