package e2e

import (
	"fmt"
	"strconv"
	"testing"
)

// TestMemberStartsBesideADeadShard: a member starts while a shard is down, and serves what doesn't need
// it; once that is back all is found by virtual index, and written.
func TestMemberStartsBesideADeadShard(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}\nshard_timeout: 2s"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		for i := range 30 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_email ON people (email) HOME s0")
		p.waitIndex(p.db(), "idx_email")
		p.settled(p.db())
		there := mustRows(t, p.shard(1), "SELECT id FROM people")
		lost := mustRows(t, p.shard(2), "SELECT id FROM people")
		servers[2].Kill()
		for _, alone := range []bool{false, true} {
			q := p.beside()
			if alone {
				p.stop()
			}
			if _, err := q.spawn(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it serves", func() bool {
				rows, err := rowsOf(t.Context(), q.db(), "SELECT id FROM people WHERE email = 'p"+there[0]["id"]+"@x'")
				return err == nil && len(rows) == 1
			})
			mustExec(t, q.db(), fmt.Sprintf("UPDATE people SET email = 'q%v@x' WHERE id = %s", alone, there[1]["id"]))
			want(t, q.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'q%v@x'", alone), "id", there[1]["id"])
			_, err := rowsOf(t.Context(), q.db(), "SELECT id FROM people WHERE email = 'p"+lost[0]["id"]+"@x'")
			wantError(t, err, 1429, "s2")
			_, err = q.db().ExecContext(t.Context(), "UPDATE people SET email = 'no@x' WHERE id = "+lost[0]["id"])
			wantError(t, err, 1429, "s2")
			if !alone {
				q.stop()
				continue
			}
			if err := servers[2].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.run()
			for n, m := range []*process{p, q} {
				eventually(t, "it is on the shard", func() bool {
					_, err := m.db().ExecContext(t.Context(), "UPDATE people SET email = 'm"+strconv.Itoa(n)+"@x' WHERE id = "+lost[0]["id"])
					return err == nil
				})
			}
			want(t, p.db(), "SELECT id FROM people WHERE email = 'm1@x'", "id", lost[0]["id"])
			want(t, q.db(), "SELECT COUNT(*) AS n FROM people", "n", "30")
			mustExec(t, q.db(), "ALTER TABLE people ADD COLUMN age INT")
			for _, r := range mustRows(t, q.db(), "CHECK VIRTUAL INDEX idx_email ON people") {
				if r["Missing"] != "0" {
					t.Errorf("%v", r)
				}
			}
			if rows := mustRows(t, q.db(), "SHOW MEMBERS"); len(rows) != 2 {
				t.Errorf("%v", rows)
			}
		}
	})
}
