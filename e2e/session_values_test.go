package e2e

import (
	"database/sql"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestSessionValues: in the midst of any statement the session is the client's at
// Shunt, not that of a shard's connection.
func TestSessionValues(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 20, setup{})
		const user = "app@127.0.0.1"
		id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
		for _, query := range []string{
			"SELECT USER(), id FROM people WHERE id = 3",                            // one shard
			"SELECT USER(), MAX(id) FROM people GROUP BY USER()",                    // merged
			"SELECT DISTINCT USER() FROM people a JOIN people b ON a.city = b.city", // gathered
			"SELECT USER(), 1",
			"SELECT USER() FROM people WHERE id = 3 AND CURRENT_USER = SESSION_USER() COLLATE utf8mb3_bin",
		} {
			rows := mustRows(t, c, query)
			if len(rows) != 1 || rows[0]["USER()"] != user {
				t.Errorf("%s answers %v", query, rows)
			}
		}
		rows := mustRows(t, c, "SELECT CONCAT(USER(), ?) AS u, CONNECTION_ID() AS c FROM people WHERE id = ?", "!", 3)
		if len(rows) != 1 || rows[0]["u"] != user+"!" || rows[0]["c"] != id {
			t.Errorf("prepared: %v", rows)
		}
		mustExec(t, c, "UPDATE people SET city = SUBSTRING_INDEX(USER(), '@', 1) WHERE id < 6")
		mustExec(t, c, "INSERT INTO people (id, city) VALUES (900, LEFT(CURRENT_USER(), 3)), (900 + 1, LEFT(USER(), 3))")
		want(t, c, "SELECT DISTINCT city FROM people WHERE id < 6 OR id >= 900", "city", "app")
		mustExec(t, c, "SET @me = USER()")
		want(t, c, "SELECT @me AS me", "me", user)
		mustRows(t, c, "SELECT 1 / 0 AS n")
		want(t, c, "SELECT @@warning_count + 10 AS n", "n", "11")
		_, err := rowsOf(t.Context(), c, "SELECT * FROM (SELECT USER()) t")
		wantError(t, err, 1235, "select list")
		for _, show := range []string{"LIKE 'shunt_read_from'", "LIKE 'SHUNT%'", "WHERE Variable_name = 'shunt_read_from'", "WHERE Value = 'primary' AND Variable_name LIKE '%read_from'"} {
			want(t, c, "SHOW VARIABLES "+show, "Variable_name Value", "shunt_read_from primary")
		}
		names := flat(mustRows(t, c, "SHOW VARIABLES"), "Variable_name")
		if !slices.Contains(names, "shunt_read_from") || len(mustRows(t, c, "SHOW GLOBAL VARIABLES LIKE 'shunt%'")) != 0 {
			t.Error("SHOW VARIABLES lacks shunt_read_from, or SHOW GLOBAL VARIABLES has it")
		}
		// The number is still that of the temporary table's connection.
		mustExec(t, c, "CREATE TEMPORARY TABLE mine (n INT)")
		mustExec(t, c, "INSERT INTO mine VALUES (CONNECTION_ID())")
		want(t, c, "SELECT n, CONNECTION_ID() AS c FROM mine", "n c", strings.Join([]string{id, id}, " "))
		want(t, c, "SELECT COUNT(*) AS n FROM mine", "n", "1")
	})
}

