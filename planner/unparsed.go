package planner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/text"
)

// unparsed writes forms of the servers' that the parser doesn't know as ones that it knows, at
// equal length: every offset stays what it is. What is sent keeps them.
//
//	GROUP BY ROLLUP (a, b)                     GROUP BY         a, b       rollups, see readInto
//	JSON_VALUE(j, '$.a' RETURNING SIGNED)      JSON_VALUE(j, '$.a'                 )
//	MATCH (a) AGAINST ('x') > 0                m_tch (a ,        'x') > 0
//	GROUP_CONCAT(a ORDER BY b LIMIT 2)         GROUP_CONCAT(a ORDER BY b        )
//	JSON_ARRAYAGG(a ORDER BY b)                 GROUP_CONCAT(a ORDER BY b)
//	OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY       LIMIT  2 ,               3
//	(SELECT ..) AS t(a, b)                     (SELECT ..) AS t         named, see readInto
//	JSON_TABLE(j, '$' COLUMNS (a INT ..)) t    (SELECT    j, '$'                   ) t  see readInto
//	VALUE(a)                                   valu_(a)
//	SETVAL(s, 7, TRUE, 0)                      SETVAL(s, 7         )
//	t FOR SYSTEM_TIME ALL x                    t PARTITION(`ALL`)   x
//	ALTER TABLE IF EXISTS t WAIT 5 ADD ..      ALTER TABLE           t        ADD ..
//
// Rule no values: of what is left out no row's place depends on it, nor what is copied. LIMIT in
// another form is never merged (clausesOf), so that its numbers don't matter; those of an
// aggregate are its own. A PARTITION of MariaDB's may have rows of the past (ref.history).
type unparsed struct {
	text.Statement // as far as its text and tokens
	buf            []byte
	// rollups are the offsets between which GROUP BY ROLLUP has its items.
	rollups [][2]int
	// named are the names, by alias, that derived tables' columns have of the alias.
	named map[string][]ast.CIStr
	// jsonTables are the aliases of JSON_TABLEs, jsonTable how many of them were met in the tree.
	jsonTables map[string]bool
	jsonTable  int
	changed    bool
}

// The names by which the tree has what readInto puts right. A text that has them is left alone.
const (
	matchStandIn = "m_tch"
	valueStandIn = "valu_"
)

func readUnparsed(sql string, s text.Settings, mariaDB bool) *unparsed {
	u := &unparsed{Statement: text.Statement{Src: sql}, buf: []byte(sql)}
	lx := text.NewLexer(sql, s, text.ServerVersion{MariaDB: mariaDB})
	for t := lx.Next(); t.Kind != text.EOF && t.Kind != text.Bad; t = lx.Next() {
		u.Tokens = append(u.Tokens, t)
	}
	for i := range u.Tokens {
		switch w := u.Word(i); {
		case w == matchStandIn || w == valueStandIn:
			u.changed = false
			return u
		case w == "match" && u.Op(i+1, "("):
			u.match(i)
		case w == "rollup" && u.Op(i+1, "(") && u.Is(i-1, "by") && u.Is(i-2, "group"):
			u.rollup(i)
		case w == "json_value" && u.Op(i+1, "("):
			u.jsonValue(i + 1)
		case w == "json_table" && u.Op(i+1, "("):
			u.tableOfJSON(i)
		case u.Op(i, "(") && !mariaDB:
			u.columnNames(i)
		case !mariaDB:
		case (w == "group_concat" || w == "json_arrayagg") && u.Op(i+1, "("):
			u.aggregate(i)
		case w == "offset" && (u.Is(i+2, "row") || u.Is(i+2, "rows")):
			u.offset(i)
		case w == "fetch" && !u.Is(i-3, "offset"):
			if end := u.fetch(i, ""); end > 0 {
				u.put(end-1, "")
				u.put(end-2, "only")
			}
		case w == "value" && u.Op(i+1, "(") && u.assigned(i):
			u.put(i, valueStandIn)
		case w == "setval" && u.Op(i+1, "("):
			u.setval(i + 1)
		case w == "for" && u.Is(i+1, "system_time"):
			u.history(i)
		case w == "table" && u.Is(0, "alter"):
			u.altered(i + 1)
		}
	}
	return u
}

