package planner

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Increment says what an INSERT or REPLACE asks of its table's AUTO_INCREMENT
// counter, which counts for all shards together: each shard's own would give
// the same value again on another.
type Increment struct {
	Table  *catalog.Table
	Column *catalog.Column
	// Generated counts the rows that get a value from the counter.
	Generated int
	// Max is the highest value that can be generated for the column's type.
	Max uint64

	runs []incrementRun
}

// incrementRun is rows in their order: first one whose value is given, over
// which the counter moves (0: none), then some that are counted.
type incrementRun struct {
	given   uint64
	counted int
}

// End is where the counter stands behind the statement when it stood at next
// before. As on a server, a row without a value gets the next one over all that
// were generated or given before it: (NULL), (10), (NULL) gives 1, 10, 11.
//
// ok is false where the type's values don't suffice.
func (n *Increment) End(next uint64) (end uint64, ok bool) {
	for _, r := range n.runs {
		if r.given >= next {
			next = saturated(r.given, 1)
		}
		if r.counted == 0 {
			continue
		}
		if next = saturated(next, r.counted); next-1 > n.Max || next == math.MaxUint64 {
			return next, false
		}
	}
	return next, true
}

func saturated(n uint64, plus int) uint64 {
	if n > math.MaxUint64-uint64(plus) {
		return math.MaxUint64
	}
	return n + uint64(plus)
}

// Generated is what an INSERT with an AUTO_INCREMENT column that Shunt counts
// answers as the last insert id.
type Generated struct {
	Table  *catalog.Table
	Column *catalog.Column
	// First is the first generated value; 0 where all were given. Last is the
	// last one.
	First, Last uint64
	// Rows are the statement's rows.
	Rows int
	// LastShard is where the last row goes.
	LastShard catalog.ShardID
	// Uncertain are the generated values of INSERT IGNORE and ON DUPLICATE KEY
	// UPDATE, which may not have inserted them all.
	Uncertain []uint64
	// Values are the parameters that ShardStatement.Params names by positions
	// after the client's own.
	Values []uint64
}

// Increment says what a statement asks of an AUTO_INCREMENT counter; nil for
// none. What it asks for is given to BindGenerated. REQUIRES: params has
// r.Params elements.
func (p *Planner) Increment(r *Rows, params []keys.Value) (*Increment, error) {
	act, ok := r.action.(*insertAction)
	if !ok || act.auto == nil || len(params) != r.Params {
		return nil, nil
	}
	n, err := act.increment(&binder{cat: r.Catalog, settings: r.settings, params: params})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// BindGenerated is Bind for a statement with an Increment: its rows get the
// values that its End took from first on. asParams: the statement is a prepared
// one, and they become parameters, so that its text stays the same.
func (p *Planner) BindGenerated(r *Rows, params []keys.Value, ix Indexes, first uint64, asParams bool) (*Bound, error) {
	if len(params) != r.Params {
		return nil, &Error{Code: codeParamCount, State: stateGeneral, Message: "Incorrect arguments to EXECUTE"}
	}
	return r.bind(&binder{cat: r.Catalog, settings: r.settings, params: params, ix: ix, next: first, asParams: asParams})
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
	refuse *Error
}

// autoSpan is where in a row's text the value is, or goes: text before it, then
// the value, in place of [start, end).
type autoSpan struct {
	start, end uint32
	before     string
}

// counts is the AUTO_INCREMENT column that Shunt counts: one shard alone does
// so itself.
func counts(t *catalog.Table) *catalog.Column {
	if t.Shards.Len() < 2 {
		return nil
	}
	for _, c := range t.Columns {
		if c.AutoIncrement {
			return c
		}
	}
	return nil
}

// planIncrement finds where values go. implied are the columns that the rows have
// values for without a list of them, which an invisible AUTO_INCREMENT column is not
// among. REQUIRES: rows and their spans are read.
func (i *insertAction) planIncrement(listed, setList bool, implied []*catalog.Column, alias *rowAlias) {
	c := counts(i.table)
	if c == nil {
		return
	}
	i.auto = &autoColumn{col: c, named: listed}
	if i.fused {
		i.auto.refuse = notSupported("a value for the AUTO_INCREMENT column %s.%s can't be put into an executable comment: write the text out, or give the value", i.table.Name, c.Name)
	}
	if listed || setList {
		return
	}
	if alias != nil && len(alias.columns) > 0 {
		i.auto.refuse = notSupported("an alias with names of columns, AS %s(...), needs the AUTO_INCREMENT column too: name %s in the list of columns, with NULL in the rows", alias.name, c.Name)
		return
	}
	i.auto.at, i.auto.text = i.st.listed(c, implied)
}

// increment says what the rows ask of the counter.
func (i *insertAction) increment(b *binder) (*Increment, *Error) {
	c := i.auto.col
	limit, unsigned, ok := integerLimit(c.Type)
	if !ok {
		return nil, notSupported("AUTO_INCREMENT of the type %s over several shards is not supported: make %s.%s an integer", c.Type, i.table.Name, c.Name)
	}
	n := &Increment{Table: i.table, Column: c, Max: min(limit, math.MaxUint64-1)}
	run := incrementRun{}
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
				return nil, notSupported("an expression that names the AUTO_INCREMENT column %s.%s, in a row without a value for it, is not supported: give it a value", i.table.Name, c.Name)
			}
			run.counted++
			n.Generated++
		case run.counted == 0:
			run.given = max(run.given, given)
		case given > run.given:
			n.runs = append(n.runs, run)
			run = incrementRun{given: given}
		}
	}
	n.runs = append(n.runs, run)
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
func (i *insertAction) meetsElsewhere() *Error {
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
			return notSupported("%s into %s without a value for its shard key %s is not supported: the row with the same %s may be on another shard; UPDATE it, and INSERT where no row was found",
				what, t.Name, t.ShardKey.Name, strings.Join(columnNames(u), ", "))
		}
	}
	return nil
}

