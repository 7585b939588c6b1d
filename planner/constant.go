package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// maxConstants bounds the values that one question asks for; MySQL answers up to
// 4096 columns.
const maxConstants = 4000

// ask notes the value of a column in a row, if it must be known and isn't.
func (i *insertAction) ask(c *catalog.Column, o text.Operand, toks []text.Token) {
	byDefault := o.Kind == text.Default && c == i.table.ShardKey && i.keyDefault != ""
	if o.Kind != text.Unknown && !byDefault || i.unasked || c != i.table.ShardKey && c != spoken.CountedColumn(i.table) {
		return
	}
	if len(toks) == 0 || !byDefault && !spoken.IsConstant(i.st, toks) {
		i.unasked = true
		return
	}
	x := plan.ConstantPlace{Start: toks[0].Start, End: toks[len(toks)-1].End}
	if byDefault {
		x.Query = i.keyDefault
	}
	i.askAt(x, c)
}

func (i *insertAction) askAt(x plan.ConstantPlace, into *catalog.Column) {
	if i.fused || i.asked != nil && i.asked.Len() == maxConstants {
		i.unasked = true
		return
	}
	if i.asked == nil {
		i.asked = &plan.Constants{Statement: i.st, Table: i.table, Ignore: i.ignore}
	}
	i.asked.Add(x, into)
}

// askable is the shard key's default, if it may be asked for, and put into the rows by the column's name.
func (i *insertAction) askable() string {
	c := i.table.ShardKey
	if c == nil || c.DefaultText == "" || !spreads(i.table) || !strings.EqualFold(i.target.nameOf(c), c.Name) {
		return ""
	}
	own, err := text.Read(c.DefaultText, i.st.Settings, nil)
	if err != nil || !spoken.IsConstant(own, own.Tokens) {
		return ""
	}
	return c.DefaultText
}

// spreads reports that a row's shard depends on its values.
func spreads(t *catalog.Table) bool {
	return t.Shards.Len() > 1 && (t.Placement == catalog.Hash || t.Placement == catalog.Anywhere)
}

// constants are what to ask for, nil for nothing.
func (i *insertAction) constants() *plan.Constants {
	if i.unasked || !spreads(i.table) {
		return nil
	}
	return i.asked
}
