package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestIncrementDifferential: the same statements on Shunt over four shards and on
// one server give the same ids, last insert ids and rows. Where a server leaves
// gaps (after a failed statement, say) Shunt may leave others: the statements
// here make none.
func TestIncrementDifferential(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}", "events: {shard_key: k}", "kinds: {placement: reference}", "one: {placement: single, shard: s1}"}})
		plain := plainServer(t, p.servers[0], p.schema+"_plain")
		shunt := p.conn()
		both := []*sql.Conn{shunt, plain}
		for _, c := range both {
			for _, ddl := range []string{
				"CREATE TABLE users (id BIGINT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(50), age INT)",
				"CREATE TABLE events (k BIGINT NOT NULL, n INT UNSIGNED AUTO_INCREMENT, v INT, KEY (n), PRIMARY KEY (k, n))",
				"CREATE TABLE kinds (id SMALLINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), UNIQUE (name))",
				"CREATE TABLE one (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
			} {
				mustExec(t, c, ddl)
			}
		}
		p.createIndex(shunt, "i_id", "users (id)")
		p.createIndex(shunt, "i_email", "users (email)")
		p.createIndex(shunt, "i_n", "events (n)")

		type statement struct {
			sql  string
			args []any
		}
		var list []statement
		do := func(sql string, args ...any) { list = append(list, statement{sql, args}) }
		do("INSERT INTO users (email) VALUES ('a')")
		do("INSERT INTO users (email) VALUES ('b'), ('c'), ('d')")
		do("INSERT INTO users VALUES (NULL, 'e', 1), (DEFAULT, 'f', 2), (0, 'g', 3)")
		do("INSERT INTO users () VALUES ()")
		do("INSERT INTO users VALUES ()")
		do("INSERT INTO users SET email = 'h'")
		do("INSERT INTO users SET age = 3, id = NULL")
		do("INSERT INTO users (id, email) VALUES (100, 'i')")
		do("INSERT INTO users (email) VALUES ('j')")
		do("INSERT INTO users (id, email) VALUES (200, 'k'), (150, 'l')")
		do("INSERT INTO users (id, email) VALUES (-5, 'm')")
		do("INSERT INTO users (email) VALUES ('n')")
		do("INSERT INTO users (email, age) VALUES (?, ?)", "o", 5)
		do("INSERT INTO users (email, age) VALUES (?, ?), (?, 7)", "p", 5, "q")
		do("INSERT INTO users (id, email) VALUES (?, ?), (?, ?)", nil, "r", 0, "s")
		do("INSERT INTO users (id, email) VALUES (?, ?)", 300, "t")
		do("INSERT INTO users (id, email) VALUES (?, ?)", "310", "t")
		do("REPLACE INTO users (email) VALUES ('u')")
		do("REPLACE INTO users (id, email) VALUES (310, 'v')")
		do("INSERT INTO users (id, email) VALUES (310, 'w') ON DUPLICATE KEY UPDATE email = 'w'")
		do("INSERT INTO users (id, email) VALUES (310, 'w') ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), email = 'x'")
		do("INSERT IGNORE INTO users (id, email) VALUES (310, 'y')")
		do("UPDATE users SET age = LAST_INSERT_ID(77) WHERE id = 310")
		do("INSERT INTO events (k, v) VALUES (1, 1), (2, 1), (3, 1), (1, 2)")
		do("INSERT INTO events (k, v) VALUES (?, ?)", 9, 9)
		do("INSERT IGNORE INTO users (email) VALUES ('ign'), ('ore')")
		do("INSERT IGNORE INTO users (id, email) VALUES (310, 'met'), (NULL, 'new'), (NULL, 'newer')")
		do("INSERT INTO users (id) VALUES (320)") // a server has left a gap
		do("INSERT INTO users (id, email) VALUES (310, 'met'), (NULL, 'new'), (NULL, 'newer') ON DUPLICATE KEY UPDATE email = 'was met'")
		do("INSERT INTO users (id) VALUES (330)")
		do("INSERT INTO users (id, email) VALUES (310, 'met'), (1, 'met') ON DUPLICATE KEY UPDATE email = 'was met again'")
		do("INSERT IGNORE INTO users (id, email) VALUES (310, 'met'), (1, 'met')")
		do("INSERT INTO users (id) VALUES (340)")
		do("INSERT INTO users (email) VALUES (?), (?) ON DUPLICATE KEY UPDATE email = 'never'", "x", "y")
		do("INSERT INTO events (k, n, v) VALUES (1, 50, 1), (1, 60, 2)")
		do("INSERT INTO events (k, v) VALUES (4, 1)")
		do("INSERT INTO kinds (name) VALUES ('a'), ('b')")
		do("INSERT INTO kinds (name) VALUES ('c') ON DUPLICATE KEY UPDATE name = 'd'")
		do("INSERT INTO one (v) VALUES (1), (2)")
		do("INSERT INTO one (v) VALUES (?)", 3)
		do("TRUNCATE TABLE users")
		do("INSERT INTO users (email) VALUES ('a'), ('b')")
		do("ALTER TABLE users AUTO_INCREMENT = 1000")
		do("INSERT INTO users (email) VALUES ('a'), ('b')")
		do("DELETE FROM users WHERE id >= 1000")
		do("INSERT INTO users (email) VALUES ('c')")
		do("DELETE FROM users")
		do("ALTER TABLE users AUTO_INCREMENT = 7")
		do("INSERT INTO users (email) VALUES ('c')")
		do("RENAME TABLE users TO people, people TO users")
		do("INSERT INTO users (email) VALUES ('d')")
		do("ALTER TABLE users DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
		do("INSERT INTO users (email) VALUES ('d')")
		do("DROP TABLE one")
		do("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
		do("INSERT INTO users (id, email) VALUES (0, 'zero'), (NULL, 'z')")
		for _, autocommit := range []bool{true, false} {
			if !autocommit {
				list = list[:8]
			}
			for _, c := range both {
				if !autocommit {
					mustExec(t, c, "TRUNCATE TABLE users")
					mustExec(t, c, "SET sql_mode = ''")
					mustExec(t, c, "BEGIN")
				}
			}
			for _, st := range list {
				got, want := answer(t.Context(), shunt, st.sql, st.args...), answer(t.Context(), plain, st.sql, st.args...)
				if got != want {
					t.Errorf("%s %v\nshunt:  %s\nserver: %s", st.sql, st.args, got, want)
				}
				const last = "SELECT LAST_INSERT_ID() AS id"
				if got, want := mustRows(t, shunt, last), mustRows(t, plain, last); got[0]["id"] != want[0]["id"] {
					t.Errorf("LAST_INSERT_ID() after %s %v\nshunt:  %s\nserver: %s", st.sql, st.args, got[0]["id"], want[0]["id"])
				}
				for _, q := range []string{"SELECT id, email, age FROM users", "SELECT k, n, v FROM events", "SELECT id, name FROM kinds"} {
					columns := strings.Fields(strings.ReplaceAll(q[7:strings.Index(q, " FROM")], ",", " "))
					got, want := flat(mustRows(t, shunt, q), columns...), flat(mustRows(t, plain, q), columns...)
					if !slices.Equal(got, want) {
						t.Fatalf("after %s %v: %s\nshunt:  %q\nserver: %q", st.sql, st.args, q, got, want)
					}
				}
			}
			for _, c := range both {
				mustExec(t, c, "COMMIT")
			}
		}
		// Each copy of a reference table is the same.
		for i := range p.servers {
			want(t, p.shard(i), "SELECT id, name FROM kinds", "id name", flat(mustRows(t, plain, "SELECT id, name FROM kinds"), "id", "name")...)
		}
	})
}

