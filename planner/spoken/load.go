package spoken

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Load reads
//
//	LOAD DATA [LOW_PRIORITY | CONCURRENT] LOCAL INFILE 'file' [REPLACE | IGNORE] INTO TABLE t
//	[CHARACTER SET c] [FIELDS ..] [LINES ..] [IGNORE n LINES] [(columns and @variables)] [SET column = expression, ..]
func Load(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	l := &plan.Load{Catalog: cat, Format: plan.LoadFormat{FieldEnd: "\t", LineEnd: "\n", Escape: '\\'}}
	if st.Settings.NoBackslashEscapes {
		l.Format.Escape = 0
	}
	i := 1
	if !st.Is(i, "data") {
		return nil, text.NotSupported("LOAD %s is not supported: LOAD DATA LOCAL INFILE and INSERT load rows", strings.ToUpper(st.Text(i)))
	}
	i++
	if st.Is(i, "low_priority") || st.Is(i, "concurrent") {
		i++
	}
	if !st.Is(i, "local") {
		return nil, text.NotSupported("LOAD DATA without LOCAL reads a file of the server's, and a shard's server has only its own: use LOAD DATA LOCAL INFILE, which reads the client's")
	}
	i++
	if !st.Is(i, "infile") || i+1 >= len(st.Tokens) || st.Tokens[i+1].Kind != text.String {
		return nil, st.Near(i)
	}
	l.File = string(st.Unescape(st.Tokens[i+1]))
	i += 2
	switch {
	case st.Is(i, "replace"):
		l.Replace = true
		i++
	case st.Is(i, "ignore"):
		i++
	}
	if !st.Is(i, "into") || !st.Is(i+1, "table") {
		return nil, st.Near(i)
	}
	name, i, err := st.TableAt(i + 2)
	if err != nil {
		return nil, err
	}
	var system bool
	if l.Table, system, err = LookupTable(cat, name.Schema, name.Name); err != nil {
		return nil, err
	}
	if system || l.Table.IsView {
		return nil, text.NotSupported("LOAD DATA into the view or system table %s is not supported: load into a table", name.Name)
	}
	if st.Is(i, "partition") {
		return nil, text.NotSupported("LOAD DATA into a PARTITION is not supported: leave the clause out, rows find their partition")
	}
	if st.Is(i, "character") && st.Is(i+1, "set") || st.Is(i, "charset") {
		if st.Is(i, "character") {
			i++
		}
		charset, ok := st.Identifier(i + 1)
		if !ok && i+1 < len(st.Tokens) && st.Tokens[i+1].Kind == text.String {
			charset, ok = string(st.Unescape(st.Tokens[i+1])), true
		}
		if !ok {
			return nil, st.Near(i + 1)
		}
		l.Charset = strings.ToLower(charset)
		i += 2
	}
	if i, err = readFormat(&l.Format, st, i); err != nil {
		return nil, err
	}
	if st.Is(i, "ignore") {
		n, convErr := strconv.Atoi(st.Text(i + 1))
		if convErr != nil || n < 0 || !st.Is(i+2, "lines") && !st.Is(i+2, "rows") {
			return nil, st.Near(i)
		}
		l.Skip = n
		i += 3
	}
	if i, err = readColumns(l, st, i); err != nil {
		return nil, err
	}
	if st.Is(i, "set") {
		if i, err = readSets(l, st, i); err != nil {
			return nil, err
		}
	}
	if i < len(st.Tokens) {
		return nil, st.Near(i)
	}
	return l, refuseFormat(l)
}

