package planner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Load is LOAD DATA LOCAL INFILE: Shunt asks the client for the file, reads its
// rows, and inserts them by statements that it makes (Statement).
type Load struct {
	Catalog *catalog.Catalog
	Table   *catalog.Table
	// File is the name that the client is asked for.
	File string
	// Replace: rows replace those with the same key; else they are skipped where
	// there is one, as LOCAL means it.
	Replace bool
	// Columns are filled by the fields of a line, in order.
	Columns []*catalog.Column
	// Charset of the file, "" for that of the current schema.
	Charset string
	Format  LoadFormat
	// Skip is the number of lines to leave out at the file's beginning.
	Skip int
}

// LoadFormat says how the file is read.
// https://dev.mysql.com/doc/refman/9.0/en/load-data.html
type LoadFormat struct {
	FieldEnd, LineStart, LineEnd string
	// Enclose and Escape are 0 for none.
	Enclose, Escape byte
}

func (*Load) isPlan() {}

// planLoad reads
//
//	LOAD DATA [LOW_PRIORITY | CONCURRENT] LOCAL INFILE 'file' [REPLACE | IGNORE] INTO TABLE t
//	[CHARACTER SET c] [FIELDS ..] [LINES ..] [IGNORE n LINES] [(columns)]
func planLoad(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	l := &Load{Catalog: cat, Format: LoadFormat{FieldEnd: "\t", LineEnd: "\n", Escape: '\\'}}
	if st.settings.NoBackslashEscapes {
		l.Format.Escape = 0
	}
	i := 1
	if !st.is(i, "data") {
		return nil, notSupported("LOAD %s is not supported: LOAD DATA LOCAL INFILE and INSERT load rows", strings.ToUpper(st.text(i)))
	}
	i++
	if st.is(i, "low_priority") || st.is(i, "concurrent") {
		i++
	}
	if !st.is(i, "local") {
		return nil, notSupported("LOAD DATA without LOCAL reads a file of the server's, and a shard's server has only its own: use LOAD DATA LOCAL INFILE, which reads the client's")
	}
	i++
	if !st.is(i, "infile") || i+1 >= len(st.toks) || st.toks[i+1].kind != tokString {
		return nil, st.near(i)
	}
	l.File = string(st.unescape(st.toks[i+1]))
	i += 2
	switch {
	case st.is(i, "replace"):
		l.Replace = true
		i++
	case st.is(i, "ignore"):
		i++
	}
	if !st.is(i, "into") || !st.is(i+1, "table") {
		return nil, st.near(i)
	}
	name, i, err := st.tableAt(i + 2)
	if err != nil {
		return nil, err
	}
	var system bool
	if l.Table, system, err = lookupTable(cat, name.Schema, name.Name); err != nil {
		return nil, err
	}
	if system || l.Table.IsView {
		return nil, notSupported("LOAD DATA into the view or system table %s is not supported: load into a table", name.Name)
	}
	if st.is(i, "partition") {
		return nil, notSupported("LOAD DATA into a PARTITION is not supported: leave the clause out, rows find their partition")
	}
	if st.is(i, "character") && st.is(i+1, "set") || st.is(i, "charset") {
		if st.is(i, "character") {
			i++
		}
		charset, ok := st.identifier(i + 1)
		if !ok && i+1 < len(st.toks) && st.toks[i+1].kind == tokString {
			charset, ok = string(st.unescape(st.toks[i+1])), true
		}
		if !ok {
			return nil, st.near(i + 1)
		}
		l.Charset = strings.ToLower(charset)
		i += 2
	}
	if i, err = l.Format.read(st, i); err != nil {
		return nil, err
	}
	if st.is(i, "ignore") {
		n, convErr := strconv.Atoi(st.text(i + 1))
		if convErr != nil || n < 0 || !st.is(i+2, "lines") && !st.is(i+2, "rows") {
			return nil, st.near(i)
		}
		l.Skip = n
		i += 3
	}
	if i, err = l.columns(st, i); err != nil {
		return nil, err
	}
	if st.is(i, "set") {
		return nil, notSupported("SET in LOAD DATA is not supported yet: load the columns as they are, then UPDATE them, or compute them in the file")
	}
	if i < len(st.toks) {
		return nil, st.near(i)
	}
	return l, l.possible()
}

