package spoken

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
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
	Tables []catalog.TableName
	// Hinted: the statement goes where its hint says, unread.
	Hinted bool
	Beyond Beyond
	st     *text.Statement
}

// Named reads a statement for Named. An error is planning's to tell.
func (t *Text) Named() (Named, error) {
	st, err := t.Statement()
	if err != nil {
		return Named{}, err
	}
	n := Named{Hinted: st.Hinted, Beyond: beyond(st), st: st}
	n.ReadAll(st)
	if st.Is(0, "show") {
		n.show(st)
	}
	return n, nil
}

// ReadAll reads the statement with the rows of an INSERT, whose tokens are kept
// apart.
func (n *Named) ReadAll(st *text.Statement) {
	n.read(st)
	for _, r := range st.Rows {
		if r.Simple {
			continue
		}
		for _, field := range st.RowColumns(r) {
			row := *st
			row.Tokens = field
			n.read(&row)
			n.Beyond.Files = n.Beyond.Files || namesFiles(&row)
			n.Beyond.Function = cmp.Or(n.Beyond.Function, privilegedCall(&row))
		}
	}
}

// beforeTable are words between which and a parenthesis a table's name stands,
// not a function's.
var beforeTable = []string{"into", "insert", "replace", "ignore", "delayed", "low_priority", "high_priority", "table", "exists", "on", "references"}

func (n *Named) read(st *text.Statement) {
	for i := range st.Tokens {
		name, ok := st.Identifier(i)
		if !ok || st.Op(i-1, ".") || !st.Op(i+1, ".") {
			continue
		}
		second, ok := st.Identifier(i + 2)
		if strings.EqualFold(name, "information_schema") && ok {
			n.System = append(n.System, strings.ToLower(second))
			continue
		}
		n.Qualifiers = append(n.Qualifiers, name)
		if ok && !st.Op(i+3, ".") && tableStands(st, i) {
			n.Tables = append(n.Tables, catalog.TableName{Schema: name, Name: second})
		}
		if st.Op(i+3, ".") || ok && st.Op(i+3, "(") && !slices.Contains(beforeTable, st.Word(i-1)) {
			n.Schemas = append(n.Schemas, name)
		}
	}
}

// Bears reports whether something else in the statement may bear the name of a
// schema: a table, or an alias. It then stands somewhere without a point behind it.
func (n *Named) Bears(schema string) bool {
	for i := range n.st.Tokens {
		if name, ok := n.st.Identifier(i); ok && strings.EqualFold(name, schema) && !n.st.Op(i+1, ".") {
			return true
		}
	}
	return false
}

// show reads the schema of a SHOW.
func (n *Named) show(st *text.Statement) {
	i := 1
	for st.Is(i, "full") || st.Is(i, "extended") || st.Is(i, "storage") {
		i++
	}
	froms := 1
	if slices.Contains([]string{"columns", "fields", "index", "indexes", "keys"}, st.Word(i)) {
		froms = 2 // the first is the table's
	}
	for ; i < len(st.Tokens); i++ {
		switch {
		case st.Is(i, "like"), st.Is(i, "where"):
			return
		case st.Is(i, "from"), st.Is(i, "in"):
			if froms--; froms > 0 {
				continue
			}
		case st.Is(i-1, "create") && (st.Is(i, "database") || st.Is(i, "schema")):
			if st.Is(i+1, "if") {
				i += 3 // IF NOT EXISTS
			}
		default:
			continue
		}
		if name, ok := st.Identifier(i + 1); ok && !st.Op(i+2, ".") {
			n.Schemas = append(n.Schemas, name)
		}
	}
}
