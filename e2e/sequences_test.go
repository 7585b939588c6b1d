package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// TestSequences: MariaDB's sequences give each number once, whichever shard the rows that get them go to.
func TestSequences(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}", "settings: {placement: single, shard: s0}", "elsewhere: {placement: single, shard: s1}"}})
		db := p.db()
		if f.name == "mysql" {
			failsWith(t, db, "CREATE SEQUENCE s", 1064, "")
			return
		}
		mustExec(t, db, "CREATE TABLE users (id BIGINT PRIMARY KEY, n BIGINT, name VARCHAR(20))")
		mustExec(t, db, "CREATE TABLE settings (id BIGINT PRIMARY KEY, n BIGINT)")
		mustExec(t, db, "CREATE TABLE elsewhere (id BIGINT PRIMARY KEY, n BIGINT)")
		mustExec(t, db, "CREATE SEQUENCE s START WITH 1 INCREMENT BY 50 NOCACHE")
		mustExec(t, db, "CREATE SEQUENCE IF NOT EXISTS s")
		failsWith(t, db, "CREATE SEQUENCE s", 1050, "s")

		for i, sql := range []string{"SELECT NEXT VALUE FOR s", "SELECT NEXTVAL(s) AS n", "SELECT NEXT VALUE FOR " + p.schema + ".s + 0", "SELECT (SELECT NEXT VALUE FOR s)"} {
			rows := mustRows(t, db, sql)
			for name, got := range rows[0] {
				if want := strconv.Itoa(1 + 50*i); got != want {
					t.Errorf("%s: %s = %s, want %s", sql, name, got, want)
				}
			}
		}
		// What rows of VALUES ask for is asked for once each, where their own shards can't tell.
		mustExec(t, db, "SELECT SETVAL(s, 1000, 0)")
		mustExec(t, db, "INSERT INTO users VALUES (NEXT VALUE FOR s, 1, 'a'), (NEXTVAL(s), NEXT VALUE FOR s, 'b')")
		mustExec(t, db, "INSERT INTO users (name, id, n) VALUES ('c', 7, NEXT VALUE FOR s + 5)")
		mustExec(t, db, "INSERT INTO users SET id = NEXT VALUE FOR s, name = 'd'")
		mustExec(t, db, "INSERT INTO users (id, n, name) VALUES (NEXT VALUE FOR s, ?, ?)", 8, "e")
		mustExec(t, db, "REPLACE INTO elsewhere VALUES (NEXT VALUE FOR s, 1)")
		mustExec(t, db, "INSERT INTO settings VALUES (1, NEXT VALUE FOR s)")
		want(t, db, "SELECT id, n, name FROM users", "id n name", "1000 1 a", "1050 1100 b", "7 1155 c", "1200 NULL d", "1250 8 e")
		want(t, db, "SELECT id FROM elsewhere", "id", "1300")
		want(t, db, "SELECT n FROM settings", "n", "1350")
		mustExec(t, db, "UPDATE settings SET n = NEXT VALUE FOR s")
		want(t, db, "SELECT n FROM settings", "n", "1400")
		mustExec(t, db, "INSERT INTO settings SELECT NEXT VALUE FOR s, 0 FROM settings")
		want(t, db, "SELECT id FROM settings", "id", "1", "1450")

		// A number by row would be asked of a shard that doesn't have the sequence.
		for _, sql := range []string{
			"SELECT id, NEXT VALUE FOR s FROM users",
			"UPDATE users SET n = NEXT VALUE FOR s",
			"UPDATE users SET n = NEXT VALUE FOR s WHERE id = 7",
			"DELETE FROM elsewhere WHERE id = NEXT VALUE FOR s",
			"INSERT INTO users SELECT NEXT VALUE FOR s, 1, 'x' FROM users",
			"INSERT INTO users VALUES (7, 1, 'x') ON DUPLICATE KEY UPDATE n = NEXT VALUE FOR s",
			"SELECT LASTVAL(s)", "SELECT PREVIOUS VALUE FOR s",
		} {
			failsWith(t, db, sql, 1235, "")
		}
		failsWith(t, db, "CREATE TABLE orders (id BIGINT DEFAULT NEXT VALUE FOR s PRIMARY KEY)", 1235, "AUTO_INCREMENT")
		failsWith(t, db, "ALTER TABLE users ADD COLUMN m BIGINT DEFAULT (NEXTVAL(s))", 1235, "AUTO_INCREMENT")
		mustExec(t, db, "ALTER TABLE settings ADD COLUMN m BIGINT DEFAULT (NEXTVAL(s))") // of two rows
		failsWith(t, db, "SELECT NEXT VALUE FOR users", 4089, "users")
		failsWith(t, db, "SELECT NEXT VALUE FOR nowhere", 4091, "nowhere")
		want(t, db, "SELECT NEXT VALUE FOR s AS n", "n", "1600")

		// It is a table of one shard for all else.
		want(t, db, "SELECT start_value, increment FROM s", "start_value increment", "1 50")
		want(t, db, "SHOW FULL TABLES WHERE Table_type = 'SEQUENCE'", "Tables_in_"+p.schema, "s")
		mustExec(t, db, "SHOW CREATE SEQUENCE s")
		mustExec(t, db, "ALTER SEQUENCE s RESTART 5000")
		want(t, db, "SELECT NEXT VALUE FOR s AS n", "n", "5000")
		mustExec(t, db, "RENAME TABLE s TO numbers")
		p.kill()
		p.run()
		mustExec(t, db, "CREATE SEQUENCE small")

		var mu sync.Mutex
		var got []int
		var asked sync.WaitGroup
		for range 4 {
			asked.Go(func() {
				for range 25 {
					var n int
					if err := db.QueryRowContext(t.Context(), "SELECT NEXT VALUE FOR small").Scan(&n); err != nil {
						t.Error(err)
					}
					mu.Lock()
					got = append(got, n)
					mu.Unlock()
				}
			})
		}
		asked.Wait()
		slices.Sort(got)
		if len(slices.Compact(got)) != 100 {
			t.Errorf("100 numbers, of which some are the same: %v", got)
		}
		mustExec(t, db, "DROP SEQUENCE numbers, small")
		mustExec(t, db, "DROP SEQUENCE IF EXISTS numbers")
		failsWith(t, db, "DROP SEQUENCE numbers", 4091, "numbers")
		c := connOf(t, db)
		mustExec(t, c, "ALTER SEQUENCE IF EXISTS numbers RESTART 1")
		want(t, c, "SHOW WARNINGS", "Level Code Message", "Note 4091 Unknown SEQUENCE: '"+p.schema+".numbers'")
		failsWith(t, db, "SELECT NEXT VALUE FOR numbers", 4091, "numbers")
		for i := range p.servers {
			want(t, p.shard(i), fmt.Sprintf("SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = '%s' AND TABLE_TYPE = 'SEQUENCE'", p.schema), "n", "0")
		}
	})
}
