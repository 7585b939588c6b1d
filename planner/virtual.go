package planner

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// VirtualText is a statement that names virtual columns.
type VirtualText struct {
	// Reads are the columns that it reads, those of one key together.
	//
	// Rule stored texts: one that is kept, and read later, reads none: it has their queries. Counter-example: CREATE VIEW
	// with a value, or with a durable table, of which REBUILD makes another.
	Reads []catalog.VirtualRead
	names *virtualNames
	src   string
	from  uint32
}

// Put is the statement with its virtual columns put in: those of Reads for which values has a value by their durable
// ones, the others by their queries.
//
//	SELECT total_messages FROM conversations c WHERE id = 5
//	SELECT COALESCE(shunt_v1.shunt_n, 0) AS `total_messages`
//	  FROM (conversations c) LEFT JOIN `shunt_virtual`.`c1` AS shunt_v1 ON shunt_v1.shunt_k = `c`.`id` WHERE id = 5
//
// Rule one row: a durable value is joined by its whole primary key, and so adds and loses no row. Where a join would
// show, as by SELECT *, the value is a subquery.
//
// Rule outer rows: of a row that an outer join has filled with NULLs a virtual column is NULL, as its others are.
func (t *VirtualText) Put(values map[int]catalog.VirtualHot) string {
	v := t.names
	v.edits, v.joins, v.blocks = nil, map[virtualJoin]string{}, nil
	for i := range v.found {
		n := &v.found[i]
		value := catalog.QuoteName(n.alias)
		if n.alias == "" {
			hot, durable := values[n.read]
			value = v.value(n, durable, hot)
		}
		if n.bare != "" {
			value += " AS " + catalog.QuoteName(n.bare)
		}
		v.edits = append(v.edits, text.Edit{From: n.from, To: n.to, With: []text.Fragment{{Text: value}}})
	}
	for _, b := range v.blocks {
		v.edits = append(v.edits,
			text.Edit{From: b.from.Start, To: b.from.Start, With: []text.Fragment{{Text: "("}}},
			text.Edit{From: b.to.End, To: b.to.End, With: []text.Fragment{{Text: ")" + strings.Join(b.joins, "")}}})
		b.joins = nil
	}
	derived, _ := v.st.Derive(v.edits).Text(v.st.Src, nil, "")
	return t.src[:t.from] + derived
}

// Virtual finds the virtual columns that a statement names, nil where it names none, or where planning it says better
// what is wrong. params are the values of its parameters, as far as they are known.
func (p *Planner) Virtual(t *spoken.Text, params []keys.Value) *VirtualText {
	return p.virtual(t, params, "")
}

// virtual is Virtual, or that of a shape, with parameters for literals of these kinds: the keys of Reads are then their
// numbers.
func (p *Planner) virtual(t *spoken.Text, params []keys.Value, kinds string) *VirtualText {
	cat := t.Catalog
	if !spoken.MayNameVirtual(t.SQL, cat) {
		return nil
	}
	st, err := t.Statement()
	if err != nil || st.Hinted || st.Doubtful || len(st.Tokens) == 0 || spoken.NamesOwn(st) != "" {
		return nil
	}
	named := func(i int) bool {
		return slices.ContainsFunc(cat.Virtual.Columns, func(v *catalog.VirtualColumn) bool { return st.Named(i, v.Name) })
	}
	if !slices.ContainsFunc(st.Tokens, func(tok text.Token) bool { return named(st.TokenAt(int(tok.Start))) }) {
		return nil
	}
	from, stored := uint32(0), false
	read := st
	switch st.Verb(0) {
	case "select", "with", "insert", "replace", "update", "delete", "do":
	case "explain", "describe", "desc", "create", "alter":
		// EXPLAIN SELECT, CREATE VIEW v AS SELECT, CREATE TABLE t AS SELECT: the query is read by itself.
		stored = storesText(st)
		i := slices.IndexFunc(st.Tokens, func(tok text.Token) bool {
			at := st.TokenAt(int(tok.Start))
			return at > 0 && (st.Is(at, "select") || st.Is(at, "with") && !st.Is(0, "create") && !stored)
		})
		if i < 0 {
			return nil
		}
		from = st.Tokens[i].Start
		if read, err = text.Read(st.Src[from:], st.Settings, cat); err != nil {
			return nil
		}
	default:
		return nil
	}
	n, err := p.parse(read, cat)
	if err != nil {
		return nil
	}
	v := &virtualNames{st: read, cat: cat, params: params, kinds: kinds, places: map[*ast.ColumnNameExpr]virtualPlace{}}
	a := &analysis{st: read, cat: cat, virtual: v}
	switch n := n.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		a.query(n, nil, false)
	case *ast.DoStmt:
		for _, e := range n.Exprs {
			a.expressions(&scope{}, e)
		}
	case *ast.InsertStmt:
		if n.Select != nil {
			a.query(n.Select, nil, false)
		}
	default:
		_, _ = a.planWrite(n) // what is wrong with it, planning says
	}
	if len(v.found) == 0 {
		return nil
	}
	out := &VirtualText{names: v, src: st.Src, from: from}
	for i := range v.found {
		n := &v.found[i]
		if n.alias != "" {
			continue
		}
		if stored {
			n.read = -1
			continue
		}
		read := v.readOf(n)
		n.read = slices.IndexFunc(out.Reads, func(r catalog.VirtualRead) bool {
			return r.Column == read.Column && (r.Key == nil) == (read.Key == nil) && bytes.Equal(r.Key, read.Key)
		})
		if n.read < 0 {
			n.read = len(out.Reads)
			out.Reads = append(out.Reads, read)
		}
	}
	return out
}

