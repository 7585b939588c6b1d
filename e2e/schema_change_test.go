package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
)

// TestSchemaChangeTool: pt-online-schema-change changes a table of one shard, and one that is spread, beside a writer whose rows are
// all there afterwards. It copies by chunks, and what is written meanwhile by triggers; then it exchanges the tables.
func TestSchemaChangeTool(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		tool, err := exec.LookPath("pt-online-schema-change")
		if err != nil {
			t.Skip("pt-online-schema-change isn't here: apt-get install percona-toolkit")
		}
		p := start(t, f, setup{tables: []string{
			"lone: {placement: single, shard: s1}", "_lone_new: {placement: single, shard: s1}", "_lone_old: {placement: single, shard: s1}",
		}})
		db := p.db()
		for _, table := range []string{"lone", "spread"} {
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, n INT, name VARCHAR(20) DEFAULT 'x', KEY (n))")
			const all = 400
			mustExec(t, db, "INSERT INTO "+table+" (id, n) VALUES "+rowsFor(all, func(i int) string { return fmt.Sprintf("(%d, %d)", i, i) }))
			rows := map[int]int{}
			for i := range all {
				rows[i+1] = i + 1
			}
			ctx, stop := context.WithCancel(t.Context())
			written := make(chan int)
			go func() { // alone, so that it knows what is there
				done := 0
				defer func() { written <- done }()
				for ; ctx.Err() == nil; done++ {
					id, n := 1+done*7%(all+50), 10_000+done
					var statement string
					switch done % 3 {
					case 0:
						statement = fmt.Sprintf("REPLACE INTO %s (id, n) VALUES (%d, %d)", table, id, n)
						rows[id] = n
					case 1:
						statement = fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id)
						delete(rows, id)
					default:
						statement = fmt.Sprintf("UPDATE %s SET n = %d WHERE id = %d", table, n, id)
						if _, ok := rows[id]; ok {
							rows[id] = n
						}
					}
					if _, err := db.ExecContext(t.Context(), statement); err != nil {
						t.Errorf("%s: %v", statement, err)
						return
					}
				}
			}()
			host, port, _ := net.SplitHostPort(p.addr)
			out, err := exec.CommandContext(t.Context(), tool, "--execute", "--alter", "ADD COLUMN extra INT NOT NULL DEFAULT 7, MODIFY n BIGINT",
				"--chunk-size", "40", "--recursion-method", "none", "--no-version-check", "--progress", "percentage,50",
				fmt.Sprintf("h=%s,P=%s,u=app,p=secret,D=%s,t=%s", host, port, p.schema, table)).CombinedOutput()
			stop()
			n := <-written
			if err != nil {
				t.Fatalf("%s: %v\n%s", table, err, out)
			}
			t.Logf("%s: %d statements beside it", table, n)
			got := mustRows(t, db, "SELECT id, n, name, extra FROM "+table)
			if len(got) != len(rows) {
				t.Errorf("%s has %d rows, want %d", table, len(got), len(rows))
			}
			for _, r := range got {
				id, _ := strconv.Atoi(r["id"])
				if r["n"] != strconv.Itoa(rows[id]) || r["name"] != "x" || r["extra"] != "7" {
					t.Errorf("%s: %v, want n = %d", table, r, rows[id])
				}
			}
			if left := mustRows(t, db, "SHOW TABLES LIKE '\\_%'"); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
			if left := mustRows(t, db, "SHOW TRIGGERS"); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		}
	})
}
