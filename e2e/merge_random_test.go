package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMergeRandom compares random merged queries with one plain server.
// SHUNT_SEED repeats a run, SHUNT_MERGES sets the number of queries.
func TestMergeRandom(t *testing.T) {
	suite.Promise(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		seed, n := uint64(envInt(t, "SHUNT_SEED", int(time.Now().UnixNano()))), envInt(t, "SHUNT_MERGES", 250)
		t.Logf("SHUNT_SEED=%d", seed)
		w := newTwins(t, f, setup{tables: []string{"g: {shard_key: id}", "h: {shard_key: gid}", "none: {shard_key: id}"}})
		g := &mergeQueries{newRandomRows(seed)}
		w.groupRows(g.randomRows)
		merged := 0
		for range n {
			query := g.query()
			if w.planIfAny(query) != "merge" {
				continue
			}
			merged++
			ordered := strings.Contains(query, "/* total */")
			if g.rnd.IntN(3) == 0 {
				w.prepared(ordered, query)
			} else {
				w.same(ordered, query)
			}
			if t.Failed() {
				break
			}
		}
		t.Logf("%d of %d queries were merged", merged, n)
		if merged < n/2 {
			t.Errorf("%d of %d queries were merged: the test says little", merged, n)
		}
	})
}

// mergeQueries makes queries of the tables g and h.
type mergeQueries struct{ *randomRows }

func (q *mergeQueries) some(most int, of ...string) []string {
	q.rnd.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of[:1+q.rnd.IntN(min(most, len(of)))]
}

func (q *mergeQueries) direction() string { return q.any("", " ASC", " DESC") }

func (q *mergeQueries) limit() string {
	n := q.rnd.IntN
	return q.any("", "", fmt.Sprintf(" LIMIT %d", n(40)), fmt.Sprintf(" LIMIT %d OFFSET %d", n(40), n(60)), fmt.Sprintf(" LIMIT %d, %d", n(300), n(10)))
}

func (q *mergeQueries) where() string {
	n := q.rnd.IntN
	return q.any("", "", fmt.Sprintf(" WHERE i > %d", n(2000)-1000), " WHERE name IS NOT NULL", fmt.Sprintf(" WHERE k IN (%d, %d)", n(8), n(8)), " WHERE name LIKE 'a%' OR q > 3", " WHERE i > 5000")
}

func (q *mergeQueries) query() string {
	switch q.rnd.IntN(5) {
	case 0, 1:
		return q.rows()
	case 2:
		return q.distinct()
	default:
		return q.groups()
	}
}

func (q *mergeQueries) columns() []string {
	return []string{"k", "name", "bin", "l", "u", "i", "d", "d5", "q", "da", "dt", "f", "e", "s", "vb", "y", "tm"}
}

func (q *mergeQueries) expressions() []string {
	return []string{
		"k + i", "-q", "LOWER(name)", "UPPER(bin)", "CONCAT(l, k)", "LENGTH(name)", "IFNULL(i, k)", "COALESCE(name, bin)", "YEAR(da)", "DATE(dt)", "k IS NULL",
		"i BETWEEN 0 AND 500", "IF(i > 0, name, 'k')", "CASE WHEN k > 3 THEN q ELSE d5 END", "ABS(q)", "ROUND(d5, 1)", "LEFT(bin, 1)", "name = 'a'", "k * 2 - 1", "GREATEST(k, i)", "RIGHT(name, 1)", "REPLACE(l, 'a', 'z')",
		"CAST(q AS SIGNED)", "CAST(i AS CHAR)", "da + INTERVAL k DAY", "q % 3", "u DIV 7",
	}
}

