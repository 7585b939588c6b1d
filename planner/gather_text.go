package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// splice is a text in which the names of tables can be replaced.
type splice struct {
	src  string
	cuts []cut // in the text's order
}

// cut is a part of the text that is replaced.
type cut struct {
	start, end uint32
	// ref is the reference whose copy makes the cut, -1 for any.
	ref int
	// name: the copy's name comes in the place; alias after it.
	name  bool
	alias string
}

// with replaces the tables of the references that copied has a name for.
func (s *splice) with(copied func(ref int) string) string {
	var b strings.Builder
	at := uint32(0)
	for _, c := range s.cuts {
		name := ""
		if c.ref >= 0 {
			if name = copied(c.ref); name == "" {
				continue
			}
		}
		b.WriteString(s.src[at:c.start])
		if c.name {
			b.WriteString(catalog.QuoteTable(ScratchSchema, name) + c.alias)
		}
		at = c.end
	}
	b.WriteString(s.src[at:])
	return b.String()
}

// tableFactor is where the text may name a table in a FROM clause.
type tableFactor struct {
	first, last int // tokens of [schema.]table
	schema      string
	name        string
	aliased     bool
	bare        bool     // TABLE t, which takes no alias
	hints       [][2]int // tokens of index hints
}

// splice finds where the text names the tables of the references.
//
// The parser's tree has no offsets of table names, so they are looked for among
// the tokens, and what was found is proved: every one is replaced by a name of
// its own, the result is parsed, and its tree must be that of the text with the
// same replacements made in the tree. So the k-th table of one tree is the k-th
// of the other, and nothing but table names has changed.
//
// REQUIRES: the last use of the tree, which is changed.
func (a *analysis) splice(n ast.Node) (splice, *Error) {
	st := a.st
	out := splice{src: st.src}
	factors := st.tableFactors()
	tables := tablesOf(n)
	if len(factors) != len(tables.names) {
		return out, refuseSplice()
	}
	marker := func(i int) string { return fmt.Sprintf("marker_%d", i) }
	for i, f := range factors {
		c := cut{start: st.toks[f.first].start, end: st.toks[f.last].end, ref: i, name: true}
		if !f.aliased && !f.bare {
			c.alias = " AS " + st.text(f.last)
		}
		out.cuts = append(out.cuts, c)
		for _, h := range f.hints {
			// The copy has other indexes.
			out.cuts = append(out.cuts, cut{start: st.toks[h[0]].start, end: st.toks[h[1]].end, ref: i})
		}
	}
	qualified := a.qualified()
	triples := st.schemaQualifiers(qualified)
	if err := a.aliasesClash(len(triples) > 0); err != nil {
		return out, err
	}
	out.cuts = append(out.cuts, triples...)
	slices.SortStableFunc(out.cuts, func(x, y cut) int { return cmp.Compare(x.start, y.start) })
	for i, c := range out.cuts {
		if i > 0 && c.start < out.cuts[i-1].end {
			return out, refuseSplice()
		}
		for _, x := range st.comments {
			if (x.kind == execOpen || x.kind == execClose) && x.start >= c.start && x.end <= c.end {
				return out, refuseSplice()
			}
		}
	}

	blank := splice{src: st.blanked(), cuts: out.cuts}
	marked, err := (&parserPool{}).parse(blank.with(marker), st.settings, a.cat.MariaDB)
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
		if !factors[factorOf[t]].bare && from != nil && from.AsName.O == "" {
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
	kept := out.cuts[:0]
	for _, c := range out.cuts {
		if c.ref >= 0 {
			r, ok := refOf[c.ref]
			if !ok {
				continue
			}
			c.ref = r
		}
		kept = append(kept, c)
	}
	out.cuts = kept
	return out, nil
}

func refuseSplice() *Error {
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

// qualifies tells whether schema.table before a column is one of the query's
// references, whose copy is in another schema.
type qualifies func(schema, table string) bool

func (a *analysis) qualified() qualifies {
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
func (a *analysis) aliasesClash(triples bool) *Error {
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
func unqualify(n ast.Node, is qualifies) {
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

// schemaQualifiers finds `schema.` in schema.table.column and schema.table.*.
func (st *statement) schemaQualifiers(is qualifies) []cut {
	var out []cut
	for i := 0; i+4 < len(st.toks); i++ {
		if !st.op(i+1, ".") || !st.op(i+3, ".") || st.op(i-1, ".") {
			continue
		}
		schema, ok1 := st.identifier(i)
		table, ok2 := st.identifier(i + 2)
		_, ok3 := st.identifier(i + 4)
		if ok1 && ok2 && (ok3 || st.op(i+4, "*")) && is(schema, table) {
			out = append(out, cut{start: st.toks[i].start, end: st.toks[i+1].end, ref: -1})
		}
	}
	return out
}

// fromLevel is the state of tableFactors within one pair of parentheses.
type fromLevel struct {
	selects bool // SELECT was seen: a FROM is its, not that of TRIM(x FROM y)
	from    bool // in a FROM clause
	factor  bool // a table, or a parenthesis, comes next
}

// tableFactors finds where FROM clauses name tables. It may be wrong: splice
// proves what it found.
func (st *statement) tableFactors() []tableFactor {
	var out []tableFactor
	levels := []fromLevel{{}}
	for i := 0; i < len(st.toks); i++ {
		l := &levels[len(levels)-1]
		switch {
		case st.op(i, "("):
			inner := fromLevel{from: l.factor, factor: l.factor}
			l.factor = false
			levels = append(levels, inner)
			continue
		case st.op(i, ")"):
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
			continue
		case st.op(i, ","):
			l.factor = l.from
			continue
		case st.op(i, "{"):
			i++ // { OJ
			continue
		}
		if l.factor {
			switch w := st.word(i); w {
			case "select", "with", "values", "table":
			case "lateral":
				continue
			default:
				l.factor = false
				if w == "dual" && !st.op(i+1, ".") {
					continue
				}
				if f, next, ok := st.tableFactor(i); ok {
					out = append(out, f)
					i = next - 1
				}
				continue
			}
		}
		switch st.word(i) {
		case "update", "delete":
			if len(levels) == 1 && (i == 0 || st.op(i-1, ")")) {
				i = st.writeFactors(i, l)
			}
		case "set":
			if len(levels) == 1 {
				l.from, l.factor = false, false
			}
		case "select":
			*l = fromLevel{selects: true}
		case "with", "values":
			l.from, l.factor = false, false
		case "table":
			// TABLE t, as a query
			if i == 0 || st.op(i-1, "(") || st.is(i-1, "union") || st.is(i-1, "all") || st.is(i-1, "distinct") || st.is(i-1, "except") || st.is(i-1, "intersect") || st.op(i-1, ")") {
				l.factor = false
				if f, next, ok := st.tableFactor(i + 1); ok {
					f.bare = true
					out = append(out, f)
					i = next - 1
				}
			}
		case "from":
			if l.selects {
				l.from, l.factor = true, true
			}
		case "join", "straight_join":
			l.factor = l.from
		case "where", "group", "having", "order", "limit", "window", "union", "except", "intersect", "minus", "for", "into", "lock", "procedure", "offset", "fetch":
			if !st.op(i-1, ".") && !st.op(i+1, ".") {
				l.from, l.factor = false, false
			}
		}
	}
	return out
}

// tableFactor reads [schema.]table [[AS] alias] [index hints] at token i.
func (st *statement) tableFactor(i int) (f tableFactor, next int, ok bool) {
	if f.name, ok = st.identifier(i); !ok {
		return f, i, false
	}
	f.first, f.last = i, i
	if st.op(i+1, ".") {
		f.schema = f.name
		if f.name, ok = st.identifier(i + 2); !ok {
			return f, i, false
		}
		f.last = i + 2
	}
	i = f.last + 1
	if st.is(i, "partition") && st.op(i+1, "(") {
		return f, i, true
	}
	switch {
	case st.is(i, "as"):
		f.aliased = true
		i += 2
	case i < len(st.toks) && (st.toks[i].kind == tokQuoted || st.toks[i].kind == tokWord && !afterTable(st.word(i))):
		f.aliased = true
		i++
	}
	for st.is(i, "use") || st.is(i, "force") || st.is(i, "ignore") {
		h := i
		if !st.is(i+1, "index") && !st.is(i+1, "key") {
			break
		}
		for i += 2; i < len(st.toks) && !st.op(i, "("); i++ { // FOR ORDER BY
		}
		for ; i < len(st.toks) && !st.op(i, ")"); i++ {
		}
		if i >= len(st.toks) {
			return f, h, true
		}
		f.hints = append(f.hints, [2]int{h, i})
		i++
		if st.op(i, ",") && (st.is(i+1, "use") || st.is(i+1, "force") || st.is(i+1, "ignore")) {
			f.hints[len(f.hints)-1][1] = i
			i++
		}
	}
	return f, i, true
}

// afterTable knows the words that may follow a table's name and are no alias.
func afterTable(w string) bool {
	switch w {
	case "join", "inner", "cross", "left", "right", "natural", "straight_join", "on", "using", "set", "where", "group", "having", "order", "limit",
		"window", "union", "except", "intersect", "minus", "for", "into", "lock", "use", "force", "ignore", "partition", "procedure", "tablesample", "offset", "fetch":
		return true
	}
	return false
}
