package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
)

// planLimited finds the parts; nil where there is no such way.
//
// Rule same rows: what the query finds stays what it is until it is changed, by
// the locks, and by the change itself, which leaves the key alone. A statement
// with subqueries is left out, since a server may refuse them (1093) that the
// query allows.
func (a *analysis) planLimited(act *writeAction, n ast.StmtNode) *plan.Limited {
	st := a.st
	if act.everywhere || a.subqueries || a.counted || len(a.refs) != 1 || len(act.targets) != 1 || a.refs[0].through != nil || act.q.spoils == "" || st.HasExecutable() {
		return nil
	}
	l := &plan.Limited{Statement: st, Key: rowKey(act.targets[0].ref.table)}
	if l.Key == nil || slices.ContainsFunc(l.Key, func(c *catalog.Column) bool { return assigns(act.targets[0].sets, c) }) {
		return nil
	}
	end := st.Tokens[len(st.Tokens)-1].End // what stands behind it says nothing
	l.Rows, l.Order, l.Limit, l.End = end, end, end, end
	for i := range st.Outside(0, len(st.Tokens)) {
		at := st.Tokens[i].Start
		switch w := st.Word(i); {
		case w == "set" && l.Table[1] == 0 && !act.delete:
			l.Table[1] = at
		case w == "where" || w == "order" && st.Is(i+1, "by") || w == "limit":
			l.Rows = min(l.Rows, at)
			if w == "where" {
				l.Condition = st.Tokens[i].End
			}
			if w == "limit" {
				l.Limit = at
			}
			if w == "order" {
				l.Order = at
			}
		}
	}
	l.Order = min(l.Order, l.Limit)
	if l.Condition > 0 && (!st.Settings.Strict || !repeatsCondition(l)) {
		l.Condition = 0
	}
	if l.Table[1] == 0 {
		l.Table[1] = l.Rows
	}
	first := 1
	for st.Is(first, "low_priority") || st.Is(first, "quick") || st.Is(first, "ignore") || act.delete && st.Is(first, "from") {
		first++
	}
	l.Table[0] = st.Tokens[first].Start
	if l.Limit == end || l.Table[0] >= l.Table[1] || !readsLimited(l, a, n) {
		return nil
	}
	if d, ok := n.(*ast.DeleteStmt); ok && a.cat.MariaDB {
		l.Unguarded = picksNone(d.Where)
	}
	return l
}

// picksNone reports a condition that is the same for all rows, as MariaDB sees it, or none.
func picksNone(where ast.ExprNode) bool {
	if where == nil {
		return true
	}
	picks := false
	walk(where, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ColumnNameExpr:
			picks = true
		case *ast.FuncCallExpr:
			picks = picks || eachTime[n.FnName.L]
		}
		return !picks
	})
	return !picks
}

// eachTime are functions that MariaDB asks for each row.
var eachTime = map[string]bool{"rand": true, "uuid": true, "uuid_short": true, "random_bytes": true, "sleep": true}

// repeatsCondition reports that the condition is the same for the keys' rows as for the query.
// A strict server fails a write whose condition converts a constant badly, of which
// a query may not even warn.
//
// Counter-example: DELETE FROM users WHERE id = '5x' LIMIT 1 deletes user 5 without it; with
// it, WHERE RAND() < 0.5 LIMIT 5 deletes fewer than 5.
func repeatsCondition(l *plan.Limited) bool {
	for i := range l.Statement.Tokens {
		if at := l.Statement.Tokens[i].Start; at >= l.Condition && at < l.Order && spoken.VolatileFunction(l.Statement.Word(i)) {
			return false
		}
	}
	return true
}

