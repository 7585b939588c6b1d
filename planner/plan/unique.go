package plan

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// Unique is an INSERT or UPDATE that may give a row of a table placed anywhere the unique
// key of a row on another shard, whose servers know nothing of each other. When it has
// been executed, in its transaction, the other shards are asked: an INSERT's rows are tried
// there as in Meets, and of an UPDATE's key, which is known, there may be one row in all.
//
//	prepare ── send ── lookups ── nothing elsewhere ── commit                by virtual indexes
//	                      └────── ask the others ───── commit, or rolled back and 1062
//
// Rule look behind: the shards are asked, and virtual indexes too, when the own entry is in
// the store and the own row on its shard. Counter-example: two sessions insert rows of other
// primary keys with the email 'x', for shards of their own. Each would look, find nothing, and
// then write. Nor does it do that the entry alone is there: the first looks up nothing, the second
// finds the first's entry, asks that shard, which has no row yet, and commits; the first writes.
type Unique struct {
	Table *catalog.Table
	// Ignore: UPDATE IGNORE, which leaves out what it would make twice.
	Ignore bool
	Looks
}

// Looks are the questions of a Unique.
type Looks interface {
	// Elsewhere are the questions to other shards, at most one for each, or for each of an
	// UPDATE's keys. REQUIRES: the statement's entries and marks are in the store.
	Elsewhere() []Look
	// Each splits a Look into one for each row.
	Each(l Look) []Look
	// Duplicate is the error (1062) of a key that an UPDATE would give to two rows.
	Duplicate(key int) *text.Error
}

// Look is what a shard is asked. Rows are an INSERT's, each of which is also a Look by
// itself (Unique.Each), where one has an error of its own. Key, of an UPDATE: the number of its key.
type Look struct {
	Shard catalog.ShardID
	SQL   string
	Rows  []int
	Key   int
}
