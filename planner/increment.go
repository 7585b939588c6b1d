package planner

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// Increment says what a statement asks of an AUTO_INCREMENT counter; nil for
// none. What it asks for is given to BindGenerated. REQUIRES: params has
// r.Params elements.
func (p *Planner) Increment(r *plan.Rows, params []keys.Value) (*plan.Increment, error) {
	act, ok := insertOf(r)
	if !ok || act.auto == nil || len(params) != r.Params {
		return nil, nil
	}
	n, err := act.increment(newBinder(r, params, nil))
	if err != nil {
		return nil, err
	}
	return n, nil
}

// BindGenerated is Bind for a statement with an Increment: its rows get the
// values that its End took from first on. asParams: the statement is a prepared
// one, and they become parameters, so that its text stays the same.
func (p *Planner) BindGenerated(r *plan.Rows, params []keys.Value, ix plan.Indexes, first uint64, asParams bool) (*plan.Bound, error) {
	if len(params) != r.Params {
		return nil, text.NewError(mysqlerr.WrongArguments, "Incorrect arguments to EXECUTE")
	}
	b := newBinder(r, params, ix)
	b.next, b.asParams = first, asParams
	return bindRows(r, b)
}

// autoColumn is how a statement's rows are given values of an AUTO_INCREMENT
// column. Where the statement names the column the value in its row is replaced,
// else one is appended to the list of columns and to each row:
//
//	INSERT INTO t (id, a) VALUES (NULL, 1), (7, 2)   (101, 1), (7, 2)
//	INSERT INTO t (a) VALUES (1)                      (a, `id`) VALUES (1, 101)
//
// Appended, not put first: an expression in the row that names the column finds
// it without a value, as it does on a server.
type autoColumn struct {
	col *catalog.Column
	// named: the statement names the column, or has no list of columns.
	named bool
	// at is the offset, before the rows, of what is to be put there; 0 none.
	at   uint32
	text string
	// refuse is why values can't be put into the text.
	refuse *text.Error
}

// autoSpan is where in a row's text the value is, or goes: text before it, then
// the value, in place of [start, end).
type autoSpan struct {
	start, end uint32
	before     string
}

// planIncrement finds where values go. implied are the columns that the rows have
// values for without a list of them, which an invisible AUTO_INCREMENT column is not
// among. REQUIRES: rows and their spans are read.
func (i *insertAction) planIncrement(listed, setList bool, implied []*catalog.Column, alias *rowAlias) {
	c := spoken.CountedColumn(i.table)
	if c == nil {
		return
	}
	i.auto = &autoColumn{col: c, named: listed}
	if i.fused {
		i.auto.refuse = text.NotSupported("a value for the AUTO_INCREMENT column %s.%s can't be put into an executable comment: write the text out, or give the value", i.table.Name, c.Name)
	}
	if listed || setList {
		return
	}
	if alias != nil && len(alias.columns) > 0 {
		i.auto.refuse = text.NotSupported("an alias with names of columns, AS %s(...), needs the AUTO_INCREMENT column too: name %s in the list of columns, with NULL in the rows", alias.name, c.Name)
		return
	}
	i.auto.at, i.auto.text = addedColumn(i.st, c, implied)
}

// increment says what the rows ask of the counter.
func (i *insertAction) increment(b *binder) (*plan.Increment, *text.Error) {
	c := i.auto.col
	limit, unsigned, ok := integerLimit(c.Type)
	if !ok {
		return nil, text.NotSupported("AUTO_INCREMENT of the type %s over several shards is not supported: make %s.%s an integer", c.Type, i.table.Name, c.Name)
	}
	n := &plan.Increment{Table: i.table, Column: c, Max: min(limit, math.MaxUint64-1)}
	run := plan.IncrementRun{}
	for k := range i.rows {
		row := &i.rows[k]
		given, counted, err := i.valueOf(b, row, limit, unsigned)
		if err != nil {
			return nil, err
		}
		switch {
		case counted:
			if i.auto.refuse != nil {
				return nil, i.auto.refuse
			}
			if row.namesAuto {
				return nil, text.NotSupported("an expression that names the AUTO_INCREMENT column %s.%s, in a row without a value for it, is not supported: give it a value", i.table.Name, c.Name)
			}
			run.Counted++
			n.Generated++
		case run.Counted == 0:
			run.Given = max(run.Given, given)
		case given > run.Given:
			n.Runs = append(n.Runs, run)
			run = plan.IncrementRun{Given: given}
		}
	}
	n.Runs = append(n.Runs, run)
	if n.Generated > 0 {
		return n, i.meetsElsewhere()
	}
	return n, nil
}