// readsLimited holds what was found against the parser: the query must have the table,
// the condition, the order and the limit of the statement.
func readsLimited(l *plan.Limited, a *analysis, n ast.StmtNode) bool {
	blank := func(from, to uint32) string { return l.Statement.Blanked()[from:to] }
	query := "SELECT 1 FROM " + blank(l.Table[0], l.Table[1]) + " " + blank(l.Rows, l.End)
	head := blank(0, l.Rows) + " " + blank(l.Order, l.Limit)
	parsed, err := (&parserPool{}).parse(query, a.st.Settings, a.cat.MariaDB)
	if err != nil {
		return false
	}
	rest, err := (&parserPool{}).parse(head, a.st.Settings, a.cat.MariaDB)
	if err != nil {
		return false
	}
	sel, ok := parsed.(*ast.SelectStmt)
	if !ok || sel.From == nil {
		return false
	}
	switch n := n.(type) {
	case *ast.UpdateStmt:
		r, ok := rest.(*ast.UpdateStmt)
		return ok && sameTree(sel.From, n.TableRefs) && sameTree(sel.Where, n.Where) && sameTree(sel.OrderBy, n.Order) && sameTree(sel.Limit, n.Limit) &&
			r.Where == nil && r.Limit == nil && sameTree(r.Order, n.Order) && sameTree(r.TableRefs, n.TableRefs) && len(r.List) == len(n.List)
	case *ast.DeleteStmt:
		r, ok := rest.(*ast.DeleteStmt)
		return ok && sameTree(sel.From, n.TableRefs) && sameTree(sel.Where, n.Where) && sameTree(sel.OrderBy, n.Order) && sameTree(sel.Limit, n.Limit) &&
			r.Where == nil && r.Limit == nil && sameTree(r.Order, n.Order) && sameTree(r.TableRefs, n.TableRefs)
	}
	return false
}

// sameTree reports trees that say the same.
func sameTree(x, y ast.Node) bool {
	if isNil(x) || isNil(y) {
		return isNil(x) && isNil(y)
	}
	got, ok1 := restored(x)
	want, ok2 := restored(y)
	return ok1 && ok2 && got == want
}

// inKeyOrder reports an ORDER BY that has all of a reference table's primary key:
// each copy takes the same rows.
func (a *analysis) inKeyOrder(n ast.StmtNode, r *ref) bool {
	var by *ast.OrderByClause
	switch n := n.(type) {
	case *ast.UpdateStmt:
		by = n.Order
	case *ast.DeleteStmt:
		by = n.Order
	}
	if by == nil || len(r.table.PrimaryKey) == 0 || len(a.refs) != 1 {
		return false
	}
	var cols []*catalog.Column
	for _, item := range by.Items {
		if c, ok := a.columnOf(item.Expr, r.scope); ok && c.ref == r {
			cols = append(cols, c.col)
		}
	}
	return !slices.ContainsFunc(r.table.PrimaryKey, func(c *catalog.Column) bool { return !slices.Contains(cols, c) })
}

// rowKey is a key that no two rows share on any shards: the primary key, and
// the shard key, since what shares that is on one shard. nil for none, or one of
// a type whose values compare otherwise than they are written.
//
// Counter-example: rows of a table that are anywhere may share an id, and the
// statement would change more than LIMIT allows.
func rowKey(t *catalog.Table) []*catalog.Column {
	if len(t.PrimaryKey) == 0 || t.Placement != catalog.Single && (t.Placement != catalog.Hash || t.ShardKey == nil) || t.Differs != "" {
		return nil
	}
	key := slices.Clone(t.PrimaryKey)
	if t.ShardKey != nil && !slices.Contains(key, t.ShardKey) {
		key = append(key, t.ShardKey)
	}
	for _, c := range key {
		switch base := c.BaseType(); {
		case catalog.IsInteger(base), base == "decimal", base == "binary", base == "varbinary", base == "date":
		case base == "char" || base == "varchar":
			if !strings.HasPrefix(c.Charset, "utf8") && c.Charset != "latin1" && c.Charset != "ascii" {
				return nil // may change on its way to the client's character set and back
			}
		default:
			return nil
		}
		if c.Nullable {
			return nil
		}
	}
	return key
}
