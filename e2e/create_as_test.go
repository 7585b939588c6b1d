package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestCreateAsKilled: a table that a killed CREATE TABLE ... SELECT has made, and not
// filled, is dropped again.
func TestCreateAsKilled(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c, admin := p.conn(), p.conn()
		id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
		failed := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(context.WithoutCancel(t.Context()), "CREATE TABLE filled (id INT PRIMARY KEY) WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"+
				" SELECT a.i * 1000 + b.i AS id, REPEAT('x', 50) AS filler FROM n AS a, n AS b WHERE a.i < 400")
			failed <- err
		}()
		for _, srv := range p.servers { // before, KILL ends its CREATE TABLE on some of them
			db := onShard(t, srv, p.schema)
			eventually(t, time.Minute, "the table is made", func() bool { return len(mustRows(t, db, "SHOW TABLES LIKE 'filled'")) > 0 })
		}
		mustExec(t, admin, fmt.Sprintf("KILL QUERY %v", id))
		wantError(t, <-failed, 1317, "interrupted")
		want(t, admin, "SHOW TABLES LIKE 'filled'", "")
		want(t, c, "SELECT 1 AS one", "one", "1")
		// With the name free, and not its rows.
		mustExec(t, c, "CREATE TABLE filled (id INT PRIMARY KEY) SELECT 7 AS id")
		want(t, c, "SELECT id FROM filled", "id", "7")
	})
}
