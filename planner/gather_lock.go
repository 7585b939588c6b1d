package planner

import (
	"slices"
	"strconv"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/spoken"
)

// Known gap: a locking read that is routed, and joins a reference table, locks that table's
// rows on the shards of the sharded rows only. So a locking read of other shards' rows, or of
// the reference table alone, isn't kept waiting. A change of the rows is: it goes to every shard.

// lockedBy says with which locking clause the rows of each table of a gather are
// read, "" for none. The clause of a block locks the rows of the tables that its
// own FROM names, as on a server, or with OF those that it names: not those of its
// subqueries, which may have clauses of their own. Those of a derived table, which may be a view's, are
// locked too. ok is false where the text has more clauses than the tree, and where
// OF names anything but a table of that FROM.
//
// Rule locked while copied: the rows that a server would answer from are all in
// the copies, so reading these with the clause locks at least them. Where the
// server reads by an index it may lock fewer rows of a shard than a copy, whose
// condition is weaker than the query's. Counter-example: locking what the query
// answered, afterwards; another session may have changed the rows in between.
func (a *analysis) lockedBy(n ast.Node) (clause map[*ast.TableName]string, ok bool) {
	v := &lockVisitor{a: a, clause: map[*ast.TableName]string{}}
	walk(n, v.visit)
	written := 0
	for i := range a.st.Tokens {
		if spoken.LocksAt(a.st, i) {
			written++
		}
	}
	return v.clause, written == v.found
}

type lockVisitor struct {
	a      *analysis
	clause map[*ast.TableName]string
	// found counts clauses, named the tables that OF names.
	found, named int
}

func (v *lockVisitor) visit(n ast.Node) (deeper bool) {
	switch n := n.(type) {
	case *ast.SetOprStmt:
		v.branches(n.SelectList)
	case *ast.SelectStmt:
		if locks(n) {
			v.named = 0
			if n.From != nil {
				v.tables(n.From.TableRefs, n.LockInfo)
			}
			if v.named == len(n.LockInfo.Tables) {
				v.found++
			}
		}
	}
	return true
}

func locks(n *ast.SelectStmt) bool {
	return n.LockInfo != nil && n.LockInfo.LockType != ast.SelectLockNone
}

func skipsLocked(n *ast.SelectStmt) bool {
	return n.LockInfo != nil && (n.LockInfo.LockType == ast.SelectLockForUpdateSkipLocked || n.LockInfo.LockType == ast.SelectLockForShareSkipLocked)
}

// branches gives a clause at the end of a union to all of its branches: it may
// be meant for the union, and locking more than one server does no harm.
func (v *lockVisitor) branches(list *ast.SetOprSelectList) {
	if list == nil || len(list.Selects) == 0 {
		return
	}
	last, ok := list.Selects[len(list.Selects)-1].(*ast.SelectStmt)
	if !ok || !locks(last) || last.IsInBraces || len(last.LockInfo.Tables) > 0 {
		return
	}
	for _, b := range list.Selects[:len(list.Selects)-1] {
		if sel, ok := b.(*ast.SelectStmt); ok && !locks(sel) && sel.From != nil {
			v.tables(sel.From.TableRefs, last.LockInfo)
		}
	}
}

func (v *lockVisitor) tables(from ast.ResultSetNode, lock *ast.SelectLockInfo) {
	for n := range sources(from) {
		if t, ok := n.(*ast.TableName); ok {
			if len(lock.Tables) > 0 {
				if !v.of(lock, t) {
					continue
				}
				v.named++
			}
			v.clause[t] = lockText(lock, v.a.cat.MariaDB)
		} else if len(lock.Tables) > 0 {
			continue
		} else if lock.LockType == ast.SelectLockForUpdate || lock.LockType == ast.SelectLockForShare {
			v.derived(n, lock)
		}
	}
}

// of reports whether the clause's OF names a table's reference.
func (v *lockVisitor) of(lock *ast.SelectLockInfo, t *ast.TableName) bool {
	for _, r := range v.a.refs {
		if v.a.joined.nodes[r] == t {
			return slices.ContainsFunc(lock.Tables, func(of *ast.TableName) bool { return of.Schema.O == "" && v.a.sameName(of.Name.O, r.alias) })
		}
	}
	return false
}

// derived locks the rows of a derived table's tables, where that only takes
// time: SKIP LOCKED would change what it has.
func (v *lockVisitor) derived(n ast.ResultSetNode, lock *ast.SelectLockInfo) {
	switch n := n.(type) {
	case *ast.SelectStmt:
		if !locks(n) && n.From != nil {
			v.tables(n.From.TableRefs, lock)
		}
	case *ast.SetOprStmt:
		for _, b := range n.SelectList.Selects {
			if b, ok := b.(*ast.SelectStmt); ok {
				v.derived(b, lock)
			}
		}
	}
}

// lockText is a locking clause as a server reads it, without its tables.
func lockText(lock *ast.SelectLockInfo, mariadb bool) string {
	share := " FOR SHARE"
	if mariadb {
		share = " LOCK IN SHARE MODE"
	}
	switch lock.LockType {
	case ast.SelectLockForUpdate:
		return " FOR UPDATE"
	case ast.SelectLockForUpdateNoWait:
		return " FOR UPDATE NOWAIT"
	case ast.SelectLockForUpdateSkipLocked:
		return " FOR UPDATE SKIP LOCKED"
	case ast.SelectLockForUpdateWaitN:
		return " FOR UPDATE WAIT " + strconv.FormatUint(lock.WaitSec, 10)
	case ast.SelectLockForShareNoWait:
		return share + " NOWAIT"
	case ast.SelectLockForShareSkipLocked:
		return share + " SKIP LOCKED"
	default:
		return share
	}
}
