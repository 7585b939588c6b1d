package advise

import (
	"context"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Source is what advice is made of.
type Source struct {
	// Build is the catalog of the server's schema on that many shards under a design. Errors are those of
	// a design that can't be.
	Build func(Design) (*catalog.Catalog, error)
	// Stats by table; those of tables that aren't in it are unknown.
	Stats       map[catalog.TableName]Stats
	ForeignKeys []ForeignKey
	Shapes      []*Shape
	// Sample draws some rows of a table, and answers for the values that they have in columns where rows of these
	// are. Without an error and values: only statistics know.
	Sample func(ctx context.Context, t *catalog.Table, columns []*catalog.Column, key string) ([]Value, error)
	// Schemas are those that are advised on.
	Schemas []string
	// Budget bounds how often the planner is asked while placements are sought.
	Budget int
	// Progress is told now and then how much of all is done of something; may be nil.
	Progress func(what string, done, all int64)
}

func (s *Source) tell(what string, done, all int) {
	if s.Progress != nil {
		s.Progress(what, int64(min(done, all)), int64(all))
	}
}

// Stats is what the server knows of a table's rows.
type Stats struct {
	Rows, Bytes uint64
	// Distinct counts a column's values, by its name in lower case. Where it lacks one it isn't known.
	Distinct map[string]uint64
}

// ForeignKey is one of Table, whose Columns refer to those of Parent.
type ForeignKey struct {
	Name            string
	Table, Parent   catalog.TableName
	Columns, Refers []string
}

// Value is what a row that was drawn has in the columns of an index: so many rows have it; 0 for NULL, which has no
// entry. They are on Shards, or have ShardKeys, as a server sends them as text.
type Value struct {
	Rows      uint64
	Shards    catalog.ShardSet
	ShardKeys [][]byte
}
