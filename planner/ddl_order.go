package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// Rule order: an INSERT without a column list that was planned before an ALTER TABLE
// and waits for it puts its values in other columns, where there are as many of them in
// another order. (Where there are more or fewer it fails.)
//
// Counter-example: INSERT INTO t VALUES (1, 'a', 'b') waits for ALTER TABLE t
// MODIFY name VARCHAR(20) AFTER id. With it email is 'b', not 'a'.

// columnsAfter is what an ALTER TABLE makes of the table's columns; missing is one that
// it names and that isn't there, "" for none.
func columnsAfter(t *catalog.Table, alter *ast.AlterTableStmt) (columns []spoken.Listed, missing string) {
	for _, c := range t.Columns {
		columns = append(columns, spoken.Listed{Name: c.Name, Was: c, Visible: !c.Invisible})
	}
	find := func(name *ast.ColumnName) int {
		return slices.IndexFunc(columns, func(c spoken.Listed) bool { return strings.EqualFold(c.Name, name.Name.O) })
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
			columns[i].Name = spec.NewColumnName.Name.O
		case ast.AlterTableAddColumns, ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
			for _, def := range spec.NewColumns {
				c, at := spoken.Listed{Name: def.Name.Name.O, Visible: true}, len(columns)
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
					c.Was = columns[at].Was
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
func reorders(t *catalog.Table, alter *ast.AlterTableStmt) (reorders, movesKey bool, err *text.Error) {
	after, missing := columnsAfter(t, alter)
	if missing != "" {
		return false, false, text.NewErrorf(mysqlerr.BadField, "Unknown column '%s' in '%s'", missing, t.Name)
	}
	reorders, movesKey = spoken.Reordered(t, after)
	return reorders, movesKey, nil
}

func refuseMoveKey(t *catalog.Table) *text.Error {
	return text.NotSupported("an ALTER TABLE that moves the shard key %s.%s to another place among as many columns is not supported: an INSERT without a column list that waits for it would be stored on the shard of another key; "+
		"while there are none, send it to each shard with /* shunt: shard=NAME */", t.Name, t.ShardKey.Name)
}
