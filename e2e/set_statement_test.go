package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestSetStatement: MariaDB's SET STATEMENT, by which its clients give time and row
// limits, counts for the statement and for none behind it.
func TestSetStatement(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		if f.name != throwaway.MariaDB {
			_, c := startPeople(t, f, 1, setup{})
			wantError(t, execError(t, c, "SET STATEMENT sql_select_limit = 1 FOR SELECT 1"), 1235, "SET STATEMENT")
			return
		}
		t.Run("answers", func(t *testing.T) {
			p := packetSides(t, f)(t, 0)
			for i := range 12 {
				p.query(fmt.Sprintf("INSERT INTO people (id, city, age) VALUES (%d, 'c%d', %d)", i, i%3, i))
			}
			for _, begin := range []string{"SELECT 'none'", "BEGIN"} {
				p.query(begin)
				for _, sql := range []string{
					"SET STATEMENT SQL_SELECT_LIMIT=3 FOR SELECT id FROM people ORDER BY id",
					"SELECT FOUND_ROWS()",
					"SET STATEMENT sql_select_limit = 3, max_statement_time=10 FOR SELECT id FROM people WHERE id = 4 ORDER BY id",
					"SELECT @@max_statement_time, @@sql_select_limit, @@lock_wait_timeout",
					"SET STATEMENT max_statement_time=10 FOR SELECT a.id, b.id FROM people a JOIN people b ON a.age = b.id + 1 ORDER BY a.id",
					"SET STATEMENT sql_select_limit=DEFAULT FOR SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY city",
					"set statement lock_wait_timeout=2 for UPDATE people SET age = age + 1 WHERE id IN (1, 2, 3)",
					"SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE people SET age = age + 1 WHERE id = 1",
					"SET STATEMENT max_statement_time=10 FOR (SELECT id FROM people WHERE id < 2) UNION (SELECT 77) ORDER BY 1",
					"SELECT id, age FROM people ORDER BY id",
					"SET STATEMENT max_statement_time=10 FOR SELECT nosuch FROM people",
					"SET STATEMENT max_statement_time=10 SELECT 1",
				} {
					p.query(sql)
				}
				for _, sql := range []string{
					"SET STATEMENT sql_select_limit=2 FOR SELECT id, age FROM people WHERE id > ? ORDER BY id",
					"SET STATEMENT max_statement_time=10, sql_select_limit=2 FOR SELECT id, age FROM people WHERE id = ?",
					"SET STATEMENT max_statement_time=10 FOR UPDATE people SET age = 5 WHERE id > ?",
				} {
					ids := map[*packetClient]uint32{}
					p.both("prepare "+sql, func(c *packetClient) (out string) { ids[c], out = c.prepare(sql); return out })
					for range 2 {
						p.both("execute "+sql, func(c *packetClient) string {
							c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{0}, uint32s(1), []byte{0, 1, mysql.MYSQL_TYPE_LONGLONG, 0, 7, 0, 0, 0, 0, 0, 0, 0})
							return c.answer()
						})
						p.query("SELECT id FROM people ORDER BY id")
					}
				}
				p.query("ROLLBACK")
			}
		})
		t.Run("time", func(t *testing.T) {
			_, c := startPeople(t, f, 20, setup{})
			for _, sql := range []string{
				"SELECT SLEEP(60) FROM people WHERE id = 1",
				"SELECT SLEEP(60) FROM people ORDER BY id",
				"SELECT COUNT(*) FROM people a JOIN people b ON a.id + 1 = b.id WHERE SLEEP(60) = 0",
				"UPDATE people SET age = SLEEP(60) WHERE id = 1",
				"UPDATE people SET age = SLEEP(60)",
			} {
				began := time.Now()
				_, err := c.ExecContext(context.Background(), "SET STATEMENT max_statement_time=0.3 FOR "+sql)
				wantError(t, err, 1969, "")
				if d := time.Since(began); d > soon {
					t.Errorf("%s: ended after %v", sql, d)
				}
			}
			want(t, c, "SELECT COUNT(*) FROM people WHERE age = 0", "COUNT(*)", "0")
			mustExec(t, c, "SET @x = SLEEP(0.5)")
			for _, sql := range []string{"SET STATEMENT sql_mode = '' FOR SELECT 1", "SET STATEMENT sql_select_limit = 1 + 1 FOR SELECT 1", "SET STATEMENT max_statement_time = 1 FOR DROP TABLE people"} {
				wantError(t, execError(t, c, sql), 1235, "SET STATEMENT")
			}
		})
	})
}
