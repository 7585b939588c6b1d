package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// PrepareOnce prepares a statement that nobody will ask for again: it is not
// kept among the connection's. Give it to Forget.
func (c *Conn) PrepareOnce(ctx context.Context, sql string) (*Stmt, error) {
	return c.prepare(ctx, sql)
}

// Forget closes a statement of PrepareOnce. A connection that can't is Broken,
// and has forgotten it too.
func (c *Conn) Forget(st *Stmt) {
	if !c.Broken && !c.busy {
		_ = c.closeStatement(st)
	}
}

// StreamExecute is Stream for COM_STMT_EXECUTE: the values of each row are made
// into what the text protocol would answer. Columns of dates and times are
// refused.
func (c *Conn) StreamExecute(ctx context.Context, payload []byte, fn func(row [][]byte) error) (Summary, error) {
	var columns []columnType
	var row [][]byte
	var text []byte
	f := forwarder{
		c: c,
		onColumn: func(p []byte) error {
			col, err := wire.ParseColumn(p)
			if err != nil {
				return c.fail(err)
			}
			columns = append(columns, columnType{col.Type, col.Flags&mysql.UNSIGNED_FLAG != 0})
			row = append(row, nil)
			return nil
		},
		onRow: func(p []byte) error {
			var err error
			if text, err = splitBinaryRow(row, columns, p, text[:0]); err != nil {
				return c.fail(err)
			}
			return fn(row)
		},
	}
	err := c.Under(ctx, func() error {
		if err := c.Send(mysql.COM_STMT_EXECUTE, payload); err != nil {
			return err
		}
		return f.run(Result)
	})
	if err == nil && f.sum.Err != nil {
		err = f.sum.Err
	}
	return f.sum, err
}

// splitBinaryRow cuts a binary protocol row into values, which point into p or
// into text, where numbers are written.
func splitBinaryRow(row [][]byte, columns []columnType, p, text []byte) ([]byte, error) {
	malformed := func() ([]byte, error) {
		return text, fmt.Errorf("%w: binary row of %d columns", wire.ErrMalformed, len(columns))
	}
	nulls, p, ok := wire.TakeNulls(p, len(columns))
	if !ok {
		return malformed()
	}
	// Numbers are written first and cut afterwards: text may move as it grows.
	type span struct{ from, to int }
	spans := make([]span, len(columns))
	for i, c := range columns {
		row[i], spans[i] = nil, span{-1, -1}
		if nulls.Has(i) {
			continue
		}
		v, rest, ok := wire.TakeBinary(p, c.typ)
		if !ok {
			return malformed()
		}
		p = rest
		switch c.typ {
		case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME:
			return text, fmt.Errorf("column %d is a date or time in the binary protocol", i+1)
		}
		if _, number := wire.FixedWidth(c.typ); !number {
			row[i] = v
			continue
		}
		from := len(text)
		text = appendBinaryNumber(text, c, v)
		spans[i] = span{from, len(text)}
	}
	for i, s := range spans {
		if s.from >= 0 {
			row[i] = text[s.from:s.to]
		}
	}
	return text, nil
}

func appendBinaryNumber(text []byte, c columnType, p []byte) []byte {
	switch c.typ {
	case mysql.MYSQL_TYPE_FLOAT:
		return strconv.AppendFloat(text, float64(math.Float32frombits(binary.LittleEndian.Uint32(p))), 'e', -1, 32)
	case mysql.MYSQL_TYPE_DOUBLE:
		return strconv.AppendFloat(text, math.Float64frombits(binary.LittleEndian.Uint64(p)), 'e', -1, 64)
	}
	var buf [8]byte
	copy(buf[:], p)
	n := binary.LittleEndian.Uint64(buf[:])
	if c.unsigned {
		return strconv.AppendUint(text, n, 10)
	}
	shift := 64 - 8*len(p)
	return strconv.AppendInt(text, int64(n<<shift)>>shift, 10)
}
