package e2e

import (
	"database/sql"
	"fmt"
	"testing"
)

// TestMembersVirtual: every member has values of virtual columns in memory, which have what was written by whichever member or
// to a shard itself; and they are right where the member that keeps the columns has died.
func TestMembersVirtual(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2, f.binlogs()...), extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		members := []*process{p, q}
		db := p.db()
		mustExec(t, db, "CREATE TABLE talks (id INT PRIMARY KEY, name VARCHAR(20))")
		mustExec(t, db, "CREATE TABLE messages (id INT PRIMARY KEY, talk INT, size INT, KEY (talk))")
		for i := range 10 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO talks VALUES (%d, 't%[1]d')", i))
		}
		mustExec(t, db, "CREATE VIRTUAL COLUMN total ON talks AS (SELECT COUNT(*) FROM messages m WHERE m.talk = talks.id)")
		mustExec(t, q.db(), "CREATE VIRTUAL COLUMN bytes ON talks AS (SELECT SUM(m.size) FROM messages m WHERE m.talk = talks.id)")
		for _, m := range members {
			eventually(t, "all members know them", func() bool { return len(mustRows(t, m.db(), "SHOW VIRTUAL COLUMNS")) == 2 })
		}
		n := 0
		write := func(by *sql.DB) {
			t.Helper()
			mustExec(t, by, fmt.Sprintf("INSERT INTO messages VALUES (%d, 5, 10)", n))
			n++
		}
		// reads has a member answer from memory.
		reads := func(m *process, mode string) {
			t.Helper()
			c := m.conn()
			mustExec(t, c, "SET shunt_virtual_columns = '"+mode+"'")
			from := func() float64 {
				n, _ := m.metric("shunt_virtual_column_reads_total", `from="memory"`)
				return n
			}
			eventually(t, "the values are in memory", func() bool {
				before := from()
				if mode == "exact" {
					want(t, c, "SELECT total, bytes, name FROM talks WHERE id = 5", "total bytes name", fmt.Sprintf("%d %d t5", n, 10*n))
				} else {
					mustRows(t, c, "SELECT total, bytes, name FROM talks WHERE id = 5")
				}
				return from() > before
			})
		}
		write(db)
		for range 3 {
			for i, m := range members {
				write(members[1-i].db())
				reads(m, "exact")
				write(m.db())
				reads(m, "exact")
				reads(m, "fast")
			}
		}
		for _, m := range members { // by another way than through a Shunt
			on := routeOf(t, db, "SELECT * FROM messages WHERE id = 1000").shards[0]
			mustExec(t, p.shard(int(on[1]-'0')), "INSERT INTO "+p.schema+".messages VALUES (1000, 5, 10)")
			n++
			reads(m, "exact")
			mustExec(t, db, "DELETE FROM messages WHERE id = 1000")
			n--
			reads(m, "exact")
		}
		p.kill()
		write(q.db())
		reads(q, "exact")
		columnsReady(t, q, 2) // it keeps them now
		write(q.db())
		reads(q, "exact")
		for _, column := range []string{"total", "bytes"} {
			if rows := mustRows(t, q.db(), "CHECK VIRTUAL COLUMN "+column+" ON talks"); rows[0]["Wrong"] != "0" {
				t.Errorf("%s: %v", column, rows)
			}
		}
	})
}