// Rule counted shard key: a row whose shard key is counted goes to a shard of
// its own choosing, so that REPLACE, IGNORE and ON DUPLICATE KEY UPDATE would
// meet the row of another unique key only where it happens to be there.
//
// Counter-example: INSERT INTO users (email) VALUES ('a') ON DUPLICATE KEY UPDATE
// seen = seen + 1, where the user with that email has another id, on another shard.
func (i *insertAction) meetsElsewhere() *text.Error {
	t := i.table
	if i.tries() || i.auto.col != t.ShardKey || !i.replace && !i.ignore && i.update == nil {
		return nil
	}
	for _, u := range t.Unique {
		if !slices.Contains(u, t.ShardKey) {
			what := "INSERT IGNORE"
			switch {
			case i.replace:
				what = "REPLACE"
			case i.update != nil:
				what = "ON DUPLICATE KEY UPDATE"
			}
			return text.NotSupported("%s into %s without a value for its shard key %s is not supported: the row with the same %s may be on another shard; UPDATE it, and INSERT where no row was found",
				what, t.Name, t.ShardKey.Name, strings.Join(columnNames(u), ", "))
		}
	}
	return nil
}

// valueOf says whether a row's value is counted or given, as a server decides:
// NULL, DEFAULT, none at all, and 0 but for NO_AUTO_VALUE_ON_ZERO. given is 0
// where the counter doesn't move over it.
func (i *insertAction) valueOf(b *binder, row *insertRow, limit uint64, unsigned bool) (given uint64, counted bool, err *text.Error) {
	c := i.auto.col
	o := i.value(row, c)
	if o.Kind == text.Default {
		return 0, true, nil
	}
	v, _, ok := o.Resolve(b.params)
	if ok && v.IsNull() {
		return 0, true, nil
	}
	var negative bool
	clips := !b.settings.Strict || i.ignore
	if ok {
		if isEmpty(v) && clips {
			return 0, !b.settings.NoAutoValueOnZero, nil // it is stored as 0
		}
		negative, given, ok = wholeNumber(v)
	}
	if ok && negative && unsigned && clips {
		ok = false // it becomes 0
	}
	switch {
	case !ok:
		return 0, false, text.NotSupported("what is given for the AUTO_INCREMENT column %s.%s must be a whole number, NULL or DEFAULT, as a literal or a parameter: compute it in the client", i.table.Name, c.Name)
	case given == 0:
		return 0, !b.settings.NoAutoValueOnZero, nil
	case negative:
		return 0, false, nil
	case given > limit && !clips:
		return 0, false, nil // the server refuses it
	}
	return min(given, limit), false, nil
}

func isEmpty(v keys.Value) bool {
	s, isText := v.AsNumberText()
	return isText && s == ""
}

// wholeNumber is what a value is as an integer column stores it, where that is
// beyond doubt. n is the magnitude, the highest number for what is over it.
func wholeNumber(v keys.Value) (negative bool, n uint64, ok bool) {
	s, isText := v.AsNumberText()
	switch {
	case isText:
	case text.ClassOf(v) == text.ClassNumber:
		s = v.Literal()
		if f, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, "eE") {
			if f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
				return false, 0, false
			}
			s = strconv.FormatInt(int64(f), 10)
		}
	default:
		return false, 0, false
	}
	s, negative = strings.CutPrefix(s, "-")
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return false, 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		n = math.MaxUint64
	}
	return negative, n, true
}

