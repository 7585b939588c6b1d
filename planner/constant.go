package planner

import (
	"strings"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Constants are expressions of an INSERT or REPLACE whose values must be known
// before its rows can be placed, and that name no column: a shard is asked for
// the values, which then stand in the statement in their place.
//
//	INSERT INTO t (id, a) VALUES (50 + 1, 'x'), (UUID_SHORT(), 'y')
//	SELECT 50 + 1, UUID_SHORT()
//	INSERT INTO t (id, a) VALUES (51, 'x'), (102301, 'y')
//
// So is the default of a column that the rows don't give, with id DEFAULT (UUID_SHORT()):
//
//	INSERT INTO t (a) VALUES ('x'), ('y')
//	SELECT UUID_SHORT(), UUID_SHORT()
//	INSERT INTO t (a, `id`) VALUES ('x', 102301), ('y', 102302)
//
// What is different each time (UUID(), RAND()) is thus computed once. Subqueries are asked
// for one by one: see subqueryValues.
type Constants struct {
	st  *statement
	all []constantPlace // in the order of the text
	n   int
	// targets are the columns that subqueries' values go to, nil for other expressions.
	targets []*catalog.Column
}

// constantPlace is where in the text a value is, or goes: before it, then the value, in place
// of [start, end).
type constantPlace struct {
	start, end uint32
	before     string
	// query is the expression, "" for that of the text.
	query string
	// from and to are what to ask for of [start, end), where that is a subquery: without its
	// parentheses, if it is the whole value.
	from, to uint32
	whole    bool
	// name: it is of the list of columns, and has no value.
	name bool
}

// Subqueries reports that Queries asks for each value by itself.
func (c *Constants) Subqueries() bool { return c.targets != nil }

// Whole reports that the i-th value is nothing but a subquery.
func (c *Constants) Whole(i int) bool { return c.Subqueries() && c.all[i].whole }

// Target is the type of the column that the i-th subquery's value goes to.
func (c *Constants) Target(i int) string { return baseType(c.targets[i].Type) }

// Queries ask for the values: one for all, or one for each subquery.
func (c *Constants) Queries(params []keys.Value) []string {
	parts := make([]string, 0, c.n)
	for _, x := range c.all {
		switch {
		case x.name:
		case x.query != "":
			parts = append(parts, x.query)
		case x.whole:
			parts = append(parts, c.st.written(x.from, x.to, params))
		case c.Subqueries():
			parts = append(parts, "SELECT "+c.st.written(x.from, x.to, params))
		default:
			parts = append(parts, c.st.written(x.start, x.end, params))
		}
	}
	if c.Subqueries() {
		return parts
	}
	return []string{"SELECT " + strings.Join(parts, ", ")}
}

// With is the statement with literals for the expressions and the parameters.
func (c *Constants) With(literals []string, params []keys.Value) string {
	var b strings.Builder
	from := uint32(0)
	for _, x := range c.all {
		b.WriteString(c.st.written(from, x.start, params) + x.before)
		if !x.name {
			b.WriteString(" " + literals[0] + " ")
			literals = literals[1:]
		}
		from = x.end
	}
	return b.String() + c.st.written(from, uint32(len(c.st.src)), params)
}

// Len is the number of values that Queries answer.
func (c *Constants) Len() int { return c.n }

func (c *Constants) add(x constantPlace) {
	if c.all = append(c.all, x); !x.name {
		c.n++
	}
}

// written is a piece of the client's text with literals for its parameters.
func (st *statement) written(from, to uint32, params []keys.Value) string {
	var b strings.Builder
	var places []Parameter
	begin := from
	for n, at := range st.params {
		if at < from || at >= to || n >= len(params) {
			continue
		}
		if places == nil {
			places = parameters(st.src[begin:to], st.settings, st.server)
		}
		p := &Parameter{}
		for ; len(places) > 0 && places[0].At <= int(at-begin); places = places[1:] {
			p = &places[0]
		}
		b.WriteString(st.src[from:at])
		b.WriteString(" " + p.write(st, params[n]) + " ")
		from = at + 1
	}
	b.WriteString(st.src[from:to])
	return b.String()
}

// literal is a parameter's value as the client could have written it. A text has no
// introducer where that can be: a parameter has the session's collation, as such a
// literal has, and _utf8mb4'a' the character set's default one.
//
// Counter-example: SET NAMES utf8mb4 COLLATE utf8mb4_bin; ? = ? with 'a' and 'A' is
// false, _utf8mb4'a' = _utf8mb4'A' true.
//
// A DECIMAL keeps its digits, which a text shows that it is stored in: 1.50.
func (st *statement) literal(v keys.Value) string {
	if digits, ok := v.AsDecimal(); ok {
		return digits
	}
	text, charset, ok := v.AsText()
	if !ok {
		return v.Literal()
	}
	escapes := !st.settings.NoBackslashEscapes
	switch odd := strings.ContainsAny(text, `'\`); {
	case strings.Contains(text, "\x00") && !escapes,
		!isASCII(text) && (HidesASCII(charset) || charset == keys.UnknownCharset && odd),
		strings.HasPrefix(charset, "utf8") && !utf8.ValidString(text):
		return v.Literal()
	}
	text = strings.ReplaceAll(text, "'", "''")
	if escapes {
		text = strings.NewReplacer(`\`, `\\`, "\x00", `\0`).Replace(text)
	}
	return "'" + text + "'"
}

// maxConstants bounds the values that one question asks for; MySQL answers up to
// 4096 columns.
const maxConstants = 4000

// ask notes the value of a column in a row, if it must be known and isn't.
func (i *insertAction) ask(c *catalog.Column, o operand, toks []token) {
	byDefault := o.kind == defaulted && c == i.table.ShardKey && i.keyDefault != ""
	if o.kind != unknown && !byDefault || i.unasked || c != i.table.ShardKey && c != counts(i.table) {
		return
	}
	if len(toks) == 0 || !byDefault && !i.st.constant(toks) {
		i.unasked = true
		return
	}
	x := constantPlace{start: toks[0].start, end: toks[len(toks)-1].end}
	if byDefault {
		x.query = i.keyDefault
	}
	i.askAt(x)
}

func (i *insertAction) askAt(x constantPlace) {
	if i.fused || i.asked != nil && i.asked.n == maxConstants {
		i.unasked = true
		return
	}
	if i.asked == nil {
		i.asked = &Constants{st: i.st}
	}
	i.asked.add(x)
}

// askable is the shard key's default, if it may be asked for.
func (i *insertAction) askable() string {
	c := i.table.ShardKey
	if c == nil || c.DefaultText == "" || !spreads(i.table) {
		return ""
	}
	own, err := lexStatement(c.DefaultText, i.st.settings, nil)
	if err != nil || !own.constant(own.toks) {
		return ""
	}
	return c.DefaultText
}

// spreads reports that a row's shard depends on its values.
func spreads(t *catalog.Table) bool {
	return t.Shards.Len() > 1 && (t.Placement == catalog.Hash || t.Placement == catalog.Anywhere)
}

// constants are what to ask for, nil for nothing.
func (i *insertAction) constants() *Constants {
	if i.unasked || !spreads(i.table) {
		return nil
	}
	return i.asked
}

// constant reports tokens of an expression that a SELECT without tables answers
// as the INSERT would compute it. A name of a column may be left in it: the
// SELECT then fails.
//
// Rule one time: the statement's clock is not asked for. Counter-example: VALUES
// (UNIX_TIMESTAMP(), NOW()), where the second would be read later.
//
// Rule no trace: what also changes something is not asked for, since it would do
// so twice or elsewhere: LAST_INSERT_ID(5), a stored function.
func (st *statement) constant(toks []token) bool {
	for n, t := range toks {
		w := strings.ToLower(st.src[t.start:t.end])
		next := ""
		if n+1 < len(toks) {
			next = st.src[toks[n+1].start:toks[n+1].end]
		}
		switch t.kind {
		case tokOp:
			if w == ":=" {
				return false
			}
		case tokVar:
			if strings.HasPrefix(w, "@@") {
				return false
			}
		case tokWord:
			if clockFunction(w) || neverAsked[w] {
				return false
			}
			if w == "last_insert_id" && (n+2 >= len(toks) || st.src[toks[n+2].start:toks[n+2].end] != ")") {
				return false
			}
			if next == "(" && !isBuiltin(w) && !operatorWord[w] {
				return false
			}
		case tokQuoted:
			if next == "(" || next == "." {
				return false
			}
		case tokInt, tokDecimal, tokFloat, tokString, tokIntro, tokHex, tokBit, tokParam:
		default:
			return false
		}
	}
	return true
}

var neverAsked = wordSet(`
	select table values with default next previous sysdate sleep benchmark load_file connection_id user current_user session_user
	system_user current_role row_count found_rows get_lock release_lock validate_password_strength
`)

// operatorWord are words before a parenthesis that call nothing.
var operatorWord = wordSet(`and or xor not is like rlike regexp in between div mod case when then else as interval escape using sounds null`)

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
