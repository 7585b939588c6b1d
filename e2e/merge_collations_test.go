package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMergeCollations sorts and groups the same texts under every collation
// that the server has.
func TestMergeCollations(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"t0: {shard_key: id}"}})
		query := "SELECT COLLATION_NAME AS c, CHARACTER_SET_NAME AS cs FROM information_schema.COLLATIONS WHERE CHARACTER_SET_NAME IS NOT NULL ORDER BY 1"
		if f.name == "mariadb" {
			query = "SELECT FULL_COLLATION_NAME AS c, CHARACTER_SET_NAME AS cs FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE CHARACTER_SET_NAME <> 'ucs2' ORDER BY 1"
		}
		var all []row
		for _, r := range mustRows(t, w.plainDB(), query) {
			// Each Unicode collation comes in five character sets; its uca1400
			// variants for languages are many.
			if strings.Contains(r["c"], "uca1400") && (r["cs"] != "utf8mb4" || strings.Count(r["c"], "_") > 4) {
				continue
			}
			if suite.Size(true, false) && !slices.Contains([]string{"utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "latin1_swedish_ci", "utf8mb4_uca1400_ai_ci"}, r["c"]) {
				continue
			}
			all = append(all, r)
		}
		r := newRandomRows(3)
		// No no-break spaces: where a collation gives them the weight of a space and
		// pads, MySQL counts 'a' and 'a<NBSP>' as one group when it sorts, and as two
		// when it hashes.
		texts := []string{
			"''", "' '", "'  '", "'a'", "'A'", "'a '", "'a\\t'", "'a\\t\\t'", "'a \\t'", "'a!'", "'a  !'", "'á'", "'ä'", "'ae'", "'æ'", "'ss'", "'ß'", "'SS'", "'z'", "'Z'", "'é'", "'e'", "'E '", "'10'", "'9'",
			"'ö'", "'oe'", "'o'", "'ñ'", "'n'", "'nz'", "'aa'", "'å'", "'ch'", "'cz'", "'c'", "'ll'", "'lz'", "'dž'", "'d'", "'-'", "'_'", "'a-b'", "'ab'", "'a b'", "'日本'", "'日'", "'й'", "'и'", "'σ'", "'ς'", "'😀'", "'😀a'", "'ﬁ'", "'fi'", "'\\0'", "'a\\0'", "NULL", "'\u200b'", "'a\u200b'", "'İ'", "'ı'", "'i'", "'I'",
		}
		merged, gathered := 0, []string{}
		const width = 30
		for n := 0; n < len(all); n += width {
			table := fmt.Sprintf("t%d", n/width)
			some := all[n:min(len(all), n+width)]
			var columns, names []string
			for i, c := range some {
				names = append(names, fmt.Sprintf("c%d", i))
				columns = append(columns, fmt.Sprintf("c%d VARCHAR(12) CHARACTER SET %s COLLATE %s", i, c["cs"], c["c"]))
			}
			w.exec("CREATE TABLE " + table + " (id INT PRIMARY KEY, " + strings.Join(columns, ", ") + ")")
			var rows []string
			for range 2 * len(texts) {
				r.id++
				x := texts[r.id%len(texts)]
				if r.id > len(texts) && x != "NULL" {
					x = x[:len(x)-1] + r.any("", " ", "b", "\\t") + "'"
				}
				rows = append(rows, fmt.Sprintf("(%d%s)", r.id, strings.Repeat(", "+x, len(some))))
			}
			w.exec("INSERT IGNORE INTO " + table + " VALUES " + strings.Join(rows, ", "))
			for i, c := range some {
				name := names[i]
				what := "/* " + c["c"] + " */"
				sorted := fmt.Sprintf("SELECT %s id, HEX(%s) FROM %s ORDER BY %s, id", what, name, table, name)
				if w.planIfAny(sorted) != "merge" {
					gathered = append(gathered, c["c"])
					continue
				}
				merged++
				w.same(true, sorted)
				w.same(true, fmt.Sprintf("SELECT %s id FROM %s ORDER BY %s DESC, id DESC LIMIT 30 OFFSET 20", what, table, name))
				w.same(false, fmt.Sprintf("SELECT %s COUNT(*), MIN(id) FROM %s GROUP BY %s", what, table, name))
				w.same(false, fmt.Sprintf("SELECT %s COUNT(DISTINCT %s) FROM %s", what, name, table))
				w.same(true, fmt.Sprintf("SELECT %s id FROM %s ORDER BY CONCAT(%s, 'k'), id LIMIT 50", what, table, name))
			}
		}
		t.Logf("%d collations merged; %d not: %v", merged, len(gathered), gathered)
		if merged == 0 {
			t.Error("no collation was merged")
		}
	})
}

// planIfAny is planOf for a query that may be refused.
func (w *twins) planIfAny(query string) string {
	r, err := w.shunt.Execute("EXPLAIN ROUTE " + query)
	if err != nil {
		return ""
	}
	plan, _ := r.GetString(0, 0) // a row has a plan
	return plan
}