// TestIncrementExhausted: a type's last value is given once, and what a server
// then says.
func TestIncrementExhausted(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"tiny: {shard_key: id}"}})
		db := p.conn()
		mustExec(t, db, "CREATE TABLE tiny (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)")
		mustExec(t, db, "INSERT INTO tiny (id) VALUES (253)")
		if got := answer(t.Context(), db, "INSERT INTO tiny (v) VALUES (1), (2)"); got != "affected 2, id 254" {
			t.Error(got)
		}
		code := uint16(1467)
		if f.name == "mariadb" {
			code = 167
		}
		_, err := db.ExecContext(t.Context(), "INSERT INTO tiny (v) VALUES (3)")
		wantError(t, err, code, "")
	})
}

// TestIncrementRefused: what would let shards count by themselves.
func TestIncrementRefused(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}})
		db := p.conn()
		mustExec(t, db, "CREATE TABLE users (id BIGINT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(50))")
		for _, statement := range []string{
			"INSERT INTO users (id, email) VALUES (SLEEP(0) + 7, 'a')",
			"SET SESSION auto_increment_increment = 10",
			"SET auto_increment_offset = 5",
		} {
			_, err := db.ExecContext(t.Context(), statement)
			wantError(t, err, 1235, "")
		}
		mustExec(t, db, "SET SESSION auto_increment_increment = 1, auto_increment_offset = DEFAULT")
		// A shard that has been written to around Shunt heals at the first error.
		mustExec(t, db, "INSERT INTO users (email) VALUES ('a')")
		for i := range p.servers {
			mustExec(t, p.shard(i), fmt.Sprintf("INSERT INTO users (id, email) VALUES (%d, 'behind')", 2+i))
		}
		var err error
		for range 2 {
			if _, err = db.ExecContext(t.Context(), "INSERT INTO users (email) VALUES ('b'), ('c'), ('d'), ('e'), ('f'), ('g'), ('h'), ('i')"); err == nil {
				break
			}
			wantError(t, err, 1062, "")
		}
		if err != nil {
			t.Error("the counter has not been read again")
		}
		// A value that is read first is counted as a literal is.
		mustExec(t, db, "INSERT INTO users (id, email) VALUES ((SELECT MAX(n) FROM (SELECT 1000 AS n UNION SELECT 7) x), 'read')")
		mustExec(t, db, "INSERT INTO users (email) VALUES ('next')")
		want(t, db, "SELECT id FROM users WHERE email = 'next'", "id", "1001")
	})
}

