package text

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/keys"
)

// Parameter is a ? of a statement. Where a value is written in its place, it must not
// become what only a literal is.
type Parameter struct {
	// At is where it stands.
	At int
	// Sorts: in the list of an ORDER BY or GROUP BY, where MySQL takes a literal for the
	// place of a column, and a parameter for a constant. (To MariaDB both are places.)
	Sorts bool
	// Limits: of a LIMIT, where a literal must be a whole number; a parameter that is a
	// text is made one.
	Limits bool
}

// Parameters are the ? of a statement.
func (st *Statement) Parameters() []Parameter {
	return parameters(st.Src, st.Settings, st.Server)
}

// OwnParameters counts those of a SET, KILL or CREATE TABLE ... SELECT, which Shunt executes
// itself, and so as a text with the values (WithValues); 0 for any other statement. (MySQL's
// KILL has none.)
func (st *Statement) OwnParameters() int {
	switch {
	case st.Hinted:
		return 0
	case st.Is(0, "kill") && st.Server.MariaDB, st.Is(0, "set") && !st.Is(1, "statement"):
	case st.Is(0, "create") && (st.Is(1, "table") || st.Is(1, "temporary") || st.Is(1, "or")):
	default:
		return 0
	}
	return len(st.Params)
}

// WithValues is a statement with literals for its parameters.
func (st *Statement) WithValues(values []keys.Value) string {
	return st.Written(0, uint32(len(st.Src)), values)
}

// parameters are those of a text that lies within no list of ORDER BY, GROUP BY or LIMIT.
func parameters(sql string, s Settings, server ServerVersion) (all []Parameter) {
	type clause struct{ sorts, limits bool }
	within, outer := clause{}, []clause{}
	before := "" // the token, in lower case if it is a word
	lx := NewLexer(sql, s, server)
	for t := lx.Next(); t.Kind != EOF && t.Kind != Bad; t = lx.Next() {
		text := sql[t.Start:t.End]
		switch t.Kind {
		case Param:
			all = append(all, Parameter{At: int(t.Start), Sorts: within.sorts && !server.MariaDB, Limits: within.limits})
		case Operator:
			switch text {
			case "(":
				outer = append(outer, within)
				// ORDER BY (?) is as without parentheses.
				within = clause{sorts: within.sorts && (before == "by" || before == "," || before == "(" || before == "+")}
			case ")":
				if within = (clause{}); len(outer) > 0 {
					within, outer = outer[len(outer)-1], outer[:len(outer)-1]
				}
			}
		case Word:
			switch text = strings.ToLower(text); text {
			case "by":
				within = clause{sorts: before == "order" || before == "group"}
			case "limit", "offset", "fetch":
				within = clause{limits: true}
			case "select", "having", "window", "rows", "range", "on", "for", "lock", "into", "union", "except", "intersect", "separator", "returning":
				within = clause{}
			}
		default:
		}
		before = text
	}
	return all
}

// Write is how a value stands for the parameter: literal is the value's, and number its
// text where it is a number or may be one.
func (p *Parameter) Write(literal, number string) string {
	switch {
	case p.Limits && strings.EqualFold(literal, "NULL"):
		return "0"
	case strings.Trim(number, "0123456789") != "" || number == "":
		return literal
	case p.Limits:
		return number
	case p.Sorts && strings.TrimSpace(literal) == number:
		return "(" + number + "+0)"
	}
	return literal
}

// write is Write for a value.
func (p *Parameter) write(st *Statement, v keys.Value) string {
	literal := st.Literal(v)
	number, _, ok := v.AsText()
	if !ok {
		number = literal
	}
	return p.Write(literal, number)
}
