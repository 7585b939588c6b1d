package spoken

import (
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// Listed is a column that an INSERT without a column list has a value for.
type Listed struct {
	Name    string
	Was     *catalog.Column // nil for a new one
	Visible bool
}

// Reordered reports whether an INSERT without a column list means other columns where those of t are
// as after says, and whether the shard key is one of them.
func Reordered(t *catalog.Table, after []Listed) (reorders, movesKey bool) {
	after = slices.DeleteFunc(after, func(c Listed) bool { return !c.Visible })
	before := Visible(t)
	if len(before) != len(after) {
		return false, false
	}
	for i, c := range before {
		moved := after[i].Was != c
		reorders = reorders || moved
		movesKey = movesKey || moved && c == t.ShardKey
	}
	return reorders, movesKey
}

// keepsKey refuses another table under a name where an INSERT that was planned for the
// one before, and waits, would be placed by what isn't the shard key, or not as it is
// placed in this one.
func keepsKey(before, now *catalog.Table) *text.Error {
	if before == nil || before == now || before.Placement != catalog.Hash || before.Shards.Len() < 2 || before.ShardKey == nil || now.ShardKey == nil {
		return nil
	}
	var columns []Listed
	for _, c := range now.Columns {
		columns = append(columns, Listed{c.Name, before.Column(c.Name), !c.Invisible})
	}
	_, moves := Reordered(before, columns)
	was, is := before.ShardKey, now.ShardKey
	alike := was.BaseType() == is.BaseType() || catalog.IsInteger(was.BaseType()) && catalog.IsInteger(is.BaseType())
	if moves || !alike || was.Collation != is.Collation {
		return text.NotSupported("RENAME TABLE that gives %s's name to %s, whose shard key %s is of another type or has another place among as many columns, is not supported: an INSERT that waits for it would be stored on the shard of another key; rename %s away by a statement of its own before",
			before.Name, now.Name, is.Name, before.Name)
	}
	return nil
}

// MayReorder is what reorders is of an ALTER TABLE that only the lexer understands, of which
// it tells what can't be excluded.
func MayReorder(st *text.Statement, i int, t *catalog.Table) (reorders, movesKey bool) {
	words := map[string]bool{}
	several := false
	for ; i < len(st.Tokens); i++ {
		words[st.Word(i)] = true
		several = several || st.Op(i, ",")
	}
	changes := words["modify"] || words["change"]
	// One becomes invisible, another visible.
	hidden := words["visible"] || words["invisible"] || len(Visible(t)) < len(t.Columns)
	shows := hidden && several && (changes || words["set"])
	reorders = shows || changes && (words["first"] || words["after"]) || words["drop"] && words["add"]
	// Nothing comes before the first column but what is said to.
	movesKey = reorders && t.ShardKey != nil && (words["first"] || shows || t.ShardKey.Position > 0)
	return reorders, movesKey
}
