package spoken

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

var tableSums = map[string]plan.Joining{
	"table_rows": plan.Sum, "data_length": plan.Sum, "index_length": plan.Sum, "data_free": plan.Sum, "avg_row_length": plan.RowLength,
	"auto_increment": plan.Largest, "update_time": plan.Largest, "check_time": plan.Largest, "create_time": plan.Smallest,
}

// statusSums are those of SHOW TABLE STATUS.
var statusSums = map[string]plan.Joining{
	"rows": plan.Sum, "data_length": plan.Sum, "index_length": plan.Sum, "data_free": plan.Sum, "avg_row_length": plan.RowLength,
	"auto_increment": plan.Largest, "update_time": plan.Largest, "check_time": plan.Largest, "create_time": plan.Smallest,
}

// SystemTables are the tables of information_schema that tell of the user's
// schemas, and tables that tell of clients. The others tell of a server, and are
// asked of one.
var SystemTables = map[string]*plan.SystemTable{
	"schemata":                {Key: []string{"schema_name"}, Owner: "schema_name"},
	"tables":                  {Key: []string{"table_schema", "table_name"}, Owner: "table_schema", Table: "table_name", Join: tableSums},
	"partitions":              {Key: []string{"table_schema", "table_name", "partition_name", "subpartition_name"}, Owner: "table_schema", Table: "table_name", Join: tableSums},
	"statistics":              {Key: []string{"table_schema", "table_name", "index_name", "seq_in_index"}, Owner: "table_schema", Table: "table_name", Join: map[string]plan.Joining{"cardinality": plan.Sum}},
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
	t := SystemTables[name]
	return t != nil && t.Schema == informationSchema
}

const informationSchema = "information_schema"

// BesideTemporary is information_schema.TABLES where a temporary table may be listed
// beside the one that it hides.
var BesideTemporary plan.SystemTable

func init() {
	for name, t := range SystemTables {
		if t.Name = name; t.Schema == "" {
			t.Schema = informationSchema
		}
		if t.Owner != "" {
			ownerColumns[t.Owner] = true
		}
	}
	BesideTemporary = *SystemTables["tables"]
	BesideTemporary.Key = append(slices.Clone(BesideTemporary.Key), "table_type")
}

// ListsTemporary: MariaDB lists a session's temporary tables from 11.2 on.
func ListsTemporary(st *text.Statement, cat *catalog.Catalog) bool {
	return hasTemporary(cat) && st.Server.MariaDB && st.Server.Number >= 110200
}

// OneKnowsAll reports whether one shard knows all tables and events there are.
//
// Counter-example: settings is on s2 alone and flags on s3 alone. What either
// says of the tables leaves one of them out.
func OneKnowsAll(cat *catalog.Catalog) bool {
	if len(cat.Shards) <= 1 {
		return true
	}
	full := Fullest(cat).First()
	for t := range cat.Tables() {
		if len(t.Columns) > 0 && !t.Temporary && (!t.Shards.Has(full) || t.Differs != "") {
			return false
		}
	}
	return !slices.ContainsFunc(cat.Events, func(e *catalog.Event) bool { return !e.On.Has(full) })
}

// NamesSchemas counts conditions that name the schema of a system table's rows; 0 where they
// may not all have to hold.
func NamesSchemas(st *text.Statement) (n int) {
	for i := range st.Tokens {
		switch st.Word(i) {
		case "or", "xor", "not", "union", "except", "intersect", "case", "if":
			return 0
		}
		if st.Op(i, "||") || st.Op(i, "!") {
			return 0
		}
		name, ok := st.Identifier(i)
		if !ok || !ownerColumns[strings.ToLower(name)] {
			continue
		}
		value := st.Op(i+1, "=") && i+2 < len(st.Tokens) &&
			(st.Tokens[i+2].Kind == text.String || st.Tokens[i+2].Kind == text.Param || st.Tokens[i+2].Kind == text.Variable || (st.Is(i+2, "database") || st.Is(i+2, "schema")) && st.Op(i+3, "("))
		if value || st.Is(i+1, "in") && st.Op(i+2, "(") && !st.Is(i+3, "select") {
			n++
		}
	}
	return n
}

// ownerColumns are those that say which schema a row belongs to.
var ownerColumns = map[string]bool{"constraint_schema": true}

// NamesColumn reports whether the text may name one of the columns.
func NamesColumn(st *text.Statement, columns map[string]plan.Joining) bool {
	if len(columns) == 0 {
		return false
	}
	for i := range st.Tokens {
		if st.Op(i, "*") && (!st.Op(i-1, "(") || !st.Is(i-2, "count")) || st.Is(i, "natural") {
			return true
		}
		if name, ok := st.Identifier(i); ok && columns[strings.ToLower(name)] != 0 {
			return true
		}
	}
	return false
}

