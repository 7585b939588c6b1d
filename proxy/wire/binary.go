package wire

import "github.com/go-mysql-org/go-mysql/mysql"

// FixedWidth is how many bytes a value of a type has in the binary protocol. fixed is false
// where its length stands before it.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
func FixedWidth(typ byte) (width int, fixed bool) {
	switch typ {
	case mysql.MYSQL_TYPE_NULL:
		return 0, true
	case mysql.MYSQL_TYPE_TINY:
		return 1, true
	case mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_YEAR:
		return 2, true
	case mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_FLOAT:
		return 4, true
	case mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_DOUBLE:
		return 8, true
	}
	return 0, false
}

// TakeBinary cuts a value of a binary row off p.
func TakeBinary(p []byte, typ byte) (v, rest []byte, ok bool) {
	n, fixed := FixedWidth(typ)
	switch {
	case typ == mysql.MYSQL_TYPE_NULL:
		return nil, p, true
	case fixed:
	case typ == mysql.MYSQL_TYPE_DATE, typ == mysql.MYSQL_TYPE_NEWDATE, typ == mysql.MYSQL_TYPE_DATETIME, typ == mysql.MYSQL_TYPE_TIMESTAMP, typ == mysql.MYSQL_TYPE_TIME:
		if len(p) == 0 {
			return nil, p, false
		}
		n, p = int(p[0]), p[1:]
	default:
		return TakeLenBytes(p)
	}
	if len(p) < n {
		return nil, p, false
	}
	return p[:n:n], p[n:], true
}

// Nulls says which values of a binary row are NULL, and so not in it. It stands behind the
// row's first byte, and its first two bits mean nothing.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
type Nulls []byte

// NullsLen is the length of the Nulls of some columns.
func NullsLen(columns int) int { return (columns + 9) / 8 }

// TakeNulls cuts a binary row into its Nulls and the values.
func TakeNulls(row []byte, columns int) (nulls Nulls, values []byte, ok bool) {
	at := 1 + NullsLen(columns)
	if len(row) < at {
		return nil, nil, false
	}
	return row[1:at], row[at:], true
}

// Has reports whether the i-th value is NULL.
func (n Nulls) Has(i int) bool { return n[(i+2)/8]&(1<<((i+2)%8)) != 0 }

// Set notes that the i-th value is NULL.
func (n Nulls) Set(i int) { n[(i+2)/8] |= 1 << ((i + 2) % 8) }
