package plan

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// DDL changes tables or schemas on every shard that holds them.
type DDL struct {
	Catalog *catalog.Catalog
	// Op: CREATE DATABASE, DROP DATABASE, ALTER DATABASE, CREATE TABLE,
	// ALTER TABLE, DROP TABLE, RENAME TABLE, TRUNCATE TABLE, CREATE INDEX,
	// DROP INDEX, CREATE VIEW, ALTER VIEW, DROP VIEW, CREATE TRIGGER, DROP TRIGGER,
	// and CREATE, ALTER and DROP of PROCEDURE, FUNCTION and EVENT.
	Op string
	// Schema is set for the DATABASE statements, DROP TRIGGER and programs.
	Schema string
	// References: a foreign key of a table may come with it. TruncatesPartitions: of one.
	References, TruncatesPartitions bool
	// Parents are the tables that its foreign keys refer to.
	Parents []catalog.TableName
	// Unforeseen: with it statements already planned may make keys that their
	// plans don't know of.
	Unforeseen bool
	// Tables named, resolved against Settings.Schema.
	Tables []catalog.TableName
	// Renamed: for RENAME TABLE and ALTER TABLE ... RENAME, new name of Tables[i]
	// (zero value: not renamed).
	Renamed []catalog.TableName
	Shards  catalog.ShardSet
	// Idle are the shards of which each says what a server says of a statement that by the catalog changes nothing, since
	// IF EXISTS or IF NOT EXISTS stands in it; empty for any other.
	Idle catalog.ShardSet
	// Texts is what each shard gets where that isn't the client's text: a DROP of the
	// tables that it has, or of an empty one that is to be on the first shard alone.
	Texts map[catalog.ShardID]string
	// Touches names the columns that an ALTER TABLE drops, renames or changes
	// (lower case); AllColumns where it may change any (CONVERT TO CHARACTER
	// SET, an ALTER that only the lexer understood).
	Touches    []string
	AllColumns bool
	// Violations are queries that find a row for which a shard may refuse it: duplicates, orphans, values that don't fit.
	Violations []string
	// Undoes: it drops one column, key or constraint, which some shards may lack since making it has failed there.
	Undoes bool
	// Keeps: it changes no definition, as DISABLE KEYS.
	Keeps bool
	// ByKey: Tables[0], which is made, is on all shards if it gets a primary key of whole columns, and else on the first
	// alone; Shards is what the text says of that. A server may make another key of it.
	//
	// Counter-example: with sql_generate_invisible_primary_key each table has one. What the first shard made was on no other
	// shard, and was taken for spread.
	ByKey bool
	// AddsKey: Tables[0], which is on one shard for the lack of a primary key, may have one then.
	AddsKey bool
	// Counts is a column of Tables[0] that becomes AUTO_INCREMENT, "" for none. It must be counted
	// before the first shard does so.
	//
	// Counter-example: id INT NOT NULL becomes AUTO_INCREMENT. An INSERT without an id, which
	// was sent to any shard for its error, waits there for the ALTER TABLE, and makes a row.
	Counts string
	// Filled is the refusal unless Tables[0] has no rows on any shard; nil: it may have some.
	// Or, if Collation isn't "", its default collation is that one.
	Filled    *text.Error
	Collation string
	// Refused is why what fires the trigger that it makes will be refused, nil where that will be done.
	Refused *text.Error
	// SameTime as Bound's.
	SameTime bool
	// Virtual are the indexes that it makes with COMMENT 'virtual'.
	Virtual []VirtualIndex
	// As is of CREATE TABLE ... SELECT whose rows have to move; nil where the shards do it.
	As *CreateAs
}

func (*DDL) isPlan() {}

// VirtualIndex names a virtual index in a statement.
type VirtualIndex struct {
	Name       string
	Table      catalog.TableName
	Columns    []string
	Include    []string
	Partitions int // 0: not given
}

// CreateAs is how CREATE TABLE ... SELECT is done whose rows come from other shards
// than they go to: the table is made without rows, and these are inserted.
//
//	CREATE TABLE t (a INT KEY) IGNORE AS SELECT a FROM u LIMIT 5
//	└───────────── head ────────────────┘└────── query ────────┘
type CreateAs struct {
	Query string
	// Make is the head and the query with LIMIT 0: a table's columns don't depend on
	// the rows.
	Make string
	// Insert stands before the table's name and a list of columns.
	Insert string
	// Lenient as Copy's, Ignore: so it is written.
	Lenient, Ignore bool
	// Exists: a shard has a table of that name, and it isn't replaced.
	Exists bool
	// Refusal refuses the table if no column of the query is the one that places its rows.
	Refusal *text.Error
	// KeyColumn is that column.
	KeyColumn string
}

// Lacks is the refusal of a table that has the query's columns beside its own, nil for none.
func (a *CreateAs) Lacks(columns []string) *text.Error {
	if a.Refusal == nil || slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, a.KeyColumn) }) {
		return nil
	}
	return a.Refusal
}

// Into are the columns of the new table that the query's go to, by their names: one of that name
// may be declared.
//
// Counter-example: CREATE TABLE t (id INT KEY, n INT) SELECT id, colour AS n FROM u of an ENUM.
func (a *CreateAs) Into(t *catalog.Table, columns []string) *Stored {
	out := &Stored{Table: t, Ignore: a.Ignore, Columns: make([]*catalog.Column, len(columns))}
	for i, name := range columns {
		out.Columns[i] = t.Column(name)
	}
	return out
}

// Temporary is a statement that makes, changes or drops temporary tables. They
// are on one connection, which the session keeps (Catalog.Pinned), and are
// tables of placement single to all other statements.
type Temporary struct {
	Catalog *catalog.Catalog
	// Op: CREATE TEMPORARY TABLE, ALTER TABLE, CREATE INDEX, DROP INDEX, TRUNCATE
	// TABLE or DROP TABLE.
	Op string
	// Tables named, resolved against Settings.Schema; Renamed as DDL's.
	Tables, Renamed []catalog.TableName
	// Shards are those that have what a new table is made from.
	Shards catalog.ShardSet
	// Commits: an open transaction is committed first, as a server does.
	Commits bool
	// Quiet: IF NOT EXISTS or IF EXISTS.
	Quiet bool
	// As is of CREATE TEMPORARY TABLE ... SELECT, for where no shard answers that alone.
	As *CreateAs
}

func (*Temporary) isPlan() {}
