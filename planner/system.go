package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// System says how a look around (information_schema, SHOW, table maintenance)
// is answered from what several shards say, as one server would answer it.
type System struct {
	// Rows: the statement goes to all of Statements as it is, and rows that
	// name the same thing become one.
	Rows *SystemTable
	// Route is what goes on top of the answer to an EXPLAIN.
	Route *Route
	// Any: the shards are asked one after the other until one knows what it is
	// asked for.
	Any bool
	// Everywhere: what changes the servers rather than asks: an open
	// transaction is committed first, as on a server.
	Everywhere bool
	// Sources are the system tables whose rows are gathered from all shards. The
	// statement that is run has them between its Parts: Parts[0], the table
	// Sources[Order[0]], Parts[1], ...
	Sources []*SystemTable
	Parts   []string
	Order   []int
	// Temporary: the session's temporary tables are listed among the others.
	Temporary bool
}

// Route is where an explained statement goes, as EXPLAIN ROUTE says it.
type Route struct {
	Plan, Access, Reason string
	Shards               []string
}

// SystemTable is a system table, or the answer of a SHOW, that each shard has a
// part of.
type SystemTable struct {
	// Schema and Name of the system table; Schema is "" for a SHOW.
	Schema, Name string
	// Key are the columns that name what a row is about, "" for the first one; so does
	// an empty Key.
	Key []string
	// Owner is the column with the schema that a row belongs to. Rows of the
	// servers' own schemas are taken from one shard.
	Owner string
	// Table is the column with the table that a row is about, "" for none: only
	// the shards that hold a table speak of it. OfSchema is its schema where no
	// column has it.
	Table, OfSchema string
	// Join says by column what becomes of the values of several shards; all
	// else is as the first one says.
	Join map[string]Joining
	// Schemas: the first column is a schema's name. Shunt's own is left out.
	Schemas bool
	// Clients: it tells of Shunt's clients, whom no shard knows.
	Clients bool
	// Sorted: as SHOW answers, by key.
	Sorted bool
	// Each: rows of a shard's own, all given; equal ones of all shards once.
	Each bool
}

// Joining is how one value is made of those of several shards.
type Joining uint8

const (
	// Sum: rows and bytes. Of a reference table one copy counts.
	Sum Joining = iota + 1
	// Largest and Smallest: counters and times; NULL is neither.
	Largest
	Smallest
	// RowLength is the average row's, from the sums.
	RowLength
	// Checksum adds modulo 2^32, as CHECKSUM TABLE does over rows.
	Checksum
)

var tableSums = map[string]Joining{
	"table_rows": Sum, "data_length": Sum, "index_length": Sum, "data_free": Sum, "avg_row_length": RowLength,
	"auto_increment": Largest, "update_time": Largest, "check_time": Largest, "create_time": Smallest,
}

// statusSums are those of SHOW TABLE STATUS.
var statusSums = map[string]Joining{
	"rows": Sum, "data_length": Sum, "index_length": Sum, "data_free": Sum, "avg_row_length": RowLength,
	"auto_increment": Largest, "update_time": Largest, "check_time": Largest, "create_time": Smallest,
}

// systemTables are the tables of information_schema that tell of the user's
// schemas, and tables that tell of clients. The others tell of a server, and are
// asked of one.
var systemTables = map[string]*SystemTable{
	"schemata":                {Key: []string{"schema_name"}, Owner: "schema_name"},
	"tables":                  {Key: []string{"table_schema", "table_name"}, Owner: "table_schema", Table: "table_name", Join: tableSums},
	"partitions":              {Key: []string{"table_schema", "table_name", "partition_name", "subpartition_name"}, Owner: "table_schema", Table: "table_name", Join: tableSums},
	"statistics":              {Key: []string{"table_schema", "table_name", "index_name", "seq_in_index"}, Owner: "table_schema", Table: "table_name", Join: map[string]Joining{"cardinality": Sum}},
	"columns":                 {Key: []string{"table_schema", "table_name", "column_name"}, Owner: "table_schema", Table: "table_name"},
	"table_constraints":       {Key: []string{"constraint_schema", "table_name", "constraint_name", "constraint_type"}, Owner: "table_schema", Table: "table_name"},
	"key_column_usage":        {Key: []string{"table_schema", "table_name", "constraint_name", "ordinal_position"}, Owner: "table_schema", Table: "table_name"},
	"referential_constraints": {Key: []string{"constraint_schema", "table_name", "constraint_name"}, Owner: "constraint_schema", Table: "table_name"},
	"check_constraints":       {Key: []string{"constraint_schema", "table_name", "constraint_name"}, Owner: "constraint_schema"},
	"views":                   {Key: []string{"table_schema", "table_name"}, Owner: "table_schema", Table: "table_name"},
	"triggers":                {Key: []string{"trigger_schema", "trigger_name"}, Owner: "trigger_schema", Table: "event_object_table"},
	"routines":                {Key: []string{"routine_schema", "routine_type", "routine_name"}, Owner: "routine_schema"},
	"parameters":              {Key: []string{"specific_schema", "routine_type", "specific_name", "ordinal_position"}, Owner: "specific_schema"},
	"events":                  {Key: []string{"event_schema", "event_name"}, Owner: "event_schema"},
	"processlist":             {Key: []string{"id"}, Clients: true},

	"session_connect_attrs":         {Schema: "performance_schema", Clients: true},
	"session_account_connect_attrs": {Schema: "performance_schema", Clients: true},
}

