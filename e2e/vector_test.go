package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestVectors: MariaDB's nearest vectors (11.7) of all shards, which each finds by its index.
func TestVectors(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		if f.name != throwaway.MariaDB {
			t.Skip("MariaDB's")
		}
		p := start(t, f, setup{})
		c, plain := p.conn(), plainServer(t, f.servers(t)[3], p.schema+"_plain")
		if errorCode(execError(t, plain, "CREATE TABLE places (id INT PRIMARY KEY, v VECTOR(2) NOT NULL)")) != 0 {
			t.Skip("a server without vectors")
		}
		mustExec(t, c, "CREATE TABLE places (id INT PRIMARY KEY, v VECTOR(2) NOT NULL)")
		insert := "INSERT INTO places VALUES " + rowsFor(200, func(i int) string { return fmt.Sprintf("(%d, VEC_FromText('[%d,%d]'))", i, i*i%211, i*37%101) })
		const index = "CREATE VECTOR INDEX nearest ON places (v) M=8 DISTANCE=euclidean"
		for _, sql := range []string{insert, index} {
			mustExec(t, c, sql)
			mustExec(t, plain, sql)
		}
		const d = "VEC_DISTANCE_EUCLIDEAN(v, VEC_FromText('[50,60]'))"
		for _, query := range []string{
			"SELECT id, " + d + " AS d FROM places ORDER BY d, id LIMIT 7",
			"SELECT id FROM places ORDER BY " + d + ", id LIMIT 7 OFFSET 5",
			"SELECT " + d + " AS d FROM places ORDER BY d LIMIT 5",
			"SELECT ROUND(VEC_DISTANCE(v, VEC_FromText('[50,60]')), 3) AS d FROM places ORDER BY VEC_DISTANCE(v, VEC_FromText('[50,60]')) LIMIT 5",
			"SELECT " + d + " AS d FROM places WHERE id < 100 ORDER BY d DESC, id LIMIT 5",
			"SELECT VEC_ToText(v) AS w FROM places ORDER BY " + d + ", id LIMIT 1",
		} {
			if got, want := mustRows(t, c, query), mustRows(t, plain, query); !slices.EqualFunc(got, want, func(x, y row) bool { return fmt.Sprint(x) == fmt.Sprint(y) }) {
				t.Errorf("%s:\n got %v\nwant %v", query, got, want)
			}
			if r := routeOf(t, c, query); r.plan != "merge" {
				t.Errorf("%s: %s", query, r.plan)
			}
		}
		// The shards' statement uses the index as the client's does.
		for _, r := range mustRows(t, c, "EXPLAIN ROUTE SELECT id FROM places ORDER BY "+d+" LIMIT 3") {
			if x := mustRows(t, plain, "EXPLAIN "+strings.ReplaceAll(r["Statement"], p.schema, p.schema+"_plain")); x[0]["key"] != "nearest" {
				t.Errorf("%s: %v", r["Statement"], x)
			}
		}
	})
}
