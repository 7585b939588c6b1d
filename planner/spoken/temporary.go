package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

func refuseHintedTemporary() *text.Error {
	return text.NotSupported("a hint before CREATE or DROP TEMPORARY TABLE is not supported: Shunt chooses the shard")
}

// dropTemporary plans DROP TEMPORARY TABLE.
func dropTemporary(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if !st.Is(2, "table") && !st.Is(2, "tables") {
		return nil, text.NotSupported("DROP TEMPORARY %s is not supported", strings.ToUpper(st.Word(2)))
	}
	i := ifExists(st, 3)
	t := &plan.Temporary{Catalog: cat, Op: "DROP TABLE", Shards: cat.Pinned, Quiet: i > 3}
	for {
		name, next, err := st.TableAt(i)
		if err != nil {
			return nil, err
		}
		t.Tables = append(t.Tables, name)
		if i = next; !st.Op(i, ",") {
			break
		}
		i++
	}
	if i < len(st.Tokens) && !st.Is(i, "restrict") && !st.Is(i, "cascade") && !st.Is(i, "wait") && !st.Is(i, "nowait") {
		return nil, st.Near(i)
	}
	t.Renamed = make([]catalog.TableName, len(t.Tables))
	return t, nil
}

// overTemporary is a plan of DDL where the session has temporary tables: it is
// about those, or it doesn't name them.
//
// Counter-example: CREATE TEMPORARY TABLE users ...; TRUNCATE TABLE users. The
// table on the shards is not to be emptied.
func overTemporary(st *text.Statement, cat *catalog.Catalog, planned plan.Plan) (plan.Plan, *text.Error) {
	d, ok := planned.(*plan.DDL)
	if !ok || !hasTemporary(cat) {
		return planned, nil
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
			return nil, text.NotSupported("%s of temporary and other tables together is not supported: use a statement for each", d.Op)
		}
		if d.Virtual != nil {
			return nil, refuseVirtualTemporary(d.Tables[0].Name)
		}
		return &plan.Temporary{Catalog: cat, Op: d.Op, Tables: d.Tables, Renamed: d.Renamed, Shards: d.Shards, Commits: true, Quiet: st.Is(2, "if")}, nil
	}
	if name := NamesTemporary(st, cat); name != "" {
		return nil, text.NotSupported("%s that names %s, which is a temporary table of this session, is not supported: DROP TEMPORARY TABLE first, or use another name", d.Op, name)
	}
	return planned, nil
}

func refuseVirtualTemporary(name string) *text.Error {
	return text.NotSupported("a virtual index on the temporary table %s is not supported: its rows are on one shard", name)
}

func hasTemporary(cat *catalog.Catalog) bool { return cat.Temporary > 0 }

// NamesTemporary is an identifier in the text that is the name of a temporary
// table, in any schema; "" for none.
func NamesTemporary(st *text.Statement, cat *catalog.Catalog) string {
	if !hasTemporary(cat) {
		return ""
	}
	if i := slices.IndexFunc(Mentioned(st, cat), func(t *catalog.Table) bool { return t.Temporary }); i >= 0 {
		return Mentioned(st, cat)[i].Name
	}
	return ""
}

// lostTemporary is the error of a statement that names a temporary table whose
// connection is gone.
//
// Rule not the other: while it isn't dropped, a lost table still hides the one
// of its name on the shards. Counter-example: CREATE TEMPORARY TABLE users ...,
// the connection ends, DELETE FROM users.
func lostTemporary(t *catalog.Table) *text.Error {
	return text.NewError(mysqlerr.NoSuchTable, "The temporary table '"+t.Schema+"."+t.Name+"' was lost with its connection to a shard: DROP TEMPORARY TABLE it, or CREATE it again")
}

// createTemporary plans CREATE TEMPORARY TABLE, whose name is at token i.
func createTemporary(st *text.Statement, cat *catalog.Catalog, trees Trees, i int) (plan.Plan, *text.Error) {
	t := &plan.Temporary{Catalog: cat, Op: "CREATE TEMPORARY TABLE", Shards: cat.All, Quiet: st.Is(i-1, "exists")}
	if !cat.Pinned.Empty() {
		t.Shards = cat.Pinned
	}
	if st.Is(1, "or") {
		return nil, text.NotSupported("CREATE OR REPLACE TEMPORARY TABLE is not supported: DROP TEMPORARY TABLE IF EXISTS, then CREATE")
	}
	name, i, err := st.TableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	if cat.Schema(name.Schema) == nil {
		return nil, text.UnknownSchema(name.Schema)
	}
	t.Tables, t.Renamed = []catalog.TableName{name}, make([]catalog.TableName, 1)
	apart := text.NotSupported("CREATE TEMPORARY TABLE %s from tables that are not on one shard together, or not on that of the session's other temporary tables, is not supported: write the columns out, then INSERT ... SELECT", name.Name)
	src, err := likeAt(st, i, cat)
	if err != nil {
		return nil, err
	}
	if src != nil {
		if t.Shards = t.Shards.Intersect(src.Shards); t.Shards.Empty() {
			return nil, apart
		}
		return t, nil
	}
	query := queryAt(st, i)
	if query < 0 {
		return t, nil
	}
	t.As, err = createAs(st, query)
	if err != nil {
		return nil, err
	}
	from, err := trees.CreatedFrom(t.As, st, cat)
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
