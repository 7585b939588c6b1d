package planner

import (
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// show plans SHOW: Shunt's own, warnings of the session, and what one shard
// can say.
func (p *Planner) show(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if plan, ok, err := planAdmin(st); ok || err != nil {
		return plan, err
	}
	switch {
	case st.is(1, "warnings"):
		return showConditions(st, ShowWarnings, 2)
	case st.is(1, "errors"):
		return showConditions(st, ShowErrors, 2)
	case st.is(1, "count") && st.op(2, "(") && st.op(3, "*") && st.op(4, ")") && len(st.toks) == 6 && (st.is(5, "warnings") || st.is(5, "errors")):
		name := "warning_count"
		if st.is(5, "errors") {
			name = "error_count"
		}
		return &Admin{Op: TellSession, Tell: []Told{{Label: "@@session." + name, What: name}}}, nil
	}
	if st.has("select") {
		// Rule all rows: a shard would answer by those that it has. Counter-example: SHOW
		// TABLES WHERE (SELECT COUNT(*) FROM users) > 8.
		for _, t := range st.mentioned(cat) {
			if t.Shards.Len() > 1 && t.Placement != catalog.Reference || t.IsView {
				return nil, notSupported("SHOW with a query over the sharded table %s is not supported: read the value first", t.Name)
			}
		}
	}
	if err := st.refuseLocks(); err != nil {
		return nil, err
	}
	i := 1
	for st.is(i, "full") || st.is(i, "extended") {
		i++
	}
	switch w := st.word(i); w {
	case "columns", "fields", "index", "indexes", "keys":
		if name, ok := st.showFrom(i + 1); ok {
			if w == "columns" || w == "fields" {
				return showOf(st, cat, name)
			}
			return showIndex(st, cat, name)
		}
	case "create":
		switch st.word(i + 1) {
		case "table", "view":
			if name, _, ok := st.qualifiedName(i + 2); ok {
				return showCreate(st, cat, name)
			}
		case "user":
			return nil, notSupported("SHOW CREATE USER is not supported: accounts of Shunt are in its configuration; those of the shards are each shard's own, ask it with /* shunt: shard=NAME */")
		case "trigger", "procedure", "function", "event":
			return everywhere(st, cat, cat.All, &System{Any: true}, "the first shard that knows it")
		}
	case "databases", "schemas":
		set, reason := cat.All, "no shard knows all schemas"
		if complete(cat) {
			set, reason = catalog.Only(fullest(cat).First()), "a shard that holds as many tables as any"
		}
		return everywhere(st, cat, set, &System{Rows: &SystemTable{Schemas: true, Sorted: true}}, reason)
	case "tables":
		schema, err := st.showSchema(i+1, cat)
		if err != nil {
			return nil, err
		}
		switch {
		case catalog.IsSystemSchema(schema):
		case st.listsTemporary(cat):
			return everywhere(st, cat, cat.All, &System{Rows: &SystemTable{Key: []string{"", "table_type"}, OfSchema: schema, Sorted: true}, Temporary: true}, "the session has temporary tables")
		case !complete(cat):
			return everywhere(st, cat, cat.All, &System{Rows: &SystemTable{OfSchema: schema, Sorted: true}}, "no shard holds all tables")
		}
	case "table":
		if !st.is(i+1, "status") {
			break
		}
		schema, err := st.showSchema(i+2, cat)
		if err != nil {
			return nil, err
		}
		switch {
		case catalog.IsSystemSchema(schema):
		case st.listsTemporary(cat):
			return joinedShow(st, cat, cat.All, &System{Rows: &SystemTable{Key: []string{"name", "temporary"}, Table: "name", OfSchema: schema, Join: statusSums, Sorted: true}, Temporary: true})
		case len(cat.Shards) > 1:
			return joinedShow(st, cat, cat.All, &System{Rows: &SystemTable{Table: "name", OfSchema: schema, Join: statusSums, Sorted: true}})
		}
	case "triggers":
		schema, err := st.showSchema(i+1, cat)
		if err != nil {
			return nil, err
		}
		if !complete(cat) && !catalog.IsSystemSchema(schema) {
			return everywhere(st, cat, cat.All, &System{Rows: &SystemTable{Key: []string{"trigger"}, Table: "table", OfSchema: schema}}, "no shard holds all tables")
		}
	case "events":
		if _, err := st.showSchema(i+1, cat); err != nil {
			return nil, err
		}
	case "procedure", "function", "package":
		if st.settings.Restricted && st.is(i+1, "status") {
			return looked(st, cat, &SystemTable{Key: []string{"db", "name"}, Owner: "db"})
		}
	case "open":
		if st.settings.Restricted {
			return looked(st, cat, &SystemTable{Key: []string{"database", "table"}, Owner: "database"})
		}
	case "profile", "profiles":
		return nil, notSupported("SHOW %s is not supported: it would tell of a pooled connection, whose statements are other clients' too; use EXPLAIN ANALYZE", strings.ToUpper(w))
	case "processlist":
		return &Admin{Op: ShowProcesslist, Full: st.is(1, "full")}, nil
	case "grants":
		if len(st.toks) == 2 || st.is(2, "for") && st.is(3, "current_user") {
			return &Admin{Op: ShowGrants}, nil
		}
		return nil, notSupported("SHOW GRANTS of another account is not supported: accounts of Shunt are in its configuration, and all of them have the rights of the shards' account")
	case "master", "binary", "binlog", "relaylog", "slave", "replica", "replicas", "all":
		if w == "binary" && !st.is(i+1, "log") && !st.is(i+1, "logs") || w == "all" && !st.is(i+1, "slaves") && !st.is(i+1, "replicas") {
			break
		}
		// A position in one shard's log says nothing of the others.
		return nil, notSupported("%s is each shard's own: ask a shard with /* shunt: shard=NAME */", strings.ToUpper("show "+w+" "+st.word(i+1)))
	}
	return fixed(st, cat, Show, nil, &fixedAction{
		shards: catalog.Only(fullest(cat).First()), any: fullest(cat), access: "single", reason: "a shard that holds as many tables as any",
	}), nil
}

// showFrom reads FROM table [FROM schema].
func (st *statement) showFrom(i int) (name TableName, ok bool) {
	if !st.is(i, "from") && !st.is(i, "in") {
		return name, false
	}
	name, next, ok := st.qualifiedName(i + 1)
	if ok && (st.is(next, "from") || st.is(next, "in")) {
		if schema, ok := st.identifier(next + 1); ok {
			name.Schema = schema
		}
	}
	return name, ok
}

// showCreate is showOf for SHOW CREATE TABLE, which tells where AUTO_INCREMENT stands.
func showCreate(st *statement, cat *catalog.Catalog, name TableName) (Plan, *Error) {
	plan, err := showOf(st, cat, name)
	if rows, ok := plan.(*Rows); ok && err == nil && len(rows.Tables) == 1 {
		if t := rows.Tables[0]; t.Placement != catalog.Reference && counts(t) != nil {
			rows.Creates = t
		}
	}
	return plan, err
}

// looked is a SHOW of one shard, whose rows are looked through: the client may not
// see all schemas.
func looked(st *statement, cat *catalog.Catalog, t *SystemTable) (Plan, *Error) {
	return everywhere(st, cat, catalog.Only(fullest(cat).First()), &System{Rows: t}, "a shard that holds as many tables as any")
}

// joinedShow is everywhere for a SHOW whose columns are joined. A WHERE over them is
// another on each shard.
func joinedShow(st *statement, cat *catalog.Catalog, set catalog.ShardSet, sys *System) (Plan, *Error) {
	where := false
	for i := range st.toks {
		where = where || st.is(i, "where")
		if name, ok := st.identifier(i); where && ok && sys.Rows.Join[strings.ToLower(name)] != 0 {
			return nil, notSupported("SHOW ... WHERE by %s, which is made of what all shards say, is not supported: query information_schema", name)
		}
	}
	return everywhere(st, cat, set, sys, "the rows of all shards are summed")
}

// showIndex is showOf for SHOW INDEX: cardinalities are summed.
func showIndex(st *statement, cat *catalog.Catalog, name TableName) (Plan, *Error) {
	t := cat.Table(name.Schema, name.Name)
	if t == nil || t.IsView || t.Shards.Len() <= 1 || t.Placement == catalog.Reference || len(t.Columns) == 0 {
		return showOf(st, cat, name)
	}
	return joinedShow(st, cat, t.Shards, &System{Rows: &SystemTable{
		Key: []string{"key_name", "seq_in_index"}, Table: "table", OfSchema: t.Schema, Join: map[string]Joining{"cardinality": Sum},
	}})
}

// showSchema is the schema of a SHOW: that of FROM, or the current one.
func (st *statement) showSchema(i int, cat *catalog.Catalog) (string, *Error) {
	if st.is(i, "from") || st.is(i, "in") {
		if name, ok := st.identifier(i + 1); ok {
			return name, nil
		}
	}
	if st.settings.Schema == "" {
		return "", noDatabase()
	}
	if !IsCurrent(st.settings.Schema, cat) { // somebody has dropped it
		return "", unknownSchema(st.settings.Schema)
	}
	return st.settings.Schema, nil
}

// showConditions plans SHOW WARNINGS and SHOW ERRORS [LIMIT [offset,] n].
func showConditions(st *statement, op SessionOp, i int) (Plan, *Error) {
	s := &Session{Op: op, Limit: -1}
	if i == len(st.toks) {
		return s, nil
	}
	number := func(i int) (int, bool) {
		n, err := strconv.Atoi(st.text(i))
		return n, err == nil && n >= 0
	}
	n, ok := number(i + 1)
	s.Limit = n
	switch {
	case !st.is(i, "limit") || !ok:
		return nil, st.near(i)
	case len(st.toks) == i+2:
		return s, nil
	case len(st.toks) == i+4 && (st.op(i+2, ",") || st.is(i+2, "offset")):
		other, ok := number(i + 3)
		if !ok {
			return nil, st.near(i + 3)
		}
		if s.Offset = n; st.op(i+2, ",") {
			s.Limit = other
		} else {
			s.Offset = other
		}
		return s, nil
	}
	return nil, st.near(i + 2)
}

// fullest are the shards that hold the most tables: they know of all, unless
// tables that are on single shards are on several of them.
func fullest(cat *catalog.Catalog) (best catalog.ShardSet) {
	held := map[catalog.ShardID]int{}
	for t := range cat.Tables() {
		if t.Temporary {
			continue // only its own session sees it
		}
		for id := range t.Shards.All {
			held[id]++
		}
	}
	most := -1
	for _, s := range cat.Shards {
		switch n := held[s.ID]; {
		case n > most:
			most, best = n, catalog.Only(s.ID)
		case n == most:
			best.Add(s.ID)
		}
	}
	return best
}

func firstShard(cat *catalog.Catalog) catalog.ShardSet {
	if len(cat.Shards) == 0 {
		return cat.All
	}
	return catalog.Only(cat.Shards[0].ID)
}

// showOf sends a statement about one table to a shard that holds it.
func showOf(st *statement, cat *catalog.Catalog, name TableName) (Plan, *Error) {
	t, system, err := lookupTable(cat, name.Schema, name.Name)
	switch {
	case err != nil:
		return nil, err
	case system:
		return fixed(st, cat, Show, nil, &fixedAction{shards: firstShard(cat), any: cat.All, access: "single", reason: "any shard will do"}), nil
	}
	return fixed(st, cat, Show, []*catalog.Table{t}, &fixedAction{
		shards: catalog.Only(t.Shards.First()), any: t.Shards, access: t.Placement.String(), reason: "one of the shards that hold " + t.Name,
	}), nil
}

// explain plans EXPLAIN, DESCRIBE and EXPLAIN ROUTE.
func (p *Planner) explain(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if plan, ok, err := planAdmin(st); ok || err != nil {
		return plan, err
	}
	i := 1
	analyze := st.is(0, "analyze")
	for {
		switch {
		case st.is(i, "analyze"):
			analyze = true
			i++
			continue
		case (st.is(i, "format") || st.is(i, "partitions") || st.is(i, "extended")) && !st.op(i+1, "."):
			if st.is(i, "format") && st.op(i+1, "=") {
				i += 3
				continue
			}
			if w := st.word(i + 1); w != "" {
				i++
				continue
			}
		case st.is(i, "for") && st.is(i+1, "connection"):
			return nil, notSupported("EXPLAIN FOR CONNECTION is not supported: send it to one shard with /* shunt: shard=NAME */")
		case st.is(i, "for") || st.is(i, "into"):
			return nil, notSupported("EXPLAIN %s is not supported yet: send it to one shard with /* shunt: shard=NAME */", strings.ToUpper(st.word(i)))
		}
		break
	}
	w := st.verb(i)
	switch w {
	case "select", "with", "table", "values", "insert", "replace", "update", "delete":
	default:
		name, _, ok := st.qualifiedName(i)
		if !ok || analyze {
			return nil, st.near(i)
		}
		return showOf(st, cat, name)
	}
	if analyze {
		if err := st.refuseLocks(); err != nil {
			return nil, err
		}
	}
	if analyze && w != "select" && w != "with" && w != "table" && w != "values" {
		// It runs the statement.
		return nil, notSupported("EXPLAIN ANALYZE of a write is not supported: use EXPLAIN")
	}
	inner, err := p.Plan(st.src[st.toks[i].start:], st.settings, cat)
	if err != nil {
		e, _ := err.(*Error) //nolint:errorlint // Plan returns *Error as it is
		return nil, e
	}
	rows, ok := inner.(*Rows)
	if !ok || analyze && (rows.Kind != Select || len(rows.Assigns) > 0) {
		return nil, notSupported("EXPLAIN of this statement is not supported yet")
	}
	act := &explainAction{head: st.src[:st.toks[i].start], text: st.src, inner: rows, analyze: analyze}
	return &Rows{Catalog: cat, Kind: Show, Params: rows.Params, Tables: rows.Tables, action: act, settings: st.settings}, nil
}

// explainAction asks the first shard of the statement's route for the plan of
// what is sent there, and puts the route on top.
type explainAction struct {
	head string // EXPLAIN and its options
	text string // all of it
	// analyze: it runs the statement.
	analyze bool
	inner   *Rows
}

func (e *explainAction) bind(b *binder) (*Bound, error) {
	in, err := e.inner.action.bind(b.explained())
	if err != nil || in.Refuse != nil {
		return in, err
	}
	route := &Route{Plan: in.Plan, Access: in.Access, Reason: in.Reason}
	for _, st := range in.Statements {
		route.Shards = append(route.Shards, b.cat.ShardName(st.Shard))
	}
	if len(in.Statements) == 0 {
		// It runs over copies that aren't there yet: a shard's plan over its own
		// tables is the nearest there is.
		set := b.cat.All
		for _, t := range e.inner.Tables {
			set = set.Intersect(t.Shards)
		}
		if set.Empty() || e.analyze {
			in.Refuse = notSupported("EXPLAIN of a query that is gathered from tables of several shards is not supported: EXPLAIN ROUTE says what is gathered")
			return in, nil
		}
		route.Plan, route.Shards = "gather", []string{"all"}
		return &Bound{
			Plan: "route", Statements: []ShardStatement{{Shard: set.First(), SQL: e.text}}, Access: in.Access, Reason: "EXPLAIN on one shard of a query that is gathered",
			System: &System{Route: route},
		}, nil
	}
	first := in.Statements[0]
	return &Bound{
		Plan: "route", Statements: []ShardStatement{{Shard: first.Shard, SQL: e.head + first.SQL, Params: first.Params}},
		Access: in.Access, Reason: "EXPLAIN on the first shard of the route; " + in.Reason,
		System: &System{Route: route},
	}, nil
}
