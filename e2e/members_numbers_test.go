package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"testing"
)

// TestMembersExplicitNumber: a value that a client inserts by itself may be among those that another
// member has taken ahead. Its statements get others then, as on one server, and none meets the row.
func TestMembersExplicitNumber(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 2), tables: []string{"counted: {shard_key: id}", "copied: {placement: reference}"}, extra: "store: {shards: true}",
		})
		q := p.beside()
		q.run()
		one, two := p.db(), q.conn()
		ctx := t.Context()
		n := map[string]int{}
		// next is the value that member two would give.
		next := func(table string) int {
			t.Helper()
			mustExec(t, two, "INSERT INTO "+table+" (who) VALUES ('next')")
			n[table]++
			id, err := strconv.Atoi(mustRows(t, two, "SELECT LAST_INSERT_ID() AS n")[0]["n"])
			if err != nil {
				t.Fatal(err)
			}
			return id + 1
		}
		taken := func(table string, id int) {
			t.Helper()
			mustExec(t, one, fmt.Sprintf("INSERT INTO %s (id, who) VALUES (%d, 'taken')", table, id))
			n[table]++
		}
		for _, table := range []string{"counted", "copied"} {
			mustExec(t, one, "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(20))")
			insert := func(how string, rows int, do func() (sql.Result, error)) {
				t.Helper()
				next := next(table)
				taken(table, next+rows-1) // the last one's
				res, err := do()
				if err != nil {
					t.Errorf("%s, %s: %v", table, how, err)
					return
				}
				id, _ := res.LastInsertId()
				if changed, _ := res.RowsAffected(); changed != int64(rows) || id < int64(next+rows) {
					t.Errorf("%s, %s: %d rows, the first is %d, and %d was there", table, how, changed, id, next+rows-1)
				}
				n[table] += rows
				want(t, one, "SELECT COUNT(*) AS n FROM "+table, "n", strconv.Itoa(n[table]))
			}
			exec := func(statement string) func() (sql.Result, error) {
				return func() (sql.Result, error) { return two.ExecContext(ctx, statement) }
			}
			insert("a row", 1, exec("INSERT INTO "+table+" (who) VALUES ('a')"))
			insert("rows", 5, exec("INSERT INTO "+table+" (who) VALUES ('a'), ('b'), ('c'), ('d'), ('e')"))
			insert("prepared", 1, func() (sql.Result, error) { return two.ExecContext(ctx, "INSERT INTO "+table+" (who) VALUES (?)", "a") })
			if table == "copied" {
				insert("quietly", 3, exec("INSERT IGNORE INTO "+table+" (who) VALUES ('a'), ('b'), ('c')"))
				insert("replaced", 2, exec("REPLACE INTO "+table+" (who) VALUES ('a'), ('b')"))
				insert("updated", 1, exec("INSERT INTO "+table+" (who) VALUES ('a') ON DUPLICATE KEY UPDATE who = 'met'"))
			}
			for _, rows := range []int{1, 4} {
				next := next(table)
				taken(table, next)
				tx, err := two.BeginTx(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				values := "('t')"
				for range rows - 1 {
					values += ", ('t')"
				}
				mustExec(t, tx, "INSERT INTO "+table+" (id, who) VALUES (1000000, 'mine')")
				mustExec(t, tx, "INSERT INTO "+table+" (who) VALUES "+values)
				mustExec(t, tx, "DELETE FROM "+table+" WHERE id = 1000000")
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				n[table] += rows
				want(t, one, "SELECT COUNT(*) AS n FROM "+table, "n", strconv.Itoa(n[table]))
			}
			if rows := mustRows(t, one, "SELECT who FROM "+table+" WHERE who = 'met'"); len(rows) > 0 {
				t.Errorf("%s: somebody's row was changed", table)
			}
			// What a client gives is met by it, as ever.
			next(table)
			_, err := two.ExecContext(context.WithoutCancel(ctx), "INSERT INTO "+table+" (id, who) VALUES (NULL, 'a'), (1, 'b')")
			wantError(t, err, 1062, "1")
		}
	})
}