// storesText reports DDL whose text is kept: of views, programs and events, not of a table.
func storesText(st *text.Statement) bool {
	i := 1
	for st.Is(i, "or") || st.Is(i, "replace") || st.Is(i, "temporary") {
		i++
	}
	return (st.Is(0, "create") || st.Is(0, "alter")) && !st.Is(i, "table")
}

// readOf is what a name of a virtual column reads: of one key, where WHERE asks for one that is known.
func (v *virtualNames) readOf(n *virtualName) catalog.VirtualRead {
	read := catalog.VirtualRead{Column: n.col}
	if n.in.virtual == nil { // there may be no durable row to add to
		return read
	}
	key := n.r.table.Column(n.col.Key)
	codec, err := plan.CodecOf(v.cat, key)
	if err != nil {
		return read
	}
	for _, c := range n.in.where {
		b, ok := c.expr.(*ast.BinaryOperationExpr)
		if !ok || b.Op != opcode.EQ {
			continue
		}
		for _, sides := range [][2]ast.ExprNode{{b.L, b.R}, {b.R, b.L}} {
			x, isColumn := sides[0].(*ast.ColumnNameExpr)
			if !isColumn {
				continue
			}
			if at, ok := v.analysis.resolve(x.Name, n.in); !ok || at.ref != n.r || at.col != key {
				continue
			}
			if v.kinds != "" {
				if v.parameter(&read, sides[1]) {
					return read
				}
				continue
			}
			o := evalExpr(v.st, sides[1])
			if value, _, ok := o.Resolve(v.params); ok && readBy(&read, codec, key, value, &v.st.Settings) {
				return read
			}
		}
	}
	return read
}

// parameter has a read have a parameter's number for its key.
func (v *virtualNames) parameter(read *catalog.VirtualRead, e ast.ExprNode) bool {
	if _, isParam := e.(ast.ParamMarkerExpr); !isParam {
		return false
	}
	n := v.st.ParamAt(e.OriginTextPosition())
	if n < 0 || n >= len(v.kinds) {
		return false
	}
	read.Key = strconv.AppendInt(nil, int64(n), 10)
	return true
}

// readBy has a read be of the rows whose key equals a value; ok is false in any doubt about which these are.
func readBy(read *catalog.VirtualRead, codec *keys.Codec, key *catalog.Column, value keys.Value, s *text.Settings) (ok bool) {
	if modeDoubt(s, key) || value.IsNull() {
		return false
	}
	k, ok := codec.Equal(nil, value)
	if ok {
		read.Key, read.Literal = k, value.Literal()
	}
	return ok
}

// virtualNames are the names of virtual columns in a statement.
type virtualNames struct {
	st       *text.Statement
	cat      *catalog.Catalog
	params   []keys.Value
	kinds    string
	analysis *analysis
	places   map[*ast.ColumnNameExpr]virtualPlace
	found    []virtualName
	// What Put makes: joins are the durable tables' names in FROM, blocks those behind whose FROM they stand.
	edits  []text.Edit
	joins  map[virtualJoin]string
	blocks []*virtualBlock
}

