package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/spool"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// selectInto runs SELECT ... INTO @a, @b as the query without its INTO, whose one row the
// session's user variables get. done is false for any other statement.
func (s *session) selectInto(ctx context.Context, t *spoken.Text) (done bool, err error) {
	names, query := t.Into()
	if len(names) == 0 {
		return false, nil
	}
	columns, rows, warnings, err := s.selected(ctx, query)
	if err != nil {
		return true, err
	}
	if len(columns) != len(names) {
		return true, errColumnsInto
	}
	if len(rows) == 0 {
		s.diag.warn(mysqlerr.SPFetchNoData, "No data - zero rows fetched, selected, or processed")
		return true, s.answerOK(wire.OK{Warnings: warnings + 1})
	}
	next := s.settings.clone()
	for i, name := range names {
		value, err := s.columnValue(columns[i], rows[0][i])
		if err != nil {
			return true, err
		}
		next.withUser(name, value)
	}
	next.update(s.catalog())
	if err := s.keep(next); err != nil {
		return true, err
	}
	if len(rows) > 1 { // a server has set them by then, too
		return true, mysqlerr.New(mysqlerr.TooManyRows, "Result consisted of more than one row")
	}
	return true, s.answerOK(wire.OK{Affected: 1, Warnings: warnings})
}

var errColumnsInto = mysqlerr.New(mysqlerr.WrongNumberOfColumns, "The used SELECT statements have a different number of columns")

// computeWay is how a DO is executed that a query can compute.
var computeWay = &way{
	at:      refused,
	fits:    func(_ *session, r *request) bool { return r.plan.Computes != "" },
	execute: func(s *session, ctx context.Context, r *request) error { return s.compute(ctx, r.plan.Computes) },
}

// compute runs what a DO computes as a query, whose answer nobody gets.
func (s *session) compute(ctx context.Context, query string) error {
	_, _, warnings, err := s.selected(ctx, query)
	if failed, ok := errors.AsType[mysqlerr.Error](err); ok && failed.Code == mysqlerr.SubqueryManyRows && s.mariaDB() {
		// Which has an error while DO computes for a warning.
		s.diag.replace(condition("Error", mysqlerr.SubqueryManyRows, failed.Message))
		warnings, err = 1, nil
	}
	if err != nil {
		return err
	}
	return s.answerOK(wire.OK{Warnings: warnings})
}

// selected runs a query of the client's, and reads two rows of its answer.
func (s *session) selected(ctx context.Context, query string) (columns []wire.Column, rows [][][]byte, warnings uint16, err error) {
	// As text, with definitions and in the character set of the variables.
	undo := s.resultsIn(s.settings.charset)
	sp, e, err := s.setAside(ctx, false, "select one row", func() error {
		return s.statement(ctx, query, s.readShape(query))
	})
	undo()
	if err != nil {
		return nil, nil, 0, err
	}
	defer sp.Drop()
	columns, rows, err = firstRows(sp, e)
	return columns, rows, e.Warnings, err
}

// firstRows reads two rows of an answer that was set aside.
func firstRows(sp *spool.Answer, e wire.Extent) (columns []wire.Column, rows [][][]byte, err error) {
	columns, r, err := sp.Columns(e)
	if err != nil {
		return nil, nil, err
	}
	defer r.Release()
	for len(rows) < 2 {
		p, err := r.ReadPacket(spool.MaxPacket)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read an answer's rows: %w", err)
		}
		row := make([][]byte, 0, len(columns))
		for len(p) > 0 {
			var v []byte
			if p[0] == 0xfb { // NULL
				p = p[1:]
			} else {
				var ok bool
				if v, p, ok = wire.TakeLenBytes(p); !ok {
					return nil, nil, wire.ErrMalformed
				}
				v = append([]byte{}, v...)
			}
			row = append(row, v)
		}
		if len(row) != len(columns) {
			return nil, nil, wire.ErrMalformed
		}
		rows = append(rows, row)
	}
	return columns, rows, nil
}

// columnValue is an answer's value as a user variable has it.
func (s *session) columnValue(c wire.Column, v []byte) (string, error) {
	if v == nil {
		return "NULL", nil
	}
	text := string(v)
	switch c.Type {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_YEAR:
		if c.Flags&mysql.UNSIGNED_FLAG != 0 {
			text = "CAST(" + text + " AS UNSIGNED)"
		}
		return text, nil
	case mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL:
		return text, nil
	case mysql.MYSQL_TYPE_FLOAT: // of whose digits a text has six
		return "", refuse("a user variable of the FLOAT column %s is not supported: write %s + 0e0", c.Name, c.Name)
	case mysql.MYSQL_TYPE_DOUBLE:
		if !strings.Contains(text, "e") {
			text += "e0"
		}
		return text, nil
	case mysql.MYSQL_TYPE_BIT:
		return fmt.Sprintf("CAST(x'%x' AS UNSIGNED)", v), nil
	}
	if c.Charset == binaryCollation && isBytes(c.Type) {
		return textOf(v, "binary", ""), nil
	}
	collation := s.settings.collation
	if t := s.catalog().Table(c.Schema, c.OrgTable); t != nil && c.OrgName != "" {
		// What it is compared with later may have this one only.
		if of := t.Column(c.OrgName); of != nil && strings.HasPrefix(of.Collation, s.settings.charset+"_") {
			collation = of.Collation
		}
	}
	return textOf(v, s.settings.charset, collation), nil
}

// isBytes reports a type whose values are bytes where their character set is binary.
func isBytes(typ byte) bool {
	switch typ {
	case mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB,
		mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_GEOMETRY:
		return true
	}
	return false
}
