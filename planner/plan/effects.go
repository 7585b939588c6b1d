package plan

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Entry is one (index, key, shard) to have in the store before a statement is sent.
type Entry struct {
	Index *catalog.Index
	Key   []byte
	Shard catalog.ShardID
}

// Mark is an unknown mark to have in the store before a statement is sent. Known holds the
// encoded components that are known (nil for the others); nil Known: none is.
type Mark struct {
	Index *catalog.Index
	Shard catalog.ShardID
	Known [][]byte
	// Logged: the shard's binary log shows the rows that the statement changes.
	Logged bool
}

// Maintenance asks for a maintain_index job, or where Keys is set for a
// verify_keys job.
type Maintenance struct {
	Table     *catalog.Table
	Operation string // INSERT, UPDATE, DELETE, REPLACE, UNKNOWN
	Shards    catalog.ShardSet
	Indexes   []*catalog.Index
	Columns   []string // updated columns
	Keys      []Probe
	// Logged is as Mark's.
	Logged bool
}

// Probe is a key with the values it was made from.
type Probe struct {
	Index  *catalog.Index
	Key    []byte
	Values []keys.Value
}

// CheckRow is what a check of a virtual index has found on a shard.
type CheckRow struct {
	Shard                   catalog.ShardID
	Checked, Missing, Stale int64
}
