package plan

import "github.com/shunt-sql/shunt/planner/catalog"

// Plan is what a statement will do. The planner makes it from the statement's
// text, the settings and a catalog snapshot alone, so it can be cached; Bind
// turns it into a Bound for given values.
//
//sumtype:decl
type Plan interface{ isPlan() }

// Rows is the plan of every statement whose route is found from a condition or
// from values: SELECT, INSERT, REPLACE, UPDATE, DELETE, EXPLAIN, and SHOW and
// SELECT without a table. Bind it with Planner.Bind.
type Rows struct {
	Catalog *catalog.Catalog
	Kind    Kind
	// Params is the number of `?` in the statement.
	Params int
	// Copy is the other way of an INSERT ... SELECT, for where Bind or the Bound
	// refuses it; nil for none.
	Copy *Copy
	// Keyed is the other way of an UPDATE or DELETE, for where the Bound refuses it; nil for none.
	Keyed Keyed
	// Computes is a SELECT of what a DO computes, for where the Bound refuses that; "" for none.
	Computes string
	// Constants are what to ask a shard for where Bind refuses an INSERT; nil for
	// nothing.
	Constants *Constants
	// Meets is set for an INSERT or REPLACE whose rows must be tried first, which
	// Bind refuses; see BindRow.
	Meets *Meets
	// Returning: an INSERT, REPLACE or DELETE answers the rows that it has changed.
	Returning bool
	// Shown is set for SHOW VARIABLES and SHOW STATUS.
	Shown *ShownValues
	// Creates is set for SHOW CREATE TABLE of a table over several shards that has an
	// AUTO_INCREMENT column.
	Creates *catalog.Table
	// Calls: CALL, whose procedure may ask for LAST_INSERT_ID(), and set it.
	// Ends: it may also end the transaction that it is called in.
	Calls, Ends bool
	// Redefines: a hinted statement that may change what tables, triggers and the like its
	// shard has.
	Redefines bool
	// Sets are the user variables among CALL's parameters (lower case, without @).
	Sets []string
	// Assigns are those that a SELECT assigns (@x := ...).
	Assigns []string
	// AsksConnection: it may ask for what a pooled connection, or the server by itself, knows of.
	AsksConnection bool
	// AsksNoID: the text is known not to ask for LAST_INSERT_ID() or @@identity.
	AsksNoID bool
	// Repeatable: a SELECT that may be executed once more, or in vain, and nobody would notice but by the time.
	Repeatable bool
	// Lock is set for a statement about locks by name.
	Lock *NamedLock
	// Plain: a SELECT with none of the above, nor anything else that asks for another way than to be
	// bound and sent. So it is decided once for all of its executions.
	Plain bool
	// Covering are the indexes that have all columns that the statement, a SELECT of their table alone, needs, and
	// whose whole key it may ask for: its answer is one of theirs that can be kept (Bound.Covered).
	Covering []*catalog.Index
	// Tables are the user tables that the statement names, each once. Unnamed are those among them that it writes to through a
	// view, for which LOCK TABLES of the view will do.
	Tables, Unnamed []*catalog.Table
	// Own is the planner's: routing trees, splits and effects.
	Own any
}

func (*Rows) isPlan() {}

// Kind tells statements apart where execution differs.
type Kind uint8

const (
	Select  Kind = iota // answers rows, writes nothing, takes no locks
	Locking             // SELECT ... FOR UPDATE / FOR SHARE / LOCK IN SHARE MODE
	Insert
	Replace
	Update
	Delete
	Show  // SHOW, DESCRIBE, EXPLAIN: rows from one shard
	Other // forwarded to one shard by a hint: may write
)

// Writes reports whether statements of this kind may change rows.
func (k Kind) Writes() bool {
	return k == Insert || k == Replace || k == Update || k == Delete || k == Other
}
