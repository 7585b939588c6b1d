package e2e

import (
	"fmt"
	"testing"
)

// TestPlanCache: statements whose shape was met before are executed by its plan,
// each with its own literals, under its own settings and the tables that there are.
func TestPlanCache(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 200, setup{})
		// hits is how many statements were executed by a cached plan.
		hits := func(do func()) int {
			t.Helper()
			before, _ := p.metric("shunt_plan_cache_hits_total")
			do()
			after, _ := p.metric("shunt_plan_cache_hits_total")
			return int(after - before)
		}
		// A new catalog, as of the index that has just been made, empties the cache.
		eventually(t, "all of 60 statements of 3 shapes are executed by cached plans", func() bool {
			return hits(func() {
				for i := range 20 {
					want(t, c, fmt.Sprintf("SELECT email FROM people WHERE id = %d", i), "email", fmt.Sprintf("p%d@x", i))
					want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", fmt.Sprint(i))
					want(t, c, fmt.Sprintf("SELECT id FROM people WHERE id >= %d ORDER BY id LIMIT %d", i, i%3+1), "id", [][]string{{fmt.Sprint(i)}, {fmt.Sprint(i), fmt.Sprint(i + 1)}, {fmt.Sprint(i), fmt.Sprint(i + 1), fmt.Sprint(i + 2)}}[i%3]...)
				}
			}) == 60
		})
		if n, _ := p.metric("shunt_plan_cache_entries"); n < 3 {
			t.Errorf("%v plans are cached", n)
		}

		// Values of other kinds are of other shapes.
		want(t, c, "SELECT id FROM people WHERE id = '7'", "id", "7")
		want(t, c, "SELECT id FROM people WHERE id = 7.0", "id", "7")
		want(t, c, "SELECT id FROM people WHERE id = 7.5", "id")
		want(t, c, "SELECT id FROM people WHERE id = -7", "id")
		want(t, c, "SELECT id FROM people WHERE email IN ('p1@x', 'p2@x')", "id", "1", "2")
		want(t, c, "SELECT id FROM people WHERE email IN ('p1@x', 'nobody') AND age = 21", "id", "1")

		// Writes: rows, entries and splits by each one's values.
		for i := range 6 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'new%d@x'), (%d, 'it''s %d')", 1000+i, i, 2000+i, i))
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'new%d@x'", i), "id", fmt.Sprint(1000+i))
			want(t, c, fmt.Sprintf(`SELECT id FROM people WHERE email = 'it\'s %d'`, i), "id", fmt.Sprint(2000+i))
			mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'changed%d@x', age = -%d WHERE id = %d", i, i, 1000+i))
			want(t, c, fmt.Sprintf("SELECT id, age FROM people WHERE email = 'changed%d@x'", i), "id age", fmt.Sprintf("%d %d", 1000+i, -i))
			mustExec(t, c, fmt.Sprintf("DELETE FROM people WHERE id = %d", 2000+i))
		}
		want(t, c, "SELECT COUNT(*) AS n FROM people WHERE id >= 2000", "n", "0")

		// What backslashes and quotes mean goes by the session.
		other := p.conn()
		mustExec(t, other, "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')")
		mustExec(t, c, `INSERT INTO people (id, email) VALUES (3000, 'a\\b')`)
		for range 3 {
			want(t, c, `SELECT id FROM people WHERE email = 'a\\b'`, "id", "3000")
			want(t, other, `SELECT id FROM people WHERE email = 'a\\b'`, "id")
			want(t, other, `SELECT id FROM people WHERE email = 'a\b'`, "id", "3000")
		}
		mustExec(t, other, "SET sql_mode = 'ANSI_QUOTES'")
		for range 3 {
			want(t, c, `SELECT id FROM people WHERE email = "email" AND id < 3`, "id")
			want(t, other, `SELECT id FROM people WHERE email = "email" AND id < 3`, "id", "0", "1", "2")
		}

		// Another schema, a temporary table, DDL.
		mustExec(t, other, "CREATE DATABASE "+p.schema+"_two")
		defer mustExec(t, other, "DROP DATABASE "+p.schema+"_two")
		mustExec(t, other, "USE "+p.schema+"_two")
		mustExec(t, other, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(9))")
		mustExec(t, other, "INSERT INTO people VALUES (5, 'two')")
		for range 3 {
			want(t, c, "SELECT email FROM people WHERE id = 5", "email", "p5@x")
			want(t, other, "SELECT email FROM people WHERE id = 5", "email", "two")
		}
		mustExec(t, other, "CREATE TEMPORARY TABLE people (id INT, email VARCHAR(9))")
		for range 3 {
			want(t, other, "SELECT email FROM people WHERE id = 5", "email")
			want(t, c, "SELECT email FROM people WHERE id = 5", "email", "p5@x")
		}
		mustExec(t, other, "DROP TEMPORARY TABLE people")
		want(t, other, "SELECT email FROM people WHERE id = 5", "email", "two")
		for range 3 {
			want(t, c, "SELECT * FROM people WHERE id = 6", "id email city age", "6 p6@x nowhere 26")
		}
		mustExec(t, c, "ALTER TABLE people ADD COLUMN note VARCHAR(20) DEFAULT 'none'")
		for range 3 {
			want(t, c, "SELECT * FROM people WHERE id = 6", "id email city age note", "6 p6@x nowhere 26 none")
			mustExec(t, c, "UPDATE people SET note = 'none' WHERE note = 'x' AND id = 6")
		}
		mustExec(t, c, "DROP VIRTUAL INDEX idx_email ON people")
		for i := range 4 {
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", fmt.Sprint(i))
			mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'late%d@x' WHERE id = %d", i, i))
		}
		p.createIndex(c, "idx_late", "people (email)")
		for i := range 4 {
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'late%d@x'", i), "id", fmt.Sprint(i))
			mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'later%d@x' WHERE id = %d", i, i))
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'later%d@x'", i), "id", fmt.Sprint(i))
		}

		// What is refused or gathered is planned by itself.
		for i := range 3 {
			_, err := c.ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET id = %d WHERE email = 'p9@x'", 5000+i))
			wantError(t, err, 1235, "changing the shard key people.id")
			want(t, c, fmt.Sprintf("SELECT COUNT(*) AS n FROM people a JOIN people b ON a.age = b.age + 1000 WHERE a.id < %d", i), "n", "0")
		}
		p.settled(c)
		p.check()
	})
}
