package shard

import (
	"errors"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// Rows reads an answer row by row: one that is to be looked at, not only
// forwarded. Nothing is read ahead but what the connection's buffer holds, so a
// reader that waits makes the server wait.
//
//	err = c.Send(mysql.COM_QUERY, sql)
//	rows, err := c.Rows()
//	for {
//		row, err := rows.Next()
//		if row == nil { break } // err, rows.Err or the end
//	}
//
// Until Next has returned nil the Conn is Busy.
type Rows struct {
	// Columns are the definitions, and Definitions their payloads as the shard
	// sent them. None: the answer is an OK, or Err.
	Columns     []wire.Column
	Definitions [][]byte
	// Summary is of what has been read.
	Summary Summary

	c    *Conn
	done bool
}

// Rows begins to read the answer to the command that was sent, up to its first
// row. A server's error is Summary.Err; the error returned is ErrShard.
func (c *Conn) Rows() (*Rows, error) {
	r := &Rows{c: c}
	if !c.busy || c.Broken {
		return r, c.fail(errors.New("no answer is due"))
	}
	if err := r.header(); err != nil {
		return r, c.fail(err)
	}
	return r, nil
}

func (r *Rows) header() error {
	p, err := r.c.r.ReadPacket(maxControl)
	if err != nil {
		return err
	}
	switch {
	case len(p) == 0:
		return wire.ErrMalformed
	case p[0] == mysql.ERR_HEADER:
		p, again, err := (&forwarder{c: r.c}).executeAgain(p)
		switch {
		case err != nil:
			return err
		case again:
			return r.header()
		}
		return r.serverError(p)
	case p[0] == mysql.OK_HEADER, p[0] == mysql.LocalInFile_HEADER:
		return errors.New("answer without rows to a query of rows")
	}
	count, _, ok := wire.TakeLenInt(p)
	if !ok || count == 0 {
		return wire.ErrMalformed
	}
	r.Summary.ResultSet = true
	for {
		end, n, err := r.c.r.AtEnd()
		if err != nil {
			return err
		}
		if n > wire.BufferSize {
			return wire.ErrMalformed
		}
		p, err := r.c.r.Rest()
		switch {
		case err != nil:
			return err
		case end && p[0] == mysql.ERR_HEADER:
			return r.serverError(p)
		case end:
			_, err := wire.ParseEOF(p)
			if err == nil && uint64(len(r.Columns)) != count {
				err = wire.ErrMalformed
			}
			return err
		}
		col, err := wire.ParseColumn(p)
		if err != nil {
			return err
		}
		r.Columns, r.Definitions = append(r.Columns, col), append(r.Definitions, slices.Clone(p))
	}
}

// Next reads a row's packet, valid until the next call; nil at the end of the
// answer, which is in Summary then, and after an error, which is ErrShard.
func (r *Rows) Next() ([]byte, error) {
	if r.done {
		return nil, nil
	}
	if r.c.Broken {
		return nil, r.c.fail(errors.New("row of a connection that is broken"))
	}
	p, err := r.next()
	if err != nil {
		return nil, r.c.fail(err)
	}
	return p, nil
}

func (r *Rows) next() ([]byte, error) {
	end, n, err := r.c.r.AtEnd()
	if err != nil {
		return nil, err
	}
	if !end {
		r.Summary.Rows++
		return r.c.r.Packet(n, maxRow)
	}
	p, err := r.c.r.Rest()
	if err != nil {
		return nil, err
	}
	if p[0] == mysql.ERR_HEADER {
		return nil, r.serverError(p)
	}
	e, err := wire.ParseEOF(p)
	if err != nil {
		return nil, err
	}
	if e.Status&mysql.SERVER_MORE_RESULTS_EXISTS != 0 {
		return nil, errors.New("several results to one query")
	}
	r.Summary.Status, r.Summary.Warnings = e.Status, e.Warnings
	r.c.Status = e.Status
	r.done = true
	r.c.answered()
	return nil, nil
}

// Done reports whether the answer was read to its end.
func (r *Rows) Done() bool { return r.done }

func (r *Rows) serverError(p []byte) error {
	f := forwarder{c: r.c, o: ForwardOptions{HoldErr: true}}
	if err := f.serverError(p); err != nil {
		return err
	}
	r.Summary.Err = f.sum.Err
	r.done = true
	r.c.answered()
	return nil
}

// Drain reads the rest of the answer and drops it, as long as it isn't more
// than limit bytes. It reports whether the end was reached.
func (r *Rows) Drain(limit int64) bool {
	for limit > 0 && !r.done {
		p, err := r.Next()
		if err != nil {
			return false
		}
		limit -= int64(len(p)) + 1
	}
	return r.done
}
