package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"

	"github.com/shunt-sql/shunt/planner/text"
)

// splice finds where the text names the tables of the references.
//
// The parser's tree has no offsets of table names, so they are looked for among
// the tokens, and what was found is proved: every one is replaced by a name of
// its own, the result is parsed, and its tree must be that of the text with the
// same replacements made in the tree. So the k-th table of one tree is the k-th
// of the other, and nothing but table names has changed.
//
// REQUIRES: the last use of the tree, which is changed.
func (a *analysis) splice(n ast.Node) (text.Splice, *text.Error) {
	st := a.st
	out := text.Splice{Src: st.Src}
	factors := st.TableFactors()
	tables := tablesOf(n)
	if len(factors) != len(tables.names) {
		return out, refuseSplice()
	}
	refs := map[*ast.TableName]*ref{}
	for r, t := range a.joined.nodes {
		refs[t] = r
	}
	own, refused := a.aliases(n, tables, len(st.SchemaQualifiers(a.qualified(nil))) > 0)
	if refused != nil {
		return out, refused
	}
	marker := func(i int) string { return fmt.Sprintf("marker_%d", i) }
	for i, f := range factors {
		c := text.Cut{Start: st.Tokens[f.First].Start, End: st.Tokens[f.Last].End, Ref: i, Name: true}
		as := ""
		if !f.Aliased && !f.Bare {
			if as = a.ownAlias(own, f); as == "" {
				c.Alias = " AS " + st.Text(f.Last)
			}
		}
		out.Cuts = append(out.Cuts, c)
		if as != "" { // also where no copy is made
			out.Cuts = append(out.Cuts, text.Cut{Start: c.End, End: c.End, Ref: -1, Alias: " AS " + as})
		}
		for _, h := range f.Hints {
			// The copy has other indexes.
			out.Cuts = append(out.Cuts, text.Cut{Start: st.Tokens[h[0]].Start, End: st.Tokens[h[1]].End, Ref: i})
		}
	}
	qualified := a.qualified(own)
	out.Cuts = append(out.Cuts, st.SchemaQualifiers(qualified)...)
	slices.SortStableFunc(out.Cuts, func(x, y text.Cut) int { return cmp.Compare(x.Start, y.Start) })
	for i, c := range out.Cuts {
		if i > 0 && c.Start < out.Cuts[i-1].End {
			return out, refuseSplice()
		}
		for _, x := range st.Comments {
			if (x.Kind == text.ExecutableOpen || x.Kind == text.ExecutableClose) && x.Start >= c.Start && x.End <= c.End {
				return out, refuseSplice()
			}
		}
	}

	blank := text.Splice{Src: st.Blanked(), Cuts: out.Cuts}
	marked, err := (&parserPool{}).parse(blank.With(marker), st.Settings, a.cat.MariaDB)
	if err != nil {
		return out, refuseSplice()
	}
	replaced := tablesOf(marked)
	if len(replaced.names) != len(tables.names) {
		return out, refuseSplice()
	}
	factorOf := map[*ast.TableName]int{}
	seen := map[int]bool{}
	for k, t := range replaced.names {
		var i int
		if n, err := fmt.Sscanf(t.Name.O, "marker_%d", &i); n != 1 || err != nil || i < 0 || i >= len(factors) || seen[i] {
			return out, refuseSplice()
		}
		seen[i] = true
		factorOf[tables.names[k]] = i
	}
	for k, t := range tables.names {
		from := tables.sources[t]
		if !factors[factorOf[t]].Bare && from != nil && from.AsName.O == "" {
			from.AsName = ast.NewCIStr(cmp.Or(own[refs[t]], t.Name.O))
		}
		t.Schema, t.Name, t.IndexHints = replaced.names[k].Schema, replaced.names[k].Name, nil
	}
	unqualify(n, qualified)
	want, okWant := restored(n)
	got, okGot := restored(marked)
	if !okWant || !okGot || want != got {
		return out, refuseSplice()
	}

	// From the number of a factor to that of a reference; names of CTEs stay.
	refOf := map[int]int{}
	for i, r := range a.refs {
		f, ok := factorOf[a.joined.nodes[r]]
		if !ok {
			return out, refuseSplice()
		}
		refOf[f] = i
	}
	kept := out.Cuts[:0]
	for _, c := range out.Cuts {
		if c.Ref >= 0 {
			r, ok := refOf[c.Ref]
			if !ok {
				continue
			}
			c.Ref = r
		}
		kept = append(kept, c)
	}
	out.Cuts = kept
	return out, nil
}

func refuseSplice() *text.Error {
	return refuseGather("this query over several shards, in whose text Shunt doesn't find the table names for certain,", "write it in a plainer form")
}

// restored is a tree as text, to compare it.
func restored(n ast.Node) (string, bool) {
	var b strings.Builder
	err := n.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &b))
	return b.String(), err == nil
}

// tableNames are the tables that a tree names, in the order of a walk.
type tableNames struct {
	names   []*ast.TableName
	sources map[*ast.TableName]*ast.TableSource
	// locked are those of FOR UPDATE OF a, b: they name references, not tables.
	locked []*ast.TableName
}

