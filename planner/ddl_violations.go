package planner

import (
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// violations fills DDL.Violations: queries that find a row for which a shard would refuse a statement that others have done.
// What they find only says which shard is asked first. So a query may be wrong, or fail: by the servers' own
// answers nothing is refused that one server wouldn't refuse.
//
// Undoes is for where they have missed a row.
func (p *Planner) violations(st *text.Statement, d *plan.DDL, cat *catalog.Catalog) {
	if d.Shards.Len() < 2 || len(d.Tables) != 1 || d.Op != "ALTER TABLE" && d.Op != "CREATE INDEX" && d.Op != "DROP INDEX" {
		return
	}
	t := cat.Table(d.Tables[0].Schema, d.Tables[0].Name)
	n, err := p.parse(st, cat)
	if t == nil || err != nil {
		return
	}
	table := catalog.QuoteTable(d.Tables[0].Schema, d.Tables[0].Name)
	find := func(from, where string) {
		d.Violations = append(d.Violations, "SELECT 1 FROM "+table+from+" WHERE "+where+" LIMIT 1")
	}
	unique := func(parts []*ast.IndexPartSpecification, primary bool) {
		var columns, some, none []string
		for _, part := range parts {
			if part.Column == nil {
				return
			}
			column := catalog.QuoteName(part.Column.Name.O)
			some, none = append(some, column+" IS NOT NULL"), append(none, column+" IS NULL")
			if part.Length > 0 {
				column = fmt.Sprintf("LEFT(%s, %d)", column, part.Length)
			}
			columns = append(columns, column)
		}
		if primary {
			find("", strings.Join(none, " OR "))
		}
		find("", strings.Join(some, " AND ")+" GROUP BY "+strings.Join(columns, ", ")+" HAVING COUNT(*) > 1")
	}
	switch n := n.(type) {
	case *ast.DropIndexStmt:
		d.Undoes = true
	case *ast.CreateIndexStmt:
		if n.KeyType == ast.IndexKeyTypeUnique {
			unique(n.IndexPartSpecifications, false)
		}
	case *ast.AlterTableStmt:
		for _, spec := range n.Specs {
			switch spec.Tp {
			case ast.AlterTableDropColumn, ast.AlterTableDropIndex, ast.AlterTableDropForeignKey, ast.AlterTableDropCheck:
				d.Undoes = len(n.Specs) == 1
			case ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
				c := spec.NewColumns[0]
				old := c.Name
				if spec.OldColumnName != nil {
					old = spec.OldColumnName
				}
				was, column := t.Column(old.Name.O), catalog.QuoteName(old.Name.O)
				if was == nil {
					continue
				}
				if was.Nullable && (hasOption(c, ast.ColumnOptionNotNull) || hasOption(c, ast.ColumnOptionPrimaryKey)) {
					find("", column+" IS NULL")
				}
				if outside := outsideOf(c.Tp, column); outside != "" && !holdsAll(c.Tp, was, cat.MariaDB) {
					find("", outside)
				}
			case ast.AlterTableAddConstraint:
				switch c := spec.Constraint; c.Tp {
				case ast.ConstraintPrimaryKey, ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
					unique(c.Keys, c.Tp == ast.ConstraintPrimaryKey)
				case ast.ConstraintForeignKey:
					if join, where := orphans(c, table, d.Tables[0].Schema, st); where != "" {
						find(join, where)
					}
				case ast.ConstraintCheck:
					var expr strings.Builder
					if c.Expr != nil && c.Expr.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &expr)) == nil {
						find("", "NOT ("+expr.String()+")")
					}
				}
			}
		}
	}
}

// orphans joins the rows of a foreign key's child with its parent, and says which have none.
func orphans(c *ast.Constraint, child, schema string, st *text.Statement) (join, where string) {
	const parent = "`shunt parent`"
	if c.Refer == nil || c.Refer.Table == nil || len(c.Keys) == 0 || len(c.Keys) != len(c.Refer.IndexPartSpecifications) {
		return "", ""
	}
	if name := c.Refer.Table.Schema.O; name != "" {
		schema = name
	} else if st.Settings.Schema != "" {
		schema = st.Settings.Schema
	}
	var on, some []string
	for i, k := range c.Keys {
		of := c.Refer.IndexPartSpecifications[i]
		if k.Column == nil || of.Column == nil {
			return "", ""
		}
		column := child + "." + catalog.QuoteName(k.Column.Name.O)
		on, some = append(on, column+" = "+parent+"."+catalog.QuoteName(of.Column.Name.O)), append(some, column+" IS NOT NULL")
	}
	first := parent + "." + catalog.QuoteName(c.Refer.IndexPartSpecifications[0].Column.Name.O)
	return " LEFT JOIN " + catalog.QuoteTable(schema, c.Refer.Table.Name.O) + " AS " + parent + " ON " + strings.Join(on, " AND "),
		strings.Join(some, " AND ") + " AND " + first + " IS NULL"
}

// holdsAll reports a type that holds all values of a column: servers change to many such at once, and no row need be read.
func holdsAll(t *types.FieldType, was *catalog.Column, mariaDB bool) bool {
	if catalog.IsInteger(was.BaseType()) && catalog.IsInteger(catalog.BaseType(t.String())) {
		of, err := keys.For(was.Type, "", "", mariaDB)
		is, err2 := keys.For(t.String(), "", "", mariaDB)
		return err == nil && err2 == nil && is.Covers(of)
	}
	length, ok := plan.TypeLength(was.Type)
	return ok && was.BaseType() == catalog.BaseType(t.String()) && t.GetFlen() >= length || strings.EqualFold(was.Type, t.String())
}

// outsideOf is the condition of values that a column's new type doesn't hold, "" where that isn't known.
func outsideOf(t *types.FieldType, column string) string {
	unsigned := mysql.HasUnsignedFlag(t.GetFlag())
	bytes := map[byte]int{mysql.TypeTiny: 1, mysql.TypeShort: 2, mysql.TypeInt24: 3, mysql.TypeLong: 4, mysql.TypeLonglong: 8}[t.GetType()]
	switch {
	case bytes > 0 && unsigned:
		return fmt.Sprintf("%s NOT BETWEEN 0 AND %d", column, ^uint64(0)>>(64-8*bytes))
	case bytes > 0:
		most := int64(^uint64(0) >> (65 - 8*bytes))
		return fmt.Sprintf("%s NOT BETWEEN %d AND %d", column, -most-1, most)
	}
	switch t.GetType() {
	case mysql.TypeVarchar, mysql.TypeString:
		if t.GetFlen() >= 0 && t.GetCharset() != "binary" {
			return fmt.Sprintf("CHAR_LENGTH(%s) > %d", column, t.GetFlen())
		}
	case mysql.TypeNewDecimal:
		if t.GetFlen() > 0 && t.GetDecimal() >= 0 {
			return fmt.Sprintf("ABS(%s) >= 1e%d", column, t.GetFlen()-t.GetDecimal())
		}
	case mysql.TypeEnum:
		var elements []string
		for _, e := range t.GetElems() {
			elements = append(elements, "'"+strings.ReplaceAll(e, "'", "''")+"'")
		}
		return column + " NOT IN (" + strings.Join(elements, ", ") + ")"
	case mysql.TypeDate, mysql.TypeNewDate:
		return "CAST(" + column + " AS DATE) IS NULL AND " + column + " IS NOT NULL"
	case mysql.TypeDatetime, mysql.TypeTimestamp:
		return "CAST(" + column + " AS DATETIME) IS NULL AND " + column + " IS NOT NULL"
	}
	return ""
}
