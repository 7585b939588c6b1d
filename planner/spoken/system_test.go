package spoken

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/text"
)

// TestCutSystemNames: a column that is an expression over a system table has the name that a server gives it, its text.
func TestCutSystemNames(t *testing.T) {
	t.Parallel()
	const in = "(SELECT * FROM information_schema.tables WHERE 1)"
	const out = "(SELECT * FROM <T> AS `tables` WHERE 1)"
	long := strings.Repeat("1 + ", 100)
	for _, c := range []struct{ sql, want string }{
		{"SELECT EXISTS" + in, "SELECT EXISTS" + out + " AS `EXISTS" + in + "`"},
		{"SELECT DISTINCT  NOT  EXISTS " + in + " , 1 FROM t", "SELECT DISTINCT  NOT  EXISTS " + out + " AS `NOT  EXISTS " + in + "` , 1 FROM t"},
		{"SELECT 1, " + in + " + 1, " + in + " ORDER BY 1", "SELECT 1, " + out + " + 1 AS `" + in + " + 1`, " + out + " AS `" + in + "` ORDER BY 1"},
		{"SELECT " + in + " AS x, " + in + " y, " + in + " 'z', " + in + " `w`", "SELECT " + out + " AS x, " + out + " y, " + out + " 'z', " + out + " `w`"},
		{"SELECT CASE WHEN EXISTS" + in + " THEN 1 END", "SELECT CASE WHEN EXISTS" + out + " THEN 1 END AS `CASE WHEN EXISTS" + in + " THEN 1 END`"},
		{"SELECT 1 + EXISTS" + in + " IN (" + in + ", " + in + ")", "SELECT 1 + EXISTS" + out + " IN (" + out + ", " + out + ") AS `1 + EXISTS" + in + " IN (" + in + ", " + in + ")`"},
		{"SELECT table_name, tables.table_type FROM information_schema.tables", "SELECT table_name, tables.table_type FROM <T> AS `tables`"},
		{"SELECT information_schema.tables.table_name FROM information_schema.tables", "SELECT tables.table_name FROM <T> AS `tables`"},
		{"SELECT " + long + in, "SELECT " + long + out}, // too long for a name that is said
	} {
		st, err := text.Read(c.sql, text.Settings{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sys := CutSystem(st, map[string]int{"tables": strings.Count(c.sql, "FROM information_schema.tables")})
		if sys == nil {
			t.Errorf("%s: isn't cut", c.sql)
			continue
		}
		if got := strings.Join(sys.Parts, "<T>"); got != c.want {
			t.Errorf("%s:\n is %s\nwas %s", c.sql, got, c.want)
		}
	}
}
