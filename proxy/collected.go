package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/spool"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// target is a column that values go to, as far as these depend on it. A server that
// copies from column to column knows more than a literal says.
type target uint8

const (
	anyTarget  target = iota
	longText          // TEXT and BLOB take what is shown or the bytes, others the number
	asciiBytes        // takes a text's bytes, of a character set that isn't known
	document          // JSON
	instant           // TIMESTAMP, from another one
)

// collected is a query's answer in the binary protocol, whose values are exact.
type collected struct {
	columns []wire.Column
	// targets of the columns, nil for any.
	targets []target
	// untold is what servers may store of the query's values and don't answer. exact: the columns
	// are of the types of those that they go to.
	untold planner.Untold
	exact  bool
	// from and to are the columns that rows are made of; to is 0 for all.
	from, to int
	// count is that of all rows, left of those that are still to be read.
	count, left int
	// warned counts the answer's warnings; warnings are those that SHOW WARNINGS has (max_error_count).
	warned   uint16
	warnings [][][]byte

	answer *spool.Answer
	extent wire.Extent
	reader *wire.Reader
}

// collect runs a query as a client's own, whatever way answers it, and keeps its answer. The
// caller drops that.
func (s *session) collect(ctx context.Context, query string) (*collected, error) {
	return s.collectBy(ctx, query, nil)
}

