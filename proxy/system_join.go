package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// joiner makes rows of several shards into those that one server would have.
type joiner struct {
	c       *catalog.Catalog
	t       *plan.SystemTable
	user    *User
	columns []string // lower case
	rows    [][][]byte
	byKey   map[string]int
	// of Each: the shards that gave a row, and where the rows of a table are.
	from []catalog.ShardSet
	// order is that of the tables in the statement.
	order []string
}

func (s *session) join(t *plan.SystemTable, answers []said) ([][][]byte, error) {
	j := &joiner{c: s.catalog(), t: t, user: s.rights(), byKey: map[string]int{}}
	for _, c := range answers[0].res.Columns {
		j.columns = append(j.columns, strings.ToLower(c))
	}
	var asked catalog.ShardSet
	if t.Each {
		// Every shard speaks of every table, if only to say that it isn't there:
		// the first one has them in the statement's order.
		for _, row := range answers[0].res.Rows {
			if name := string(j.column(row, t.Table)); !slices.Contains(j.order, name) {
				j.order = append(j.order, name)
			}
		}
	}
	for i, a := range answers {
		if len(a.res.Columns) != len(j.columns) {
			return nil, fmt.Errorf("shard %s answers other columns than %s: are their versions the same?", s.catalog().ShardName(a.shard), s.catalog().ShardName(answers[0].shard))
		}
		asked.Add(a.shard)
		for _, row := range a.res.Rows {
			j.add(a.shard, i == 0, row)
		}
	}
	j.finish(asked)
	return j.rows, nil
}

// column is a row's value by column name; nil where there is no such column.
func (j *joiner) column(row [][]byte, name string) []byte {
	if i := slices.Index(j.columns, name); name != "" && i >= 0 && i < len(row) {
		return row[i]
	}
	return nil
}

// table is the table that a row is about; nil for none that is known.
func (j *joiner) table(row [][]byte) *catalog.Table {
	schema := j.t.OfSchema
	if j.t.Owner != "" {
		schema = string(j.column(row, j.t.Owner))
	}
	name := string(j.column(row, j.t.Table))
	switch {
	case j.t.Table == "" && j.t.OfSchema != "" && len(row) > 0: // SHOW TABLES
		name = string(row[0])
	case schema == "":
		schema, name, _ = strings.Cut(name, ".") // as table maintenance answers
	}
	return j.c.Table(schema, name)
}

func (j *joiner) add(id catalog.ShardID, first bool, row [][]byte) {
	schema := j.column(row, j.t.Owner)
	if j.t.Schemas {
		schema = row[0]
	}
	if slices.ContainsFunc(catalog.OwnSchemas, func(own string) bool { return strings.EqualFold(string(schema), own) }) {
		return // Shunt's own, of no use to a client
	}
	if len(schema) > 0 && !j.user.sees(string(schema), j.c) {
		return
	}
	t := j.table(row)
	var hiding *catalog.Table
	if t != nil && t.Temporary && !j.t.Each { // a list has the other one of that name, too
		hiding = t
		if other := j.c.Hidden(t); other != nil && other.Shards.Has(id) {
			t = other
		}
	}
	if t != nil && !t.Shards.Has(id) {
		return // a leftover that no statement reaches
	}
	if j.t.Owner != "" && !first && catalog.IsSystemSchema(string(schema)) {
		return
	}
	var key []byte
	switch {
	case j.t.Each:
		for _, v := range row {
			key = append(wire.AppendLenBytes(key, v), 0)
		}
	case len(j.t.Key) == 0:
		key = row[0]
	default:
		for _, name := range j.t.Key {
			v := row[0]
			if name != "" {
				v = j.column(row, name)
			}
			key = append(append(key, v...), 0)
		}
		if at, seen := j.byKey[string(key)]; hiding != nil && len(row) == 1 && (!hiding.Shards.Has(id) || seen && j.from[at].Has(id)) {
			key = append(key, "hidden"...) // which SHOW TABLES of MariaDB 11 lists, too, by the same name
		}
	}
	at, seen := j.byKey[string(key)]
	if !seen {
		j.byKey[string(key)] = len(j.rows)
		j.rows = append(j.rows, row)
		j.from = append(j.from, catalog.Only(id))
		return
	}
	j.from[at].Add(id)
	if t != nil && t.Placement == catalog.Reference {
		return // a full copy, which counts once
	}
	for i, name := range j.columns {
		j.rows[at][i] = joinValues(j.t.Join[name], j.rows[at][i], row[i])
	}
}

// joinValues joins the values of two shards; nil is NULL.
func joinValues(how plan.Joining, a, b []byte) []byte {
	if how == plan.Checksum && (a == nil || b == nil) {
		return nil
	}
	if how == 0 || b == nil {
		return a
	}
	if a == nil {
		return b
	}
	x, errX := strconv.ParseUint(string(a), 10, 64)
	y, errY := strconv.ParseUint(string(b), 10, 64)
	numbers := errX == nil && errY == nil
	less := bytes.Compare(a, b) < 0
	if numbers {
		less = x < y
	}
	switch {
	case how == plan.Sum && numbers:
		return strconv.AppendUint(nil, x+y, 10)
	case how == plan.Checksum && numbers:
		return strconv.AppendUint(nil, (x+y)&0xFFFFFFFF, 10)
	case how == plan.Largest && less, how == plan.Smallest && !less:
		return b
	}
	return a
}

func (j *joiner) finish(asked catalog.ShardSet) {
	for i, row := range j.rows {
		if j.t.Each {
			holders := asked
			if t := j.table(row); t != nil {
				holders = asked.Intersect(t.Shards)
			}
			if j.from[i] != holders && len(row) > 0 {
				var names []string
				for id := range j.from[i].All {
					names = append(names, j.c.ShardName(id))
				}
				row[len(row)-1] = fmt.Appendf(slices.Clone(row[len(row)-1]), " (shard %s)", strings.Join(names, ", "))
			}
		}
		for c, name := range j.columns {
			if j.t.Join[name] != plan.RowLength || j.from[i].Len() < 2 {
				continue
			}
			rows := j.column(row, "table_rows")
			if rows == nil {
				rows = j.column(row, "rows")
			}
			n, errN := strconv.ParseUint(string(rows), 10, 64)
			size, errSize := strconv.ParseUint(string(j.column(row, "data_length")), 10, 64)
			if errN == nil && errSize == nil && n > 0 {
				row[c] = strconv.AppendUint(nil, size/n, 10)
			}
		}
	}
	if j.t.Each {
		place := func(row [][]byte) int { return slices.Index(j.order, string(j.column(row, j.t.Table))) }
		slices.SortStableFunc(j.rows, func(a, b [][]byte) int { return place(a) - place(b) })
	}
	if j.t.Sorted {
		slices.SortStableFunc(j.rows, func(a, b [][]byte) int { return bytes.Compare(a[0], b[0]) })
	}
}
