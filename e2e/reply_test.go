package e2e

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/generate"
)

// statementTimeout ends a statement that hangs.
const statementTimeout = time.Minute

// refusedCode is the error of what Shunt doesn't do.
const refusedCode = 1235

// datum is a value as the server wrote it.
type datum struct {
	null bool
	text string
}

// reply is all that a statement answered.
type reply struct {
	// code of a server's error, 0 for none; broken is any other error.
	code    uint16
	message string
	broken  error

	fields   []*mysql.Field
	rows     [][]datum
	affected uint64
	insertID uint64
	// warnings are their codes, sorted, warned their texts; counted is what the answer said.
	warnings []int
	warned   []string
	counted  int
}

func (o *reply) refused() bool { return o.code == refusedCode }

func (o *reply) String() string {
	switch {
	case o.broken != nil:
		return "broken: " + o.broken.Error()
	case o.code != 0:
		return fmt.Sprintf("error %d: %s", o.code, o.message)
	case o.fields == nil:
		return fmt.Sprintf("%d affected, insert id %d, %d warnings: %v %q", o.affected, o.insertID, o.counted, o.warnings, o.warned)
	}
	var b strings.Builder
	for _, f := range o.fields {
		fmt.Fprintf(&b, "%s ", fieldType(f))
	}
	fmt.Fprintf(&b, "warnings %v, %d rows", o.warnings, len(o.rows))
	for i, r := range o.rows {
		if i == 40 {
			b.WriteString("\n   ...")
			break
		}
		b.WriteString("\n   ")
		for _, c := range r {
			if c.null {
				b.WriteString(" NULL")
			} else {
				fmt.Fprintf(&b, " %q", c.text)
			}
		}
	}
	return b.String()
}

// fieldType is a column's type as far as it is compared.
func fieldType(f *mysql.Field) string {
	unsigned, binary := "", ""
	if f.Flag&mysql.UNSIGNED_FLAG != 0 && f.Type != mysql.MYSQL_TYPE_TIMESTAMP { // of IFNULL(at, at) MariaDB has it by the plan
		unsigned = " unsigned"
	}
	if f.Charset == 63 && f.Type != mysql.MYSQL_TYPE_JSON { // that too depends on the plan
		binary = " binary"
	}
	decimals := f.Decimal
	if text(f) || f.Type == mysql.MYSQL_TYPE_JSON {
		decimals = 0 // what a text has there depends on the plan
	}
	return fmt.Sprintf("%s(%d%s%s .%d)", f.Name, f.Type, unsigned, binary, decimals)
}

// dataErrors are those of a row's values. Of several bad rows on several shards
// any may be told: each shard stops at its own first.
var dataErrors = []uint16{1048, 1062, 1264, 1265, 1292, 1366, 1406, 3140, 4025}

// deprecated is the warning of VALUES() in ON DUPLICATE KEY UPDATE and the like.
const deprecated = 1287

// serversOwn is the class of a difference that is the plain server's: it contradicts itself.
const serversOwn = "the server contradicts itself"

// namedWarning is the class of a warning that Shunt alone gives, as the documents say.
const namedWarning = "a warning that Shunt alone gives"

// difference is what differs between two answers; "" is nothing.
type difference struct{ class, detail string }

