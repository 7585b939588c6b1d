package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Named is what a statement's text says of schemas, for those who may not see
// all. It says nothing of tables: plans name those.
type Named struct {
	// Schemas are named for sure: shop.orders.id, shop.price(1), SHOW TABLES FROM
	// shop.
	Schemas []string
	// Qualifiers are all names before a point, tables' and aliases' too.
	Qualifiers []string
	// System are the tables of information_schema, lower case.
	System []string
	// Tables with a schema stand where nothing else can: FROM shop.orders.
	Tables []TableName
	// Hinted: the statement goes where its hint says, unread.
	Hinted bool
	Beyond Beyond
}

// NamedSchemas reads a statement for Named. An error is planning's to tell.
func NamedSchemas(sql string, s Settings, cat *catalog.Catalog) (Named, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil {
		return Named{}, err
	}
	n := Named{Hinted: st.hinted, Beyond: st.beyond()}
	n.readAll(st)
	if st.is(0, "show") {
		n.show(st)
	}
	return n, nil
}

// readAll reads the statement with the rows of an INSERT, whose tokens are kept
// apart.
func (n *Named) readAll(st *statement) {
	n.read(st)
	for _, r := range st.rows {
		if r.simple {
			continue
		}
		for _, field := range st.rowColumns(r) {
			row := *st
			row.toks = field
			n.read(&row)
			n.Beyond.Files = n.Beyond.Files || row.namesFiles()
		}
	}
}

// beforeTable are words between which and a parenthesis a table's name stands,
// not a function's.
var beforeTable = []string{"into", "insert", "replace", "ignore", "delayed", "low_priority", "high_priority", "table", "exists", "on", "references"}

func (n *Named) read(st *statement) {
	for i := range st.toks {
		name, ok := st.identifier(i)
		if !ok || st.op(i-1, ".") || !st.op(i+1, ".") {
			continue
		}
		second, ok := st.identifier(i + 2)
		if strings.EqualFold(name, "information_schema") && ok {
			n.System = append(n.System, strings.ToLower(second))
			continue
		}
		n.Qualifiers = append(n.Qualifiers, name)
		if ok && !st.op(i+3, ".") && st.tableStands(i) {
			n.Tables = append(n.Tables, TableName{Schema: name, Name: second})
		}
		if st.op(i+3, ".") || ok && st.op(i+3, "(") && !slices.Contains(beforeTable, st.word(i-1)) {
			n.Schemas = append(n.Schemas, name)
		}
	}
}

// show reads the schema of a SHOW.
func (n *Named) show(st *statement) {
	i := 1
	for st.is(i, "full") || st.is(i, "extended") || st.is(i, "storage") {
		i++
	}
	froms := 1
	if slices.Contains([]string{"columns", "fields", "index", "indexes", "keys"}, st.word(i)) {
		froms = 2 // the first is the table's
	}
	for ; i < len(st.toks); i++ {
		switch {
		case st.is(i, "like"), st.is(i, "where"):
			return
		case st.is(i, "from"), st.is(i, "in"):
			if froms--; froms > 0 {
				continue
			}
		case st.is(i-1, "create") && (st.is(i, "database") || st.is(i, "schema")):
			if st.is(i+1, "if") {
				i += 3 // IF NOT EXISTS
			}
		default:
			continue
		}
		if name, ok := st.identifier(i + 1); ok && !st.op(i+2, ".") {
			n.Schemas = append(n.Schemas, name)
		}
	}
}