// TestIncrementKill: kill -9 among concurrent inserts, again and again. No id is
// given twice, by answer or in the tables.
func TestIncrementKill(t *testing.T) {
	suite.Promise(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		kills := suite.Size(4, 20)
		kills = envInt(t, "SHUNT_KILLS", kills)
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}", "events: {shard_key: k}"}})
		mustExec(t, p.db(), "CREATE TABLE users (id BIGINT AUTO_INCREMENT PRIMARY KEY, tag VARCHAR(50) NOT NULL)")
		// n is not unique on a shard, let alone over all: only Shunt keeps it so.
		mustExec(t, p.db(), "CREATE TABLE events (k VARCHAR(50) NOT NULL, n BIGINT NOT NULL AUTO_INCREMENT, PRIMARY KEY (k), KEY (n))")
		var mu sync.Mutex
		given := map[string]map[int64]string{"users": {}, "events": {}}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(given["users"]) + len(given["events"])
		}
		for kill := range kills {
			db := p.db(func(c *mysql.Config) { c.InterpolateParams = kill%2 == 0 })
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						table, column := "users", "tag"
						if w%2 == 1 {
							table, column = "events", "k"
						}
						rows := 1 + i%3
						var args []any
						for r := range rows {
							args = append(args, fmt.Sprintf("%d-%d-%d-%d", kill, w, i, r))
						}
						r, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO %s (%s) VALUES (?)%s", table, column, strings.Repeat(", (?)", rows-1)), args...)
						if err != nil {
							var e *mysql.MySQLError
							if errors.As(err, &e) && e.Number == 1062 {
								t.Errorf("an id came twice: %v", err)
							}
							continue // killed, or not there again yet
						}
						first, err := r.LastInsertId()
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for r := range int64(rows) {
							if was, twice := given[table][first+r]; twice {
								t.Errorf("%s: id %d was given to %s and to %v", table, first+r, was, args[r])
							}
							given[table][first+r] = args[r].(string)
						}
						mu.Unlock()
					}
				})
			}
			// Some inserts each time, and what is under way then varies.
			before := count()
			eventually(t, "ids are given", func() bool { return count() > before+20+kill%7 })
			p.kill()
			close(stop)
			wg.Wait()
			p.run()
		}
		t.Logf("%d and %d ids given over %d kills", len(given["users"]), len(given["events"]), kills)
		for table, column := range map[string]string{"users": "id", "events": "n"} {
			tag := map[string]string{"users": "tag", "events": "k"}[table]
			seen := map[string]bool{}
			there := map[string]string{}
			for i := range p.servers {
				for _, r := range mustRows(t, p.shard(i), fmt.Sprintf("SELECT %s AS id, %s AS tag FROM %s", column, tag, table)) {
					if seen[r["id"]] {
						t.Errorf("%s: id %s is in the table twice", table, r["id"])
					}
					seen[r["id"]] = true
					there[r["id"]] = r["tag"]
				}
			}
			for id, tag := range given[table] {
				if there[strconv.FormatInt(id, 10)] != tag {
					t.Errorf("%s: id %d was given to %s, and %q has it", table, id, tag, there[strconv.FormatInt(id, 10)])
				}
			}
		}
	})
}
