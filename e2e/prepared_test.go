package e2e

import (
	"fmt"
	"testing"
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