// CutSystem cuts the text at the system tables wanted, each of which is there as
// often as the number says; nil where the text doesn't show that.
func CutSystem(st *text.Statement, want map[string]int) *plan.System {
	sys := &plan.System{}
	source := map[string]int{}
	var part strings.Builder
	from := uint32(0)
	found := map[string]int{}
	items := selectItems(st)
	// upTo writes the text up to a place, with the names that a server gives the columns of items that are written otherwise.
	upTo := func(to uint32) {
		for len(items) > 0 && items[0].end <= to {
			if x := items[0]; x.start < from && x.end > from && x.name != "" { // the last table was cut out of it
				part.WriteString(st.Src[from:x.end] + " AS " + catalog.QuoteName(x.name))
				from = x.end
			}
			items = items[1:]
		}
		part.WriteString(st.Src[from:to])
		from = to
	}
	for i := 0; i < len(st.Tokens); i++ {
		name, ok := st.Identifier(i)
		if !ok || st.Op(i-1, ".") {
			continue
		}
		table, schema := i, st.Settings.Schema
		switch {
		case (strings.EqualFold(name, informationSchema) || strings.EqualFold(name, "performance_schema")) && st.Op(i+1, "."):
			table, schema = i+2, name
		case st.Op(i+1, ".") || st.Op(i+1, "(") ||
			!st.Is(i-1, "from") && !st.Is(i-1, "join") && !st.Op(i-1, ",") && !st.Op(i-1, "("):
			continue
		}
		name, ok = st.Identifier(table)
		low := strings.ToLower(name)
		known := SystemTables[low]
		if table > i && st.Op(table+1, ".") && known == nil && strings.EqualFold(schema, informationSchema) {
			return nil // a column of what the schema has not
		}
		if !ok || want[low] == 0 || !strings.EqualFold(schema, known.Schema) {
			continue
		}
		upTo(st.Tokens[i].Start)
		if table > i && st.Op(table+1, ".") { // a column, before whose name the schema is too much
			from = st.Tokens[table].Start
			i = table
			continue
		}
		from = st.Tokens[table].End
		sys.Parts = append(sys.Parts, part.String())
		part.Reset()
		if _, seen := source[low]; !seen {
			source[low] = len(sys.Sources)
			sys.Sources = append(sys.Sources, SystemTables[low])
		}
		sys.Order = append(sys.Order, source[low])
		found[low]++
		if !aliasAt(st, table+1) {
			part.WriteString(" AS " + catalog.QuoteName(name))
		}
		i = table
	}
	upTo(uint32(len(st.Src)))
	sys.Parts = append(sys.Parts, part.String())
	for name, n := range want {
		if found[name] != n {
			return nil
		}
	}
	return sys
}

// selectItem is an item of a SELECT's list, and the name of its column if it is an expression without one.
type selectItem struct {
	start, end uint32
	name       string
}

// maxAlias is how many characters a column's name may have, where it is said.
const maxAlias = 256

// selectItems are those of the first SELECT, if the statement begins with it.
func selectItems(st *text.Statement) (items []selectItem) {
	if !st.Is(0, "select") {
		return nil
	}
	first := 1
	for selectOptions[st.Word(first)] {
		first++
	}
	depth := 0
	for i := first; i <= len(st.Tokens); i++ {
		end := i == len(st.Tokens) || depth == 0 && endsSelectList[st.Word(i)]
		switch {
		case end, depth == 0 && st.Op(i, ","):
			if i > first {
				x := selectItem{start: st.Tokens[first].Start, end: st.Tokens[i-1].End}
				if name := st.Src[x.start:x.end]; !namedItem(st, first, i-1) && utf8.RuneCountInString(name) <= maxAlias {
					x.name = name
				}
				items = append(items, x)
			}
			if first = i + 1; end {
				return items
			}
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		}
	}
	return items
}

var (
	selectOptions  = wordSet("all distinct distinctrow high_priority straight_join sql_small_result sql_big_result sql_buffer_result sql_no_cache sql_calc_found_rows")
	endsSelectList = wordSet("from where group having order limit union except intersect into procedure for lock window")
	// endsExpression are words that an expression may end with.
	endsExpression = wordSet("end null true false unknown json default")
)

// namedItem reports whether an item, of tokens first to last, may end with a name.
func namedItem(st *text.Statement, first, last int) bool {
	if last == first {
		return true
	}
	switch st.Tokens[last].Kind {
	case text.Quoted, text.String:
	case text.Word:
		if endsExpression[st.Word(last)] {
			return false
		}
	default:
		return false
	}
	return st.Tokens[last-1].Kind != text.Operator || st.Op(last-1, ")") || st.Op(last-1, ".")
}

// aliasAt reports whether token i, after a table's name in FROM, is its alias.
func aliasAt(st *text.Statement, i int) bool {
	if i >= len(st.Tokens) {
		return false
	}
	switch st.Tokens[i].Kind {
	case text.Quoted:
		return true
	case text.Word:
	default:
		return false
	}
	switch st.Word(i) {
	case "where", "join", "inner", "left", "right", "cross", "straight_join", "natural", "on", "using", "group", "order", "having", "limit",
		"union", "except", "intersect", "for", "lock", "procedure", "into", "window", "partition", "use", "ignore", "force", "offset", "fetch":
		return false
	}
	return true
}

// everywhere plans a statement whose answer is joined from those of several
// shards.
func everywhere(st *text.Statement, cat *catalog.Catalog, set catalog.ShardSet, sys *plan.System, reason string) (plan.Plan, *text.Error) {
	if len(st.Params) > 0 {
		return nil, text.NotSupported("parameters (?) in this statement are not supported: write the values out")
	}
	return fixed(st, cat, plan.Show, nil, &Fixed{Shards: set, Access: "scatter", Reason: reason, System: sys}), nil
}
