package plan

import (
	"math"

	"github.com/shunt-sql/shunt/planner/text"
)

// Merge says how the answers of several shards to a derived statement become
// the answer to the client's. Columns are numbers: from 0 those of the select
// list, and below 0 the hidden ones at the end of a shard's row: -1 is the last.
type Merge struct {
	// Hidden is the number of columns at the end of the shards' rows that the
	// client doesn't get.
	Hidden int
	// Order is how each shard's rows are sorted, and the merged ones.
	Order []MergeKey
	// Unite: rows that agree in the first Group keys of Order are one row, of
	// which Cells are put together and the others taken from any. With no keys
	// all rows are one, and where there is none one is made up (Total).
	Unite, Total bool
	Group        int
	Cells        []MergeCell
	// Having must be true of a united row; nil for any.
	Having *MergeCondition
	// Sort is the client's order where that isn't Order. United rows are then
	// held in memory.
	Sort []MergeKey
	// Offset and Count are the client's LIMIT; Count is math.MaxUint64 for none.
	Offset, Count uint64
	// CountAll: FOUND_ROWS() tells how many rows there are without Count. Each shard
	// can say that of its own; united rows, of which Count then limits no shard's,
	// are counted where they are united.
	CountAll bool
	// Skips: SKIP LOCKED with LIMIT. A row that a shard has locked and LIMIT leaves out
	// would be skipped by others, though nobody has it.
	Skips bool
	// Likely: Order is not the client's, but how the shards most likely answer. Rows that
	// come otherwise, or can't be compared, are as good.
	Likely bool
	// Nearly: the shards answer nearly in Order. A vector index rounds distances.
	Nearly bool
}

// MergeKey is one key of an order.
type MergeKey struct {
	// Value is the column that is compared, as its type compares; a text by
	// Weight.
	Value int
	// Weight, if not 0, is a hidden column that holds the WEIGHT_STRING of a
	// text (NULL or anything else where Value is no text), and Pad one that
	// holds the weight of a space where the collation ignores spaces at the
	// end, else an empty string.
	Weight, Pad int
	Desc        bool
}

// MergeCell is how one column of a united row is put together.
type MergeCell struct {
	Op     MergeOp
	Column int
	// Sum and Count are the hidden columns that an average is made of.
	Sum, Count int
	// Key is what a minimum or maximum compares by; its hidden columns come
	// from the same row.
	Key MergeKey
}

// MergeOp is what a cell holds.
type MergeOp uint8

const (
	MergeCount    MergeOp = iota // a number of rows: the sum
	MergeSum                     // an exact sum
	MergeAvg                     // Sum / Count
	MergeMin                     // the least by Key
	MergeMax                     // the greatest by Key
	MergeAnd                     // BIT_AND
	MergeOr                      // BIT_OR
	MergeXor                     // BIT_XOR
	MergeDistinct                // the number of different keys behind the group's, none of them NULL
)

// MergeCondition is a part of HAVING that is evaluated on united rows.
type MergeCondition struct {
	// Op is AND, OR, NOT or one of = <> < <= > >=, which compares Column, an
	// exact number, with Value.
	Op     string
	Kids   []*MergeCondition
	Column int
	Value  string
	// Operand is what Value is of, before it is bound.
	Operand *text.Operand
}

// NoLimit is the Count of a Merge without LIMIT.
const NoLimit = math.MaxUint64
