package spoken

import (
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Show plans SHOW: Shunt's own, warnings of the session, and what one shard
// can say.
func Show(st *text.Statement, cat *catalog.Catalog, own OwnForms) (plan.Plan, *text.Error) {
	if plan, ok, err := own.Plan(st); ok || err != nil {
		return plan, err
	}
	switch {
	case st.Is(1, "warnings"):
		return showConditions(st, ShowWarnings, 2)
	case st.Is(1, "errors"):
		return showConditions(st, ShowErrors, 2)
	case st.Is(1, "count") && st.Op(2, "(") && st.Op(3, "*") && st.Op(4, ")") && len(st.Tokens) == 6 && (st.Is(5, "warnings") || st.Is(5, "errors")):
		name := "warning_count"
		if st.Is(5, "errors") {
			name = "error_count"
		}
		return &plan.Admin{Form: ShowCount, Tell: []plan.Told{{Label: "@@session." + name, What: name}}}, nil
	}
	if st.Has("select") {
		// Rule all rows: a shard would answer by those that it has. Counter-example: SHOW
		// TABLES WHERE (SELECT COUNT(*) FROM users) > 8.
		for _, t := range Mentioned(st, cat) {
			if t.Shards.Len() > 1 && t.Placement != catalog.Reference || t.IsView {
				return nil, text.NotSupported("SHOW with a query over the sharded table %s is not supported: read the value first", t.Name)
			}
		}
	}
	if err := RefuseLocks(st); err != nil {
		return nil, err
	}
	i := 1
	for st.Is(i, "full") || st.Is(i, "extended") {
		i++
	}
	switch w := st.Word(i); w {
	case "columns", "fields", "index", "indexes", "keys":
		if name, ok := showFrom(st, i+1); ok {
			if w == "columns" || w == "fields" {
				return ShowOf(st, cat, name)
			}
			return showIndex(st, cat, name)
		}
	case "create":
		switch st.Word(i + 1) {
		case "table", "view":
			if name, _, ok := st.QualifiedName(i + 2); ok {
				return showCreate(st, cat, name)
			}
		case "user":
			return nil, text.NotSupported("SHOW CREATE USER is not supported: accounts of Shunt are in its configuration; those of the shards are each shard's own, ask it with /* shunt: shard=NAME */")
		case "trigger", "procedure", "function", "event":
			return everywhere(st, cat, cat.All, &plan.System{Any: true}, "the first shard that knows it")
		}
	case "databases", "schemas":
		set, reason := cat.All, "no shard knows all schemas"
		if OneKnowsAll(cat) {
			set, reason = catalog.Only(Fullest(cat).First()), "a shard that holds as many tables as any"
		}
		return everywhere(st, cat, set, &plan.System{Rows: &plan.SystemTable{Schemas: true, Sorted: true}}, reason)
	case "tables":
		schema, err := showSchema(st, i+1, cat)
		if err != nil {
			return nil, err
		}
		switch {
		case catalog.IsSystemSchema(schema):
		case ListsTemporary(st, cat):
			return everywhere(st, cat, cat.All, &plan.System{Rows: &plan.SystemTable{Key: []string{"", "table_type"}, OfSchema: schema, Sorted: true}, Temporary: true}, "the session has temporary tables")
		case !OneKnowsAll(cat):
			return everywhere(st, cat, cat.All, &plan.System{Rows: &plan.SystemTable{OfSchema: schema, Sorted: true}}, "no shard holds all tables")
		}
	case "table":
		if !st.Is(i+1, "status") {
			break
		}
		schema, err := showSchema(st, i+2, cat)
		if err != nil {
			return nil, err
		}
		switch {
		case catalog.IsSystemSchema(schema):
		case ListsTemporary(st, cat):
			return joinedShow(st, cat, cat.All, &plan.System{Rows: &plan.SystemTable{Key: []string{"name", "temporary"}, Table: "name", OfSchema: schema, Join: statusSums, Sorted: true}, Temporary: true})
		case len(cat.Shards) > 1:
			return joinedShow(st, cat, cat.All, &plan.System{Rows: &plan.SystemTable{Table: "name", OfSchema: schema, Join: statusSums, Sorted: true}})
		}
	case "triggers":
		schema, err := showSchema(st, i+1, cat)
		if err != nil {
			return nil, err
		}
		if !OneKnowsAll(cat) && !catalog.IsSystemSchema(schema) {
			return everywhere(st, cat, cat.All, &plan.System{Rows: &plan.SystemTable{Key: []string{"trigger"}, Table: "table", OfSchema: schema}}, "no shard holds all tables")
		}
	case "events":
		schema, err := showSchema(st, i+1, cat)
		if err != nil {
			return nil, err
		}
		if !OneKnowsAll(cat) && !catalog.IsSystemSchema(schema) {
			return everywhere(st, cat, cat.All, &plan.System{Rows: &plan.SystemTable{Key: []string{"db", "name"}, OfSchema: schema}}, "no shard has all events")
		}
	case "procedure", "function", "package":
		if st.Settings.Restricted && st.Is(i+1, "status") {
			return looked(st, cat, &plan.SystemTable{Key: []string{"db", "name"}, Owner: "db"})
		}
	case "open":
		if st.Settings.Restricted {
			return looked(st, cat, &plan.SystemTable{Key: []string{"database", "table"}, Owner: "database"})
		}
	case "profile", "profiles":
		return nil, text.NotSupported("SHOW %s is not supported: it would tell of a pooled connection, whose statements are other clients' too; use EXPLAIN ANALYZE", strings.ToUpper(w))
	case "processlist":
		return &plan.Admin{Form: ShowProcesslist, Full: st.Is(1, "full")}, nil
	case "grants":
		if len(st.Tokens) == 2 || st.Is(2, "for") && st.Is(3, "current_user") {
			return &plan.Admin{Form: ShowGrants}, nil
		}
		return nil, text.NotSupported("SHOW GRANTS of another account is not supported: accounts of Shunt are in its configuration, and all of them have the rights of the shards' account")
	case "master", "binary", "binlog", "relaylog", "slave", "replica", "replicas", "all":
		if w == "binary" && !st.Is(i+1, "log") && !st.Is(i+1, "logs") || w == "all" && !st.Is(i+1, "slaves") && !st.Is(i+1, "replicas") {
			break
		}
		// A position in one shard's log says nothing of the others.
		return nil, text.NotSupported("%s is each shard's own: ask a shard with /* shunt: shard=NAME */", strings.ToUpper("show "+w+" "+st.Word(i+1)))
	}
	return fixed(st, cat, plan.Show, nil, &Fixed{
		Shards: catalog.Only(Fullest(cat).First()), Any: Fullest(cat), Access: "single", Reason: "a shard that holds as many tables as any",
	}), nil
}

// showFrom reads FROM table [FROM schema].
func showFrom(st *text.Statement, i int) (name catalog.TableName, ok bool) {
	if !st.Is(i, "from") && !st.Is(i, "in") {
		return name, false
	}
	name, next, ok := st.QualifiedName(i + 1)
	if ok && (st.Is(next, "from") || st.Is(next, "in")) {
		if schema, ok := st.Identifier(next + 1); ok {
			name.Schema = schema
		}
	}
	return name, ok
}

// showCreate is ShowOf for SHOW CREATE TABLE, which tells where AUTO_INCREMENT stands.
func showCreate(st *text.Statement, cat *catalog.Catalog, name catalog.TableName) (plan.Plan, *text.Error) {
	planned, err := ShowOf(st, cat, name)
	if rows, ok := planned.(*plan.Rows); ok && err == nil && len(rows.Tables) == 1 {
		if t := rows.Tables[0]; t.Placement != catalog.Reference && CountedColumn(t) != nil {
			rows.Creates = t
		}
	}
	return planned, err
}

// looked is a SHOW of one shard, whose rows are looked through: the client may not
// see all schemas.
func looked(st *text.Statement, cat *catalog.Catalog, t *plan.SystemTable) (plan.Plan, *text.Error) {
	return everywhere(st, cat, catalog.Only(Fullest(cat).First()), &plan.System{Rows: t}, "a shard that holds as many tables as any")
}

// joinedShow is everywhere for a SHOW whose columns are joined. A WHERE over them is
// another on each shard.
func joinedShow(st *text.Statement, cat *catalog.Catalog, set catalog.ShardSet, sys *plan.System) (plan.Plan, *text.Error) {
	where := false
	for i := range st.Tokens {
		where = where || st.Is(i, "where")
		if name, ok := st.Identifier(i); where && ok && sys.Rows.Join[strings.ToLower(name)] != 0 {
			return nil, text.NotSupported("SHOW ... WHERE by %s, which is made of what all shards say, is not supported: query information_schema", name)
		}
	}
	return everywhere(st, cat, set, sys, "the rows of all shards are summed")
}

// showIndex is ShowOf for SHOW INDEX: cardinalities are summed.
func showIndex(st *text.Statement, cat *catalog.Catalog, name catalog.TableName) (plan.Plan, *text.Error) {
	t := cat.Table(name.Schema, name.Name)
	if t == nil || t.IsView || t.Shards.Len() <= 1 || t.Placement == catalog.Reference || len(t.Columns) == 0 {
		return ShowOf(st, cat, name)
	}
	return joinedShow(st, cat, t.Shards, &plan.System{Rows: &plan.SystemTable{
		Key: []string{"key_name", "seq_in_index"}, Table: "table", OfSchema: t.Schema, Join: map[string]plan.Joining{"cardinality": plan.Sum},
	}})
}

// showSchema is the schema of a SHOW: that of FROM, or the current one.
func showSchema(st *text.Statement, i int, cat *catalog.Catalog) (string, *text.Error) {
	if st.Is(i, "from") || st.Is(i, "in") {
		if name, ok := st.Identifier(i + 1); ok {
			return name, nil
		}
	}
	if st.Settings.Schema == "" {
		return "", text.NoDatabase()
	}
	if !isCurrent(st.Settings.Schema, cat) { // somebody has dropped it
		return "", text.UnknownSchema(st.Settings.Schema)
	}
	return st.Settings.Schema, nil
}

// showConditions plans SHOW WARNINGS and SHOW ERRORS [LIMIT [offset,] n].
func showConditions(st *text.Statement, form string, i int) (plan.Plan, *text.Error) {
	a := &plan.Admin{Form: form, Limit: -1}
	if i == len(st.Tokens) {
		return a, nil
	}
	number := func(i int) (int, bool) {
		n, err := strconv.Atoi(st.Text(i))
		return n, err == nil && n >= 0
	}
	n, ok := number(i + 1)
	a.Limit = n
	switch {
	case !st.Is(i, "limit") || !ok:
		return nil, st.Near(i)
	case len(st.Tokens) == i+2:
		return a, nil
	case len(st.Tokens) == i+4 && (st.Op(i+2, ",") || st.Is(i+2, "offset")):
		other, ok := number(i + 3)
		if !ok {
			return nil, st.Near(i + 3)
		}
		if a.Offset = n; st.Op(i+2, ",") {
			a.Limit = other
		} else {
			a.Offset = other
		}
		return a, nil
	}
	return nil, st.Near(i + 2)
}

// ShowOf sends a statement about one table to a shard that holds it.
func ShowOf(st *text.Statement, cat *catalog.Catalog, name catalog.TableName) (plan.Plan, *text.Error) {
	t, system, err := LookupTable(cat, name.Schema, name.Name)
	switch {
	case err != nil:
		return nil, err
	case system:
		return fixed(st, cat, plan.Show, nil, &Fixed{Shards: firstShard(cat), Any: cat.All, Access: "single", Reason: "any shard will do"}), nil
	}
	return fixed(st, cat, plan.Show, []*catalog.Table{t}, &Fixed{
		Shards: catalog.Only(t.Shards.First()), Any: t.Shards, Access: t.Placement.String(), Reason: "one of the shards that hold " + t.Name,
	}), nil
}