// virtualName is a name of a virtual column, between from and to in the text.
type virtualName struct {
	from, to uint32
	col      *catalog.VirtualColumn
	r        *ref
	in       *scope // r's
	read     int    // of VirtualText.Reads
	// bare is the name of a select item that is it alone. alias is a select item's that it stands for.
	bare, alias string
}

// virtualPlace is where a block has a name.
type virtualPlace struct {
	// bare: the name is a select item as it is. hidden: it stands for a select item.
	bare, hidden bool
	// alias is a select item's, of the same name, in GROUP BY or ORDER BY: one query needn't be the same as another of
	// the same text.
	alias string
}

type virtualJoin struct {
	ref *ref
	col *catalog.VirtualColumn
}

// virtualBlock is a SELECT behind whose FROM durable tables can be joined: between the tokens.
type virtualBlock struct {
	from, to text.Token
	joins    []string
}

// block notes a SELECT before its expressions are read.
func (v *virtualNames) block(n *ast.SelectStmt, s *scope) {
	if n.Fields == nil {
		return
	}
	s.virtual = v.joinable(n)
	items, aliases := map[string]bool{}, map[string]string{}
	for _, f := range n.Fields.Fields {
		x, ok := f.Expr.(*ast.ColumnNameExpr)
		if f.AsName.L != "" {
			items[f.AsName.L] = true
			if ok {
				aliases[x.Name.String()] = f.AsName.O
			}
		}
		if ok && f.AsName.L == "" {
			v.places[x] = virtualPlace{bare: true}
			items[x.Name.Name.L] = true
		}
	}
	behind := []ast.Node{n.OrderBy, n.Having, n.GroupBy}
	for _, b := range behind {
		walk(b, func(n ast.Node) bool {
			if x, ok := n.(*ast.ColumnNameExpr); ok && x.Name.Table.O == "" && items[x.Name.Name.L] {
				v.places[x] = virtualPlace{hidden: true}
			} else if ok {
				v.places[x] = virtualPlace{alias: aliases[x.Name.String()]}
			}
			_, inner := n.(*ast.SubqueryExpr)
			return !inner
		})
	}
}

// joinable finds a block's FROM, nil where a join would show or it can't be found for sure.
func (v *virtualNames) joinable(n *ast.SelectStmt) *virtualBlock {
	if n.From == nil || n.Kind != ast.SelectStmtKindSelect || n.LockInfo != nil || len(n.Fields.Fields) == 0 {
		return nil
	}
	st, first := v.st, -1
	for _, f := range n.Fields.Fields {
		if f.WildCard != nil && f.WildCard.Table.O == "" {
			return nil
		}
		if f.Expr != nil && first < 0 {
			first = st.TokenAt(f.Expr.OriginTextPosition())
			if first < 0 {
				return nil
			}
		}
	}
	if first < 0 {
		return nil
	}
	i := v.next(first, func(i int) bool { return st.Is(i, "from") })
	if i < 0 {
		return nil
	}
	end := v.next(i+1, func(i int) bool {
		return slices.ContainsFunc(behindFrom, func(w string) bool { return st.Is(i, w) })
	})
	if end < 0 {
		end = len(st.Tokens)
	}
	for j := i; j < end; j++ {
		if st.Is(j, "natural") || st.Is(j, "for") || st.Is(j, "lateral") {
			return nil // all columns join; an index hint, or a time
		}
	}
	return &virtualBlock{from: st.Tokens[i+1], to: st.Tokens[end-1]}
}

// behindFrom are words that end a FROM clause.
var behindFrom = []string{"where", "group", "having", "order", "limit", "window", "lock", "into", "union", "except", "intersect", "procedure", "for", "offset", "fetch"}

// next finds the first token from i on, outside of parentheses, of which is holds; -1 if there is none in the block. Where
// the block ends in a parenthesis, that is where it ends.
func (v *virtualNames) next(i int, is func(int) bool) int {
	for ; i < len(v.st.Tokens); i++ {
		switch {
		case v.st.Op(i, "("):
			if i = v.st.Closes(i); i < 0 {
				return -1
			}
		case v.st.Op(i, ")"), is(i):
			return i
		}
	}
	return -1
}

