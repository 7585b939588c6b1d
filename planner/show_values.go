package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/keys"
)

// ShownValues is SHOW [SESSION | GLOBAL] VARIABLES or STATUS. Some values are the
// session's at Shunt and not its shard connection's, so a condition on values must
// be asked of the rows that have them.
//
// Counter-example: SHOW VARIABLES WHERE Value = 600, where the client has SET
// wait_timeout = 600, which no shard is given.
type ShownValues struct {
	Status, Global bool
	// All is the statement without its filter.
	All string
	// Like is the pattern of LIKE, if HasLike.
	Like    string
	HasLike bool
	// ByName: whether a row is shown depends on its name alone, and none of
	// Shunt's own is among them: the shard may filter.
	ByName bool

	st          *statement
	where       uint32
	conditional bool
}

// Where is the condition with the values of parameters; "" for none.
func (v *ShownValues) Where(params []keys.Value) string {
	if !v.conditional {
		return ""
	}
	return v.st.written(v.where, uint32(len(v.st.src)), params)
}

// shownValues reads the statement; nil for any other.
func (st *statement) shownValues() *ShownValues {
	if !st.is(0, "show") {
		return nil
	}
	i := 1
	v := &ShownValues{st: st, Global: st.is(i, "global")}
	if v.Global || st.is(i, "session") || st.is(i, "local") {
		i++
	}
	if v.Status = st.is(i, "status"); !v.Status && !st.is(i, "variables") {
		return nil
	}
	v.All = st.src[:st.toks[i].end]
	i++
	switch {
	case st.is(i, "like") && len(st.toks) == i+2 && st.toks[i+1].kind == tokString:
		v.Like, v.HasLike, v.ByName = string(st.unescape(st.toks[i+1])), true, true
	case st.is(i, "where") && i+1 < len(st.toks):
		v.where, v.conditional = st.toks[i+1].start, true
		v.ByName = st.byName(i + 1)
	default:
		v.ByName = true // or an error, which a server words
	}
	return v
}

// byName knows conditions of names alone: Variable_name = 'a' OR Variable_name IN
// ('b', 'c').
func (st *statement) byName(i int) bool {
	for ; i < len(st.toks); i++ {
		switch st.toks[i].kind {
		case tokString:
			if strings.Contains(strings.ToLower(string(st.unescape(st.toks[i]))), "shunt") {
				return false
			}
		case tokWord, tokQuoted:
			name, _ := st.identifier(i)
			switch strings.ToLower(name) {
			case "variable_name", "or", "and", "in":
			default:
				return false
			}
		case tokOp:
			switch st.text(i) {
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