// collectBy is collect of the rows that a server stores, if st is not nil.
func (s *session) collectBy(ctx context.Context, query string, st *storing) (*collected, error) {
	defer s.inUTF8()()
	defer s.unlimited()()
	planned, err := s.plan(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, ok := planned.(*plan.Rows)
	if !ok || rows.Kind != plan.Select && rows.Kind != plan.Locking {
		return nil, refuse("INSERT from this kind of query is not supported: write SELECT")
	}
	answers := s.client.Answers
	sp, e, err := s.setAside(ctx, true, "write in parts, by a condition", func() error {
		own := &preparedStatement{sql: query, own: fmt.Sprint("own ", preparedSerial.Add(1)), plan: rows}
		return s.run(ctx, rows, &request{sql: query, prepared: own, storing: st, start: time.Now()})
	})
	s.client.Answers = answers // this is none of the client's
	if err != nil {
		return nil, err
	}
	c := &collected{warned: e.Warnings, warnings: s.diag.warnings, untold: planner.UntoldOf(rows, query), answer: sp, extent: e}
	if err := c.rewind(); err != nil {
		c.drop()
		return nil, err
	}
	const count, end = 1, 1
	c.count = sp.Packets() - count - len(c.columns) - end
	if e.Rows > e.Header { // an EOF packet behind the definitions
		c.count--
	}
	c.left = c.count
	return c, nil
}

// rewind has next begin with the first row.
func (c *collected) rewind() error {
	c.release()
	columns, r, err := c.answer.Columns(c.extent)
	if err != nil {
		return err
	}
	c.columns, c.reader, c.left = columns, r, c.count
	return nil
}

// next is a row, valid until the next one is asked for. REQUIRES: there is one left.
func (c *collected) next() ([]byte, error) {
	p, err := c.reader.ReadPacket(spool.MaxPacket)
	if err != nil {
		return nil, fmt.Errorf("read the query's rows: %w", err)
	}
	c.left--
	return p, nil
}

// drop gives back what the rows take, if there are any.
func (c *collected) drop() {
	if c == nil {
		return
	}
	c.release()
	c.answer.Drop()
}

func (c *collected) release() {
	if c.reader != nil {
		c.reader.Release()
		c.reader = nil
	}
}

// appendRow appends a row of the binary protocol as a row of VALUES.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
func (c *collected) appendRow(dst, p []byte) ([]byte, error) {
	nulls, p, ok := wire.TakeNulls(p, len(c.columns))
	if !ok {
		return dst, wire.ErrMalformed
	}
	dst = append(dst, '(')
	first := len(dst)
	for i := range c.columns {
		kept := len(dst)
		if kept > first {
			dst = append(dst, ',')
		}
		if nulls.Has(i) {
			dst = append(dst, "NULL"...)
		} else {
			var err error
			if dst, p, err = appendBinary(dst, &c.columns[i], c.target(i), p); err != nil {
				return dst, err
			}
		}
		if c.to > 0 && (i < c.from || i >= c.to) {
			dst = dst[:kept]
		}
	}
	return append(dst, ')'), nil
}

// target is that of the i-th column.
func (c *collected) target(i int) target {
	if c.targets == nil {
		return anyTarget
	}
	return c.targets[i]
}

// appendBinary appends the first value of p as a literal that stores the same.
func appendBinary(dst []byte, col *wire.Column, into target, p []byte) (text, rest []byte, err error) {
	if text, rest, ok, err := appendFixed(dst, col, into, p); ok || err != nil {
		return text, rest, err
	}
	v, rest, ok := wire.TakeLenBytes(p)
	if !ok {
		return dst, p, wire.ErrMalformed
	}
	if into == asciiBytes && slices.ContainsFunc(v, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return dst, rest, refuse("INSERT ... SELECT of the text %s into a binary column, from other shards than its rows go to, is not supported: write CAST(... AS BINARY)", col.Name)
	}
	if isText(col.Type) {
		charset := "_utf8mb4"
		if col.Charset == binaryCollation {
			charset = "_binary"
		}
		return appendHex(dst, charset, v), rest, nil
	}
	if isTime(col.Type) {
		x := wire.Param{Type: col.Type, Data: v}
		keyword := map[byte]string{mysql.MYSQL_TYPE_DATE: "DATE", mysql.MYSQL_TYPE_NEWDATE: "DATE", mysql.MYSQL_TYPE_TIME: "TIME"}[col.Type]
		if keyword == "" {
			keyword = "TIMESTAMP"
		}
		if keyword != "TIME" && (len(v) < 4 || v[2] == 0 || v[3] == 0) {
			keyword = "" // no literal says a zero date
		}
		return append(dst, keyword+"'"+withDigits(x.Text(), int(col.Decimals))+"'"...), rest, nil
	}
	switch col.Type {
	case mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL:
		return appendShown(dst, v, col, into), rest, nil
	case mysql.MYSQL_TYPE_JSON:
		if into == document && hasDecimal(v) {
			return dst, rest, refuse("INSERT ... SELECT of the JSON column %s from other shards than its rows go to is not supported where it holds a DECIMAL, whose text would become a DOUBLE: write CAST(... AS DOUBLE) in it", col.Name)
		}
		return appendHex(dst, "_utf8mb4", v), rest, nil
	case mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		return appendHex(dst, "_binary", v), rest, nil
	case mysql.MYSQL_TYPE_BIT:
		// Servers copy its number: X'0032' would be a text in most other types. The
		// value of an expression may come as bytes or as digits.
		if col.OrgName == "" || len(v) > 8 {
			return dst, rest, refuse("INSERT ... SELECT of the BIT expression %s from other shards than its rows go to is not supported: write CAST(... AS UNSIGNED)", col.Name)
		}
		var bits [8]byte
		copy(bits[8-len(v):], v)
		if into == longText {
			return appendHex(dst, "_binary", v), rest, nil
		}
		return strconv.AppendUint(dst, binary.BigEndian.Uint64(bits[:]), 10), rest, nil
	}
	return dst, rest, refuse("INSERT ... SELECT of the column %s from other shards than its rows go to is not supported: its type (%d) is not known", col.Name, col.Type)
}

// hasDecimal reports a JSON text with a number that is surely a DECIMAL, since a DOUBLE
// would be written otherwise: 1.50, 20.00.
func hasDecimal(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(text) && strings.IndexByte("0123456789.e+-", text[end]) >= 0 {
				end++
			}
			whole, fraction, point := strings.Cut(string(text[i:end]), ".")
			i = end - 1
			digits := strings.TrimLeft(whole+fraction, "-0")
			if point && !strings.Contains(fraction, "e") && (len(fraction) > 1 && strings.HasSuffix(fraction, "0") || len(digits) > 17) {
				return true
			}
		}
	}
	return false
}

