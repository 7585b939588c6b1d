package e2e

import (
	"database/sql"
	"fmt"
	"testing"
)

// TestPreparedMeansWhatItMeant executes statements after the session has gone to
// another schema, and after SET has given their texts another meaning.
func TestPreparedMeansWhatItMeant(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		other := p.schema + "_b"
		mustExec(t, c, "CREATE DATABASE "+other)
		defer func() { mustExec(t, c, "DROP DATABASE "+other) }()
		for _, schema := range []string{p.schema, other} {
			mustExec(t, c, "USE "+schema)
			mustExec(t, c, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(20), b VARBINARY(20))")
			mustExec(t, c, fmt.Sprintf("INSERT INTO people (id, email) VALUES (1, '%s'), (2, 'b'), (3, 'c')", schema[:3]))
		}
		mustExec(t, c, "UPDATE people SET email = 'other'")
		mustExec(t, c, "USE "+p.schema)
		p.createIndex(c, "by_email", "people (email)")
		prepare := func(query string) *sql.Stmt {
			t.Helper()
			st, err := c.PrepareContext(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st
		}
		find := prepare("SELECT id, DATABASE() FROM people WHERE email = ?")
		all := prepare("SELECT COUNT(*) FROM people WHERE id > ?")
		insert := prepare("INSERT INTO people (id, email) VALUES (?, ?)")
		update := prepare("UPDATE people SET email = ? WHERE id = ?")
		run := func(st *sql.Stmt, args ...any) {
			t.Helper()
			if _, err := st.ExecContext(t.Context(), args...); err != nil {
				t.Error(err)
			}
		}
		counted := func(st *sql.Stmt, want int, args ...any) {
			t.Helper()
			n := 0
			if err := st.QueryRowContext(t.Context(), args...).Scan(&n); err != nil || n != want {
				t.Errorf("counted %d (%v), want %d", n, err, want)
			}
		}
		for i, in := range []string{"", "BEGIN", "again"} {
			mustExec(t, c, "USE "+other)
			if in == "BEGIN" {
				mustExec(t, c, in)
			}
			id := 10 + i
			run(insert, id, "new")
			run(update, fmt.Sprint("x", id), id)
			want(t, c, "SELECT COUNT(*) AS n, DATABASE() AS d FROM people", "n d", "3 "+other)
			var found int
			var schema string
			if err := find.QueryRowContext(t.Context(), fmt.Sprint("x", id)).Scan(&found, &schema); err != nil || found != id || schema != p.schema {
				t.Errorf("after USE: found %d in %s (%v)", found, schema, err)
			}
			mustExec(t, c, "COMMIT")
			mustExec(t, c, "USE "+p.schema)
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'x%d'", id), "id", fmt.Sprint(id))
		}
		counted(all, 6, 0)

		literal := prepare("INSERT INTO people (id, email, b) VALUES (?, 'é', 'é')")
		plain := prepare("SELECT COUNT(*) FROM people WHERE email = 'b' AND id < ?")
		mustExec(t, c, "SET NAMES latin1")
		_, err := literal.ExecContext(t.Context(), 50)
		wantError(t, err, 1235, "prepare it again")
		counted(plain, 1, 10)
		counted(prepare("SELECT COUNT(*) FROM people WHERE email = ?"), 0, "\xe9")
		mustExec(t, c, "SET NAMES utf8mb4")
		run(literal, 51)
		want(t, c, "SELECT HEX(b) AS h FROM people WHERE email = 'é'", "h", "C3A9")

		quoted := prepare(`SELECT COUNT(*) FROM people WHERE email = "b" AND id < ?`)
		piped := prepare("SELECT COUNT(*) FROM people WHERE (email = 'b' || id = 1) AND id < ?")
		not := prepare("SELECT COUNT(*) FROM people WHERE NOT id = 1 AND id < ?")
		slash := prepare(`SELECT COUNT(*) FROM people WHERE email = '\b' OR id = ?`)
		for mode, st := range map[string]*sql.Stmt{"ANSI_QUOTES": quoted, "PIPES_AS_CONCAT": piped, "HIGH_NOT_PRECEDENCE": not, "NO_BACKSLASH_ESCAPES": slash} {
			mustExec(t, c, "SET sql_mode = '"+mode+"'")
			_, err := st.ExecContext(t.Context(), 4)
			wantError(t, err, 1235, "sql_mode")
			counted(plain, 1, 10)
			mustExec(t, c, "SET sql_mode = 'STRICT_TRANS_TABLES'")
			run(st, 4)
		}
	})
}
