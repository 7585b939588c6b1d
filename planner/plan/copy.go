package plan

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// Copy is how an INSERT or REPLACE ... SELECT is done whose rows come from other
// shards than they go to: the query is run as a client's would be, and its rows
// are inserted by statements of many rows.
//
//	INSERT IGNORE INTO t (a, b) SELECT x, y FROM u ON DUPLICATE KEY UPDATE b = 1
//	└────────── head ─────────┘└──── query ───────┘└────────── tail ──────────┘
type Copy struct {
	Statement *text.Statement
	// the query begins and ends at these offsets
	From, To uint32
	// Lenient: INSERT IGNORE, or no strict SQL mode: what the query warns of, an
	// INSERT ... SELECT warns of too. Else it fails.
	Lenient bool
	// Into are the columns that are inserted.
	Into Stored
}

// Updates reports a tail: ON DUPLICATE KEY UPDATE.
func (c *Copy) Updates() bool { return int(c.To) < len(c.Statement.Src) }

// Text is the statement for the parameters.
func (c *Copy) Text(params []keys.Value) string {
	return c.Statement.Written(0, uint32(len(c.Statement.Src)), params)
}

// Texts are the statement's parts for the parameters: what to put before the
// rows, the query, and what to put after them.
func (c *Copy) Texts(params []keys.Value) (head, query, tail string) {
	part := func(from, to uint32) string { return c.Statement.Written(from, to, params) }
	return part(0, c.From) + " VALUES ", part(c.From, c.To), " " + part(c.To, uint32(len(c.Statement.Src)))
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
}

// Query finds the keys of the rows for the parameters.
func (l *Limited) Query(params []keys.Value) string {
	return "SELECT " + catalog.QuoteColumns(l.Key) + " FROM " + l.Statement.Written(l.Table[0], l.Table[1], params) + " " +
		l.Statement.Written(l.Rows, l.End, params) + " FOR UPDATE"
}

// Texts are what stands before and after the keys, each "(1, 'a')", in a
// statement that changes their rows.
func (l *Limited) Texts(params []keys.Value) (head, tail string) {
	tail = ") "
	if l.Condition > 0 {
		tail = ") AND (" + l.Statement.Written(l.Condition, l.Order, params) + ") "
	}
	return l.Statement.Written(0, l.Rows, params) + " WHERE (" + catalog.QuoteColumns(l.Key) + ") IN (", tail + l.Statement.Written(l.Order, l.Limit, params)
}
