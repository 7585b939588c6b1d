package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// BindGathered binds a SELECT to be gathered, whatever else could answer it: for a key of a
// Merge, say, whose type, seen in the shards' answers, can't be compared after all.
func (p *Planner) BindGathered(r *plan.Rows, params []keys.Value, ix plan.Indexes) (*plan.Bound, error) {
	act, ok := bindableOf(r).action.(*selectAction)
	if !ok || act.gather == nil || len(params) != r.Params {
		return nil, text.NotSupported("this query can't be gathered")
	}
	b := newBinder(r, params, ix)
	var out *plan.Bound
	var err *text.Error
	b.atOnce(func() { out, err = act.gather.bind(b) })
	switch {
	case err != nil:
		return nil, err
	case out == nil:
		return nil, text.NotSupported("a query of views or system tables can't be gathered")
	}
	return out, nil
}

// Untold is what servers may store of a query's values and don't answer.
type Untold struct {
	// Digits of quotients: MariaDB computes 1 / 3 to nine and more, and answers 0.3333.
	Digits bool
	// Bits: hexadecimal and bit literals, which are numbers to a column of numbers and are
	// answered as texts.
	Bits bool
}

// UntoldOf looks for what makes it: a view's text is not looked at.
func UntoldOf(r *plan.Rows, sql string) Untold {
	if slices.ContainsFunc(r.Tables, func(t *catalog.Table) bool { return t.IsView }) {
		return Untold{Digits: true, Bits: true}
	}
	st, err := text.Read(sql, bindableOf(r).settings, r.Catalog)
	if err != nil {
		return Untold{Digits: true, Bits: true}
	}
	var out Untold
	for i, t := range st.Tokens {
		switch t.Kind {
		case text.Hex, text.Bit:
			out.Bits = true
		case text.Operator:
			out.Digits = out.Digits || st.Op(i, "/")
		case text.Word:
			w := strings.ToLower(st.Text(i))
			out.Digits = out.Digits || w == "avg" || w == "median" || strings.HasPrefix(w, "percentile_")
		default:
		}
	}
	return out
}

// Scale is how many decimals a DECIMAL column has.
func Scale(c *catalog.Column) int {
	n, _ := exactColumn(c)
	return n.scale
}