// compareReplies compares the answer of Shunt with a plain server's. Values are
// compared byte for byte, as far as the statement determines them.
func compareReplies(got, want *reply, check generate.Check, write bool) difference {
	switch {
	case got.broken != nil:
		return difference{"broken", got.broken.Error()}
	case want.broken != nil:
		return difference{"plain broken", want.broken.Error()}
	case got.code != want.code && write && slices.Contains(dataErrors, got.code) && slices.Contains(dataErrors, want.code):
		return difference{"other bad row", fmt.Sprintf("error %d, want %d", got.code, want.code)}
	case got.code != want.code:
		return difference{"error", fmt.Sprintf("error %d %q, want %d %q", got.code, got.message, want.code, want.message)}
	case got.code != 0:
		return difference{}
	case (got.fields == nil) != (want.fields == nil):
		return difference{"sort", "rows against no rows"}
	}
	g, w := got.warnings, want.warnings
	if write && check.Condition {
		// A literal that is compared with a column of another type is converted
		// once, for each row, or not at all.
		converted := func(code int) bool { return code == 1292 || code == 1366 }
		g, w = slices.DeleteFunc(slices.Clone(g), converted), slices.DeleteFunc(slices.Clone(w), converted)
		g, w = slices.Compact(g), slices.Compact(w) // and others are told as often
	}
	if !slices.Contains(w, deprecated) {
		// It is told when a statement is parsed: of a prepared one that is before,
		// but again where Shunt has another text sent.
		g = slices.DeleteFunc(slices.Clone(g), func(code int) bool { return code == deprecated })
	}
	if write && !slices.Equal(g, w) {
		return difference{"warnings", fmt.Sprintf("warnings %v, want %v", got.warnings, want.warnings)}
	}
	if write && got.counted != len(got.warnings) && want.counted == len(want.warnings) {
		return difference{"warnings", fmt.Sprintf("%d warnings told, %d shown", got.counted, len(got.warnings))}
	}
	if got.fields == nil {
		if got.affected != want.affected {
			return difference{"affected", fmt.Sprintf("%d affected, want %d", got.affected, want.affected)}
		}
		return difference{}
	}
	if len(got.fields) != len(want.fields) {
		return difference{"columns", fmt.Sprintf("%d columns, want %d", len(got.fields), len(want.fields))}
	}
	if d := compareRows(got, want, check); d.class != "" {
		return d
	}
	minor, empty := difference{}, len(want.rows) == 0
	for i, f := range got.fields {
		w := want.fields[i]
		if string(f.Name) != string(w.Name) && string(f.Name) == fmt.Sprintf("c%d", i+1) {
			// So the text calls it. MySQL mixes names up where a window orders over a
			// derived table.
			minor = difference{"the server's names are wrong", fmt.Sprintf("column %d is %q, want %q", i+1, f.Name, w.Name)}
			continue
		}
		if string(f.Name) != string(w.Name) {
			return difference{"names", fmt.Sprintf("column %d is %q, want %q", i+1, f.Name, w.Name)}
		}
		if g, want := fieldType(f), fieldType(w); g != want {
			alike := integer(f) && integer(w) && f.Flag&mysql.UNSIGNED_FLAG == w.Flag&mysql.UNSIGNED_FLAG ||
				floating(f) && floating(w) || text(f) && text(w) && (f.Charset == 63) == (w.Charset == 63)
			computed := func(f *mysql.Field) bool { return len(f.OrgName) == 0 || len(f.Schema) == 0 }
			members := (f.Flag|w.Flag)&(mysql.ENUM_FLAG|mysql.SET_FLAG) != 0
			// Of no rows MariaDB tells the types of the table that its plan reads, or of a temporary one.
			none := empty && (alike || bits(f) && integer(w) || integer(f) && bits(w))
			if none || alike && (computed(f) || computed(w) || members) {
				// INT or BIGINT, FLOAT or DOUBLE, VARCHAR or TEXT is an expression's as the server takes
				// a temporary table or not. A derived table's columns have no schema. An
				// ENUM that went through one is a VARCHAR.
				minor = difference{"widths", fmt.Sprintf("column %d is %s, want %s", i+1, g, want)}
				continue
			}
			return difference{"types", fmt.Sprintf("column %d is %s, want %s", i+1, g, want)}
		}
		if f.ColumnLength != w.ColumnLength {
			minor = difference{"lengths", fmt.Sprintf("column %s has length %d, want %d", f.Name, f.ColumnLength, w.ColumnLength)}
		}
		const nullable = mysql.NOT_NULL_FLAG
		if f.Flag&nullable != w.Flag&nullable || f.Charset != w.Charset {
			minor = difference{"flags", fmt.Sprintf("column %s has flags %x charset %d, want %x %d", f.Name, f.Flag, f.Charset, w.Flag, w.Charset)}
		}
	}
	// How often a read warns depends on the plan: on the rows that an expression
	// is evaluated for.
	if !write && !slices.Equal(slices.Compact(got.warnings), slices.Compact(want.warnings)) {
		return difference{"warnings of a read", fmt.Sprintf("warnings %v, want %v", got.warnings, want.warnings)}
	}
	return minor
}

func bits(f *mysql.Field) bool { return f.Type == mysql.MYSQL_TYPE_BIT }