// valueOf says whether a row's value is counted or given, as a server decides:
// NULL, DEFAULT, none at all, and 0 but for NO_AUTO_VALUE_ON_ZERO. given is 0
// where the counter doesn't move over it.
func (i *insertAction) valueOf(b *binder, row *insertRow, limit uint64, unsigned bool) (given uint64, counted bool, err *Error) {
	c := i.auto.col
	o := i.value(row, c)
	if o.kind == defaulted {
		return 0, true, nil
	}
	v, _, ok := o.resolve(b.params)
	if ok && v.IsNull() {
		return 0, true, nil
	}
	var negative bool
	if ok {
		negative, given, ok = wholeNumber(v)
	}
	clips := !b.settings.Strict || i.ignore
	if ok && negative && unsigned && clips {
		ok = false // it becomes 0
	}
	switch {
	case !ok:
		return 0, false, notSupported("what is given for the AUTO_INCREMENT column %s.%s must be a whole number, NULL or DEFAULT, as a literal or a parameter: compute it in the client", i.table.Name, c.Name)
	case given == 0:
		return 0, !b.settings.NoAutoValueOnZero, nil
	case negative:
		return 0, false, nil
	case given > limit && !clips:
		return 0, false, nil // the server refuses it
	}
	return min(given, limit), false, nil
}

// wholeNumber is what a value is as an integer column stores it, where that is
// beyond doubt. n is the magnitude, the highest number for what is over it.
func wholeNumber(v keys.Value) (negative bool, n uint64, ok bool) {
	s, _, isText := v.AsText()
	switch {
	case isText:
	case classOf(v) == classNumber:
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
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}[baseType(typ)]
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
func (i *insertAction) numbered(b *binder) ([]uint64, *Generated, *Error) {
	if i.auto == nil {
		return nil, nil, nil
	}
	n, err := i.increment(b)
	if err != nil {
		return nil, nil, err
	}
	g := &Generated{Table: i.table, Column: i.auto.col, Rows: len(i.rows)}
	if n.Generated == 0 {
		return nil, g, nil
	}
	next := b.next
	if next == 0 {
		return nil, nil, notSupported("the next AUTO_INCREMENT value of %s.%s is not known here: give it a value", i.table.Name, i.auto.col.Name)
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
			if i.ignore || i.update != nil {
				g.Uncertain = append(g.Uncertain, next)
			}
			next++
		} else if given >= next {
			next = saturated(given, 1)
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
			out.values[k] = number(keys.Uint(id))
		}
	}
	return &out
}

// naming reports an identifier of a column's name among tokens.
func (st *statement) naming(toks []token, c *catalog.Column) bool {
	for _, t := range toks {
		text := st.src[t.start:t.end]
		switch t.kind {
		case tokWord:
		case tokQuoted:
			text = text[1 : len(text)-1]
		default:
			continue
		}
		if strings.EqualFold(text, c.Name) {
			return true
		}
	}
	return false
}

// names is naming for the expressions of a SET list, but for one of them.
func (st *statement) names(toks []token, fields [][2]uint32, but int, c *catalog.Column) bool {
	for _, t := range toks {
		for j, f := range fields {
			if j != but && t.start >= f[0] && t.end <= f[1] && st.naming([]token{t}, c) {
				return true
			}
		}
	}
	return false
}
