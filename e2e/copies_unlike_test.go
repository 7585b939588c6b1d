package e2e

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCopiesUnlike: which copy of a reference table is read never decides what is answered.
func TestCopiesUnlike(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"users: {shard_key: id}", "countries: {placement: reference}", "codes: {placement: reference}", "units: {placement: reference}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE users (id INT PRIMARY KEY, country INT)")
		mustExec(t, db, "INSERT INTO users VALUES "+rowsFor(30, func(i int) string { return fmt.Sprintf("(%d, %d)", i, i%3) }))
		for _, table := range []string{"countries", "codes", "units"} {
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, name VARCHAR(20))")
			mustExec(t, db, "INSERT INTO "+table+" VALUES (0, 'Peru'), (1, 'Chad'), (2, 'Mali')")
		}
		joined := func(table string) {
			t.Helper()
			for range 3 {
				want(t, db, "SELECT COUNT(*) AS n, COUNT(DISTINCT c.name) AS names FROM users u JOIN "+table+" c ON c.id = u.country", "n names", "30 3")
				want(t, db, "SELECT COUNT(*) AS n FROM "+table, "n", "3")
			}
		}
		var at []*sql.DB
		for i := range p.servers {
			at = append(at, p.shard(i))
		}
		mended := func(table string) {
			t.Helper()
			eventually(t, table+" is alike", func() bool {
				for i := range at {
					if fmt.Sprint(mustRows(t, at[i], "SELECT * FROM "+table+" ORDER BY id")) != fmt.Sprint(mustRows(t, at[0], "SELECT * FROM "+table+" ORDER BY id")) {
						return false
					}
				}
				return routeOf(t, db, "SELECT * FROM users u JOIN "+table+" c ON c.id = u.country").plan == "route"
			})
		}
		// Behind Shunt's back, while it doesn't run.
		p.stop()
		mustExec(t, p.shard(1), "DELETE FROM countries WHERE id = 1")
		mustExec(t, p.shard(2), "DELETE FROM codes")
		out, code := shunt(t, "check", "--config", p.config)
		for _, table := range []string{"countries", "codes"} {
			if code != 1 || !strings.Contains(out, "copies of "+p.schema+"."+table+" differ") {
				t.Errorf("check: status %d\n%s", code, out)
			}
		}
		p.run()
		joined("countries")
		joined("codes")
		mustExec(t, db, "INSERT INTO countries VALUES (9, 'Oman')")
		mustExec(t, db, "DELETE FROM countries WHERE id = 9")
		mended("countries")
		mended("codes")
		joined("countries")
		joined("codes")

		// Where none is right for most, nothing is overwritten.
		p.stop()
		mustExec(t, p.shard(1), "UPDATE units SET name = 'Togo' WHERE id = 1")
		mustExec(t, p.shard(2), "UPDATE units SET name = 'Laos' WHERE id = 1")
		p.run()
		joined("units")
		want(t, db, "SELECT name FROM units WHERE id = 1", "name", "Chad")
		if _, why := stateOf(t, db, "s2"); !strings.Contains(why, "its copies of "+p.schema+".units differ") {
			t.Errorf("SHOW SHARDS says %q of s2", why)
		}
		if n, _ := p.metric("shunt_reference_tables_unlike"); n != 1 {
			t.Errorf("%v tables are unlike by the metric", n)
		}
		failsWith(t, db, "ALTER TABLE units ADD COLUMN x INT", 1235, "its copies differ")
		mustExec(t, db, "UPDATE units SET name = 'Cuba' WHERE id = 2")
		// It outlives a crash.
		p.kill()
		p.run()
		want(t, db, "SELECT name FROM units ORDER BY id", "name", "Peru", "Chad", "Cuba")
		want(t, p.shard(1), "SELECT name FROM units ORDER BY id", "name", "Peru", "Togo", "Mali")
		mustExec(t, db, "/* shunt: shard=s1 */ DELETE FROM units")
		mustExec(t, db, "/* shunt: shard=s2 */ DELETE FROM units")
		mended("units")
		want(t, db, "SELECT name FROM units ORDER BY id", "name", "Peru", "Chad", "Cuba")
		if _, why := stateOf(t, db, "s2"); why != "NULL" {
			t.Errorf("SHOW SHARDS says %q of s2", why)
		}

		// A statement with a hint is answered when it is known what it has done.
		mustExec(t, db, "/* shunt: shard=s1 */ DELETE FROM units WHERE id = 1")
		joined("units")
		mustExec(t, db, "/* shunt: shard=s1 */ INSERT INTO units VALUES (1, 'Chad')")
		mended("units")
		joined("units")

		// A copy that was missing, and is made by hand.
		mustExec(t, p.shard(1), "DROP TABLE units")
		execError(t, db, "SELECT * FROM users u JOIN units c ON c.id = u.country")
		mustExec(t, db, "/* shunt: shard=s1 */ CREATE TABLE units (id INT PRIMARY KEY, name VARCHAR(20))")
		joined("units")
		mended("units")
	})
}

// TestCopiesUnlikeWritten: copies become alike while the table is written all the time.
func TestCopiesUnlikeWritten(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"users: {shard_key: id}", "units: {placement: reference}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE users (id INT PRIMARY KEY, unit INT)")
		mustExec(t, db, "CREATE TABLE units (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0)")
		mustExec(t, db, "INSERT INTO units (id) VALUES "+rowsFor(2000, func(i int) string { return fmt.Sprintf("(%d)", i) }))
		p.stop()
		mustExec(t, p.shard(1), "UPDATE units SET n = 7 WHERE id = 1")
		p.run()

		var stopped atomic.Bool
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() {
				for i := 0; !stopped.Load(); i++ {
					if _, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE units SET n = n + 1 WHERE id = %d", (i*3+w)%2000)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		defer writers.Wait()
		defer stopped.Store(true)
		mustExec(t, db, "/* shunt: shard=s1 */ DELETE FROM units")
		eventually(t, "units is alike", func() bool {
			return routeOf(t, db, "SELECT * FROM users u JOIN units c ON c.id = u.unit").plan == "route"
		})
		stopped.Store(true)
		writers.Wait()
		p.sameCopies(0, 1, "units")
	})
}