// put writes a text that is no longer in the place of a token.
func (u *unparsed) put(i int, text string) {
	t := u.Tokens[i]
	copy(u.buf[t.Start:t.End], text+strings.Repeat(" ", int(t.End-t.Start)-len(text)))
	u.changed = true
}

// blank takes out tokens from to to.
func (u *unparsed) blank(from, to int) {
	for i := from; i < to; i++ {
		u.put(i, "")
	}
}

// inside gives the tokens that are right in the parentheses at open, and not deeper.
func (u *unparsed) inside(open int) (close int, toks []int) {
	if close = u.Closes(open); close < 0 {
		return close, nil
	}
	for i := open + 1; i < close; i++ {
		toks = append(toks, i)
		if u.Op(i, "(") {
			i = u.Closes(i)
		}
	}
	return close, toks
}

func (u *unparsed) match(i int) {
	columns := u.Closes(i + 1)
	if !u.Is(columns+1, "against") || !u.Op(columns+2, "(") {
		return
	}
	close, toks := u.inside(columns + 2)
	if close < 0 {
		return
	}
	for _, k := range toks {
		if u.Is(k, "in") || u.Is(k, "with") {
			u.blank(k, close)
			break
		}
	}
	u.put(i, matchStandIn)
	u.put(columns, ",")
	u.blank(columns+1, columns+3)
}

func (u *unparsed) rollup(i int) {
	close := u.Closes(i + 1)
	if close < 0 {
		return
	}
	u.rollups = append(u.rollups, [2]int{int(u.Tokens[i+1].End), int(u.Tokens[close].Start)})
	u.blank(i, i+2)
	u.put(close, "")
}

// columnNames takes out the names of a derived table's columns, behind its alias. Without AS it is one for sure only
// behind FROM or JOIN.
//
// Counter-example: SELECT 1, (SELECT a) AND (b).
func (u *unparsed) columnNames(open int) {
	switch u.Word(open + 1) {
	case "select", "with", "values", "table":
	default:
		if !u.Op(open+1, "(") {
			return
		}
	}
	i := u.Closes(open) + 1
	if i == 0 || !u.Is(i, "as") && !u.Is(open-1, "from") && !u.Is(open-1, "join") && !u.Is(open-1, "lateral") {
		return
	}
	if u.Is(i, "as") {
		i++
	}
	alias, ok := u.Identifier(i)
	end := u.Closes(i + 1)
	if !ok || end < 0 {
		return
	}
	var names []ast.CIStr
	for k := i + 2; ; k += 2 {
		name, ok := u.Identifier(k)
		if !ok {
			return
		}
		names = append(names, ast.NewCIStr(name))
		if k+1 == end {
			break
		}
		if !u.Op(k+1, ",") {
			return
		}
	}
	if u.named == nil {
		u.named = map[string][]ast.CIStr{}
	}
	u.named[strings.ToLower(alias)] = names
	u.blank(i+1, end+1)
}

func (u *unparsed) jsonValue(open int) {
	close, toks := u.inside(open)
	for _, k := range toks {
		if u.Is(k, "returning") || u.Is(k, "default") || (u.Is(k, "null") || u.Is(k, "error")) && u.Is(k+1, "on") {
			u.leaveOut(k, close)
			return
		}
	}
}