// read reads the FIELDS and LINES clauses.
func (f *LoadFormat) read(st *statement, i int) (int, *Error) {
	text := func() (string, *Error) {
		if i >= len(st.toks) {
			return "", st.near(i)
		}
		t := st.toks[i]
		switch t.kind {
		case tokString:
			i++
			return string(st.unescape(t)), nil
		case tokHex, tokBit:
			if b, ok := bitsOf(st.text(i), t.kind); ok {
				i++
				return string(b), nil
			}
		default:
		}
		return "", st.near(i)
	}
	one := func() (byte, *Error) {
		s, err := text()
		switch {
		case err != nil || s == "":
			return 0, err
		case len(s) > 1 || s[0] >= 0x80:
			return 0, &Error{Code: 1083, State: "42000", Message: "Field separator argument is not what is expected; check the manual"}
		}
		return s[0], nil
	}
	// Each clause is a list of parts, at least one.
	clause := func(part func() (bool, *Error)) *Error {
		i++
		for seen := false; ; seen = true {
			ok, err := part()
			switch {
			case err != nil:
				return err
			case !ok && !seen:
				return st.near(i)
			case !ok:
				return nil
			}
		}
	}
	if st.is(i, "fields") || st.is(i, "columns") {
		err := clause(func() (ok bool, err *Error) {
			switch {
			case st.is(i, "terminated") && st.is(i+1, "by"):
				i += 2
				f.FieldEnd, err = text()
			case st.is(i, "optionally") && st.is(i+1, "enclosed") && st.is(i+2, "by"):
				i += 3
				f.Enclose, err = one()
			case st.is(i, "enclosed") && st.is(i+1, "by"):
				i += 2
				f.Enclose, err = one()
			case st.is(i, "escaped") && st.is(i+1, "by"):
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
	if st.is(i, "lines") {
		err := clause(func() (ok bool, err *Error) {
			switch {
			case st.is(i, "starting") && st.is(i+1, "by"):
				i += 2
				f.LineStart, err = text()
			case st.is(i, "terminated") && st.is(i+1, "by"):
				i += 2
				f.LineEnd, err = text()
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

// columns reads the list of columns; without one it is all of the table's.
func (l *Load) columns(st *statement, i int) (int, *Error) {
	if !st.op(i, "(") {
		for _, c := range visible(l.Table) {
			if c.Generated {
				return i, notSupported("LOAD DATA into %s, which has the generated column %s, needs a list of columns: name the others", l.Table.Name, c.Name)
			}
		}
		l.Columns = visible(l.Table)
		return i, nil
	}
	for i++; ; i++ {
		if i < len(st.toks) && st.toks[i].kind == tokVar {
			return i, notSupported("user variables (%s) in the list of columns of LOAD DATA are not supported yet: load into a column", st.text(i))
		}
		name, ok := st.identifier(i)
		if !ok {
			return i, st.near(i)
		}
		c := l.Table.Column(name)
		if c == nil {
			return i, unknownColumn(name)
		}
		if slices.Contains(l.Columns, c) {
			return i, &Error{Code: 1110, State: "42000", Message: "Column '" + c.Name + "' specified twice"}
		}
		if c.Generated {
			return i, notSupported("the generated column %s can't be loaded: leave it out of the list", c.Name)
		}
		l.Columns = append(l.Columns, c)
		i++
		if st.op(i, ")") {
			return i + 1, nil
		}
		if !st.op(i, ",") {
			return i, st.near(i)
		}
	}
}

// possible refuses what is not read as a server reads it.
func (l *Load) possible() *Error {
	f := l.Format
	switch {
	case f.FieldEnd == "" && f.Enclose == 0:
		return notSupported("LOAD DATA with fields of a fixed size (FIELDS TERMINATED BY '' ENCLOSED BY '') is not supported: write them with a separator")
	case f.FieldEnd == "", f.LineEnd == "":
		return notSupported("LOAD DATA with an empty TERMINATED BY is not supported: write fields and lines with a separator")
	case strings.HasPrefix(f.FieldEnd, f.LineEnd), strings.HasPrefix(f.LineEnd, f.FieldEnd):
		return notSupported("LOAD DATA where lines and fields end alike is not supported: write them with different separators")
	case f.Escape != 0 && (f.Escape == f.Enclose || f.Escape == f.FieldEnd[0] || f.Escape == f.LineEnd[0]),
		f.Enclose != 0 && (f.Enclose == f.FieldEnd[0] || f.Enclose == f.LineEnd[0]):
		return notSupported("LOAD DATA where ESCAPED BY, ENCLOSED BY and TERMINATED BY begin alike is not supported: use different characters")
	case HidesASCII(l.Charset):
		return notSupported("LOAD DATA with CHARACTER SET %s is not supported: its bytes can't be told from separators; convert the file to utf8mb4", l.Charset)
	}
	return nil
}

// Statement is what comes before the rows of an INSERT that loads.
func (l *Load) Statement() string {
	verb := "INSERT IGNORE"
	if l.Replace {
		verb = "REPLACE"
	}
	return verb + " INTO " + catalog.QuoteTable(l.Table.Schema, l.Table.Name) + " (" + catalog.QuoteColumns(l.Columns) + ") VALUES "
}
