package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/text"
)

// IsConstant reports tokens of an expression that a SELECT without tables answers
// as the INSERT would compute it. A name of a column may be left in it: the
// SELECT then fails.
//
// Rule one time: the statement's clock is not asked for. Counter-example: VALUES
// (UNIX_TIMESTAMP(), NOW()), where the second would be read later.
//
// Rule no trace: what also changes something is not asked for, since it would do
// so twice or elsewhere: LAST_INSERT_ID(5), a stored function.
func IsConstant(st *text.Statement, toks []text.Token) bool {
	for n, t := range toks {
		w := strings.ToLower(st.Src[t.Start:t.End])
		next := ""
		if n+1 < len(toks) {
			next = st.Src[toks[n+1].Start:toks[n+1].End]
		}
		switch t.Kind {
		case text.Operator:
			if w == ":=" {
				return false
			}
		case text.Variable:
			if strings.HasPrefix(w, "@@") {
				return false
			}
		case text.Word:
			if ClockFunction(w) || NeverAsked(w) {
				return false
			}
			if w == "last_insert_id" && (n+2 >= len(toks) || st.Src[toks[n+2].Start:toks[n+2].End] != ")") {
				return false
			}
			if next == "(" && !IsBuiltin(w) && !operatorWord[w] {
				return false
			}
		case text.Quoted:
			if next == "(" || next == "." {
				return false
			}
		case text.Int, text.Decimal, text.Float, text.String, text.Introducer, text.Hex, text.Bit, text.Param:
		default:
			return false
		}
	}
	return true
}

// operatorWord are words before a parenthesis that call nothing.
var operatorWord = wordSet(`and or xor not is like rlike regexp in between div mod case when then else as interval escape using sounds null`)

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