// integerLimit is the highest value of an integer type.
func integerLimit(typ string) (limit uint64, unsigned, ok bool) {
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}[catalog.BaseType(typ)]
	if bits == 0 {
		return 0, false, false
	}
	lower := strings.ToLower(typ)
	if unsigned = strings.Contains(lower, "unsigned") || strings.Contains(lower, "zerofill"); !unsigned {
		bits--
	}
	return 1<<(bits-1) - 1 + 1<<(bits-1), unsigned, true
}

// numbered gives the rows their values: for each row the value, 0 where it has
// its own. nil: no row gets one.
func (i *insertAction) numbered(b *binder) ([]uint64, *plan.Generated, *text.Error) {
	if i.auto == nil {
		return nil, nil, nil
	}
	n, err := i.increment(b)
	if err != nil {
		return nil, nil, err
	}
	g := &plan.Generated{Table: i.table, Column: i.auto.col, Rows: len(i.rows)}
	if n.Generated == 0 {
		return nil, g, nil
	}
	next := b.next
	if next == 0 {
		return nil, nil, text.NotSupported("the next AUTO_INCREMENT value of %s.%s is not known here: give it a value", i.table.Name, i.auto.col.Name)
	}
	ids := make([]uint64, len(i.rows))
	limit, unsigned, _ := integerLimit(i.auto.col.Type)
	for k := range i.rows {
		given, counted, err := i.valueOf(b, &i.rows[k], limit, unsigned)
		if err != nil {
			return nil, nil, err
		}
		if counted {
			ids[k] = next
			if g.First == 0 {
				g.First = next
			}
			g.Last = next
			o := i.value(&i.rows[k], i.auto.col)
			if v, _, ok := o.Resolve(b.params); ok && isEmpty(v) {
				g.Empty = append(g.Empty, k)
			}
			if i.ignore || i.update != nil {
				g.Uncertain = append(g.Uncertain, next)
			}
			next++
		} else if given >= next {
			next = plan.AddSaturated(given, 1)
		}
	}
	return ids, g, nil
}

// withID is a row with its counted value.
func (i *insertAction) withID(row *insertRow, id uint64) *insertRow {
	out := *row
	out.values = slices.Clone(row.values)
	for k, c := range i.needed {
		if c == i.auto.col {
			out.values[k] = text.Number(keys.Uint(id))
		}
	}
	return &out
}

// naming reports an identifier among tokens that may be a column of the new row: one of its name, which no other name than
// the statement's for the table qualifies.
func naming(st *text.Statement, toks []text.Token, target *ref, c *catalog.Column) bool {
	column := target.nameOf(c)
	for _, tok := range toks {
		name := st.Src[tok.Start:tok.End]
		if tok.Kind == text.Quoted {
			name = name[1 : len(name)-1]
		} else if tok.Kind != text.Word {
			continue
		}
		if !strings.EqualFold(name, column) {
			continue
		}
		if of := qualifier(st.Src[:tok.Start]); of == "" || strings.EqualFold(of, target.alias) {
			return true
		}
	}
	return false
}

// qualifier is the name that ends a text with a point behind it, "" for none that is plainly one.
func qualifier(before string) string {
	before, ok := strings.CutSuffix(strings.TrimRight(before, " \t\r\n"), ".")
	before = strings.TrimRight(before, " \t\r\n")
	if !ok || before == "" {
		return ""
	}
	if quoted, ok := strings.CutSuffix(before, "`"); ok {
		begin := strings.LastIndexByte(quoted, '`')
		if begin > 0 && quoted[begin-1] == '`' {
			return "" // a name with a quote in it
		}
		return quoted[begin+1:]
	}
	begin := strings.LastIndexFunc(before, func(r rune) bool { return r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return before[begin+1:]
}

// names is naming for the expressions of a SET list, but for one of them.
func names(st *text.Statement, toks []text.Token, fields [][2]uint32, but int, target *ref, c *catalog.Column) bool {
	for _, t := range toks {
		for j, f := range fields {
			if j != but && t.Start >= f[0] && t.End <= f[1] && naming(st, []text.Token{t}, target, c) {
				return true
			}
		}
	}
	return false
}