func text(f *mysql.Field) bool {
	switch f.Type {
	case mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_BLOB,
		mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB:
		return true
	}
	return false
}

func floating(f *mysql.Field) bool {
	return f.Type == mysql.MYSQL_TYPE_FLOAT || f.Type == mysql.MYSQL_TYPE_DOUBLE
}

func integer(f *mysql.Field) bool {
	switch f.Type {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_YEAR:
		return true
	}
	return false
}

// minor differences are of what a driver shows, not of the answer.
func (d difference) minor() bool {
	switch d.class {
	case "lengths", "flags", "warnings of a read", "other bad row", "widths", "the server's names are wrong", serversOwn, namedWarning:
		return true
	}
	return false
}

func compareRows(got, want *reply, check generate.Check) difference {
	if len(got.rows) != len(want.rows) {
		return difference{"rows", fmt.Sprintf("%d rows, want %d", len(got.rows), len(want.rows))}
	}
	mark := func(i int) generate.Mark {
		if i < len(check.Items) {
			return check.Items[i]
		}
		return 0
	}
	// shown is a value as far as it is determined; loosely: as far as it orders.
	shown := func(f *mysql.Field, i int, c datum, loosely bool) string {
		switch {
		case c.null:
			return "NULL"
		case mark(i)&generate.Folded != 0, loosely && mark(i)&generate.Loose != 0:
			return "=" + generate.Fold(c.text)
		case mark(i)&generate.Approximate != 0:
			return "~" // compared below
		case c.text == "-0" && (f.Type == mysql.MYSQL_TYPE_DOUBLE || f.Type == mysql.MYSQL_TYPE_FLOAT):
			return "=0"
		}
		return "=" + c.text
	}
	lines := func(o *reply, only func(i int) bool, loosely bool) []string {
		out := make([]string, len(o.rows))
		for n, r := range o.rows {
			var b strings.Builder
			for i, c := range r {
				if only(i) {
					b.WriteString(strconv.Quote(shown(o.fields[i], i, c, loosely)))
					b.WriteByte(' ')
				}
			}
			out[n] = b.String()
		}
		return out
	}
	all := func(int) bool { return true }
	inOrder := func(class string, g, w []string) difference {
		for i := range g {
			if g[i] != w[i] {
				return difference{class, fmt.Sprintf("row %d is %s, want %s", i+1, g[i], w[i])}
			}
		}
		return difference{}
	}
	if check.Total {
		if d := inOrder("order", lines(got, all, false), lines(want, all, false)); d.class != "" {
			g, w := lines(got, all, false), lines(want, all, false)
			slices.Sort(g)
			slices.Sort(w)
			if !slices.Equal(g, w) {
				d.class = "rows"
			}
			return d
		}
	} else {
		if check.Ordered {
			by := func(i int) bool { return mark(i)&generate.Sorted != 0 }
			if d := inOrder("order", lines(got, by, true), lines(want, by, true)); d.class != "" {
				return d
			}
		}
		if !check.Limited {
			g, w := lines(got, all, false), lines(want, all, false)
			slices.Sort(g)
			slices.Sort(w)
			if d := inOrder("rows", g, w); d.class != "" {
				return d
			}
		}
	}
	if check.Limited && !check.Total {
		return difference{}
	}
	for i := range got.fields {
		if mark(i)&generate.Approximate != 0 {
			if d := approximately(got, want, i); d.class != "" {
				return d
			}
		}
	}
	return difference{}
}

// approximately compares a column as a multiset of numbers, to 12 digits.
func approximately(got, want *reply, i int) difference {
	numbers := func(o *reply) []float64 {
		out := make([]float64, len(o.rows))
		for n, r := range o.rows {
			f, err := strconv.ParseFloat(r[i].text, 64)
			if r[i].null || err != nil {
				f = math.Inf(-1)
			}
			out[n] = f
		}
		slices.Sort(out)
		return out
	}
	g, w := numbers(got), numbers(want)
	for n := range g {
		if math.IsInf(g[n], -1) != math.IsInf(w[n], -1) || math.Abs(g[n]-w[n]) > 1e-12*max(1, math.Abs(w[n])) {
			return difference{"rows", fmt.Sprintf("column %d has %v, want %v", i+1, g[n], w[n])}
		}
	}
	return difference{}
}