// KnowsSystemTable reports whether a table of information_schema (in lower case)
// tells of schemas row by row, so that rows can be left out.
func KnowsSystemTable(name string) bool {
	t := systemTables[name]
	return t != nil && t.Schema == informationSchema
}

const informationSchema = "information_schema"

// besideTemporary is information_schema.TABLES where a temporary table may be listed
// beside the one that it hides.
var besideTemporary SystemTable

func init() {
	for name, t := range systemTables {
		if t.Name = name; t.Schema == "" {
			t.Schema = informationSchema
		}
	}
	besideTemporary = *systemTables["tables"]
	besideTemporary.Key = append(slices.Clone(besideTemporary.Key), "table_type")
}

// listsTemporary: MariaDB lists a session's temporary tables from 11.2 on.
func (st *statement) listsTemporary(cat *catalog.Catalog) bool {
	return hasTemporary(cat) && st.server.mariaDB && st.server.number >= 110200
}

// complete reports whether one shard knows all tables there are.
//
// Counter-example: settings is on s2 alone and flags on s3 alone. What either
// says of the tables leaves one of them out.
func complete(cat *catalog.Catalog) bool {
	if len(cat.Shards) <= 1 {
		return true
	}
	full := fullest(cat).First()
	for t := range cat.Tables() {
		if len(t.Columns) > 0 && !t.Temporary && (!t.Shards.Has(full) || t.Differs != "") {
			return false
		}
	}
	return true
}

// planSystem is planSelect for queries of information_schema that one shard
// can't answer as one server would; nil where it can.
//
// Rule sums: TABLE_ROWS and the like are each shard's own. Counter-example:
// SELECT TABLE_ROWS FROM information_schema.TABLES answers a quarter of the rows.
//
// Rule temporary tables: where the servers list them, only the session's own connection
// to a shard does.
func (a *analysis) planSystem() *systemAction {
	whole, several := complete(a.cat), len(a.cat.Shards) > 1
	want, temporary := map[string]int{}, false
	for _, r := range a.refs {
		t := systemTables[strings.ToLower(r.name)]
		if !r.system || t == nil || !strings.EqualFold(r.schema, t.Schema) {
			continue
		}
		listed := t.Name == "tables" && a.st.listsTemporary(a.cat)
		temporary = temporary || listed
		if listed || t.Clients || t.Name == "schemata" || (!whole || a.st.settings.Restricted) && t.Owner != "" || several && a.st.asksFor(t.Join) {
			want[t.Name]++
		}
	}
	if len(want) == 0 {
		return nil
	}
	sys := a.st.cutSystem(want)
	if sys == nil {
		a.refuse(notSupported("this form of a query of information_schema is not supported: write information_schema before the name of each of its tables, in FROM and before columns"))
	} else if temporary {
		sys.Temporary = true
		sys.Sources[slices.Index(sys.Sources, systemTables["tables"])] = &besideTemporary
	}
	return &systemAction{sys: sys}
}

// asksFor reports whether the text may name one of the columns.
func (st *statement) asksFor(columns map[string]Joining) bool {
	if len(columns) == 0 {
		return false
	}
	for i := range st.toks {
		if st.op(i, "*") && (!st.op(i-1, "(") || !st.is(i-2, "count")) || st.is(i, "natural") {
			return true
		}
		if name, ok := st.identifier(i); ok && columns[strings.ToLower(name)] != 0 {
			return true
		}
	}
	return false
}