// tableOfJSON makes a JSON_TABLE a derived table of what it reads, whose columns aren't known.
func (u *unparsed) tableOfJSON(i int) {
	close, toks := u.inside(i + 1)
	if close < 0 {
		return
	}
	k := close + 1
	if u.Is(k, "as") {
		k++
	}
	alias, ok := u.Identifier(k)
	at := slices.IndexFunc(toks, func(k int) bool { return u.Is(k, "columns") && u.Op(k+1, "(") })
	if !ok || at < 0 || slices.ContainsFunc(u.Tokens[toks[at]:close], func(t text.Token) bool { return t.Kind == text.Param }) {
		return
	}
	if u.jsonTables == nil {
		u.jsonTables = map[string]bool{}
	}
	u.jsonTables[strings.ToLower(alias)] = true
	u.blank(toks[at], close)
	u.put(i, "(select")
	u.put(i+1, "")
}

// setval leaves the sequence's name and the value.
func (u *unparsed) setval(open int) {
	close, toks := u.inside(open)
	commas := 0
	for _, k := range toks {
		if u.Op(k, ",") {
			commas++
		}
		if commas == 2 {
			u.leaveOut(k, close)
			return
		}
	}
}

// leaveOut is blank, unless a parameter is among the tokens: the tree has to have them all.
func (u *unparsed) leaveOut(from, to int) {
	if !slices.ContainsFunc(u.Tokens[from:to], func(t text.Token) bool { return t.Kind == text.Param }) {
		u.blank(from, to)
	}
}

func (u *unparsed) aggregate(i int) {
	close, toks := u.inside(i + 1)
	sorted := false
	for _, k := range toks {
		switch u.Word(k) {
		case "distinct", "order":
			sorted = true
		case "limit":
			sorted = true
			u.leaveOut(k, close)
		}
	}
	if sorted && u.Is(i, "json_arrayagg") {
		u.put(i, " group_concat")
	}
}

// offset is OFFSET n ROWS [FETCH ..].
func (u *unparsed) offset(i int) {
	if u.fetch(i+3, ",") > 0 || !u.Is(i+3, "fetch") {
		u.put(i, "limit")
		if !u.Is(i+3, "fetch") {
			u.put(i+2, ",0")
		} else {
			u.put(i+2, "")
		}
	}
}

// fetch is FETCH FIRST [n] ROWS ONLY, or WITH TIES. Behind an OFFSET it becomes the second number
// of its LIMIT, behind comma. end is that of WITH TIES where it stands by itself.
func (u *unparsed) fetch(i int, comma string) (end int) {
	if !u.Is(i, "fetch") || !u.Is(i+1, "first") && !u.Is(i+1, "next") {
		return 0
	}
	k := i + 2
	counted := k < len(u.Tokens) && u.Tokens[k].Kind != text.Word
	if counted {
		k++
	}
	if !u.Is(k, "row") && !u.Is(k, "rows") {
		return 0
	}
	k++
	only, ties := u.Is(k, "only"), u.Is(k, "with") && u.Is(k+1, "ties")
	switch {
	case !only && !ties:
		return 0
	case comma == "" && ties:
		return k + 2
	case comma == "":
		return 0 // which the parser knows
	}
	u.put(i, comma)
	u.put(i+1, "")
	if !counted {
		u.put(i+1, "1")
	}
	u.put(k-1, "")
	u.put(k, "")
	if ties {
		u.put(k+1, "")
	}
	return k
}

// assigned: the VALUE( at i stands in what ON DUPLICATE KEY UPDATE assigns.
func (u *unparsed) assigned(i int) bool {
	for k := range i {
		if u.Is(k, "duplicate") && u.Is(k+1, "key") && u.Is(k+2, "update") {
			return true
		}
	}
	return false
}

