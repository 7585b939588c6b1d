package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Temporary is a statement that makes, changes or drops temporary tables. They
// are on one connection, which the session keeps (Catalog.Pinned), and are
// tables of placement single to all other statements.
type Temporary struct {
	Catalog *catalog.Catalog
	// Op: CREATE TEMPORARY TABLE, ALTER TABLE, CREATE INDEX, DROP INDEX, TRUNCATE
	// TABLE or DROP TABLE.
	Op string
	// Tables named, resolved against Settings.Schema; Renamed as DDL's.
	Tables, Renamed []TableName
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

func refuseHintedTemporary() *Error {
	return notSupported("a hint before CREATE or DROP TEMPORARY TABLE is not supported: Shunt chooses the shard")
}

// createTemporary plans CREATE TEMPORARY TABLE, whose name is at token i.
func (p *Planner) createTemporary(st *statement, cat *catalog.Catalog, i int) (Plan, *Error) {
	t := &Temporary{Catalog: cat, Op: "CREATE TEMPORARY TABLE", Shards: cat.All, Quiet: st.is(i-1, "exists")}
	if !cat.Pinned.Empty() {
		t.Shards = cat.Pinned
	}
	if st.is(1, "or") {
		return nil, notSupported("CREATE OR REPLACE TEMPORARY TABLE is not supported: DROP TEMPORARY TABLE IF EXISTS, then CREATE")
	}
	name, i, err := st.tableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	if cat.Schema(name.Schema) == nil {
		return nil, unknownSchema(name.Schema)
	}
	t.Tables, t.Renamed = []TableName{name}, make([]TableName, 1)
	apart := notSupported("CREATE TEMPORARY TABLE %s from tables that are not on one shard together, or not on that of the session's other temporary tables, is not supported: write the columns out, then INSERT ... SELECT", name.Name)
	src, err := st.likeAt(i, cat)
	if err != nil {
		return nil, err
	}
	if src != nil {
		if t.Shards = t.Shards.Intersect(src.Shards); t.Shards.Empty() {
			return nil, apart
		}
		return t, nil
	}
	query := st.queryAt(i)
	if query < 0 {
		return t, nil
	}
	t.As, err = st.createAs(query)
	if err != nil {
		return nil, err
	}
	from, err := p.createdFrom(t.As, st, cat)
	if err != nil {
		return nil, err
	}
	for _, x := range from {
		t.Shards = t.Shards.Intersect(x.Shards)
	}
	if t.Shards.Empty() {
		return nil, apart
	}
	return t, nil
}

// dropTemporary plans DROP TEMPORARY TABLE.
func dropTemporary(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if !st.is(2, "table") && !st.is(2, "tables") {
		return nil, notSupported("DROP TEMPORARY %s is not supported", strings.ToUpper(st.word(2)))
	}
	i := ifExists(st, 3)
	t := &Temporary{Catalog: cat, Op: "DROP TABLE", Shards: cat.Pinned, Quiet: i > 3}
	for {
		name, next, err := st.tableAt(i)
		if err != nil {
			return nil, err
		}
		t.Tables = append(t.Tables, name)
		if i = next; !st.op(i, ",") {
			break
		}
		i++
	}
	if i < len(st.toks) && !st.is(i, "restrict") && !st.is(i, "cascade") && !st.is(i, "wait") && !st.is(i, "nowait") {
		return nil, st.near(i)
	}
	t.Renamed = make([]TableName, len(t.Tables))
	return t, nil
}

// overTemporary is a plan of DDL where the session has temporary tables: it is
// about those, or it doesn't name them.
//
// Counter-example: CREATE TEMPORARY TABLE users ...; TRUNCATE TABLE users. The
// table on the shards is not to be emptied.
func overTemporary(st *statement, cat *catalog.Catalog, plan Plan) (Plan, *Error) {
	d, ok := plan.(*DDL)
	if !ok || !hasTemporary(cat) {
		return plan, nil
	}
	named := 0
	for _, name := range d.Tables {
		if t := cat.Table(name.Schema, name.Name); t != nil && t.Temporary {
			named++
		}
	}
	switch d.Op {
	case "ALTER TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX", "DROP TABLE":
		if named == 0 {
			break
		}
		if named < len(d.Tables) {
			return nil, notSupported("%s of temporary and other tables together is not supported: use a statement for each", d.Op)
		}
		if d.Virtual != nil {
			return nil, refuseVirtualTemporary(d.Tables[0].Name)
		}
		return &Temporary{Catalog: cat, Op: d.Op, Tables: d.Tables, Renamed: d.Renamed, Shards: d.Shards, Commits: true, Quiet: st.is(2, "if")}, nil
	}
	if name := st.namesTemporary(cat); name != "" {
		return nil, notSupported("%s that names %s, which is a temporary table of this session, is not supported: DROP TEMPORARY TABLE first, or use another name", d.Op, name)
	}
	return plan, nil
}

func refuseVirtualTemporary(name string) *Error {
	return notSupported("a virtual index on the temporary table %s is not supported: its rows are on one shard", name)
}

func hasTemporary(cat *catalog.Catalog) bool { return cat.Temporary > 0 }

// namesTemporary is an identifier in the text that is the name of a temporary
// table, in any schema; "" for none.
func (st *statement) namesTemporary(cat *catalog.Catalog) string {
	if !hasTemporary(cat) {
		return ""
	}
	if i := slices.IndexFunc(st.mentioned(cat), func(t *catalog.Table) bool { return t.Temporary }); i >= 0 {
		return st.mentioned(cat)[i].Name
	}
	return ""
}

// lostTemporary is the error of a statement that names a temporary table whose
// connection is gone.
//
// Rule not the other: while it isn't dropped, a lost table still hides the one
// of its name on the shards. Counter-example: CREATE TEMPORARY TABLE users ...,
// the connection ends, DELETE FROM users.
func lostTemporary(t *catalog.Table) *Error {
	return &Error{Code: 1146, State: stateUnknownTable, Message: "The temporary table '" + t.Schema + "." + t.Name + "' was lost with its connection to a shard: DROP TEMPORARY TABLE it, or CREATE it again"}
}