// appendFixed is appendBinary for the types whose values are of one width: numbers. ok is
// false for the others.
func appendFixed(dst []byte, col *wire.Column, into target, p []byte) (text, rest []byte, ok bool, err error) {
	width, fixed := wire.FixedWidth(col.Type)
	switch {
	case !fixed:
		return dst, p, false, nil
	case len(p) < width:
		return dst, p, false, wire.ErrMalformed
	}
	var room [32]byte
	v, number := p[:width], room[:0]
	switch {
	case col.Type == mysql.MYSQL_TYPE_FLOAT:
		bits := 64
		if into == longText && col.OrgName != "" {
			bits = 32
		}
		number = appendFloat(number, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), bits, col, into)
	case col.Type == mysql.MYSQL_TYPE_DOUBLE:
		number = appendFloat(number, math.Float64frombits(binary.LittleEndian.Uint64(v)), 64, col, into)
	case col.Flags&mysql.UNSIGNED_FLAG != 0:
		x := wire.Param{Type: mysql.MYSQL_TYPE_LONGLONG, Unsigned: true, Data: v}
		number = strconv.AppendUint(number, x.Uint64(), 10)
	default:
		x := wire.Param{Type: mysql.MYSQL_TYPE_LONGLONG, Data: v}
		number = strconv.AppendInt(number, x.Int64(), 10)
	}
	return appendShown(dst, number, col, into), p[width:], true, nil
}

// appendFloat appends a number with as many digits as tell it from others of so many bits, or
// with those that it is shown with.
func appendFloat(dst []byte, x float64, bits int, col *wire.Column, into target) []byte {
	if shown(col, into) {
		return strconv.AppendFloat(dst, x, 'f', int(col.Decimals), bits)
	}
	return strconv.AppendFloat(dst, x, 'e', -1, bits)
}

// shown reports a column's number of which more is stored than the number: 1.500 of a
// DOUBLE(10,3), 000042 of an INT(6) ZEROFILL, 0000 of a YEAR, which is one.
func shown(col *wire.Column, into target) bool {
	return into == longText && col.OrgName != "" && (col.Flags&mysql.ZEROFILL_FLAG != 0 || isFloat(col.Type) && col.Decimals <= maxDecimals)
}

// appendShown appends a number, as the text that is shown of it where that is stored.
func appendShown(dst, number []byte, col *wire.Column, into target) []byte {
	if !shown(col, into) {
		return append(dst, number...)
	}
	dst = append(dst, '\'')
	if col.Flags&mysql.ZEROFILL_FLAG != 0 {
		for range int(col.Length) - len(number) {
			dst = append(dst, '0')
		}
	}
	return append(append(dst, number...), '\'')
}

// maxDecimals are those of a FLOAT or DOUBLE of fixed digits.
const maxDecimals = 30

func isFloat(columnType byte) bool {
	return columnType == mysql.MYSQL_TYPE_FLOAT || columnType == mysql.MYSQL_TYPE_DOUBLE
}

// withDigits gives a time the fractional digits of its column, which texts that it is
// stored in have.
func withDigits(text string, digits int) string {
	if digits > 6 {
		return text
	}
	clock, fraction, _ := strings.Cut(text, ".")
	if digits == 0 || !strings.Contains(clock, ":") {
		return text
	}
	return clock + "." + (fraction + "000000")[:digits]
}

// binaryCollation is the number of the collation binary.
const binaryCollation = 63

func appendHex(dst []byte, charset string, v []byte) []byte {
	plain := charset != "_binary"
	for _, c := range v {
		plain = plain && c >= 0x20 && c < 0x7f && c != '\'' && c != '\\'
	}
	if plain {
		return append(append(append(dst, charset+"'"...), v...), '\'')
	}
	dst = append(dst, charset+" X'"...)
	return append(hex.AppendEncode(dst, v), '\'')
}

func isTime(columnType byte) bool {
	switch columnType {
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME:
		return true
	}
	return false
}

func isText(columnType byte) bool {
	switch columnType {
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET,
		mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB:
		return true
	}
	return false
}
