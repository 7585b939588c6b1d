package e2e

import (
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestPreparedLeavesNoTraces: what a statement was executed with by one client
// must not show in another's. MySQL keeps the types of a parameter's first value,
// and sometimes a value, in the server's statement, which clients share.
func TestPreparedLeavesNoTraces(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 10, setup{})
		mustExec(t, c, "CREATE TABLE days (id BIGINT PRIMARY KEY, day DATE)")
		mustExec(t, c, "INSERT INTO days VALUES (5, '2020-01-05')")
		for _, x := range []struct {
			query string
			with  []any
			found int
		}{
			{"SELECT ? AS v FROM days WHERE id = 5", []any{int64(1)}, 1},
			{"SELECT ? AS v FROM days WHERE id = 5", []any{"abc"}, 1},
			{"SELECT id FROM days WHERE id LIKE ?", []any{int64(5)}, 1},
			{"SELECT id FROM days WHERE id LIKE ?", []any{" 5"}, 0},
			{"SELECT id FROM days WHERE day IN (?, ?)", []any{"2020-01-05", "2020-01-06"}, 1},
			{"SELECT id FROM days WHERE day IN (?, ?)", []any{"x", "5"}, 0},
		} {
			rows, err := rowsOf(t.Context(), c, x.query, x.with...)
			switch {
			case x.with[0] == "x": // MariaDB finds nothing, MySQL may find the text wrong
				if err == nil && len(rows) != 0 {
					t.Errorf("%s with %v: %v", x.query, x.with, rows)
				}
			case err != nil:
				t.Errorf("%s with %v: %v", x.query, x.with, err)
			case len(rows) != x.found:
				t.Errorf("%s with %v: %v", x.query, x.with, rows)
			case x.found == 1 && rows[0]["v"] != "" && rows[0]["v"] != fmt.Sprint(x.with[0]):
				t.Errorf("%s with %v: %v", x.query, x.with, rows)
			}
		}

		// A statement that is prepared after an ALTER has the new columns.
		st := "SELECT * FROM days WHERE id = ?"
		if rows := mustRows(t, c, st, int64(5)); len(rows) != 1 || len(rows[0]) != 2 {
			t.Errorf("%v", rows)
		}
		mustExec(t, c, "ALTER TABLE days ADD COLUMN note VARCHAR(10) NOT NULL DEFAULT 'n'")
		if rows := mustRows(t, c, st, int64(5)); len(rows) != 1 || rows[0]["note"] != "n" {
			t.Errorf("%v", rows)
		}
	})
}

// TestPreparedTypesInTurn: a statement that is executed with other types each time answers
// as if it were prepared anew: MySQL would take texts for the types, and values, of before.
func TestPreparedTypesInTurn(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("SET sql_mode = ''", "INSERT INTO people (id, age) VALUES (0, 0), (1, 1), (5, 5), (2020, 2020), (101112, 101112), (250000, 25), (100, 100), (20200105, 6)")
		var values [][]byte
		for _, of := range []struct {
			kind  byte
			texts string
		}{
			{mysql.MYSQL_TYPE_VAR_STRING, "5, 5 ,+5,5.0,5e0,5x,x,,-5,2020-01-05,20200105,2020-01-05 10:11:12,10:11:12,101112,25:00:00,1 01:00:00,2020,100,0.1"},
			{mysql.MYSQL_TYPE_BLOB, "5,5 ,5.0,x,a,2020-01-05,2020-01-05 10:11:12,10:11:12,0.1"},
			{mysql.MYSQL_TYPE_NEWDECIMAL, "5,5.00,5.5,0.1,-5,20200105,101112,2020"},
		} {
			for text := range strings.SplitSeq(of.texts, ",") {
				values = append(values, append([]byte{of.kind, byte(len(text))}, text...))
			}
		}
		values = append(values, []byte{mysql.MYSQL_TYPE_LONGLONG, 5, 0, 0, 0, 0, 0, 0, 0}, []byte{mysql.MYSQL_TYPE_TINY, 100}, []byte{mysql.MYSQL_TYPE_DOUBLE, 0, 0, 0, 0, 0, 0, 0x16, 0x40},
			[]byte{mysql.MYSQL_TYPE_DATE, 4, 0xe4, 7, 1, 5}, []byte{mysql.MYSQL_TYPE_DATETIME, 7, 0xe4, 7, 1, 5, 10, 11, 12}, []byte{mysql.MYSQL_TYPE_TIME, 8, 0, 0, 0, 0, 0, 10, 11, 12}, []byte{mysql.MYSQL_TYPE_TIME, 0})
		sql := "SELECT age FROM people WHERE id IN (?, ?)"
		again, _ := p.shunt.prepare(sql)
		for _, step := range []int{5, 6, 7, 8} {
			for i := range values {
				x := [][]byte{values[i], values[(i*step+3)%len(values)]}
				p.both(fmt.Sprintf("%q", x), func(c *packetClient) string {
					id := again
					if c == p.plain {
						id, _ = c.prepare(sql)
						defer c.say(mysql.COM_STMT_CLOSE, uint32s(id))
					}
					c.say(mysql.COM_STMT_EXECUTE, uint32s(id), []byte{0}, uint32s(1), []byte{0, 1, x[0][0], 0, x[1][0], 0}, x[0][1:], x[1][1:])
					rows := slices.DeleteFunc(strings.Split(c.answer(), "\n"), func(line string) bool { return !strings.HasPrefix(line, "row") })
					slices.Sort(rows)
					return strings.Join(rows, "\n")
				})
			}
		}
	})
}