// nameOffsets is where a column's name stands, with what qualifies it; ok is false where the text has another there.
func nameOffsets(st *text.Statement, n *ast.ColumnNameExpr) (from, to uint32, ok bool) {
	i := st.TokenAt(n.OriginTextPosition())
	last := i
	for _, qualifier := range []string{n.Name.Schema.O, n.Name.Table.O} {
		if qualifier != "" {
			last += 2
		}
	}
	if i < 0 || !st.Named(last, n.Name.Name.O) {
		return 0, 0, false
	}
	return st.Tokens[i].Start, st.Tokens[last].End, true
}

// name notes a name in an expression of a block.
func (v *virtualNames) name(a *analysis, n *ast.ColumnNameExpr, s *scope) {
	at := v.places[n]
	if at.hidden {
		return
	}
	r, in, col := v.find(a, n.Name, s)
	if col == nil {
		return
	}
	from, to, ok := nameOffsets(v.st, n)
	if !ok || slices.ContainsFunc(v.found, func(f virtualName) bool { return f.from == from }) {
		return
	}
	name := virtualName{from: from, to: to, col: col, r: r, in: in, alias: at.alias}
	if at.bare {
		name.bare = n.Name.Name.O
	}
	v.analysis = a
	v.found = append(v.found, name)
}

// value is a virtual column's value for the rows of a table reference.
func (v *virtualNames) value(n *virtualName, durable bool, hot catalog.VirtualHot) string {
	r, col := n.r, n.col
	key := catalog.QuoteName(r.alias) + "." + catalog.QuoteName(col.Key)
	outer := func(value string) string {
		if r.nullable {
			return "IF(" + key + " IS NULL, NULL, " + value + ")"
		}
		return value
	}
	name := "shunt_v" + strconv.Itoa(len(v.joins)+len(v.edits)+1)
	if !durable {
		return outer(col.Definition(name, key))
	}
	if hot.Known {
		return outer(col.Known(hot))
	}
	if block := n.in.virtual; block != nil {
		j := virtualJoin{r, col}
		if v.joins[j] == "" {
			v.joins[j] = name
			if len(block.joins) == 0 {
				v.blocks = append(v.blocks, block)
			}
			block.joins = append(block.joins, " LEFT JOIN "+col.Durable().Quoted()+" AS "+name+" ON "+name+"."+catalog.VirtualKey+" = "+key)
		}
		return outer(col.ValueWith(v.joins[j], hot))
	}
	value := "(SELECT " + col.Value(name) + " FROM " + col.Durable().Quoted() + " AS " + name + " WHERE " + name + "." + catalog.VirtualKey + " = " + key + ")"
	if col.Counts() {
		value = "COALESCE(" + value + ", 0)"
	}
	return outer(value)
}

// find is the virtual column that a name is, and the table reference that has it; nil where it is another column, or may be.
func (v *virtualNames) find(a *analysis, n *ast.ColumnName, s *scope) (r *ref, in *scope, col *catalog.VirtualColumn) {
	of := func(r *ref) *catalog.VirtualColumn {
		if r.table == nil || r.table.IsView || r.through != nil {
			return nil
		}
		return v.cat.VirtualColumn(catalog.TableName{Schema: r.table.Schema, Name: r.table.Name}, n.Name.O)
	}
	for ; s != nil; s = s.parent {
		if n.Table.O == "" {
			if _, ok := s.side.lookup(n.Name.L); ok {
				return nil, nil, nil
			}
		}
		for _, at := range s.refs {
			switch {
			case n.Table.O != "" && (!a.sameName(at.alias, n.Table.O) || n.Schema.O != "" && !a.sameName(at.schema, n.Schema.O)):
			case n.Table.O == "" && at.mayHave(n.Name.L), n.Table.O != "" && (at.table == nil || at.column(n.Name.L) != nil):
				return nil, nil, nil
			case n.Table.O != "" || of(at) != nil:
				if r != nil {
					return nil, nil, nil // ambiguous, as a server says
				}
				r = at
			}
		}
		if r != nil {
			return r, s, of(r)
		}
	}
	return nil, nil, nil
}
