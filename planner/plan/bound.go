package plan

import (
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// Bound is a plan with its values and its route.
type Bound struct {
	// Statements to send, one a shard, in shard order. Empty only with Gather.
	Statements []ShardStatement
	// Alternatives are the shards of which any one would answer as well, where
	// Statements has one and its tables are on several (reference tables) or it
	// has none: a session may prefer one that its transaction is open on.
	Alternatives catalog.ShardSet
	// Refuse is set when the answers of these several shards can't be joined:
	// an *Error to give to the client instead of sending anything. Look at it
	// before Adds and Marks, which are then void.
	Refuse *text.Error
	// Merge says how the answers of Statements, which then are derived from the
	// client's text, become one answer; nil: their rows are concatenated.
	Merge *Merge
	// Gather says what to fill into a scratch schema, where the client's query
	// then runs; Statements is empty with it. With an UPDATE or DELETE Statements
	// are the client's text for each shard that it changes: the copies are made on
	// all of these, and Gather.Query is what to run.
	Gather *Gather
	// System says how the answers of Statements about the servers and their
	// schemas become one; nil for all else.
	System *System
	// Generated is set for an INSERT into a table whose AUTO_INCREMENT column
	// Shunt counts.
	Generated *Generated
	// Counted and Given: all rows of an INSERT get the value of their AUTO_INCREMENT
	// column from its server, or none does. The answer tells an id in both cases,
	// LAST_INSERT_ID() only the former.
	Counted, Given bool
	// Doubts are tables whose AUTO_INCREMENT column gets values that Shunt
	// doesn't know.
	Doubts []*catalog.Table
	// Unique is what other shards are to be asked for behind the statement; nil for nothing.
	Unique *Unique
	// Found says what FOUND_ROWS() tells after the statement.
	Found FoundRows
	// SameTime: all shards must take the same time for the statement's, since
	// what it stores goes by it and each has a copy.
	SameTime bool
	// Plan, Access and Reason are what EXPLAIN ROUTE shows. Access is
	// "shard_key", "index:NAME" ("index:A,index:B" when several took part),
	// "shard_key,index:NAME" where both did), "scatter", "reference", "single"
	// or "hint".
	Plan, Access, Reason string
	// Adds and Marks must be in the store before anything is sent.
	Adds  []Entry
	Marks []Mark
	// Maintain: what to look after when the statement has returned.
	Maintain []Maintenance
	// Probes are the keys that an equality on an index looked up, for read
	// repair and audits. Only those that decide the route by themselves.
	Probes []Probe
	// Covered: its answer depends on the rows with these keys alone, of one of Rows.Covering; nil: it doesn't.
	Covered *Covered
}

// Change is what a write may do to rows; what triggers and foreign keys do to other tables' is beside.
type Change struct {
	Tables []*catalog.Table
	// Columns of the only table are all that may change of its rows; nil: any.
	Columns []*catalog.Column
	// New: of the only table's rows it changes none but new ones, whose keys are those of Adds and Marks.
	New   bool
	Adds  []Entry
	Marks []Mark
}

// Touches reports whether it may change what reads by a covering index answer, and by which of its keys; nil: by any.
func (c *Change) Touches(ix *catalog.Index) (touches bool, keys [][]byte) {
	if len(c.Tables) != 1 || ix.Table != c.Tables[0] {
		return true, nil
	}
	if c.New {
		for i := range c.Marks {
			if c.Marks[i].Index == ix {
				return true, nil
			}
		}
		for i := range c.Adds {
			if c.Adds[i].Index == ix {
				keys = append(keys, c.Adds[i].Key)
			}
		}
		return len(keys) > 0, keys
	}
	return c.Columns == nil || slices.ContainsFunc(c.Columns, ix.Answers), nil
}

// Covered are keys of an index.
type Covered struct {
	Index *catalog.Index
	Keys  [][]byte
}

// ShardStatement is the text for one shard.
type ShardStatement struct {
	Shard catalog.ShardID
	SQL   string
	// Params are the positions (in the client's parameter list) of the `?` of
	// SQL, nil when they are all of them in order. Behind the client's are those
	// of Bound.Generated.Values.
	Params []int
	// Rows are the places, from 0, that the rows of a split INSERT have in the
	// client's; nil when they are all of them.
	Rows []int
}

// Indexes answers lookups while a plan is bound. An error means: the index
// can't be used now, and the statement goes wide.
type Indexes interface {
	// Lookup returns the shards that may hold the full key, marks included. What it
	// is given is lent.
	// components are the key's, one for each column of the index; nil where it
	// has only one. Marks that know another component don't count.
	Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error)
	// Range returns the shards of all keys with from <= key < to (to nil: no
	// end), marks included. ok is false when more than limit keys are in it.
	Range(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error)
	// Removals counts what has been taken away. Lookups are of one moment if it is the same
	// before and after them.
	//
	// Counter-example: email IN ('a', 'b'). 'a' is looked up; the row of 'b' gets 'a', and the
	// entry of 'b' is removed; 'b' is looked up. The row matched at all times.
	Removals() uint64
}

// Question is one of several lookups that are answered as of one moment.
type Question struct {
	Index *catalog.Index
	// Key and Components are those of Indexes.Lookup; where it is Ranged, From, To and Limit are
	// those of Indexes.Range.
	Key        []byte
	Components [][]byte
	Ranged     bool
	From, To   []byte
	Limit      int
	// Shards, Within (for what is Ranged) and Err are the answer.
	Shards catalog.ShardSet
	Within bool
	Err    error
}

// FoundRows says what FOUND_ROWS() tells after a statement.
// https://dev.mysql.com/doc/refman/9.0/en/information-functions.html#function_found-rows
type FoundRows struct {
	Op FoundOp
	// Skipped are the rows that OFFSET leaves out of those that are counted.
	Skipped uint64

	Offset *text.Operand
}

// FoundOp is where the number comes from.
type FoundOp uint8

const (
	FoundKept    FoundOp = iota // the statement leaves it as it was
	FoundCounted                // the rows that are answered, and those skipped before them
	FoundAsked                  // only the servers that execute the statement can say
	FoundMatched                // the first number of the answer's info: "Rows matched", "Records"
	FoundOne                    // 1
)
