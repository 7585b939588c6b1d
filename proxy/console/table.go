package console

import (
	"fmt"
	"slices"
)

// Answer is what a statement was answered with.
type Answer struct {
	Columns  []string
	Rows     [][]any
	Warnings []string
}

// at is a row's value of a column, "" for NULL and a column that isn't there.
func (a *Answer) at(row []any, column string) string {
	if i := slices.Index(a.Columns, column); i >= 0 && row[i] != nil {
		return fmt.Sprint(row[i])
	}
	return ""
}

// table is an answer as a page shows it.
type table struct {
	Label, SQL string
	Columns    []heading
	Rows       [][]cell
	// Empty is what is said in place of no rows, Failed why there are none.
	Empty, Failed string
	Warnings      []string
}

type heading struct {
	Label  string
	Number bool
	// Link sorts by the column, Sorted says how it is: ascending, descending.
	Link, Sorted string
}

type cell struct {
	Text   string
	Number bool
	// Badge is the class of a state: good, busy, bad, plain.
	Badge     string
	Code      bool
	Class     string
	Link      string
	Links     []link
	Histogram *histogram
}

type link struct{ URL, Text string }

// column is one that a table has.
type column struct {
	// of is the answer's column, label what it is called here.
	of, label string
	number    bool
	// as makes its cell, from its value and its row; nil: it is the value.
	as func(value string, at func(column string) string) cell
}

// table asks for what a table shows.
func (v *visit) table(label, sql, empty string, columns ...column) table {
	a, err := v.execute(sql)
	if err != nil {
		return table{Label: label, SQL: sql, Failed: err.Error()}
	}
	return a.table(label, sql, empty, columns...)
}

func (a *Answer) table(label, sql, empty string, columns ...column) table {
	t := table{Label: label, SQL: sql, Empty: empty, Warnings: a.Warnings}
	for _, c := range columns {
		t.Columns = append(t.Columns, heading{Label: c.label, Number: c.number})
	}
	for _, row := range a.Rows {
		at := func(column string) string { return a.at(row, column) }
		cells := make([]cell, len(columns))
		for i, c := range columns {
			if c.as == nil {
				cells[i] = cell{Text: at(c.of)}
				if c.number {
					cells[i].Text = grouped(at(c.of))
				}
			} else {
				cells[i] = c.as(at(c.of), at)
			}
			cells[i].Number = c.number
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// grouped is a whole number with its thousands apart; another text is as it was.
func grouped(s string) string {
	for _, c := range s {
		if c < '0' || c > '9' {
			return s
		}
	}
	return count(s)
}

// states are the badges of states.
var states = map[string]string{
	"up": "good", "ready": "good", "serving": "good", "active": "good", "followed": "good",
	"down": "bad", "failed": "bad", "stalled": "bad", "dead": "bad", "lost": "bad", "fenced": "bad",
	"building": "busy", "running": "busy", "joining": "busy", "dropping": "busy", "leaving": "busy",
}

// state is a cell of a state.
func state(value string, _ func(string) string) cell {
	badge, ok := states[value]
	if !ok {
		badge = "plain"
	}
	if value == "" {
		return cell{}
	}
	return cell{Text: value, Badge: badge}
}

func code(value string, _ func(string) string) cell { return cell{Text: value, Code: value != ""} }

func failure(value string, _ func(string) string) cell {
	return cell{Text: value, Class: "wide failure"}
}