// TestPreparedOwn: statements that Shunt executes itself, with parameters, as drivers send
// them that have values sent apart.
func TestPreparedOwn(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 8, setup{})
		plain := plainServer(t, f.servers(t)[3], p.schema+"_plain")
		mustExec(t, plain, people)
		for i := range 8 {
			mustExec(t, plain, fmt.Sprintf("INSERT INTO people (id, email, age) VALUES (%d, 'p%[1]d@x', %d)", i, 20+i))
		}
		both := func(ask, statement string, args ...any) {
			t.Helper()
			_, err := c.ExecContext(t.Context(), statement, args...)
			_, plainErr := plain.ExecContext(t.Context(), statement, args...)
			if errorCode(err) != errorCode(plainErr) {
				t.Errorf("%s %v: %v, a server: %v", statement, args, err, plainErr)
				return
			}
			if got, want := mustRows(t, c, ask), mustRows(t, plain, ask); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s %v: %v, a server: %v", statement, args, got, want)
			}
		}
		const x = "SELECT @x, HEX(@x), CHARSET(@x), COLLATION(@x), @y"
		for _, v := range []any{
			5, -5, int64(math.MinInt64), uint64(math.MaxUint64), 1.5, 0.1, 1e100, true, "", "text", "12", "é☃", `it's a \ "quote"`, "a\x00b", []byte("x"),
			time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC),
		} {
			both(x, "SET @x = ?", v)
			both(x, "SET @y = CONCAT('a', ?), @x = ?", v, v)
		}
		const settings = "SELECT @@time_zone, @@sql_mode, @@character_set_results, @@lock_wait_timeout, @@autocommit"
		both(settings, "SET time_zone = ?", "+05:00")
		both(settings, "SET @@session.lock_wait_timeout = ?, @x = ?", 77, 5)
		both(settings, "SET sql_mode = ?", "ANSI_QUOTES,PIPES_AS_CONCAT")
		both(settings, "SET SESSION sql_mode = ?", "")
		both(settings, "SET character_set_results = ?", nil)
		both(settings, "SET character_set_results = ?", "utf8mb4")
		both(settings, "SET autocommit = ?", 1)
		both(settings, "SET time_zone = ?", "nonsense")
		both(settings, "SET nonsense = ?", 1)
		both(settings, "SET @x = ?,", 1)
		both("SELECT @x", "SET @x = ?", nil)
		both(settings, "SET TRANSACTION READ ONLY, ISOLATION LEVEL ?", "x")
		// Again and again, with the statement kept.
		for _, conn := range []*sql.Conn{c, plain} {
			st, err := conn.PrepareContext(t.Context(), "SET @x = ?, @y = @x")
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range []any{1, "two", nil, 3.5} {
				if _, err := st.ExecContext(t.Context(), v); err != nil {
					t.Error(err)
				}
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
		both(x, "DO 1")
		victim := p.conn()
		var id int64
		if err := victim.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		if f.name == throwaway.MySQL { // as the server, where only DML has parameters
			_, err := c.ExecContext(t.Context(), "KILL ?", id)
			wantError(t, err, 1235, "")
			return
		}
		mustExec(t, c, "KILL ?", id)
		if err := victim.PingContext(t.Context()); err == nil {
			t.Error("the victim lives")
		}
	})
}
