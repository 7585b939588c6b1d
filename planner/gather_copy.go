package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// CopyColumns are the columns that hold a table's rows, all but generated ones, and the expression that
// answers each in its form.
func CopyColumns(t *catalog.Table) (cols []plan.GatherColumn, read []string, err error) {
	for _, c := range t.Columns {
		if c.Generated {
			continue
		}
		form, ok := plan.FormOf(c)
		if !ok {
			return nil, nil, refuseGather("copying "+t.Name+"."+c.Name+" of type "+c.Type, "leave that column out")
		}
		cols = append(cols, plan.GatherColumn{Column: c, Form: form})
		read = append(read, cols[len(cols)-1].Selected(catalog.QuoteName(t.Name)))
	}
	return cols, read, nil
}

// Whole reports a column of integers.
func Whole(c *catalog.Column) bool { return catalog.IsInteger(c.BaseType()) }

// needs is what a query names of its tables' columns.
type needs struct {
	names map[string]bool // lower case: every identifier in the text
	all   map[*ref]bool   // by a * or NATURAL JOIN
}

// needs finds the columns that a query may read: those whose names stand in its
// text, whatever they mean there, and those that it reads without naming them.
func (a *analysis) needs(n ast.Node) needs {
	out := needs{names: map[string]bool{}, all: map[*ref]bool{}}
	for i := range a.st.Tokens {
		if name, ok := a.st.Identifier(i); ok {
			out.names[strings.ToLower(name)] = true
		}
	}
	in := wildcards(n)
	for r, t := range a.joined.nodes {
		out.all[r] = in[t]
	}
	return out
}

// wildcards are the tables of blocks that have a *, and of NATURAL JOINs.
func wildcards(n ast.Node) map[ast.ResultSetNode]bool {
	in := map[ast.ResultSetNode]bool{}
	all := func(from ast.ResultSetNode) {
		for t := range sources(from) {
			in[t] = true
		}
	}
	walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Join:
			if n.NaturalJoin {
				all(n)
			}
		case *ast.SelectStmt:
			star := n.Kind == ast.SelectStmtKindTable || n.Fields != nil && slices.ContainsFunc(n.Fields.Fields, func(f *ast.SelectField) bool { return f.WildCard != nil })
			if star && n.From != nil {
				all(n.From.TableRefs)
			}
		}
		return true
	})
	return in
}

// text.CopyOf says what is copied of a reference, but for the shards.
func (a *analysis) copyOf(r *ref, need needs) plan.GatherRef {
	t := r.table
	out := plan.GatherRef{Table: t, Params: []int{}, Alias: r.alias}
	all := need.all[r]
	for _, c := range t.Columns {
		// Names in other letters than ASCII compare by rules that the text's
		// character set has a part in.
		all = all || !text.IsASCII(c.Name)
	}
	for _, c := range t.Columns {
		if all || need.names[strings.ToLower(c.Name)] {
			addColumn(&out, a, c, need.all[r])
		}
	}
	if len(out.Columns) == 0 { // SELECT COUNT(*): rows count, columns don't
		c := t.Columns[0]
		if len(t.PrimaryKey) > 0 {
			c = t.PrimaryKey[0]
		}
		addColumn(&out, a, c, false)
	}
	if len(t.PrimaryKey) > 0 && out.Has(t.PrimaryKey...) {
		out.Unique = append(out.Unique, t.PrimaryKey)
	}
	for _, u := range t.Unique {
		if !slices.Equal(u, t.PrimaryKey) && out.Has(u...) {
			out.Unique = append(out.Unique, u)
		}
	}
	out.Keys = a.joinColumns(r)
	alias := catalog.QuoteName(r.alias)
	var b strings.Builder
	b.WriteString("SELECT ")
	for i := range out.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(out.Columns[i].Selected(alias))
	}
	b.WriteString(" FROM " + catalog.QuoteTable(t.Schema, t.Name) + " AS " + alias)
	out.Whole, out.Filters = b.String(), a.filters(r)
	for i, f := range out.Filters {
		if i == 0 {
			b.WriteString(" WHERE (")
		} else {
			b.WriteString(" AND (")
		}
		b.WriteString(f.Text + ")")
		out.Params = append(out.Params, f.Params...)
	}
	out.Select = b.String()
	return out
}

func addColumn(r *plan.GatherRef, a *analysis, c *catalog.Column, star bool) {
	f, ok := plan.FormOf(c)
	if !ok {
		a.refuse(refuseGather("a query that copies "+r.Table.Name+"."+c.Name+" of type "+c.Type, "leave that column out"))
	}
	r.Columns = append(r.Columns, plan.GatherColumn{Column: c, Form: f, Invisible: star && c.Invisible})
}

// maxJoinKeys bounds the indexes of a copy: each is kept up with every row.
const maxJoinKeys = 4

// joinColumns are the columns of r that the query equates with others: without
// an index, a join of two large copies takes the product of their rows.
//
// Rule same comparison: only columns of like types get one. Counter-example: a
// DECIMAL equated with a VARCHAR, where a server may find other rows by an index
// than by comparing.
func (a *analysis) joinColumns(r *ref) []*catalog.Column {
	var out []*catalog.Column
	add := func(x, y column) {
		if !indexable(x.col) || !likeTypes(x.col, y.col) {
			return
		}
		for _, c := range [...]column{x, y} {
			if c.ref == r && !slices.Contains(out, c.col) && len(out) < maxJoinKeys {
				out = append(out, c.col)
			}
		}
	}
	for _, other := range a.refs {
		for _, c := range a.common(a.conditions(other)) {
			if c.expr == nil {
				add(c.pair[0], c.pair[1])
				continue
			}
			if x, y, ok := a.equated(c.expr, c.scope); ok && x.ref != y.ref {
				add(x, y)
			}
		}
	}
	return out
}

func indexable(c *catalog.Column) bool {
	f, ok := plan.FormOf(c)
	base := c.BaseType()
	return ok && base != "json" && base != "vector" && (f != plan.FormBytes || base == "binary" || base == "varbinary" || strings.HasSuffix(base, "blob"))
}

func likeTypes(x, y *catalog.Column) bool {
	if x.Charset != y.Charset || x.Collation != y.Collation {
		return false
	}
	bx, by := x.BaseType(), y.BaseType()
	return bx == by || catalog.IsInteger(bx) && catalog.IsInteger(by) || x.Charset != "" && bx != "enum" && by != "enum" && bx != "set" && by != "set"
}
