package advise

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// parameter is a ? of a digest.
type parameter struct {
	// column is the one that it stands beside, nil for none, as in a LIMIT.
	column *catalog.Column
	of     *catalog.Table
	// equals: it is what a condition compares the column with by `=`, in a statement without OR.
	equals bool
}

// parameterReader finds parameters in a statement's tokens.
type parameterReader struct {
	tables []*catalog.Table
	all    []parameter
	beside parameter // the column that was named last
	listed []*catalog.Column
	// within is where in an INSERT the token is: its head, its rows ("values"), or "" for elsewhere.
	within       string
	depth, place int // parentheses, and commas in the outermost
	last         string
	compares     bool // in a condition
	either       bool // there is an OR
}

// parametersOf are the parameters of a statement.
//
// It only chooses values, whose routes the planner finds: a wrong guess makes a value of another type,
// for which the planner uses no index.
func parametersOf(sql string, s text.Settings, tables []*catalog.Table) []parameter {
	r := parameterReader{tables: tables}
	lx := text.NewLexer(sql, s, text.ServerVersion{})
	for t := lx.Next(); t.Kind != text.EOF && t.Kind != text.Bad; t = lx.Next() {
		token := sql[t.Start:t.End]
		switch t.Kind {
		case text.Param:
			r.parameter()
		case text.Word:
			if !r.keyword(strings.ToLower(token)) {
				r.name(token)
			}
		case text.Quoted:
			r.name(strings.Trim(token, "`"))
		case text.Operator:
			r.operator(token)
		default:
		}
		r.last = token
	}
	for i := range r.all {
		r.all[i].equals = r.all[i].equals && !r.either && r.all[i].of != nil
	}
	return r.all
}

func (r *parameterReader) parameter() {
	if r.within == "values" && r.depth == 1 {
		r.beside = parameter{}
		if r.place < len(r.listed) {
			r.beside.column = r.listed[r.place]
		}
	}
	p := r.beside
	p.equals = r.compares && r.last == "="
	r.all = append(r.all, p)
}

// keyword reports a word that no column is named by.
func (r *parameterReader) keyword(word string) bool {
	switch word {
	case "insert", "replace":
		if r.within == "" && len(r.all) == 0 {
			r.within = "head"
		}
	case "values", "value":
		if r.within == "head" {
			r.within, r.depth = "values", 0
			if r.listed == nil && len(r.tables) > 0 {
				r.listed = r.tables[0].Columns
			}
		}
	case "select", "set", "on":
		if r.depth == 0 {
			r.within = ""
		}
	case "where", "having":
		r.compares = true
	case "update":
		r.compares = false
	case "or":
		r.either = true
	case "limit", "offset", "interval":
		r.beside = parameter{}
	default:
		return false
	}
	return word != "value" && word != "offset"
}

func (r *parameterReader) name(name string) {
	of, c := columnNamed(r.tables, name)
	if c == nil {
		return
	}
	if r.within == "head" && r.depth == 1 {
		r.listed = append(r.listed, c)
	}
	r.beside = parameter{column: c, of: of}
}

func (r *parameterReader) operator(op string) {
	switch op {
	case "(":
		if r.depth++; r.depth == 1 {
			r.place = 0
		}
	case ")":
		r.depth--
	case ",":
		if r.depth == 1 {
			r.place++
		}
	}
}

func columnNamed(tables []*catalog.Table, name string) (*catalog.Table, *catalog.Column) {
	for _, t := range tables {
		if c := t.Column(name); c != nil {
			return t, c
		}
	}
	return nil, nil
}

// valuesOf are values for parameters.
//
// Rule equal values: a digest doesn't tell that two literals are the same, but most are that are compared
// with columns whose names say the same: ol_w_id = 7 AND s_w_id = 7.
func valuesOf(all []parameter, r *rand.Rand) []keys.Value {
	out := make([]keys.Value, len(all))
	for i, p := range all {
		out[i] = valueOf(p.column, r)
		for k, q := range all[:i] {
			if p.equals && q.equals && p.column.Type == q.column.Type && alike(p.of, p.column.Name, q.of, q.column.Name) {
				out[i] = out[k]
				break
			}
		}
	}
	return out
}

// valueOf is a value that a column may have.
func valueOf(c *catalog.Column, r *rand.Rand) keys.Value {
	n := r.Int64N(1 << 30)
	str := func(format string, args ...any) keys.Value {
		return keys.Text(fmt.Sprintf(format, args...), "utf8mb4")
	}
	switch base := c.BaseType(); base {
	case "":
		return keys.Int(10)
	case "tinyint":
		return keys.Int(n % 100)
	case "smallint":
		return keys.Int(n % 30000)
	case "mediumint":
		return keys.Int(n % 8000000)
	case "int", "integer", "bigint":
		return keys.Int(n)
	case "bit":
		return keys.Int(1)
	case "decimal", "float", "double":
		return keys.Int(n % 10)
	case "year":
		return keys.Int(2000 + n%60)
	case "date":
		return str("20%02d-%02d-%02d", n%30, 1+n%12, 1+n%28)
	case "datetime", "timestamp":
		return str("20%02d-%02d-%02d %02d:%02d:00", n%30, 1+n%12, 1+n%28, n%24, n%60)
	case "time":
		return str("%02d:%02d:%02d", n%24, n%60, n%59)
	case "json":
		return str("{}")
	case "uuid":
		return str("%08x-0000-4000-8000-%012x", n, n)
	case "inet4":
		return str("10.%d.%d.%d", n%250, n/250%250, n/62500%250)
	case "inet6":
		return str("2001:db8::%x", 1+n%65000)
	case "enum", "set":
		_, list, _ := strings.Cut(c.Type, "'")
		first, _, _ := strings.Cut(list, "'")
		return str("%s", first)
	}
	letters := []byte("abcdefghijklmnopqrstuvwxyz")
	word := make([]byte, min(10, lengthOf(c.Type)))
	for i := range word {
		word[i] = letters[r.IntN(len(letters))]
	}
	return keys.Text(string(word), "utf8mb4")
}

// lengthOf is the length in parentheses, a large one where there is none.
func lengthOf(typ string) int {
	n := 10
	if _, inner, ok := strings.Cut(typ, "("); ok {
		_, _ = fmt.Sscanf(inner, "%d", &n)
	}
	return max(n, 1)
}
