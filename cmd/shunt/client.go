package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// clientFlags are those of commands that are clients of a Shunt that runs.
type clientFlags struct {
	DSN  string `arg:"" name:"dsn" env:"SHUNT_DSN" help:"The Shunt: user:password@tcp(127.0.0.1:4000)/schema."`
	JSON bool   `help:"Print JSON, as is done too where the output is no terminal: an object for each row, one a line."`
}

// open connects to it.
func (c *clientFlags) open(ctx context.Context) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("%w: expected user:password@tcp(host:4000)/schema (%w)", err, errUsage)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, errUsage)
	}
	db := sql.OpenDB(connector)
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("connect to %s: %w", cfg.Addr, err)
	}
	return db, nil
}

// told is a row of an answer, by its columns' names; NULL isn't among them.
type told map[string]string

// asked are a statement's rows, and the columns' names.
func asked(ctx context.Context, db *sql.DB, statement string) (names []string, rows []told, err error) {
	r, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if names, err = r.Columns(); err != nil {
		return nil, nil, err
	}
	cells := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for r.Next() {
		if err := r.Scan(into...); err != nil {
			return nil, nil, err
		}
		row := told{}
		for i, c := range cells {
			if c.Valid {
				row[names[i]] = c.String
			}
		}
		rows = append(rows, row)
	}
	return names, rows, r.Err()
}

// print writes rows: a table on a terminal, else JSON.
func (c *clientFlags) print(out io.Writer, names []string, rows []told) error {
	if c.JSON || terminal(out) == nil {
		return printJSON(out, rows)
	}
	return writeTable(out, names, rows, 0)
}

// printJSON writes an object for each row, one a line.
func printJSON[T any](out io.Writer, rows []T) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// terminal is out where that is one, else nil.
func terminal(out io.Writer) *os.File {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return f
}

// writeTable aligns columns; the last one is cut at the width, 0 for none.
func writeTable(out io.Writer, names []string, rows []told, width int) error {
	widths := make([]int, len(names))
	for i, n := range names {
		widths[i] = len([]rune(n))
		for _, r := range rows {
			widths[i] = max(widths[i], len([]rune(oneLine(r[n]))))
		}
	}
	var b strings.Builder
	line := func(cell func(i int) string) {
		var l strings.Builder
		for i := range names {
			text := oneLine(cell(i))
			if l.WriteString(text); i < len(names)-1 {
				l.WriteString(strings.Repeat(" ", widths[i]-len([]rune(text))+2))
			}
		}
		text := []rune(strings.TrimRight(l.String(), " "))
		if width > 0 && len(text) > width {
			text = append(text[:width-1], '…')
		}
		b.WriteString(string(text) + "\n")
	}
	line(func(i int) string { return names[i] })
	for _, r := range rows {
		line(func(i int) string { return r[names[i]] })
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
