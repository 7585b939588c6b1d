package plan

import "github.com/shunt-sql/shunt/planner/catalog"

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
	// Columns are filled by the fields of a line, in order; nil for a user variable, of the name in Vars
	// (lower case, without @; "" for a column).
	Columns []*catalog.Column
	Vars    []string
	// Sets are computed for each line.
	Sets []LoadSet
	// Charset of the file, "" for that of the current schema.
	Charset string
	Format  LoadFormat
	// Skip is the number of lines to leave out at the file's beginning.
	Skip int
}

// LoadSet is SET column = expression. Between its Parts are the fields' variables, by their place in Columns.
type LoadSet struct {
	Column *catalog.Column
	Parts  []string
	Fields []int
}

// LoadFormat says how the file is read.
// https://dev.mysql.com/doc/refman/9.0/en/load-data.html
type LoadFormat struct {
	FieldEnd, LineStart, LineEnd string
	// Enclose and Escape are 0 for none.
	Enclose, Escape byte
}

func (*Load) isPlan() {}

// Statement is what comes before the rows of an INSERT that loads.
func (l *Load) Statement() string {
	verb := "INSERT IGNORE"
	if l.Replace {
		verb = "REPLACE"
	}
	var filled []*catalog.Column
	for _, c := range l.Columns {
		if c != nil {
			filled = append(filled, c)
		}
	}
	for _, x := range l.Sets {
		filled = append(filled, x.Column)
	}
	return verb + " INTO " + catalog.QuoteTable(l.Table.Schema, l.Table.Name) + " (" + catalog.QuoteColumns(filled) + ") VALUES "
}
