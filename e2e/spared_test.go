package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestBuildSparesShard: the build of an index rests while many threads run on a shard, says so, and goes on behind that.
func TestBuildSparesShard(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}, maintenance: "{max_threads_running: 5}"})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(80))")
		for from := 0; from < 6000; from += 1000 {
			var rows []string
			for id := from; id < from+1000; id++ {
				rows = append(rows, fmt.Sprintf("(%d, 'p%[1]d@x')", id))
			}
			mustExec(t, c, "INSERT INTO people VALUES "+strings.Join(rows, ", "))
		}
		busy, end := context.WithCancel(t.Context())
		db := onShard(t, servers[1], "")
		for range 10 {
			go func() { _, _ = db.ExecContext(busy, "SELECT SLEEP(600)") }() // it is cancelled
		}
		eventually(t, "many threads run", func() bool {
			return len(mustRows(t, onShard(t, servers[1], ""), "SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(600)'")) == 10
		})
		created := make(chan error, 1)
		go func() {
			_, err := p.db().ExecContext(t.Context(), "CREATE VIRTUAL INDEX idx_email ON people (email)")
			created <- err
		}()
		row := func() row {
			for _, r := range mustRows(t, c, "SHOW VIRTUAL INDEXES") {
				return r
			}
			return nil
		}
		eventually(t, "the build says what it waits for", func() bool {
			return strings.Contains(row()["Error"], "spares shard s1, where") && strings.Contains(row()["Error"], "(maintenance.max_threads_running: 5)")
		})
		if is := row(); is["Status"] != "building" {
			t.Errorf("%v", is)
		}
		end()
		if err := <-created; err != nil {
			t.Fatal(err)
		}
		p.waitIndex(c, "idx_email")
		if is := row(); is["Error"] != "NULL" {
			t.Errorf("%v", is)
		}
		want(t, c, "SELECT id FROM people WHERE email = 'p4321@x'", "id", "4321")
	})
}
