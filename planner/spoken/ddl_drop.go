package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// drop plans DROP.
func drop(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	switch w := st.Word(1); w {
	case "database", "schema":
		i := ifExists(st, 2)
		name, ok := st.Identifier(i)
		if !ok || i+1 != len(st.Tokens) {
			return nil, st.Near(i)
		}
		if catalog.IsSystemSchema(name) {
			return nil, refuseSystem(name)
		}
		return &plan.DDL{Catalog: cat, Op: "DROP DATABASE", Schema: name, Shards: cat.All}, nil
	case "temporary":
		return dropTemporary(st, cat)
	case "index":
		return dropIndex(st, cat)
	case "trigger":
		return dropTrigger(st, cat)
	case "procedure", "function", "event":
		return program(st, cat, "DROP", 1)
	case "user", "role":
		return nil, refuseAccount(st)
	case "prepare":
		return nil, notPrepared()
	case "table", "tables":
		return dropTables(st, cat, "DROP TABLE")
	case "view":
		return dropTables(st, cat, "DROP VIEW")
	case "sequence":
		return defineSequence(st, cat, 1)
	default:
		return nil, notYet(st, w)
	}
}

func dropIndex(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	i := ifExists(st, 2)
	index, _ := st.Identifier(i)
	for ; i < len(st.Tokens) && !st.Is(i, "on"); i++ {
	}
	name, _, t, err := UserTableAt(st, cat, i+1)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(index, "primary") && t.Placement == catalog.Hash && t.Shards.Len() > 1 && t.ShardKey != nil {
		return nil, RefuseAlterKey(t)
	}
	return &plan.DDL{Catalog: cat, Op: "DROP INDEX", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: t.Shards}, nil
}

func dropTrigger(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	i := ifExists(st, 2)
	if _, ok := st.Identifier(i); !ok {
		return nil, st.Near(i)
	}
	name, _, err := st.TableAt(i)
	if err != nil {
		return nil, err
	}
	// The catalog doesn't name triggers: the shards of all tables that have
	// some.
	var set catalog.ShardSet
	schema := cat.Schema(name.Schema)
	for t := range cat.Tables() {
		if schema != nil && t.Schema == schema.Name && len(t.Triggers) > 0 {
			set = set.Union(t.Shards)
		}
	}
	if set.Empty() {
		set = cat.All
	}
	return &plan.DDL{Catalog: cat, Op: "DROP TRIGGER", Schema: name.Schema, Shards: set}, nil
}

// dropTables is DROP TABLE or DROP VIEW, which op says.
func dropTables(st *text.Statement, cat *catalog.Catalog, op string) (plan.Plan, *text.Error) {
	i := ifExists(st, 2)
	quiet := i > 2
	ddl := &plan.DDL{Catalog: cat, Op: op}
	first := i
	var names []string // as they are written
	var sets []catalog.ShardSet
	temporary, exists := false, false
	var unknown *text.Error // of the first that isn't there
	for {
		name, next, err := st.TableAt(i)
		if err != nil {
			return nil, err
		}
		if catalog.IsSystemSchema(name.Schema) {
			return nil, refuseSystem(name.Schema)
		}
		t := cat.Table(name.Schema, name.Name)
		set := cat.All
		switch {
		case t != nil && !t.Shards.Empty():
			set = t.Shards
		case !quiet && t == nil:
			err := missing(cat, name, op)
			if unknown == nil {
				unknown = err
			}
			if err != nil && err.Code != mysqlerr.BadTable && err.Code != mysqlerr.UnknownSequence && err.Code != mysqlerr.UnknownView {
				return nil, err
			}
		}
		exists = exists || t != nil
		temporary = temporary || t != nil && t.Temporary
		if len(ddl.Tables) > 0 && temporary && set != ddl.Shards && !quiet {
			return nil, text.NotSupported("%s of temporary tables and others is not supported: drop each by a statement of its own", op)
		}
		names, sets = append(names, st.Src[st.Tokens[i].Start:st.Tokens[next-1].End]), append(sets, set)
		ddl.Tables = append(ddl.Tables, name)
		ddl.Shards = ddl.Shards.Union(set)
		i = next
		if !st.Op(i, ",") {
			break
		}
		i++
	}
	// MariaDB drops those that are there, and then tells of the others.
	if unknown != nil && (!cat.MariaDB || !exists) {
		return nil, unknown
	}
	ddl.Renamed = make([]catalog.TableName, len(ddl.Tables))
	if quiet && !exists {
		ddl.Idle = ddl.Shards
	}
	if !temporary && slices.ContainsFunc(sets, func(set catalog.ShardSet) bool { return set != ddl.Shards }) {
		ddl.Texts = textsOfEach(ddl.Shards, st.Src[:st.Tokens[first].Start], names, sets, st.Src[st.Tokens[i-1].End:])
	}
	if i < len(st.Tokens) && !st.Is(i, "restrict") && !st.Is(i, "cascade") && !st.Is(i, "wait") && !st.Is(i, "nowait") {
		return nil, st.Near(i)
	}
	return ddl, nil
}

// missing is a server's error where it hasn't the table or view.
func missing(cat *catalog.Catalog, name catalog.TableName, op string) *text.Error {
	_, _, err := LookupTable(cat, name.Schema, name.Name)
	switch {
	case err == nil || err.Code != mysqlerr.NoSuchTable:
		return err
	case op == "DROP VIEW" && cat.MariaDB:
		return text.NewError(mysqlerr.UnknownView, "Unknown VIEW: '"+name.Schema+"."+name.Name+"'")
	case op == "DROP SEQUENCE":
		return text.NewError(mysqlerr.UnknownSequence, "Unknown SEQUENCE: '"+name.Schema+"."+name.Name+"'")
	}
	return text.NewError(mysqlerr.BadTable, "Unknown table '"+name.Schema+"."+name.Name+"'")
}

// textsOfEach names on each shard those that are there.
//
// Counter-example: DROP TABLE users, settings, of which s1 has only users and would drop
// neither (1051).
func textsOfEach(shards catalog.ShardSet, head string, names []string, sets []catalog.ShardSet, tail string) map[catalog.ShardID]string {
	texts := map[catalog.ShardID]string{}
	for id := range shards.All {
		var here []string
		for k, set := range sets {
			if set.Has(id) {
				here = append(here, names[k])
			}
		}
		texts[id] = head + strings.Join(here, ", ") + tail
	}
	return texts
}
