package spoken

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// LookupTable finds a table. Shunt itself answers 1146 and 1049 for what it
// doesn't know, since a table that was made behind its back is spread over the
// shards: one shard's answer would be a part of it. Who gets these may read the
// schema again and retry.
func LookupTable(cat *catalog.Catalog, schema, name string) (t *catalog.Table, system bool, err *text.Error) {
	if schema == "" {
		return nil, false, text.NoDatabase()
	}
	if schema == catalog.VirtualSchema { // which nobody but Shunt names
		if t = cat.Table(schema, name); t != nil {
			return t, false, nil
		}
	}
	if catalog.IsSystemSchema(schema) {
		return nil, true, nil
	}
	if cat.Schema(schema) == nil && !cat.MariaDB { // which says of the table alone that it isn't there
		return nil, false, text.UnknownSchema(schema)
	}
	t = cat.Table(schema, name)
	if t != nil && t.Lost {
		return nil, false, lostTemporary(t)
	}
	if t == nil || len(t.Columns) == 0 && !t.IsView {
		return nil, false, text.NewError(mysqlerr.NoSuchTable, "Table '"+schema+"."+name+"' doesn't exist")
	}
	return t, false, nil
}

// Mentioned are all tables that have the name of any identifier in the text, in
// any schema: more than the statement reads, never less.
func Mentioned(st *text.Statement, cat *catalog.Catalog) []*catalog.Table {
	names := map[string]bool{}
	for i := range st.Tokens {
		if name, ok := st.Identifier(i); ok {
			names[strings.ToLower(name)] = true
		}
	}
	var out []*catalog.Table
	for _, t := range sortedTables(cat) {
		if names[strings.ToLower(t.Name)] {
			out = append(out, t)
		}
	}
	return out
}

// mayName reports whether a text, whose names without a schema are of the one that is given,
// may name a table.
func mayName(st *text.Statement, t *catalog.Table, schema string) bool {
	has := func(name string) bool { return st.HasIn(0, len(st.Tokens), strings.ToLower(name)) }
	return has(t.Name) && (strings.EqualFold(t.Schema, schema) || has(t.Schema))
}

// namedIn are those of Mentioned that a text of a schema may name: an event's, a trigger's or a view's.
//
// Counter-example to any schema: DELETE FROM sessions in an event of shop was refused for a trigger of test.sessions.
func namedIn(st *text.Statement, cat *catalog.Catalog, schema string) []*catalog.Table {
	return slices.DeleteFunc(Mentioned(st, cat), func(t *catalog.Table) bool { return !mayName(st, t, schema) })
}

// sortedTables are all tables in the order of their names.
func sortedTables(cat *catalog.Catalog) []*catalog.Table {
	return slices.SortedFunc(cat.Tables(), func(x, y *catalog.Table) int {
		return cmp.Or(strings.Compare(x.Schema, y.Schema), strings.Compare(x.Name, y.Name))
	})
}

// Visible are the columns that * stands for.
//
// Counter-example: t (secret INT INVISIBLE, id INT, v INT), hashed by id. In INSERT
// INTO t SELECT a, b FROM u it is a that places the rows.
func Visible(t *catalog.Table) []*catalog.Column {
	hidden := func(c *catalog.Column) bool { return c.Invisible }
	if !slices.ContainsFunc(t.Columns, hidden) {
		return t.Columns
	}
	return slices.DeleteFunc(slices.Clone(t.Columns), hidden)
}

// UnknownColumn is a server's error for a name in a list of columns.
func UnknownColumn(name string) *text.Error {
	return text.NewErrorf(mysqlerr.BadField, "Unknown column '%s' in 'field list'", name)
}

// CountedColumn is the AUTO_INCREMENT column that Shunt counts: one shard alone does
// so itself.
func CountedColumn(t *catalog.Table) *catalog.Column {
	if t.Shards.Len() < 2 {
		return nil
	}
	for _, c := range t.Columns {
		if c.AutoIncrement {
			return c
		}
	}
	return nil
}

// Fullest are the shards that hold the most tables: they know of all, unless
// tables that are on single shards are on several of them.
func Fullest(cat *catalog.Catalog) (best catalog.ShardSet) {
	held := map[catalog.ShardID]int{}
	for t := range cat.Tables() {
		if t.Temporary {
			continue // only its own session sees it
		}
		for id := range t.Shards.All {
			held[id]++
		}
	}
	most := -1
	for _, s := range cat.Shards {
		switch n := held[s.ID]; {
		case n > most:
			most, best = n, catalog.Only(s.ID)
		case n == most:
			best.Add(s.ID)
		}
	}
	return best
}

func firstShard(cat *catalog.Catalog) catalog.ShardSet {
	if len(cat.Shards) == 0 {
		return cat.All
	}
	return catalog.Only(cat.Shards[0].ID)
}
