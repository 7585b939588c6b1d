package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestRenameSwap exchanges tables as tools that alter tables by copies do, while
// INSERTs planned for the old one wait.
func TestRenameSwap(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		t.Run("with another place for the shard key", func(t *testing.T) {
			p := start(t, f, setup{})
			db := p.db()
			mustExec(t, db, "CREATE TABLE people (id INT PRIMARY KEY, n INT)")
			mustExec(t, db, "CREATE TABLE turned (n INT, id INT PRIMARY KEY)")
			mustExec(t, db, "CREATE TABLE text_key (id VARCHAR(20) PRIMARY KEY, n INT)")
			mustExec(t, db, "CREATE TABLE longer (more INT, id BIGINT PRIMARY KEY, n INT)")
			for _, table := range []string{"turned", "text_key"} {
				_, err := db.ExecContext(t.Context(), "RENAME TABLE people TO old, "+table+" TO people")
				wantError(t, err, 1235, "shard key")
			}
			mustExec(t, db, "RENAME TABLE people TO old, longer TO people")
		})
		for _, tt := range []struct{ name, rename, old string }{
			{"in two steps", "RENAME TABLE people TO people_old, people_new TO people", "people_old"},
			{"in a circle", "RENAME TABLE people TO people_tmp, people_new TO people, people_tmp TO people_new", "people_new"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				p := start(t, f, setup{})
				db := p.db()
				for _, table := range []string{"people", "people_new"} {
					mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, email VARCHAR(20), n INT)")
					mustExec(t, db, "CREATE VIRTUAL INDEX by_email ON "+table+" (email)")
					mustExec(t, db, "INSERT INTO "+table+" VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1), (4, 'd', 1), (5, 'only_"+table+"', 1)")
				}
				mustExec(t, db, "CREATE VIRTUAL INDEX by_n ON people_new (n)")
				wantIndexes := func(names ...string) {
					t.Helper()
					var got []string
					defer func() {
						if t.Failed() {
							t.Logf("indexes are %s", strings.Join(got, ", "))
						}
					}()
					eventually(t, "indexes are "+strings.Join(names, ", "), func() bool { got = p.indexNames(db); return slices.Equal(got, names) })
				}
				wantIndexes("people.by_email ready", "people_new.by_email ready", "people_new.by_n ready")
				p.settled(db)
				reader := p.conn()
				mustExec(t, reader, "BEGIN")
				mustRows(t, reader, "SELECT * FROM people")
				var wg sync.WaitGroup
				wg.Go(func() { mustExec(t, db, tt.rename) })
				eventually(t, "the RENAME waits", p.waitingFor("RENAME"))
				for id := 11; id < 23; id++ {
					wg.Go(func() { mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'e%d', %d)", id, id, id)) })
				}
				eventually(t, "an INSERT waits for it", p.waitingFor("INSERT"))
				mustExec(t, reader, "COMMIT")
				wg.Wait()
				check := func() {
					t.Helper()
					moved := 0
					for id := 11; id < 23; id++ {
						table := "people"
						if len(mustRows(t, db, fmt.Sprintf("SELECT id FROM people WHERE id + 0 = %d", id))) == 0 {
							table = tt.old // its shard had not been told of the RENAME
						} else {
							moved++
						}
						for _, where := range []string{"id = %d", "email = 'e%d'", "n = %d"} {
							want(t, db, "SELECT id FROM "+table+" WHERE "+fmt.Sprintf(where, id), "id", fmt.Sprint(id))
						}
					}
					if moved == 0 {
						t.Error("no INSERT had to wait")
					}
					want(t, db, "SELECT id FROM people WHERE email = 'only_people_new'", "id", "5")
					want(t, db, "SELECT id FROM "+tt.old+" WHERE email = 'only_people'", "id", "5")
				}
				check()
				wantIndexes("people.by_email ready", "people.by_n ready", tt.old+".by_email ready")
				p.settled(db)
				check()
			})
		}
	})
}

// TestRenameCircleLost loses the connection to a shard in an exchange: sent again it
// must not be undone there.
func TestRenameCircleLost(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		db := p.db()
		const circle = "RENAME TABLE a TO tmp, b TO a, tmp TO b"
		for _, table := range []string{"a", "b"} {
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, v VARCHAR(20))")
			p.createIndex(db, "by_"+table, table+" (v)")
			mustExec(t, db, "INSERT INTO "+table+" VALUES (1, 'in_"+table+"'), (2, 'in_"+table+"'), (3, 'in_"+table+"'), (4, 'in_"+table+"'), (5, 'in_"+table+"')")
		}
		holder := connOf(t, p.shard(1))
		mustExec(t, holder, "BEGIN")
		mustRows(t, holder, "SELECT * FROM a")
		failed := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(t.Context(), circle)
			failed <- err
		}()
		eventually(t, "the RENAME waits", p.waitingFor("RENAME"))
		for _, r := range mustRows(t, p.shard(1), "SELECT id FROM information_schema.processlist WHERE db = '"+p.schema+"' AND info LIKE 'RENAME%'") {
			mustExec(t, p.shard(1), "KILL "+r["id"]+r["ID"])
		}
		wantError(t, <-failed, 1105, "was done on s0")
		mustExec(t, holder, "COMMIT")
		_, err := db.ExecContext(t.Context(), circle)
		wantError(t, err, 1235, "shard=s1")
		mustExec(t, db, "/* shunt: shard=s1 */ "+circle)
		for i, n := range p.onShards("SELECT * FROM a WHERE v = 'in_a'") {
			if n > 0 {
				t.Errorf("s%d has the old table", i)
			}
		}
		for id := 1; id < 6; id++ {
			want(t, db, fmt.Sprintf("SELECT v FROM a WHERE id = %d", id), "v", "in_b")
		}
		want(t, db, "SELECT id FROM a WHERE v = 'in_b'", "id", "1", "2", "3", "4", "5")
		want(t, db, "SELECT id FROM b WHERE v = 'in_a'", "id", "1", "2", "3", "4", "5")
	})
}

// TestRenameToTriggers: an INSERT waits for a RENAME, and sets off the triggers of another
// table than it was planned for.
func TestRenameToTriggers(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		db := p.db()
		for _, table := range []string{"people", "people_new", "log"} {
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, v VARCHAR(20))")
		}
		p.createIndex(db, "by_v", "log (v)")
		mustExec(t, db, "CREATE TRIGGER logged AFTER INSERT ON people_new FOR EACH ROW INSERT INTO log VALUES (NEW.id, CONCAT('t', NEW.v))")
		mustExec(t, db, "INSERT INTO people VALUES (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x')")
		p.settled(db)
		reader := p.conn()
		mustExec(t, reader, "BEGIN")
		mustRows(t, reader, "SELECT * FROM people")
		var wg sync.WaitGroup
		wg.Go(func() { mustExec(t, db, "RENAME TABLE people TO people_old, people_new TO people") })
		eventually(t, "the RENAME waits", p.waitingFor("RENAME"))
		for id := 11; id < 31; id++ {
			wg.Go(func() { mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'v%d')", id, id)) })
		}
		eventually(t, "an INSERT waits for it", p.waitingFor("INSERT"))
		mustExec(t, reader, "COMMIT")
		wg.Wait()
		rows := mustRows(t, db, "SELECT id, v FROM log")
		if len(rows) == 0 {
			t.Error("no INSERT set off the trigger")
		}
		for _, r := range rows {
			want(t, db, "SELECT id FROM log WHERE v = '"+r["v"]+"'", "id", r["id"])
		}
	})
}
