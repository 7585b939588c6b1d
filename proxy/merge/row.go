package merge

import (
	"encoding/binary"
	"errors"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// ErrMalformed: a row doesn't fit its column definitions.
var ErrMalformed = errors.New("malformed row")

// Layout is how rows lie in their packets.
type Layout struct {
	Columns []wire.Column
	// Hidden is the number of columns at the end that the client doesn't get.
	Hidden int
	// Binary: the rows of a prepared statement.
	Binary bool
}

// Visible is the number of columns that the client gets.
func (l *Layout) Visible() int { return len(l.Columns) - l.Hidden }

// column turns a column number of a plan.Merge into one of the row.
func (l *Layout) column(n int) int {
	if n < 0 {
		return len(l.Columns) + n
	}
	return n
}

// Row is a row's packet, cut into values.
type Row struct {
	packet []byte
	// values point into packet; nil is NULL. Text protocol: the text. Binary
	// protocol: the value without its length.
	values [][]byte
	// cut is where the first hidden column begins.
	cut int
}

// split cuts a packet. The values are valid as long as it is.
func (l *Layout) split(r *Row, packet []byte) error {
	r.packet = packet
	if r.values == nil {
		r.values = make([][]byte, len(l.Columns))
	}
	if l.Binary {
		return l.splitBinary(r, packet)
	}
	p := packet
	for i := range r.values {
		if i == l.Visible() {
			r.cut = len(packet) - len(p)
		}
		if len(p) > 0 && p[0] == 0xFB {
			r.values[i], p = nil, p[1:]
			continue
		}
		v, rest, ok := wire.TakeLenBytes(p)
		if !ok {
			return ErrMalformed
		}
		r.values[i], p = v, rest
	}
	if l.Hidden == 0 {
		r.cut = len(packet)
	}
	return nil
}

func (l *Layout) splitBinary(r *Row, packet []byte) error {
	nulls, p, ok := wire.TakeNulls(packet, len(l.Columns))
	if !ok || packet[0] != 0 {
		return ErrMalformed
	}
	for i := range r.values {
		if i == l.Visible() {
			r.cut = len(packet) - len(p)
		}
		if nulls.Has(i) {
			r.values[i] = nil
			continue
		}
		v, rest, ok := wire.TakeBinary(p, l.Columns[i].Type)
		if !ok {
			return ErrMalformed
		}
		r.values[i], p = v, rest
	}
	if l.Hidden == 0 {
		r.cut = len(packet)
	}
	return nil
}

// appendVisible appends the packet that the client gets.
func (l *Layout) appendVisible(dst []byte, r *Row) []byte {
	if !l.Binary || l.Hidden == 0 {
		return append(dst, r.packet[:r.cut]...)
	}
	// A shorter bitmap, and then the same values.
	was, now := wire.NullsLen(len(l.Columns)), wire.NullsLen(l.Visible())
	dst = append(dst, r.packet[:1+now]...)
	if used := (2 + l.Visible()) % 8; used != 0 {
		dst[len(dst)-1] &= 1<<used - 1
	}
	return append(dst, r.packet[1+was:r.cut]...)
}

// Visible is the packet that the client gets. buf is used where the packet
// can't be cut in place.
func (l *Layout) visible(buf []byte, r *Row) (packet, grown []byte) {
	if !l.Binary || l.Hidden == 0 {
		return r.packet[:r.cut], buf
	}
	buf = l.appendVisible(buf[:0], r)
	return buf, buf
}

// binaryInt is an integer of a binary row, sign-extended where it is signed.
func binaryInt(v []byte, unsigned bool) (uint64, bool) {
	var n uint64
	switch len(v) {
	case 1:
		n = uint64(v[0])
	case 2:
		n = uint64(binary.LittleEndian.Uint16(v))
	case 4:
		n = uint64(binary.LittleEndian.Uint32(v))
	case 8:
		return binary.LittleEndian.Uint64(v), true
	default:
		return 0, false
	}
	if !unsigned {
		shift := 64 - 8*len(v)
		n = uint64(int64(n<<shift) >> shift)
	}
	return n, true
}
