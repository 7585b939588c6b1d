package spoken

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// UserTableAt reads a table's name at token i, and says which token follows.
func UserTableAt(st *text.Statement, cat *catalog.Catalog, i int) (name catalog.TableName, next int, t *catalog.Table, err *text.Error) {
	if name, next, err = st.TableAt(i); err == nil {
		t, err = userTable(cat, name)
	}
	return name, next, t, err
}

// userTable is a table that a client may define: an error where there is none, or where it is a system table.
func userTable(cat *catalog.Catalog, name catalog.TableName) (*catalog.Table, *text.Error) {
	t, system, err := LookupTable(cat, name.Schema, name.Name)
	if err != nil {
		return nil, err
	}
	if system {
		return nil, refuseSystem(name.Schema)
	}
	return t, nil
}

// refuseSystem refuses to change a system schema.
func refuseSystem(schema string) *text.Error {
	return text.NotSupported("changing the system schema %s is not supported: run it on the shard itself", schema)
}

// placed says where a table is or will be: its catalog entry, which for a
// configured table exists before the table does, or the schema's default.
func placed(cat *catalog.Catalog, name catalog.TableName, primaryKey bool) (p catalog.Placement, shards catalog.ShardSet, key string) {
	if t := cat.Table(name.Schema, name.Name); t != nil {
		key = t.KeyWanted
		if t.ShardKey != nil {
			key = t.ShardKey.Name
		}
		shards = t.Shards
		if shards.Empty() {
			shards = cat.All
		}
		return t.Placement, shards, key
	}
	d := catalog.DefaultPlacement{}
	if s := cat.Schema(name.Schema); s != nil {
		d = s.Default
	}
	switch {
	case d.Placement == catalog.Single:
		return catalog.Single, catalog.Only(d.Shard), ""
	case d.Placement == catalog.Hash && !primaryKey:
		return catalog.Single, firstShard(cat), ""
	}
	return d.Placement, cat.All, ""
}

// byKey reports whether a new table's primary key says where it is.
func byKey(cat *catalog.Catalog, name catalog.TableName) bool {
	_, with, _ := placed(cat, name, true)
	_, without, _ := placed(cat, name, false)
	return with != without
}

// ifNotExists is the token behind IF NOT EXISTS at token i; i where that isn't there.
func ifNotExists(st *text.Statement, i int) int {
	if st.Is(i, "if") && st.Is(i+1, "not") && st.Is(i+2, "exists") {
		return i + 3
	}
	return i
}

// ifExists is the token behind IF EXISTS at token i; i where that isn't there.
func ifExists(st *text.Statement, i int) int {
	if st.Is(i, "if") && st.Is(i+1, "exists") {
		return i + 2
	}
	return i
}

// behindWait skips MariaDB's WAIT n or NOWAIT.
func behindWait(st *text.Statement, i int) int {
	switch {
	case !st.Server.MariaDB:
	case st.Is(i, "nowait"):
		return i + 1
	case st.Is(i, "wait") && i+1 < len(st.Tokens) && st.Tokens[i+1].Kind == text.Int:
		return i + 2
	}
	return i
}

// RefuseAlterKey refuses what may change the shard key of rows that are there.
func RefuseAlterKey(t *catalog.Table) *text.Error {
	return text.NotSupported("an ALTER TABLE that may change the shard key %s.%s is not supported, but for a larger integer type or AUTO_INCREMENT: rows would have to move between shards; make a new table and copy", t.Name, t.ShardKey.Name)
}

// Parents are the tables that a definition's foreign keys refer to.
func Parents(st *text.Statement) (out []catalog.TableName) {
	for i := range st.Tokens {
		if st.Is(i, "references") {
			if name, _, err := st.TableAt(i + 1); err == nil {
				out = append(out, name)
			}
		}
	}
	return out
}
