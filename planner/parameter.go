package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
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
func Parameters(sql string, s Settings, cat *catalog.Catalog) ([]Parameter, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil {
		return nil, err
	}
	return parameters(sql, s, st.server), nil
}

// OwnParameters counts those of a SET, KILL or CREATE TABLE ... SELECT, which Shunt executes
// itself, and so as a text with the values (WithValues); 0 for any other statement. (MySQL's
// KILL has none.)
func OwnParameters(sql string, s Settings, cat *catalog.Catalog) int {
	st, err := lexStatement(sql, s, cat)
	if err != nil || st.hinted {
		return 0 // what is wrong with it, planning says
	}
	switch {
	case st.is(0, "kill") && cat.MariaDB, st.is(0, "set") && !st.is(1, "statement"):
	case st.is(0, "create") && (st.is(1, "table") || st.is(1, "temporary") || st.is(1, "or")):
	default:
		return 0
	}
	return len(st.params)
}

// WithValues is a statement with literals for its parameters.
func WithValues(sql string, s Settings, cat *catalog.Catalog, values []keys.Value) (string, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil {
		return "", err
	}
	return st.written(0, uint32(len(st.src)), values), nil
}

// parameters are those of a text that lies within no list of ORDER BY, GROUP BY or LIMIT.
func parameters(sql string, s Settings, server serverVersion) (all []Parameter) {
	type clause struct{ sorts, limits bool }
	within, outer := clause{}, []clause{}
	before := "" // the token, in lower case if it is a word
	lx := newLexer(sql, s, server)
	for t := lx.next(); t.kind != tokEOF && t.kind != tokBad; t = lx.next() {
		text := sql[t.start:t.end]
		switch t.kind {
		case tokParam:
			all = append(all, Parameter{At: int(t.start), Sorts: within.sorts && !server.mariaDB, Limits: within.limits})
		case tokOp:
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
		case tokWord:
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
func (p *Parameter) write(st *statement, v keys.Value) string {
	literal := st.literal(v)
	number, _, ok := v.AsText()
	if !ok {
		number = literal
	}
	return p.Write(literal, number)
}