func tablesOf(n ast.Node) *tableNames {
	t := &tableNames{sources: map[*ast.TableName]*ast.TableSource{}}
	walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			if n.LockInfo != nil {
				t.locked = append(t.locked, n.LockInfo.Tables...)
			}
		case *ast.TableSource:
			if name, ok := n.Source.(*ast.TableName); ok {
				t.sources[name] = n
			}
		case *ast.TableName:
			if !slices.Contains(t.locked, n) {
				t.names = append(t.names, n)
			}
		case *ast.DeleteTableList:
			// DELETE a, b FROM ...: they name references, not tables.
			return false
		}
		return true
	})
	return t
}

func (a *analysis) qualified(own ownAliases) text.Qualifies {
	return func(schema, table string) (as string, is bool) {
		for _, r := range a.refs {
			if a.sameName(r.schema, schema) && a.sameName(r.alias, table) {
				return own[r], true
			}
		}
		return "", false
	}
}

// ownAliases are those of references that only their schemas tell apart, whose copies are in one.
type ownAliases map[*ref]string

// aliases gives references that only their schemas tell apart an alias each, by which their columns are qualified in place
// of schema.table. Those of the same schema.table have one, be they of several scopes. qualifies: some columns are so.
//
// Counter-example without: FROM shop.t WHERE EXISTS (SELECT 1 FROM old.t WHERE
// old.t.id = shop.t.id), where without schemas both columns are old's.
//
// It refuses those that have the name as an alias already, and columns that have t. alone, by which a server finds the
// one that has the column.
func (a *analysis) aliases(n ast.Node, tables *tableNames, qualifies bool) (ownAliases, *text.Error) {
	own := ownAliases{}
	plain := len(tables.locked) == 0 // FOR UPDATE OF t, DELETE t FROM: they name it once more
	switch n.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
	default:
		plain = false
	}
	aliased := func(r *ref) bool {
		from := tables.sources[a.joined.nodes[r]]
		return from == nil || from.AsName.O != ""
	}
	for i, x := range a.refs {
		for _, y := range a.refs[:i] {
			if !strings.EqualFold(x.alias, y.alias) || a.sameName(x.schema, y.schema) || !qualifies && x.scope != y.scope {
				continue
			}
			if !plain || aliased(x) || aliased(y) || qualifiesAlone(n, x.alias) {
				return nil, refuseClash(x, y)
			}
			own[x], own[y] = "", ""
		}
	}
	next := 0
	for i, x := range a.refs {
		same := func(y *ref) bool { return a.sameName(x.schema, y.schema) && a.sameName(x.alias, y.alias) }
		// One of another scope may clash with none.
		if !slices.ContainsFunc(a.refs, func(y *ref) bool { _, clashes := own[y]; return clashes && same(y) }) {
			continue
		}
		if aliased(x) {
			return nil, refuseClash(x, x)
		}
		if at := slices.IndexFunc(a.refs[:i], same); at >= 0 {
			own[x] = own[a.refs[at]]
		}
		for own[x] == "" || strings.Contains(strings.ToLower(a.st.Src), own[x]) {
			own[x] = fmt.Sprintf("shunt_%d", next)
			next++
		}
	}
	return own, nil
}

func refuseClash(x, y *ref) *text.Error {
	return refuseGather("a query over several shards that names "+x.schema+"."+x.alias+" and "+y.schema+"."+y.alias, "give one an alias")
}

// ownAlias is that of a factor, "" for none.
func (a *analysis) ownAlias(own ownAliases, f text.TableFactor) string {
	schema, name := a.st.Settings.Schema, ""
	if f.First != f.Last {
		schema, _ = a.st.Identifier(f.First)
	}
	name, _ = a.st.Identifier(f.Last)
	as, _ := a.qualified(own)(schema, name)
	return as
}

// qualifiesAlone reports columns that have a table's name without its schema.
func qualifiesAlone(n ast.Node, table string) (found bool) {
	walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ColumnName:
			found = found || n.Schema.O == "" && strings.EqualFold(n.Table.O, table)
		case *ast.SelectField: // a walk doesn't come to its wildcard
			found = found || n.WildCard != nil && n.WildCard.Schema.O == "" && strings.EqualFold(n.WildCard.Table.O, table)
		}
		return true
	})
	return found
}

// unqualify takes the schema off columns.
func unqualify(n ast.Node, is text.Qualifies) {
	off := func(schema, table *ast.CIStr) {
		if schema.O == "" {
			return
		}
		as, ok := is(schema.O, table.O)
		if ok {
			*schema = ast.NewCIStr("")
		}
		if as != "" {
			*table = ast.NewCIStr(as)
		}
	}
	walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ColumnName:
			off(&n.Schema, &n.Table)
		case *ast.SelectField:
			if n.WildCard != nil {
				off(&n.WildCard.Schema, &n.WildCard.Table)
			}
		}
		return true
	})
}