// cutSystem cuts the text at the system tables wanted, each of which is there as
// often as the number says; nil where the text doesn't show that.
func (st *statement) cutSystem(want map[string]int) *System {
	sys := &System{}
	source := map[string]int{}
	var part strings.Builder
	from := uint32(0)
	found := map[string]int{}
	for i := 0; i < len(st.toks); i++ {
		name, ok := st.identifier(i)
		if !ok || st.op(i-1, ".") {
			continue
		}
		table, schema := i, st.settings.Schema
		switch {
		case (strings.EqualFold(name, informationSchema) || strings.EqualFold(name, "performance_schema")) && st.op(i+1, "."):
			table, schema = i+2, name
		case st.op(i+1, ".") || st.op(i+1, "(") ||
			!st.is(i-1, "from") && !st.is(i-1, "join") && !st.op(i-1, ",") && !st.op(i-1, "("):
			continue
		}
		name, ok = st.identifier(table)
		low := strings.ToLower(name)
		known := systemTables[low]
		if table > i && st.op(table+1, ".") && known == nil && strings.EqualFold(schema, informationSchema) {
			return nil // a column of what the schema has not
		}
		if !ok || want[low] == 0 || !strings.EqualFold(schema, known.Schema) {
			continue
		}
		part.WriteString(st.src[from:st.toks[i].start])
		if table > i && st.op(table+1, ".") { // a column, before whose name the schema is too much
			from = st.toks[table].start
			i = table
			continue
		}
		from = st.toks[table].end
		sys.Parts = append(sys.Parts, part.String())
		part.Reset()
		if _, seen := source[low]; !seen {
			source[low] = len(sys.Sources)
			sys.Sources = append(sys.Sources, systemTables[low])
		}
		sys.Order = append(sys.Order, source[low])
		found[low]++
		if !st.aliasAt(table + 1) {
			part.WriteString(" AS " + catalog.QuoteName(name))
		}
		i = table
	}
	part.WriteString(st.src[from:])
	sys.Parts = append(sys.Parts, part.String())
	for name, n := range want {
		if found[name] != n {
			return nil
		}
	}
	return sys
}

// aliasAt reports whether token i, after a table's name in FROM, is its alias.
func (st *statement) aliasAt(i int) bool {
	if i >= len(st.toks) {
		return false
	}
	switch st.toks[i].kind {
	case tokQuoted:
		return true
	case tokWord:
	default:
		return false
	}
	switch st.word(i) {
	case "where", "join", "inner", "left", "right", "cross", "straight_join", "natural", "on", "using", "group", "order", "having", "limit",
		"union", "except", "intersect", "for", "lock", "procedure", "into", "window", "partition", "use", "ignore", "force", "offset", "fetch":
		return false
	}
	return true
}

// systemAction runs a query on one shard, over system tables gathered from all.
type systemAction struct {
	sys   *System
	inner action
}

func (s *systemAction) bind(b *binder) (*Bound, error) {
	out, err := s.inner.bind(b)
	if err != nil || out.Refuse != nil {
		return out, err
	}
	if len(out.Statements) != 1 {
		out.Refuse = notSupported("a query of information_schema and of tables on several shards is not supported: ask for the one, then the other")
		return out, nil
	}
	out.System = s.sys
	out.Plan, out.Reason = "gather", "information_schema as of all shards; "+out.Reason
	return out, nil
}

// everywhereAction sends the text to several shards and joins what they say.
type everywhereAction struct {
	fixedAction
	sys *System
}

func (e *everywhereAction) bind(b *binder) (*Bound, error) {
	out, err := e.fixedAction.bind(b)
	if err == nil {
		out.Plan, out.System = "merge", e.sys
	}
	return out, err
}

// everywhere plans a statement whose answer is joined from those of several
// shards.
func everywhere(st *statement, cat *catalog.Catalog, set catalog.ShardSet, sys *System, reason string) (Plan, *Error) {
	if len(st.params) > 0 {
		return nil, notSupported("parameters (?) in this statement are not supported: write the values out")
	}
	act := &everywhereAction{fixedAction{sql: st.src, shards: set, access: "scatter", reason: reason}, sys}
	return &Rows{Catalog: cat, Kind: Show, action: act, settings: st.settings}, nil
}
