package plan

import (
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
