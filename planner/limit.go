package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Limited is how an UPDATE or DELETE with LIMIT is done over several shards,
// none of which knows how many rows the others change: its rows are found, and
// locked, by a query of their keys, and changed by these.
//
//	UPDATE users u SET u.age = 1 WHERE u.age > 9 ORDER BY u.id LIMIT 5
//	       └table┘               └────────────── rows ───────────────┘
//	SELECT `id` FROM users u WHERE u.age > 9 ORDER BY u.id LIMIT 5 FOR UPDATE
//	UPDATE users u SET u.age = 1 WHERE `id` IN (3, 8) AND (u.age > 9) ORDER BY u.id
type Limited struct {
	st *statement
	// Key are the columns that tell the table's rows apart, on all shards.
	Key []*catalog.Column
	// offsets of what the picture shows, and of ORDER BY and LIMIT in it.
	table        [2]uint32
	rows, end    uint32
	order, limit uint32
	// condition is where that begins which is repeated beside the keys; 0: none is.
	condition uint32
}

// Query finds the keys of the rows for the parameters.
func (l *Limited) Query(params []keys.Value) string {
	return "SELECT " + catalog.QuoteColumns(l.Key) + " FROM " + l.st.written(l.table[0], l.table[1], params) + " " +
		l.st.written(l.rows, l.end, params) + " FOR UPDATE"
}

// Texts are what stands before and after the keys, each "(1, 'a')", in a
// statement that changes their rows.
func (l *Limited) Texts(params []keys.Value) (head, tail string) {
	tail = ") "
	if l.condition > 0 {
		tail = ") AND (" + l.st.written(l.condition, l.order, params) + ") "
	}
	return l.st.written(0, l.rows, params) + " WHERE (" + catalog.QuoteColumns(l.Key) + ") IN (", tail + l.st.written(l.order, l.limit, params)
}

// planLimited finds the parts; nil where there is no such way.
//
// Rule same rows: what the query finds stays what it is until it is changed, by
// the locks, and by the change itself, which leaves the key alone. A statement
// with subqueries is left out, since a server may refuse them (1093) that the
// query allows.
func (a *analysis) planLimited(act *writeAction, n ast.StmtNode) *Limited {
	st := a.st
	if act.everywhere || a.subqueries || a.counted || len(a.refs) != 1 || len(act.targets) != 1 || act.q.spoils == "" || st.hasExecutable() {
		return nil
	}
	l := &Limited{st: st, Key: rowKey(act.targets[0].ref.table)}
	if l.Key == nil || slices.ContainsFunc(l.Key, func(c *catalog.Column) bool { return assigns(act.targets[0].sets, c) }) {
		return nil
	}
	end := st.toks[len(st.toks)-1].end // what stands behind it says nothing
	l.rows, l.order, l.limit, l.end = end, end, end, end
	for i := range st.outside(0, len(st.toks)) {
		at := st.toks[i].start
		switch w := st.word(i); {
		case w == "set" && l.table[1] == 0 && !act.delete:
			l.table[1] = at
		case w == "where" || w == "order" && st.is(i+1, "by") || w == "limit":
			l.rows = min(l.rows, at)
			if w == "where" {
				l.condition = st.toks[i].end
			}
			if w == "limit" {
				l.limit = at
			}
			if w == "order" {
				l.order = at
			}
		}
	}
	l.order = min(l.order, l.limit)
	if l.condition > 0 && (!st.settings.Strict || !l.repeats()) {
		l.condition = 0
	}
	if l.table[1] == 0 {
		l.table[1] = l.rows
	}
	first := 1
	for st.is(first, "low_priority") || st.is(first, "quick") || st.is(first, "ignore") || act.delete && st.is(first, "from") {
		first++
	}
	l.table[0] = st.toks[first].start
	if l.limit == end || l.table[0] >= l.table[1] || !l.reads(a, n) {
		return nil
	}
	return l
}

// repeats reports that the condition is the same for the keys' rows as for the query.
// A strict server fails a write whose condition converts a constant badly, of which
// a query may not even warn.
//
// Counter-example: DELETE FROM users WHERE id = '5x' LIMIT 1 deletes user 5 without it; with
// it, WHERE RAND() < 0.5 LIMIT 5 deletes fewer than 5.
func (l *Limited) repeats() bool {
	for i := range l.st.toks {
		if at := l.st.toks[i].start; at >= l.condition && at < l.order && volatileFunction(l.st.word(i)) {
			return false
		}
	}
	return true
}

// reads holds what was found against the parser: the query must have the table,
// the condition, the order and the limit of the statement.
func (l *Limited) reads(a *analysis, n ast.StmtNode) bool {
	blank := func(from, to uint32) string { return l.st.blanked()[from:to] }
	query := "SELECT 1 FROM " + blank(l.table[0], l.table[1]) + " " + blank(l.rows, l.end)
	head := blank(0, l.rows) + " " + blank(l.order, l.limit)
	parsed, err := (&parserPool{}).parse(query, a.st.settings, a.cat.MariaDB)
	if err != nil {
		return false
	}
	rest, err := (&parserPool{}).parse(head, a.st.settings, a.cat.MariaDB)
	if err != nil {
		return false
	}
	sel, ok := parsed.(*ast.SelectStmt)
	if !ok || sel.From == nil {
		return false
	}
	same := func(x, y ast.Node) bool {
		if isNil(x) || isNil(y) {
			return isNil(x) && isNil(y)
		}
		got, ok1 := restored(x)
		want, ok2 := restored(y)
		return ok1 && ok2 && got == want
	}
	switch n := n.(type) {
	case *ast.UpdateStmt:
		r, ok := rest.(*ast.UpdateStmt)
		return ok && same(sel.From, n.TableRefs) && same(sel.Where, n.Where) && same(sel.OrderBy, n.Order) && same(sel.Limit, n.Limit) &&
			r.Where == nil && r.Limit == nil && same(r.Order, n.Order) && same(r.TableRefs, n.TableRefs) && len(r.List) == len(n.List)
	case *ast.DeleteStmt:
		r, ok := rest.(*ast.DeleteStmt)
		return ok && same(sel.From, n.TableRefs) && same(sel.Where, n.Where) && same(sel.OrderBy, n.Order) && same(sel.Limit, n.Limit) &&
			r.Where == nil && r.Limit == nil && same(r.Order, n.Order) && same(r.TableRefs, n.TableRefs)
	}
	return false
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
	if len(t.PrimaryKey) == 0 || t.Placement != catalog.Hash || t.ShardKey == nil || t.Differs != "" {
		return nil
	}
	key := slices.Clone(t.PrimaryKey)
	if !slices.Contains(key, t.ShardKey) {
		key = append(key, t.ShardKey)
	}
	for _, c := range key {
		switch base := baseType(c.Type); {
		case isInteger(base), base == "decimal", base == "binary", base == "varbinary", base == "date":
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
