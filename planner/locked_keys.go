package planner

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
)

// lockedKeys are by what a SELECT ... FOR UPDATE, UPDATE or DELETE of one table finds the rows that
// it locks, so that two statements which share a key surely wait for each other where the first has found
// rows by it.
//
// Rule whole key: it is all of the primary key, if that is one row's over all shards, or all that
// WHERE says. Counter-example: WHERE user = 5 AND item = 7 and WHERE user = 5 AND item = 8 lock
// different rows of user 5.
//
// Rule no LIMIT: LIMIT 1 ORDER BY a and LIMIT 1 ORDER BY b may be different rows of one
// WHERE; of a primary key there is one.
type lockedKeys struct {
	table *catalog.Table
	// equal are `column IN (values)`, each value beside each of the others'.
	equal []*cnode
}

// maxLockedKeys bounds the keys of one statement.
const maxLockedKeys = 32

// equals reports `col = v` and `col IN (v, ...)`.
func (n *cnode) equals() bool { return n.op == opIn && !n.nullSafe && len(n.values) <= maxLockedKeys }

// lockedKeysOf is nil for statements that have none. limited: not all rows that WHERE finds count.
func lockedKeysOf(q *queryRoute, limited bool) *lockedKeys {
	if len(q.refs) != 1 {
		return nil
	}
	r := q.refs[0]
	t := r.table
	if t == nil || t.IsView || t.Temporary || r.derived != nil {
		return nil
	}
	found := []*cnode{r.tree}
	if r.tree.op == opAnd {
		found = r.tree.kids
	}
	if t.Placement == catalog.Hash && slices.Contains(t.PrimaryKey, t.ShardKey) || t.Placement == catalog.Reference || t.Placement == catalog.Single {
		var equal []*cnode
		for _, c := range t.PrimaryKey {
			if i := slices.IndexFunc(found, func(n *cnode) bool { return n.equals() && n.col == c }); i >= 0 {
				equal = append(equal, found[i])
			}
		}
		if len(equal) == len(t.PrimaryKey) && len(equal) > 0 {
			return &lockedKeys{t, equal}
		}
	}
	if !r.equal || limited {
		return nil
	}
	equal := slices.SortedStableFunc(slices.Values(found), func(x, y *cnode) int { return cmp.Compare(x.col.Position, y.col.Position) })
	return &lockedKeys{t, equal}
}

// lockedRows are those of a SELECT ... FOR UPDATE that answers what it locks, and waits for others'.
func (a *analysis) lockedRows(n ast.StmtNode, q *queryRoute) *lockedKeys {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || sel.LockInfo == nil || sel.LockInfo.LockType != ast.SelectLockForUpdate || a.hiddenAggregate != "" {
		return nil
	}
	switch spoilsConcatenation(sel) {
	case "", "ORDER BY", "LIMIT":
		return lockedKeysOf(q, sel.Limit != nil || limitsSelect(a.st) || limitedByHint(a.st))
	}
	return nil
}

// LockedKeys are the table and, in order, the keys (lockedKeys) of what a statement locks with these
// values; none where that can't be told.
func LockedKeys(r *plan.Rows, params []keys.Value) (*catalog.Table, []string) {
	if bindableOf(r).locks == nil || len(params) != r.Params {
		return nil, nil
	}
	b := newBinder(r, params, nil)
	list := []string{""}
	for _, n := range bindableOf(r).locks.equal {
		comps, _, ok := b.equalKeys(n)
		if !ok || len(list)*len(comps) > maxLockedKeys {
			return nil, nil
		}
		next := make([]string, 0, len(list)*len(comps))
		for _, key := range list {
			for _, c := range comps {
				to := binary.AppendUvarint([]byte(key), uint64(n.col.Position))
				to = binary.AppendUvarint(to, uint64(len(c)))
				next = append(next, string(append(to, c...)))
			}
		}
		list = next
	}
	slices.Sort(list)
	return bindableOf(r).locks.table, list
}
