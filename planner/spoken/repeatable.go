package spoken

import (
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Repeatable reports whether a SELECT does nothing but read: to execute it once more, or in vain, has no effect.
// It may say no of one that does nothing else.
//
// Counter-examples: SELECT next_number(), a stored function that Shunt doesn't see into; SELECT ... INTO
// OUTFILE; SLEEP(1), which would take two seconds.
func Repeatable(st *text.Statement, r *plan.Rows) bool {
	if st.Hinted || st.Doubtful || len(st.RowCalls) > 0 || slices.ContainsFunc(r.Tables, func(t *catalog.Table) bool { return t.IsView }) {
		return false
	}
	for i, t := range st.Tokens {
		switch t.Kind {
		case text.Variable:
			return false
		case text.Quoted:
			if st.Op(i+1, "(") {
				return false // a stored function, maybe
			}
		case text.Word:
			w := st.Word(i)
			if lasting[w] || st.Op(i+1, "(") && (st.Op(i-1, ".") || !IsBuiltin(w) && !beforeParenthesis[w]) {
				return false
			}
		default:
		}
	}
	return true
}

// lasting are words of what takes its time, leaves something behind, or tells what was left.
var lasting = wordSet(`
	into sleep benchmark get_lock release_lock release_all_locks is_free_lock is_used_lock last_insert_id nextval lastval setval
	found_rows row_count sql_calc_found_rows load_file
`)

// beforeParenthesis are words that stand before a parenthesis and call nothing.
var beforeParenthesis = wordSet(`
	select distinct all from join on using where and or xor not in exists any some between like is by having limit
	as union except intersect case when then else over partition with values row lateral index key
	count sum min max cast char binary decimal varchar datetime time
`)