// readFormat reads the FIELDS and LINES clauses.
func readFormat(f *plan.LoadFormat, st *text.Statement, i int) (int, *text.Error) {
	value := func() (string, *text.Error) {
		if i >= len(st.Tokens) {
			return "", st.Near(i)
		}
		t := st.Tokens[i]
		switch t.Kind {
		case text.String:
			i++
			return string(st.Unescape(t)), nil
		case text.Hex, text.Bit:
			if b, ok := text.BitsOf(st.Text(i), t.Kind); ok {
				i++
				return string(b), nil
			}
		default:
		}
		return "", st.Near(i)
	}
	one := func() (byte, *text.Error) {
		s, err := value()
		switch {
		case err != nil || s == "":
			return 0, err
		case len(s) > 1 || s[0] >= 0x80:
			return 0, text.NewError(mysqlerr.WrongFieldTerminators, "Field separator argument is not what is expected; check the manual")
		}
		return s[0], nil
	}
	// Each clause is a list of parts, at least one.
	clause := func(part func() (bool, *text.Error)) *text.Error {
		i++
		for seen := false; ; seen = true {
			ok, err := part()
			switch {
			case err != nil:
				return err
			case !ok && !seen:
				return st.Near(i)
			case !ok:
				return nil
			}
		}
	}
	if st.Is(i, "fields") || st.Is(i, "columns") {
		err := clause(func() (ok bool, err *text.Error) {
			switch {
			case st.Is(i, "terminated") && st.Is(i+1, "by"):
				i += 2
				f.FieldEnd, err = value()
			case st.Is(i, "optionally") && st.Is(i+1, "enclosed") && st.Is(i+2, "by"):
				i += 3
				f.Enclose, err = one()
			case st.Is(i, "enclosed") && st.Is(i+1, "by"):
				i += 2
				f.Enclose, err = one()
			case st.Is(i, "escaped") && st.Is(i+1, "by"):
				i += 2
				f.Escape, err = one()
			default:
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return i, err
		}
	}
	if st.Is(i, "lines") {
		err := clause(func() (ok bool, err *text.Error) {
			switch {
			case st.Is(i, "starting") && st.Is(i+1, "by"):
				i += 2
				f.LineStart, err = value()
			case st.Is(i, "terminated") && st.Is(i+1, "by"):
				i += 2
				f.LineEnd, err = value()
			default:
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return i, err
		}
	}
	return i, nil
}

// readColumns reads the list of columns; without one it is all of the table's.
func readColumns(l *plan.Load, st *text.Statement, i int) (int, *text.Error) {
	if !st.Op(i, "(") {
		for _, c := range Visible(l.Table) {
			if c.Generated {
				return i, text.NotSupported("LOAD DATA into %s, which has the generated column %s, needs a list of columns: name the others", l.Table.Name, c.Name)
			}
		}
		l.Columns = Visible(l.Table)
		l.Vars = make([]string, len(l.Columns))
		return i, nil
	}
	for i++; ; i++ {
		if v, ok := loadVariable(st, i); ok {
			l.Columns, l.Vars = append(l.Columns, nil), append(l.Vars, v)
		} else {
			c, err := readColumn(l, st, i)
			if err != nil {
				return i, err
			}
			l.Columns, l.Vars = append(l.Columns, c), append(l.Vars, "")
		}
		i++
		if st.Op(i, ")") {
			return i + 1, nil
		}
		if !st.Op(i, ",") {
			return i, st.Near(i)
		}
	}
}

// readColumn is one that a field or an expression may fill.
func readColumn(l *plan.Load, st *text.Statement, i int) (*catalog.Column, *text.Error) {
	name, ok := st.Identifier(i)
	if !ok {
		return nil, st.Near(i)
	}
	c := l.Table.Column(name)
	switch {
	case c == nil:
		return nil, UnknownColumn(name)
	case slices.Contains(l.Columns, c):
		return nil, text.NewError(mysqlerr.FieldSpecifiedTwice, "Column '"+c.Name+"' specified twice")
	case c.Generated:
		return nil, text.NotSupported("the generated column %s can't be loaded: leave it out of the list", c.Name)
	}
	return c, nil
}

// loadVariable is the name of a user variable.
func loadVariable(st *text.Statement, i int) (name string, ok bool) {
	if i >= len(st.Tokens) || st.Tokens[i].Kind != text.Variable || strings.HasPrefix(st.Text(i), "@@") {
		return "", false
	}
	return strings.ToLower(strings.Trim(st.Text(i)[1:], "`'\"")), true
}

// readSets reads SET column = expression, .. An expression names a column for what the line has put there, as
// a value of INSERT names one before it; a variable that is a field stands for the field.
func readSets(l *plan.Load, st *text.Statement, i int) (int, *text.Error) {
	for i++; ; i++ {
		name, _ := st.Identifier(i)
		if c := l.Table.Column(name); c != nil && slices.Contains(l.Columns, c) {
			return i, text.NotSupported("SET of %s, which is in the list of columns too, is not supported in LOAD DATA: load it into a user variable, and SET %s by that", name, name)
		}
		c, err := readColumn(l, st, i)
		if err != nil {
			return i, err
		}
		if !st.Op(i+1, "=") || i+2 >= len(st.Tokens) {
			return i, st.Near(i + 1)
		}
		i += 2
		set := plan.LoadSet{Column: c}
		from, depth := st.Tokens[i].Start, 0
		for ; i < len(st.Tokens) && (depth > 0 || !st.Op(i, ",")); i++ {
			switch {
			case st.Op(i, "("):
				depth++
			case st.Op(i, ")"):
				depth--
			case st.Op(i, ":="):
				return i, text.NotSupported("assigning a user variable in LOAD DATA ... SET is not supported: SET columns")
			}
			if v, ok := loadVariable(st, i); ok {
				if n := slices.Index(l.Vars, v); n >= 0 {
					set.Parts, set.Fields = append(set.Parts, st.Src[from:st.Tokens[i].Start]), append(set.Fields, n)
					from = st.Tokens[i].End
				}
			}
		}
		set.Parts = append(set.Parts, st.Src[from:st.Tokens[i-1].End])
		l.Sets = append(l.Sets, set)
		if i == len(st.Tokens) {
			return i, nil
		}
	}
}

// refuseFormat refuses what is not read as a server reads it.
func refuseFormat(l *plan.Load) *text.Error {
	f := l.Format
	switch {
	case f.FieldEnd == "" && f.Enclose == 0:
		return text.NotSupported("LOAD DATA with fields of a fixed size (FIELDS TERMINATED BY '' ENCLOSED BY '') is not supported: write them with a separator")
	case f.FieldEnd == "", f.LineEnd == "":
		return text.NotSupported("LOAD DATA with an empty TERMINATED BY is not supported: write fields and lines with a separator")
	case strings.HasPrefix(f.FieldEnd, f.LineEnd), strings.HasPrefix(f.LineEnd, f.FieldEnd):
		return text.NotSupported("LOAD DATA where lines and fields end alike is not supported: write them with different separators")
	case f.Escape != 0 && (f.Escape == f.Enclose || f.Escape == f.FieldEnd[0] || f.Escape == f.LineEnd[0]),
		f.Enclose != 0 && (f.Enclose == f.FieldEnd[0] || f.Enclose == f.LineEnd[0]):
		return text.NotSupported("LOAD DATA where ESCAPED BY, ENCLOSED BY and TERMINATED BY begin alike is not supported: use different characters")
	case text.HidesASCII(l.Charset):
		return text.NotSupported("LOAD DATA with CHARACTER SET %s is not supported: its bytes can't be told from separators; convert the file to utf8mb4", l.Charset)
	}
	return nil
}
