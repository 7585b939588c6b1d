package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// ShownValues reads the statement; nil for any other.
func ShownValues(st *text.Statement) *plan.ShownValues {
	if !st.Is(0, "show") {
		return nil
	}
	i := 1
	v := &plan.ShownValues{Statement: st, Global: st.Is(i, "global")}
	if v.Global || st.Is(i, "session") || st.Is(i, "local") {
		i++
	}
	if v.Status = st.Is(i, "status"); !v.Status && !st.Is(i, "variables") {
		return nil
	}
	v.All = st.Src[:st.Tokens[i].End]
	i++
	switch {
	case st.Is(i, "like") && len(st.Tokens) == i+2 && st.Tokens[i+1].Kind == text.String:
		v.Like, v.HasLike, v.ByName = string(st.Unescape(st.Tokens[i+1])), true, true
	case st.Is(i, "where") && i+1 < len(st.Tokens):
		v.WhereAt, v.Conditional = st.Tokens[i+1].Start, true
		v.ByName = byName(st, i+1)
	default:
		v.ByName = true // or an error, which a server words
	}
	return v
}

// byName knows conditions of names alone: Variable_name = 'a' OR Variable_name IN
// ('b', 'c').
func byName(st *text.Statement, i int) bool {
	for ; i < len(st.Tokens); i++ {
		switch st.Tokens[i].Kind {
		case text.String:
			if strings.Contains(strings.ToLower(string(st.Unescape(st.Tokens[i]))), "shunt") {
				return false
			}
		case text.Word, text.Quoted:
			name, _ := st.Identifier(i)
			switch strings.ToLower(name) {
			case "variable_name", "or", "and", "in":
			default:
				return false
			}
		case text.Operator:
			switch st.Text(i) {
			case "=", "(", ")", ",":
			default:
				return false
			}
		default:
			return false
		}
	}
	return true
}