// rows sorts, always to the last by id.
func (q *mergeQueries) rows() string {
	list := append(q.some(4, q.columns()...), "id")
	var order []string
	for i, c := range q.some(3, append(q.columns(), q.expressions()...)...) {
		switch q.rnd.IntN(4) {
		case 0:
			list = append(list, fmt.Sprintf("%s AS z%d", c, i))
			c = fmt.Sprintf("z%d", i)
		case 1:
			list = append(list, c)
			c = strconv.Itoa(len(list))
		}
		order = append(order, c+q.direction())
	}
	return "SELECT /* total */ " + strings.Join(list, ", ") + " FROM g" + q.where() + " ORDER BY " + strings.Join(order, ", ") + ", id" + q.direction() + q.limit()
}

// plain are columns of which equal values are the same.
func (q *mergeQueries) plain() []string {
	return []string{"k", "u", "i", "d", "d5", "q", "da", "dt", "f", "e", "s", "vb", "y", "tm", "YEAR(da)", "k + 1", "i > 0", "LENGTH(name)", "k IS NULL", "q * 2"}
}

func (q *mergeQueries) distinct() string {
	list := q.some(3, q.plain()...)
	shown := strings.Join(list, ", ")
	if q.rnd.IntN(3) == 0 {
		return "SELECT DISTINCT " + shown + " FROM g" + q.where()
	}
	var order []string
	for _, i := range q.rnd.Perm(len(list)) {
		order = append(order, q.any(list[i], strconv.Itoa(i+1))+q.direction())
	}
	return "SELECT /* total */ DISTINCT " + shown + " FROM g" + q.where() + " ORDER BY " + strings.Join(order, ", ") + q.limit()
}

func (q *mergeQueries) aggregates() []string {
	list := []string{
		"COUNT(*)", "COUNT(i)", "COUNT(name)", "SUM(i)", "SUM(u)", "SUM(q)", "SUM(d5)", "SUM(i * q)", "SUM(i > 0)", "AVG(i)", "AVG(q)", "AVG(d5)", "AVG(u)", "MIN(i)", "MAX(u)", "MIN(da)", "MAX(dt)", "MIN(tm)",
		"MAX(q)", "MIN(d)", "MIN(vb)", "MAX(y)", "MIN(f)", "MAX(f)", "BIT_XOR(i)", "BIT_OR(u)", "BIT_AND(k)", "SUM(IF(k > 3, q, 0))", "MAX(i + k)", "MIN(i - 7)",
	}
	return append(q.some(5, list...), q.any("COUNT(*)", "COUNT(DISTINCT e)", "COUNT(DISTINCT name)", "COUNT(DISTINCT k, da)", "COUNT(DISTINCT i)"))
}

func (q *mergeQueries) groups() string {
	list := q.aggregates()
	if q.rnd.IntN(4) == 0 {
		return "SELECT /* total */ " + strings.Join(list, ", ") + " FROM g" + q.where()
	}
	keys := q.some(3, "k", "e", "s", "y", "da", "YEAR(da)", "k + 1", "i > 0")
	hidden := q.rnd.IntN(3) == 0
	if !hidden {
		list = append(slices.Clone(keys), list...)
	} else if q.rnd.IntN(2) == 0 {
		keys = append(keys, q.any("name", "bin", "l"))
	}
	having := q.any("", "", "", " HAVING COUNT(*) > 3", " HAVING SUM(i) > 10 OR NOT MIN(q) < 2.5", " HAVING COUNT(*) BETWEEN 2 AND 20 AND MAX(u) IS NOT NULL")
	query := strings.Join(list, ", ") + " FROM g" + q.where() + " GROUP BY " + strings.Join(keys, ", ") + having
	var order []string
	if q.rnd.IntN(3) == 0 {
		for _, a := range q.some(2, "COUNT(*)", "SUM(i)", "MAX(q)", "MIN(da)", "SUM(q)") {
			order = append(order, a+q.direction())
		}
	}
	for _, i := range q.rnd.Perm(len(keys)) {
		order = append(order, keys[i]+q.direction())
	}
	if q.rnd.IntN(4) == 0 {
		return "SELECT " + query
	}
	return "SELECT /* total */ " + query + " ORDER BY " + strings.Join(order, ", ") + q.limit()
}
