package plan

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// Keyed is how an UPDATE or DELETE is done whose rows no shard can find by itself: a query finds
// and locks them, and statements change them by their keys.
type Keyed interface {
	// Query finds the keys of the rows for the parameters.
	Query(params []keys.Value) string
	// Changes are the statements that change them, whose keys stand side by side in the query's answer.
	Changes(params []keys.Value) []KeyedChange
	// Unsafe is what sql_safe_updates refuses: conditions by which no key finds the rows.
	Unsafe() bool
}

// KeyedChange is a statement that changes rows by their keys, each "(1, 'a')" between Head and Tail.
type KeyedChange struct {
	Head, Tail string
	// Columns is the number of a key's columns.
	Columns int
}

// DeletedTables is how a DELETE from several tables is done whose rows are not joined on their
// shard keys, so that a row may be on another shard than those that it is joined with:
//
//	DELETE IGNORE u, o FROM users u JOIN orders o ON o.total = u.paid WHERE u.age > 9
//	                        └───────────────────── rows ────────────────────────┘
//	SELECT `u`.`id`, `o`.`user_id`, `o`.`id` FROM users u JOIN orders o ON o.total = u.paid WHERE u.age > 9 FOR UPDATE
//	DELETE IGNORE FROM `shop`.`users` WHERE (`id`) IN ((3), (8))
//	DELETE IGNORE FROM `shop`.`orders` WHERE (`user_id`, `id`) IN ((1, 1), (7, 1))
type DeletedTables struct {
	Statement *text.Statement
	// With ends a WITH clause before the statement's verb. Rows is where the tables begin.
	With, Rows uint32
	// Options are those of the verb, each with a blank behind it.
	Options string
	Tables  []DeletedTable
	// NoKey: the conditions compare no key's column of one of the tables.
	NoKey bool
}

// DeletedTable is one whose rows are deleted.
type DeletedTable struct {
	Table *catalog.Table
	// Alias is its name in the statement.
	Alias string
	// Key are the columns that tell the table's rows apart, on all shards.
	Key []*catalog.Column
}

// Query is Keyed's.
func (d *DeletedTables) Query(params []keys.Value) string {
	var columns []string
	for _, t := range d.Tables {
		for _, c := range t.Key {
			columns = append(columns, catalog.QuoteName(t.Alias)+"."+catalog.QuoteName(c.Name))
		}
	}
	part := func(from, to uint32) string { return d.Statement.Written(from, to, params) }
	return part(0, d.With) + "SELECT " + strings.Join(columns, ", ") + " FROM " + part(d.Rows, uint32(len(d.Statement.Src))) + " FOR UPDATE"
}

// Unsafe is Keyed's.
func (d *DeletedTables) Unsafe() bool { return d.NoKey }

// Changes is Keyed's: a statement for each table.
func (d *DeletedTables) Changes([]keys.Value) (out []KeyedChange) {
	for _, t := range d.Tables {
		head := "DELETE " + d.Options + "FROM " + catalog.QuoteTable(t.Table.Schema, t.Table.Name) + " WHERE (" + catalog.QuoteColumns(t.Key) + ") IN ("
		out = append(out, KeyedChange{Head: head, Tail: ")", Columns: len(t.Key)})
	}
	return out
}

// Limited is how an UPDATE or DELETE with LIMIT is done over several shards,
// none of which knows how many rows the others change: its rows are found, and
// locked, by a query of their keys, and changed by these.
//
//	UPDATE users u SET u.age = 1 WHERE u.age > 9 ORDER BY u.id LIMIT 5
//	       └table┘               └────────────── rows ───────────────┘
//	SELECT `id` FROM users u WHERE u.age > 9 ORDER BY u.id LIMIT 5 FOR UPDATE
//	UPDATE users u SET u.age = 1 WHERE `id` IN (3, 8) AND (u.age > 9) ORDER BY u.id
type Limited struct {
	Statement *text.Statement
	// Key are the columns that tell the table's rows apart, on all shards.
	Key []*catalog.Column
	// offsets of what the picture shows, and of ORDER BY and LIMIT in it.
	Table        [2]uint32
	Rows, End    uint32
	Order, Limit uint32
	// Condition is where that begins which is repeated beside the keys; 0: none is.
	Condition uint32
	// Unguarded: sql_safe_updates refuses it, LIMIT or not.
	Unguarded bool
}

// Query finds the keys of the rows for the parameters.
func (l *Limited) Query(params []keys.Value) string {
	return "SELECT " + catalog.QuoteColumns(l.Key) + " FROM " + l.Statement.Written(l.Table[0], l.Table[1], params) + " " +
		l.Statement.Written(l.Rows, l.End, params) + " FOR UPDATE"
}

// Unsafe is Keyed's: LIMIT is safe, mostly.
func (l *Limited) Unsafe() bool { return l.Unguarded }

// Changes is the one statement that changes the rows.
func (l *Limited) Changes(params []keys.Value) []KeyedChange {
	tail := ") "
	if l.Condition > 0 {
		tail = ") AND (" + l.Statement.Written(l.Condition, l.Order, params) + ") "
	}
	return []KeyedChange{{
		Head: l.Statement.Written(0, l.Rows, params) + " WHERE (" + catalog.QuoteColumns(l.Key) + ") IN (",
		Tail: tail + l.Statement.Written(l.Order, l.Limit, params), Columns: len(l.Key),
	}}
}
