package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
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

// TestIndexAdviceMeasured: indexes that are advised, made as the advice says, lead to as many shards and have as many
// entries as was estimated, whatever values are like. Statements ask for the values of rows.
func TestIndexAdviceMeasured(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"orders: {shard_key: user_id}", "tickets: {placement: anywhere}"}})
		c := p.conn()
		const rows, asked = 3000, 120
		// By number, each column's value in a row. "" is NULL.
		columns := map[string]func(i int) string{
			"email":  func(i int) string { return fmt.Sprintf("u%d@x", i/6) },                                              // six rows, of one user, so on one shard
			"code":   func(i int) string { return fmt.Sprintf("c%d", i*7919%(rows/2)) },                                    // two rows, on any shard
			"coupon": func(i int) string { return []string{"", fmt.Sprintf("o%d", i), fmt.Sprintf("s%d", i/12), ""}[i%4] }, // half NULL; three rows, or one
			"family": func(i int) string { return fmt.Sprintf("f%d", i%40) },
			"given":  func(i int) string { return fmt.Sprintf("g%d", i/40%25) },      // three rows have both
			"nick":   func(i int) string { return fmt.Sprintf("n%d", i%40+i/40%25) }, // so here, but the family tells part of it
		}
		load := map[string][]string{ // the columns of what is asked for
			"orders email": {"email"}, "orders code": {"code"}, "orders coupon": {"coupon"}, "orders family, nick": {"family", "nick"}, "tickets code": {"code"},
			"tickets family, given": {"family", "given"}, // the shards have no index on both
		}
		for table, own := range map[string]string{"orders": "id BIGINT PRIMARY KEY, KEY (nick, family)", "tickets": "id VARCHAR(20) PRIMARY KEY, KEY (given), KEY (family)"} {
			mustExec(t, c, "CREATE TABLE "+table+" ("+own+", user_id INT NOT NULL, email VARCHAR(50), code VARCHAR(20) COLLATE utf8mb4_bin, coupon VARCHAR(20), family VARCHAR(20), given VARCHAR(20), nick VARCHAR(20), "+
				"KEY (email), KEY (code), KEY (coupon))")
			mustExec(t, c, "INSERT INTO "+table+" (id, user_id, email, code, coupon, family, given, nick) VALUES "+rowsFor(rows, func(i int) string {
				i--
				value := func(name string) string {
					if v := columns[name](i); v != "" {
						return "'" + v + "'"
					}
					return "NULL"
				}
				return fmt.Sprintf("(%d, %d, %s, %s, %s, %s, %s, %s)", i*31%rows, i/6, value("email"), value("code"), value("coupon"), value("family"), value("given"), value("nick"))
			}))
			mustRows(t, c, "ANALYZE TABLE "+table)
		}
		statement := func(on string, i int) string {
			table, _, _ := strings.Cut(on, " ")
			var all []string
			for _, name := range load[on] {
				all = append(all, fmt.Sprintf("%s = '%s'", name, columns[name](i)))
			}
			return "SELECT id FROM " + table + " WHERE " + strings.Join(all, " AND ")
		}
		run := func() {
			t.Helper()
			for on := range load {
				for n := range asked {
					i := n * 7907 % rows
					if strings.Contains(statement(on, i), "''") { // nobody asks for what is NULL
						i = i/4*4 + 1 + i%4/2
					}
					mustRows(t, c, statement(on, i))
				}
			}
		}
		mustExec(t, c, "FLUSH STATEMENT STATISTICS")
		run()
		advice := map[string]row{}
		for _, r := range mustRows(t, c, "SHOW INDEX ADVICE") {
			advice[r["Table"]+" "+r["Columns"]] = r
			mustExec(t, c, r["Advice"])
		}
		if len(advice) != len(load) {
			t.Errorf("advised %v", advice)
		}
		eventually(t, "all indexes are ready", func() bool {
			return !slices.ContainsFunc(mustRows(t, c, "SHOW VIRTUAL INDEXES"), func(r row) bool { return r["Status"] != "ready" })
		})
		allKnown(t, p.db())
		run()
		for _, r := range mustRows(t, c, "SHOW VIRTUAL INDEXES") {
			on := r["Table"] + " " + strings.ReplaceAll(r["Columns"], ",", ", ")
			a := advice[on]
			basis := "sample"
			if on == "tickets family, given" {
				basis = "statistics"
			}
			if a["Basis"] != basis || a["Executions"] != fmt.Sprint(asked) {
				t.Errorf("%s: %v", on, a)
				continue
			}
			if basis == "statistics" && f.name == throwaway.MariaDB {
				continue // it tells up to three times as many values as there are, to favour indexes
			}
			alike(t, "shards of a key of "+on, float(t, a["Fan_out"]), float(t, r["Mean_shards"]))
			alike(t, "entries of "+on, float(t, a["Entries"]), float(t, r["Entries"]))
		}
	})
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
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
