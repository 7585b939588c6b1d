package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestMembersUpgrade: Shunts of an older version go on, and start, beside a newer one that has added
// to the store's tables; where they may not, the error says so. SHOW MEMBERS tells the versions.
func TestMembersUpgrade(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		p.createIndex(p.db(), "idx_email", "people(email)")
		q := p.beside()
		store := onShard(t, servers[0], "shunt_store")
		mustExec(t, store, "ALTER TABLE members ADD COLUMN later INT NOT NULL DEFAULT 7")
		mustExec(t, store, "ALTER TABLE turns ADD COLUMN later INT NOT NULL DEFAULT 7")
		mustExec(t, store, "CREATE TABLE later (id INT PRIMARY KEY)")
		mustExec(t, store, "UPDATE home SET version = 99")
		mustExec(t, store, "UPDATE self SET format = 99")
		q.run()
		for i, db := range []queryer{p.db(), q.db()} {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", fmt.Sprint(i))
			rows := mustRows(t, db, "SHOW MEMBERS")
			if len(rows) != 2 || rows[0]["Version"] == "" || rows[1]["Version"] == "" {
				t.Errorf("%v", rows)
			}
		}
		mustExec(t, q.db(), "ALTER TABLE people ADD COLUMN age INT")
		q.stop()
		for _, table := range []string{"home", "self"} {
			mustExec(t, store, "UPDATE "+table+" SET needs = 98")
			if err := q.launch(); err == nil || !strings.Contains(err.Error(), "start a newer version of Shunt") {
				t.Errorf("where a newer one is needed by %s: %v", table, err)
			}
			mustExec(t, store, "UPDATE "+table+" SET needs = 1")
		}
		want(t, p.db(), "SELECT COUNT(*) AS n FROM people", "n", "2")
	})
}