// TestConnectionCollation: what strings are compared by is as one server has it, whichever
// variables it was SET by.
func TestConnectionCollation(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c, plain := p.conn(), plainServer(t, f.servers(t)[3], p.schema+"_plain")
		for _, side := range []*sql.Conn{c, plain} {
			mustExec(t, side, "CREATE TABLE people (id INT PRIMARY KEY, age INT)")
			mustExec(t, side, "INSERT INTO people VALUES (0, 20), (1, 21), (2, 22), (3, 23)")
			mustExec(t, side, "SET NAMES utf8mb4")
			mustExec(t, side, "SET collation_connection = 'utf8mb4_bin'")
			mustExec(t, side, "CREATE VIEW names AS SELECT id, IF(age < 22, 'minor', 'Minor') AS who FROM people")
		}
		statements := []string{
			"SET NAMES utf8mb4", "SET collation_connection = 'utf8mb4_general_ci'", "SET character_set_connection = utf8mb4",
			"SET character_set_connection = latin1", "SET collation_connection = 'latin1_bin'", "SET character_set_connection = latin1", "SET collation_connection = 'latin1_bin'",
			"SET character_set_connection = latin1", "SET collation_connection = 'utf8mb4_bin'", "SET character_set_connection = latin1", "SET collation_connection = @@collation_server",
			"SET collation_connection = 'utf8mb4_bin, autocommit = 0'", "SET NAMES utf8mb4 COLLATE 'utf8mb4_bin, autocommit = 0'", "SET NAMES 'utf8mb4 COLLATE utf8mb4_bin'",
		}
		if len(mustRows(t, plain, "SHOW VARIABLES LIKE 'character_set_collations'")) == 1 {
			statements = append(statements, "SET character_set_collations = 'utf8mb4=utf8mb4_bin,latin1=latin1_bin'", "SET character_set_connection = utf8mb4", "SET NAMES utf8mb4",
				"SET character_set_connection = latin1", "SET character_set_collations = 'utf8mb4=utf8mb4_general_ci'", "SET NAMES utf8mb4", "SET character_set_collations = DEFAULT", "SET NAMES utf8mb4")
		}
		for _, set := range statements {
			if got, want := answer(t.Context(), c, set), answer(t.Context(), plain, set); got != want {
				t.Errorf("%s: got %s, want %s", set, got, want)
			}
			for _, query := range []string{
				"SELECT @@collation_connection AS x, 'a' = 'A' AS y, COLLATION(CONVERT(0x61 USING utf8mb4)) AS z",
				"SELECT COUNT(DISTINCT who) AS x FROM names WHERE id < 9",
				"SELECT COUNT(*) AS x FROM people GROUP BY CONVERT(IF(age < 22, 'minor', 'Minor') USING utf8mb4)",
			} {
				got, err := rowsOf(t.Context(), c, query)
				if errorCode(err) == 1235 {
					continue // the view's strings
				}
				if want, err2 := rowsOf(t.Context(), plain, query); err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, behind %s:\n got %v %v\nwant %v %v", query, set, got, err, want, err2)
				}
			}
		}
	})
}

// TestFoundRowsTold: of one query of several statements, and of a session that has
// found nothing yet.
func TestFoundRowsTold(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		c := p.conn(func(c *mysql.Config) { c.MultiStatements = true })
		want(t, c, "SELECT FOUND_ROWS() AS n", "n", "0") // a MariaDB tells what the thread has counted for somebody else
		rows, err := c.QueryContext(t.Context(), "SELECT SQL_CALC_FOUND_ROWS id FROM people ORDER BY id LIMIT 2; SELECT FOUND_ROWS(); SELECT FOUND_ROWS()")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() {
				var n string
				if err := rows.Scan(&n); err != nil {
					t.Fatal(err)
				}
				got = append(got, n)
			}
		}
		if err := rows.Err(); err != nil || strings.Join(got, " ") != "0 1 20 1" {
			t.Errorf("got %v, %v", got, err)
		}
		mustRows(t, c, "SELECT id FROM people WHERE id < 5")
		want(t, c, "SELECT FOUND_ROWS() AS n", "n", "5")
	})
}

// TestOptimizerSwitch: SET of some flags leaves the others as they were.
func TestOptimizerSwitch(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		const look = "SELECT @@optimizer_switch LIKE '%,mrr=off%', @@optimizer_switch LIKE '%index_merge=off%', @@optimizer_switch LIKE '%mrr_sort_keys=on%', @@optimizer_switch = @@GLOBAL.optimizer_switch"
		p.query("SET optimizer_switch = 'mrr=off'", look, "SET optimizer_switch = 'index_merge=off'", look, "SET @@optimizer_switch = 'MRR=on, index_merge = off'", look,
			"SET optimizer_switch = 'mrr=off,index_merge=default'", look, "SET @was = @@optimizer_switch", "SET optimizer_switch = 'index_merge=off'", look, "SET optimizer_switch = @was", look,
			"SET optimizer_switch = 'nonsense=off'", look, "SET optimizer_switch = DEFAULT", look, "SET optimizer_switch = 'index_merge=off'", look, "SET optimizer_switch = 'default,mrr=off'", look)
	})
}

// TestLimitWarned: where the query for the rows of a DELETE with LIMIT warns, a write may fail, be it
// that the session keeps no warnings.
func TestLimitWarned(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 20, setup{})
		for _, kept := range []string{"DEFAULT", "0"} {
			mustExec(t, c, "SET max_error_count = "+kept)
			_, err := c.ExecContext(t.Context(), "DELETE FROM people WHERE email < 5 LIMIT 2")
			wantError(t, err, 1235, "LIMIT")
		}
		// Of a constant MySQL's query doesn't warn.
		code := map[throwaway.Flavour]uint16{"mysql": 1292, "mariadb": 1235}[f.name]
		for _, w := range []string{"UPDATE people SET age = 99", "DELETE FROM people"} {
			_, err := c.ExecContext(t.Context(), w+" WHERE id = '5x' ORDER BY id LIMIT 2")
			wantError(t, err, code, "")
			if got := affected(t, mustExec(t, c, w+" WHERE id > 17 AND RAND() < 2 ORDER BY id LIMIT 2 -- of them")); got != 2 {
				t.Errorf("%s: %d affected, want 2", w, got)
			}
		}
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "18")
	})
}