// history is FOR SYSTEM_TIME, which ends where its last value does.
func (u *unparsed) history(i int) {
	end := i + 3 // ALL
	if !u.Is(i+2, "all") {
		value := false // the token before ends one
	values:
		for end = i + 2; end < len(u.Tokens); end++ {
			switch w := u.Word(end); {
			case u.Op(end, "("):
				if end = u.Closes(end); end < 0 {
					return
				}
				value = true
			case u.Op(end, ")"), u.Op(end, ","):
				break values
			case end < i+4 && (w == "as" || w == "of" || w == "between" || w == "from" || w == "timestamp" || w == "transaction"),
				w == "interval" || w == "and" || w == "to" || value && (w == "second" || w == "minute" || w == "hour" || w == "day" || w == "week" || w == "month" || w == "quarter" || w == "year"):
				value = value && w != "interval" && w != "and" && w != "to"
			case w == "timestamp" || w == "transaction":
				value = u.Op(end+1, "(")
			case u.Tokens[end].Kind == text.Operator:
				value = false
			case value:
				break values
			default:
				value = true
			}
		}
	}
	if end > len(u.Tokens) || slices.ContainsFunc(u.Tokens[i:end], func(t text.Token) bool { return t.Kind == text.Param }) {
		return
	}
	u.blank(i, end)
	copy(u.buf[u.Tokens[i].Start:], "PARTITION(`ALL`)")
}

// altered is what stands around the name of an ALTER TABLE.
func (u *unparsed) altered(i int) {
	if u.Is(i, "if") && u.Is(i+1, "exists") {
		u.blank(i, i+2)
		i += 2
	}
	if i++; u.Op(i, ".") {
		i += 2
	}
	switch {
	case u.Is(i, "nowait"):
		u.blank(i, i+1)
	case u.Is(i, "wait") && i+1 < len(u.Tokens):
		u.blank(i, i+2)
	}
}

// readInto puts right what the tree of the text has other names for.
func (u *unparsed) readInto(n ast.StmtNode) ast.StmtNode {
	out, ok := n.Accept(u)
	stmt, isStmt := out.(ast.StmtNode)
	if !ok || !isStmt {
		return n
	}
	return stmt
}

// Enter is ast.Visitor's.
func (u *unparsed) Enter(n ast.Node) (ast.Node, bool) {
	if t, ok := n.(*ast.TableSource); ok {
		switch t.Source.(type) {
		case *ast.SelectStmt, *ast.SetOprStmt:
			// Another one of that alias, elsewhere, is read as if its columns were not known.
			if names := u.named[t.AsName.L]; names != nil {
				t.ColumnNames = names
			}
			// As above. A name of its own keeps two apart that differ in what is left out.
			if u.jsonTables[t.AsName.L] {
				u.jsonTable++
				t.Lateral, t.ColumnNames = true, []ast.CIStr{ast.NewCIStr("json_table_" + strconv.Itoa(u.jsonTable))}
			}
		}
	}
	if g, ok := n.(*ast.GroupByClause); ok && len(g.Items) > 0 {
		at := g.Items[0].Expr.OriginTextPosition()
		g.Rollup = g.Rollup || slices.ContainsFunc(u.rollups, func(r [2]int) bool { return r[0] <= at && at < r[1] })
	}
	return n, false
}

// Leave is ast.Visitor's.
func (u *unparsed) Leave(n ast.Node) (ast.Node, bool) {
	f, ok := n.(*ast.FuncCallExpr)
	if !ok || len(f.Args) == 0 {
		return n, true
	}
	switch f.FnName.L {
	case matchStandIn:
		m := &ast.MatchAgainst{Against: f.Args[len(f.Args)-1]}
		m.SetOriginTextPosition(f.OriginTextPosition())
		for _, e := range f.Args[:len(f.Args)-1] {
			c, ok := e.(*ast.ColumnNameExpr)
			if !ok {
				return n, true
			}
			m.ColumnNames = append(m.ColumnNames, c.Name)
		}
		return m, true
	case valueStandIn:
		if c, ok := f.Args[0].(*ast.ColumnNameExpr); ok && len(f.Args) == 1 {
			v := &ast.ValuesExpr{Column: c}
			v.SetOriginTextPosition(f.OriginTextPosition())
			return v, true
		}
	}
	return n, true
}
