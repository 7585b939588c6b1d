package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestIndexAdvice: what scatters is told, with the index that routes it; what nobody reads by, to be dropped.
func TestIndexAdvice(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"people: {shard_key: id}", "placed: {placement: anywhere}"}})
		c := p.conn()
		for _, table := range []string{"people", "placed"} {
			mustExec(t, c, "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY, email VARCHAR(50), city VARCHAR(20), KEY (email))")
			mustExec(t, c, "INSERT INTO "+table+" VALUES "+rowsFor(500, func(i int) string { return fmt.Sprintf("(%d, 'p%d@x', 'c%d')", i, i, i%5) }))
			mustRows(t, c, "ANALYZE TABLE "+table)
		}
		p.createIndex(c, "by_city", "people(city)")
		mustExec(t, c, "FLUSH STATEMENT STATISTICS")
		for i := range 40 {
			mustRows(t, c, fmt.Sprintf("SELECT id FROM people WHERE id = %d", i))
			mustRows(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i))
			mustRows(t, c, fmt.Sprintf("SELECT city FROM placed WHERE email = 'p%d@x'", i))
		}
		for i := range 5 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO people VALUES (%d, 'n%d@x', 'c1')", 1000+i, i))
		}
		advice := map[string]row{}
		for _, r := range mustRows(t, c, "SHOW INDEX ADVICE") {
			advice[r["Table"]+" "+r["Columns"]] = r
		}
		for _, table := range []string{"people", "placed"} {
			r := advice[table+" email"]
			if r["Executions"] != "40" || r["Shards"] != "4.00" || !strings.HasPrefix(r["Advice"], "CREATE VIRTUAL INDEX ") {
				t.Fatalf("%s: %v", table, advice)
			}
			mustExec(t, c, r["Advice"])
		}
		if r := advice["people city"]; !strings.HasPrefix(r["Advice"], "DROP VIRTUAL INDEX ") || r["Executions"] != "0" {
			t.Errorf("an index that nobody reads by: %v", advice)
		} else {
			mustExec(t, c, r["Advice"])
		}
		allKnown(t, p.db())
		for _, table := range []string{"people", "placed"} {
			eventually(t, "it is routed", func() bool {
				return len(routeOf(t, c, "SELECT id FROM "+table+" WHERE email = 'p7@x'").shards) == 1
			})
		}
		if rows := mustRows(t, c, "SHOW INDEX ADVICE"); len(rows) > 0 {
			t.Errorf("when it was taken: %v", rows)
		}
	})
}

// TestIndexAdviceShardDown: without a shard's statistics there is no advice, and the error names the shard.
func TestIndexAdviceShardDown(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, extra: "shard_timeout: 1s"})
		c := p.conn()
		mustRows(t, c, "SHOW INDEX ADVICE")
		servers[1].Kill()
		_, err := rowsOf(t.Context(), c, "SHOW INDEX ADVICE")
		if code := errorCode(err); code != 1429 && code != 1430 || !strings.Contains(err.Error(), "s1") || strings.Contains(err.Error(), "s0") {
			t.Errorf("got %v", err)
		}
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "there is advice again", func() bool {
			_, err := rowsOf(t.Context(), c, "SHOW INDEX ADVICE")
			return err == nil
		})
	})
}
