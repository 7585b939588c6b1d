package e2e

import (
	le "encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// wireConn is a connection that shows what a driver hides: types, warnings.
type wireConn struct {
	*client.Conn
}

func dialWire(addr, user, password, schema string) (*wireConn, error) {
	c, err := client.Connect(addr, user, password, schema)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &wireConn{c}, nil
}

// do runs a statement, as text or prepared.
func (c *wireConn) do(sql string, params []any, prepared bool) *reply {
	o := &reply{}
	// A deadline that can't be set shows in what follows.
	_ = c.SetDeadline(time.Now().Add(statementTimeout))
	var res *mysql.Result
	var err error
	if prepared {
		var stmt *client.Stmt
		if stmt, err = c.Prepare(sql); err == nil {
			res, err = stmt.Execute(params...)
			if closeErr := stmt.Close(); err == nil {
				err = closeErr
			}
		}
	} else {
		res, err = c.Execute(sql)
	}
	if err != nil {
		if e, ok := errors.AsType[*mysql.MyError](err); ok {
			o.code, o.message = e.Code, e.Message
		} else {
			o.broken = err
		}
		return o
	}
	// Not closed: that would give what the reply keeps to the next one.
	o.affected, o.insertID, o.counted = res.AffectedRows, res.InsertId, int(res.Warnings)
	if res.HasResultset() {
		o.fields = slices.Clone(res.Fields)
		for _, data := range res.RowDatas {
			row, err := cells(data, res.Fields, prepared)
			if err != nil {
				o.broken = err
				return o
			}
			o.rows = append(o.rows, row)
		}
	}
	if o.counted > 0 {
		w, err := c.Execute("SHOW WARNINGS")
		if err != nil {
			o.broken = fmt.Errorf("show warnings: %w", err)
			return o
		}
		for i := range w.RowDatas {
			code, err := w.GetInt(i, 1)
			if err != nil {
				o.broken = fmt.Errorf("read warnings: %w", err)
				return o
			}
			o.warnings = append(o.warnings, int(code))
			text, err := w.GetString(i, 2)
			if err != nil {
				o.broken = err
				return o
			}
			o.warned = append(o.warned, text)
		}
		sort.Ints(o.warnings)
	}
	return o
}

// cells splits a row into its values.
func cells(data mysql.RowData, fields []*mysql.Field, binary bool) ([]datum, error) {
	row := make([]datum, len(fields))
	if !binary {
		pos := 0
		for i := range row {
			v, null, n, err := mysql.LengthEncodedString(data[pos:])
			if err != nil {
				return nil, fmt.Errorf("read row: %w", err)
			}
			pos += n
			row[i] = datum{null, string(v)}
		}
		return row, nil
	}
	values, err := data.ParseBinary(fields, nil)
	if err != nil {
		return nil, fmt.Errorf("read row: %w", err)
	}
	for i, v := range values {
		switch x := v.Value().(type) {
		case nil:
			row[i].null = true
		case []byte:
			row[i].text = string(x)
		default:
			row[i].text = fmt.Sprint(x)
		}
	}
	return row, nil
}

// dialClassic connects with EOF packets and without query attributes, so that
// packets can be compared whatever the server could do.
func dialClassic(t *testing.T, addr, user, password, schema string) *wireConn {
	t.Helper()
	c, err := client.Connect(addr, user, password, schema, func(c *client.Conn) error {
		c.UnsetCapability(mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_QUERY_ATTRIBUTES | mysql.CLIENT_SESSION_TRACK)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return &wireConn{c}
}

// say sends a command, without reading its answer.
func (c *wireConn) say(t *testing.T, command byte, payload ...[]byte) {
	t.Helper()
	c.ResetSequence()
	if err := c.WritePacket(append([]byte{0, 0, 0, 0, command}, slices.Concat(payload...)...)); err != nil {
		t.Fatal(err)
	}
}

func (c *wireConn) packet(t *testing.T) []byte {
	t.Helper()
	p, err := c.ReadPacket()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func uint32s(n ...uint32) (b []byte) {
	for _, x := range n {
		b = le.LittleEndian.AppendUint32(b, x)
	}
	return b
}

// statement prepares and returns the statement's number; 0 after an error.
func (c *wireConn) statement(t *testing.T, sql string) uint32 {
	t.Helper()
	c.say(t, mysql.COM_STMT_PREPARE, []byte(sql))
	id, failed := c.prepared(t)
	if failed != 0 {
		t.Fatalf("prepare %s: error %d", sql, failed)
	}
	return id
}

// prepared reads the answer to COM_STMT_PREPARE: the statement's number or an error's.
func (c *wireConn) prepared(t *testing.T) (id uint32, failed uint16) {
	t.Helper()
	p := c.packet(t)
	if p[0] != mysql.OK_HEADER {
		return 0, le.LittleEndian.Uint16(p[1:])
	}
	id, columns, params := le.LittleEndian.Uint32(p[1:]), le.LittleEndian.Uint16(p[5:]), le.LittleEndian.Uint16(p[7:])
	for _, n := range []uint16{params, columns} {
		for i := 0; n > 0 && i <= int(n); i++ {
			c.packet(t)
		}
	}
	return id, 0
}

// packets describes an answer: OK, the code of an error, or the columns, the
// rows as bytes, and the status and warnings of each EOF.
func (c *wireConn) packets(t *testing.T, rowsOnly bool) string {
	t.Helper()
	var out strings.Builder
	p := c.packet(t)
	eof := func(p []byte) uint16 {
		const indexes = 0x10 | 0x20 // SERVER_QUERY_NO_GOOD_INDEX_USED, _NO_INDEX_USED
		status := le.LittleEndian.Uint16(p[3:]) &^ indexes
		fmt.Fprintf(&out, "EOF %04x %d\n", status, le.LittleEndian.Uint16(p[1:]))
		return status
	}
	failed := func(p []byte) string {
		fmt.Fprintf(&out, "ERR %d %s\n", le.LittleEndian.Uint16(p[1:]), p[4:9])
		return out.String()
	}
	if !rowsOnly {
		switch p[0] {
		case mysql.OK_HEADER:
			fmt.Fprintf(&out, "OK %x\n", p[1:])
			return out.String()
		case mysql.ERR_HEADER:
			return failed(p)
		}
		fmt.Fprintf(&out, "columns %d\n", p[0])
		for range p[0] {
			c.packet(t)
		}
		p = c.packet(t)
		if status := eof(p); status&mysql.SERVER_STATUS_CURSOR_EXISTS != 0 {
			return out.String()
		}
		p = c.packet(t)
	}
	for {
		switch {
		case p[0] == mysql.ERR_HEADER:
			return failed(p)
		case p[0] == mysql.EOF_HEADER && len(p) < 9:
			eof(p)
			return out.String()
		}
		fmt.Fprintf(&out, "row %x\n", p)
		p = c.packet(t)
	}
}

func (p *process) wire(t *testing.T) *wireConn {
	t.Helper()
	c, err := dialWire(p.addr, "app", "secret", p.schema)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *wireConn) must(t *testing.T, sql string) {
	if o := c.do(sql, nil, false); o.code != 0 || o.broken != nil {
		t.Errorf("%s: %s", sql, o)
	}
}

// reset is COM_RESET_CONNECTION.
func (c *wireConn) reset(t *testing.T) {
	c.ResetSequence()
	if err := c.WritePacket([]byte{0, 0, 0, 0, 0x1f}); err != nil {
		t.Errorf("reset: %v", err)
		return
	}
	if answer, err := c.ReadPacket(); err != nil || len(answer) == 0 || answer[0] != 0 {
		t.Errorf("reset: %v, %v", answer, err)
	}
}

// cut ends the connection without a word.
func (c *wireConn) cut() { _ = c.Conn.Conn.Close() }
