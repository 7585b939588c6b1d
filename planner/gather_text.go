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
	marker := func(i int) string { return fmt.Sprintf("marker_%d", i) }
	for i, f := range factors {
		c := text.Cut{Start: st.Tokens[f.First].Start, End: st.Tokens[f.Last].End, Ref: i, Name: true}
		if !f.Aliased && !f.Bare {
			c.Alias = " AS " + st.Text(f.Last)
		}
		out.Cuts = append(out.Cuts, c)
		for _, h := range f.Hints {
			// The copy has other indexes.
			out.Cuts = append(out.Cuts, text.Cut{Start: st.Tokens[h[0]].Start, End: st.Tokens[h[1]].End, Ref: i})
		}
	}
	qualified := a.qualified()
	triples := st.SchemaQualifiers(qualified)
	if err := a.aliasesClash(len(triples) > 0); err != nil {
		return out, err
	}
	out.Cuts = append(out.Cuts, triples...)
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
			from.AsName = t.Name
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

func (a *analysis) qualified() text.Qualifies {
	return func(schema, table string) bool {
		for _, r := range a.refs {
			if a.sameName(r.schema, schema) && a.sameName(r.alias, table) {
				return true
			}
		}
		return false
	}
}

// aliasesClash refuses references that only their schemas tell apart: both
// copies are in one.
//
// Counter-example: FROM shop.t WHERE EXISTS (SELECT 1 FROM old.t WHERE
// old.t.id = shop.t.id), where without schemas both columns are old's.
func (a *analysis) aliasesClash(triples bool) *text.Error {
	for i, x := range a.refs {
		for _, y := range a.refs[:i] {
			if strings.EqualFold(x.alias, y.alias) && !a.sameName(x.schema, y.schema) && (triples || x.scope == y.scope) {
				return refuseGather("a query over several shards that names "+x.schema+"."+x.alias+" and "+y.schema+"."+y.alias, "give one an alias")
			}
		}
	}
	return nil
}

// unqualify takes the schema off columns.
func unqualify(n ast.Node, is text.Qualifies) {
	walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ColumnName:
			if n.Schema.O != "" && is(n.Schema.O, n.Table.O) {
				n.Schema = ast.NewCIStr("")
			}
		case *ast.WildCardField:
			if n.Schema.O != "" && is(n.Schema.O, n.Table.O) {
				n.Schema = ast.NewCIStr("")
			}
		}
		return true
	})
}
