package wire

import (
	"encoding/binary"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// isEnd tells from a packet's first byte and first frame's length whether it
// ends a sequence of rows or column definitions: an EOF packet (0xFE and less
// than nine bytes; a row that begins with 0xFE holds a value of 16 MiB at
// least) or an ERR packet (0xFF, which begins no row).
func isEnd(first byte, n int) bool {
	return first == 0xFE && n < 9 || first == 0xFF
}

// AtEnd reads the header of the next packet's first frame and tells whether it
// is an EOF or ERR packet. The payload is not consumed; n is its length.
func (r *Reader) AtEnd() (end bool, n int, err error) {
	n, err = r.Frame()
	if err != nil || n == 0 {
		return false, n, err
	}
	p, err := r.Peek(1)
	if err != nil {
		return false, n, err
	}
	return isEnd(p[0], n), n, nil
}

// CopyUntilEnd copies packets from r to w until an EOF or ERR packet, whose
// header it consumes, and returns the number copied and the length of that
// last packet. Nothing is decoded; frames get w's sequence numbers. A nil w
// discards. On an error w.Err tells whether it was the writer's.
func (r *Reader) CopyUntilEnd(w *Writer) (packets int64, n int, err error) {
	for {
		k, err := r.copyBuffered(w)
		packets += k
		if err != nil {
			return packets, 0, err
		}
		end, n, err := r.AtEnd()
		if err != nil || end {
			return packets, n, err
		}
		if err := r.copyPacket(w, n); err != nil {
			return packets, 0, err
		}
		packets++
	}
}

// copyBuffered copies the packets that lie whole in the buffer, all in one
// piece, with the sequence numbers rewritten in place.
func (r *Reader) copyBuffered(w *Writer) (packets int64, err error) {
	if r.buf == nil {
		return 0, nil
	}
	pos := r.pos
	for r.end-pos > headerSize {
		h := r.buf[pos : pos+headerSize+1]
		n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
		if n > r.end-pos-headerSize || n == MaxFrame {
			break
		}
		if n > 0 && isEnd(h[headerSize], n) {
			break
		}
		if h[3] != r.seq {
			err = ErrSequence
			break
		}
		r.seq++
		if w != nil {
			h[3] = w.seq
			w.seq++
		}
		pos += headerSize + n
		packets++
	}
	p := r.buf[r.pos:pos]
	r.pos = pos
	if w != nil && len(p) > 0 {
		if err := w.raw(p); err != nil {
			return packets, err
		}
	}
	return packets, err
}

// WholeResult is a result set that lies whole in the buffer, as most of one row do: the number of
// its columns, their definitions, an EOF packet, rows, and an EOF packet.
type WholeResult struct {
	// Columns and Rows are their numbers; Defined is what the EOF packet behind the columns says, End
	// the last one.
	Columns      int
	Rows         int64
	Defined, End EOF
	// defined is where the EOF packet behind the columns begins, end where the last one does.
	defined, end int
}

const eofSize = headerSize + 5 // of an EOF packet

// Whole waits for what comes next, and finds the result set there, without consuming it. ok is
// false where it isn't whole in the buffer, or is none: an OK, an error.
func (r *Reader) Whole() (x WholeResult, ok bool) {
	if r.left != 0 || r.unnumbered || r.fill(headerSize) != nil {
		return x, false
	}
	b := r.buf[r.pos:r.end]
	x.end = len(b) - eofSize
	if x.end < 0 || !isEOF(b[x.end:]) { // which says most, before all is looked at
		return x, false
	}
	n, at := int(b[headerSize]), headerSize+1
	if b[0] != 1 || b[1] != 0 || b[2] != 0 || b[3] != r.seq || n == 0 || n > 250 {
		return x, false
	}
	x.Columns = n
	packets, at := whole(b, at, x.end, r.seq+1)
	if packets != n || !isEOF(b[at:]) {
		return x, false
	}
	x.defined = at
	seq := r.seq + 1 + uint8(n)
	rows, at := whole(b, at+eofSize, x.end, seq+1)
	if at != x.end || b[x.defined+3] != seq || b[x.end+3] != seq+1+uint8(rows) {
		return x, false
	}
	x.Rows = int64(rows)
	x.Defined, _ = ParseEOF(b[x.defined+headerSize:][:5])
	x.End, _ = ParseEOF(b[x.end+headerSize:])
	return x, true
}

// isEOF reports whether an EOF packet begins here.
func isEOF(b []byte) bool {
	return len(b) >= eofSize && b[0] == 5 && b[1] == 0 && b[2] == 0 && b[4] == 0xFE
}

// whole counts the packets from at on, whose numbers rise from seq, up to an end, or to the first
// that isn't whole before that; it returns where that begins.
func whole(b []byte, at, end int, seq uint8) (packets, next int) {
	for at+headerSize < end {
		h := b[at : at+headerSize+1 : at+headerSize+1]
		n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
		if h[3] != seq || n == 0 || at+headerSize+n > end || h[4] >= 0xFE && isEnd(h[4], n) {
			break
		}
		at += headerSize + n
		seq++
		packets++
	}
	return packets, at
}

// Takes reports whether the client gets a result set as a shard sends it, but for its EOF packets.
func (c *Conn) Takes(x WholeResult) bool {
	return c.Capabilities&mysql.CLIENT_OPTIONAL_RESULTSET_METADATA == 0 && c.diverted == nil && !c.changed && c.Told == 0 && (c.known == 0 || c.known == x.Columns)
}

// WriteWhole consumes what r.Whole has found, and writes it with other status flags. REQUIRES:
// Takes, and the next packet's number is the same on both sides.
func (c *Conn) WriteWhole(r *Reader, x WholeResult, defined, end uint16) error {
	b := r.buf[r.pos : r.pos+x.end+eofSize]
	r.seq = b[x.end+3] + 1
	r.pos += len(b)
	c.Answers++
	if c.Capabilities&mysql.CLIENT_DEPRECATE_EOF == 0 {
		binary.LittleEndian.PutUint16(b[x.defined+headerSize+1:], 0) // warnings are told at the end
		binary.LittleEndian.PutUint16(b[x.defined+headerSize+3:], defined)
		binary.LittleEndian.PutUint16(b[x.end+headerSize+3:], end)
		c.w.seq = r.seq
		return c.w.raw(b)
	}
	// Without the first EOF packet, so that the rows' numbers are one less.
	if err := c.w.raw(b[:x.defined]); err != nil {
		return err
	}
	rows := b[x.defined+eofSize : x.end]
	for at := 0; at < len(rows); {
		rows[at+3]--
		at += headerSize + (int(rows[at]) | int(rows[at+1])<<8 | int(rows[at+2])<<16)
	}
	c.w.seq = b[x.end+3] - 1
	if err := c.w.raw(rows); err != nil {
		return err
	}
	return c.WriteEnd(end, x.End.Warnings)
}

// copyPacket copies the packet whose first frame of length n is begun.
func (r *Reader) copyPacket(w *Writer, n int) error {
	if w == nil {
		return r.Skip(n)
	}
	if n <= BufferSize {
		// Whole before any of it is sent: a shard that dies here leaves no
		// half of a packet at the client.
		p, err := r.Rest()
		if err != nil {
			return err
		}
		if err := w.frame(n); err != nil {
			return err
		}
		return w.raw(p)
	}
	w.cut = true
	for {
		if err := w.frame(n); err != nil {
			return err
		}
		for r.left > 0 {
			p, err := r.Chunk()
			if err != nil {
				return err
			}
			if err := w.raw(p); err != nil {
				return err
			}
		}
		if n < MaxFrame {
			w.cut = false
			return nil
		}
		var err error
		if n, err = r.Frame(); err != nil {
			return unexpected(err)
		}
	}
}
