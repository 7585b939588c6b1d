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
