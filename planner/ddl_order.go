package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Rule order: an INSERT without a column list that was planned before an ALTER TABLE
// and waits for it puts its values in other columns, where there are as many of them in
// another order. (Where there are more or fewer it fails.)
//
// Counter-example: INSERT INTO t VALUES (1, 'a', 'b') waits for ALTER TABLE t
// MODIFY name VARCHAR(20) AFTER id. With it email is 'b', not 'a'.

// listed is a column that an INSERT without a column list has a value for.
type listed struct {
	name    string
	was     *catalog.Column // nil for a new one
	visible bool
}

// columnsAfter is what an ALTER TABLE makes of the table's columns; missing is one that
// it names and that isn't there, "" for none.
func columnsAfter(t *catalog.Table, alter *ast.AlterTableStmt) (columns []listed, missing string) {
	for _, c := range t.Columns {
		columns = append(columns, listed{c.Name, c, !c.Invisible})
	}
	find := func(name *ast.ColumnName) int {
		return slices.IndexFunc(columns, func(c listed) bool { return strings.EqualFold(c.name, name.Name.O) })
	}
	after := "" // a missing one that others go behind
	for _, spec := range alter.Specs {
		switch spec.Tp {
		case ast.AlterTableDropColumn:
			if i := find(spec.OldColumnName); i >= 0 { // else IF EXISTS
				columns = slices.Delete(columns, i, i+1)
			}
		case ast.AlterTableRenameColumn:
			i := find(spec.OldColumnName)
			if i < 0 {
				return nil, spec.OldColumnName.Name.O
			}
			columns[i].name = spec.NewColumnName.Name.O
		case ast.AlterTableAddColumns, ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
			for _, def := range spec.NewColumns {
				c, at := listed{name: def.Name.Name.O, visible: true}, len(columns)
				if spec.Tp == ast.AlterTableAddColumns {
					if find(def.Name) >= 0 { // IF NOT EXISTS
						continue
					}
				} else {
					old := def.Name
					if spec.OldColumnName != nil {
						old = spec.OldColumnName
					}
					if at = find(old); at < 0 && spec.IfExists {
						continue
					} else if at < 0 {
						return nil, old.Name.O
					}
					c.was = columns[at].was
					columns = slices.Delete(columns, at, at+1)
				}
				if p := spec.Position; p != nil && p.Tp == ast.ColumnPositionFirst {
					at = 0
				} else if p != nil && p.Tp == ast.ColumnPositionAfter {
					if at = find(p.RelativeColumn) + 1; at == 0 {
						after = p.RelativeColumn.Name.O
					}
				}
				columns = slices.Insert(columns, at, c)
			}
		}
	}
	// Among more columns, or fewer, no place matters: the server says what isn't there.
	if len(columns) != len(t.Columns) {
		after = ""
	}
	return columns, after
}

// reorders is whether an INSERT without a column list means other columns behind an
// ALTER TABLE, and movesKey whether the shard key is one of them.
func reorders(t *catalog.Table, alter *ast.AlterTableStmt) (reorders, movesKey bool, err *Error) {
	after, missing := columnsAfter(t, alter)
	if missing != "" {
		return false, false, &Error{Code: 1054, State: "42S22", Message: fmt.Sprintf("Unknown column '%s' in '%s'", missing, t.Name)}
	}
	reorders, movesKey = reordered(t, after)
	return reorders, movesKey, nil
}

func reordered(t *catalog.Table, after []listed) (reorders, movesKey bool) {
	after = slices.DeleteFunc(after, func(c listed) bool { return !c.visible })
	before := visible(t)
	if len(before) != len(after) {
		return false, false
	}
	for i, c := range before {
		moved := after[i].was != c
		reorders = reorders || moved
		movesKey = movesKey || moved && c == t.ShardKey
	}
	return reorders, movesKey
}

// keepsKey refuses another table under a name where an INSERT that was planned for the
// one before, and waits, would be placed by what isn't the shard key, or not as it is
// placed in this one.
func keepsKey(before, now *catalog.Table) *Error {
	if before == nil || before == now || before.Placement != catalog.Hash || before.Shards.Len() < 2 || before.ShardKey == nil || now.ShardKey == nil {
		return nil
	}
	var columns []listed
	for _, c := range now.Columns {
		columns = append(columns, listed{c.Name, before.Column(c.Name), !c.Invisible})
	}
	_, moves := reordered(before, columns)
	was, is := before.ShardKey, now.ShardKey
	alike := baseType(was.Type) == baseType(is.Type) || isInteger(baseType(was.Type)) && isInteger(baseType(is.Type))
	if moves || !alike || was.Collation != is.Collation {
		return notSupported("RENAME TABLE that gives %s's name to %s, whose shard key %s is of another type or has another place among as many columns, is not supported: an INSERT that waits for it would be stored on the shard of another key; rename %s away by a statement of its own before",
			before.Name, now.Name, is.Name, before.Name)
	}
	return nil
}

// mayReorder is what reorders is of an ALTER TABLE that only the lexer understands, of which
// it tells what can't be excluded.
func (st *statement) mayReorder(i int, t *catalog.Table) (reorders, movesKey bool) {
	words := map[string]bool{}
	several := false
	for ; i < len(st.toks); i++ {
		words[st.word(i)] = true
		several = several || st.op(i, ",")
	}
	changes := words["modify"] || words["change"]
	// One becomes invisible, another visible.
	hidden := words["visible"] || words["invisible"] || len(visible(t)) < len(t.Columns)
	shows := hidden && several && (changes || words["set"])
	reorders = shows || changes && (words["first"] || words["after"]) || words["drop"] && words["add"]
	// Nothing comes before the first column but what is said to.
	movesKey = reorders && t.ShardKey != nil && (words["first"] || shows || t.ShardKey.Position > 0)
	return reorders, movesKey
}

func refuseMoveKey(t *catalog.Table) *Error {
	return notSupported("an ALTER TABLE that moves the shard key %s.%s to another place among as many columns is not supported: an INSERT without a column list that waits for it would be stored on the shard of another key; "+
		"while there are none, send it to each shard with /* shunt: shard=NAME */", t.Name, t.ShardKey.Name)
}
