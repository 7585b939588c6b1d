package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// BufferSize is the size of each side's buffer.
	BufferSize = 16 << 10
	// MaxFrame is the largest payload of a frame. A packet is one or more
	// frames; it continues as long as they have this length.
	MaxFrame = 1<<24 - 1
	// DefaultMaxPacket bounds a command, like max_allowed_packet.
	DefaultMaxPacket = 64 << 20

	headerSize = 4
	// keptPayload is the largest buffer for joined packets that a Reader keeps.
	keptPayload = 256 << 10
)

var (
	// ErrPacketTooLarge: a packet claims more than the limit.
	ErrPacketTooLarge = errors.New("packet larger than max_allowed_packet")
	// ErrSequence: a frame carries another sequence number than the one due.
	ErrSequence = errors.New("packets out of order")
	// ErrMalformed: a packet's content contradicts the protocol.
	ErrMalformed = errors.New("malformed packet")
)

var bufferPool = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// Reader reads frames and packets through one buffer.
type Reader struct {
	src io.Reader
	// buf[pos:end] is read and not yet consumed. nil until the first read and
	// after Release.
	buf      *[BufferSize]byte
	pos, end int
	// left is the number of payload bytes of the current frame that are not
	// consumed. Invariant: 0 between frames.
	left int
	seq  uint8
	// unnumbered: whatever numbers come are taken, as servers do within a
	// compressed stream, whose own numbers count.
	unnumbered bool
	// first is where Await reads a byte.
	first [1]byte
	// joined holds a packet that doesn't lie whole in buf.
	joined []byte
	// patience is nil where nobody has anything to do while a read waits. deadline
	// is what wakes one.
	patience *Patience
	deadline Deadliner
	// failed is what Arrive got and the next read gives.
	failed error
	// before, when set, is called before each read.
	before func()
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader {
	if nc, ok := src.(net.Conn); ok {
		src = newSocket(nc)
	}
	return &Reader{src: src}
}

// Sequence returns the sequence number that the next frame must carry.
func (r *Reader) Sequence() uint8 { return r.seq }

// SetSequence sets the sequence number that the next frame must carry.
func (r *Reader) SetSequence(s uint8) { r.seq = s }

// Buffered returns how many bytes are read and not consumed.
func (r *Reader) Buffered() int { return r.end - r.pos }

// Release hands the buffers back. The Reader may be used again.
// REQUIRES: nothing returned by it is in use.
func (r *Reader) Release() {
	r.joined = nil
	if r.buf != nil && r.pos == r.end {
		poison(r.buf[:])
		bufferPool.Put(r.buf)
		r.buf, r.pos, r.end = nil, 0, 0
	}
}

// Await waits for the next byte without holding a buffer: for a source that
// knows better than its socket when there is something to read, such as TLS.
// REQUIRES: nothing is buffered, and Release was called.
func (r *Reader) Await() error {
	for empty := 0; ; {
		n, err := r.src.Read(r.first[:])
		if n == 1 {
			r.buf = bufferPool.Get().(*[BufferSize]byte)
			r.buf[0], r.pos, r.end = r.first[0], 0, 1
			return nil
		}
		if err != nil {
			return err
		}
		if empty++; empty > 100 {
			return io.ErrNoProgress
		}
	}
}

// fill reads until n bytes are buffered. REQUIRES: n <= BufferSize.
// io.EOF is returned only when nothing of the n bytes came.
func (r *Reader) fill(n int) error {
	if r.end-r.pos >= n {
		return nil
	}
	if r.buf == nil {
		r.buf = bufferPool.Get().(*[BufferSize]byte)
		r.pos, r.end = 0, 0
	}
	if r.pos == r.end {
		r.pos, r.end = 0, 0
	} else if r.pos+n > BufferSize {
		r.end = copy(r.buf[:], r.buf[r.pos:r.end])
		r.pos = 0
	}
	for empty := 0; r.end-r.pos < n; {
		m, err := r.read(r.buf[r.end:])
		r.end += m
		switch {
		case r.end-r.pos >= n:
			return nil
		case errors.Is(err, io.EOF) && r.end > r.pos:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case m == 0:
			if empty++; empty > 100 {
				return io.ErrNoProgress
			}
		}
	}
	return nil
}

// Frame reads the header of the next frame and returns its payload's length.
// What is left of the frame before is an error of the caller.
func (r *Reader) Frame() (int, error) {
	if r.left != 0 {
		return 0, errors.New("frame read before the last one was consumed")
	}
	if err := r.fill(headerSize); err != nil {
		return 0, err
	}
	h := r.buf[r.pos : r.pos+headerSize]
	n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	if h[3] != r.seq {
		if !r.unnumbered {
			return n, ErrSequence
		}
		r.seq = h[3]
	}
	r.seq++
	r.pos += headerSize
	r.left = n
	return n, nil
}

// Peek returns the first n payload bytes of what is left of the frame, or all
// if there are fewer, without consuming them. REQUIRES: n <= BufferSize.
func (r *Reader) Peek(n int) ([]byte, error) {
	n = min(n, r.left)
	if err := r.fill(n); err != nil {
		return nil, unexpected(err)
	}
	return r.buf[r.pos : r.pos+n], nil
}

// Chunk consumes and returns the next piece of the frame, as much as is there;
// nil at the frame's end.
func (r *Reader) Chunk() ([]byte, error) {
	if r.left == 0 {
		return nil, nil
	}
	if err := r.fill(1); err != nil {
		return nil, unexpected(err)
	}
	n := min(r.left, r.end-r.pos)
	p := r.buf[r.pos : r.pos+n]
	r.pos += n
	r.left -= n
	return p, nil
}

// ReadPacket reads a whole packet, all of its frames joined. The bytes are
// valid until the next read. A packet of more than limit bytes is
// ErrPacketTooLarge, found from its header, before its payload is read.
func (r *Reader) ReadPacket(limit int) ([]byte, error) {
	n, err := r.Frame()
	if err != nil {
		return nil, err
	}
	return r.Packet(n, limit)
}

// Packet reads the rest of the packet whose first frame, of length n, was begun
// by Frame or AtEnd, as ReadPacket does.
func (r *Reader) Packet(n, limit int) (p []byte, err error) {
	if n > limit {
		return nil, ErrPacketTooLarge
	}
	if n <= BufferSize {
		return r.Rest()
	}
	if cap(r.joined) > keptPayload {
		r.joined = nil
	}
	r.joined = r.joined[:0]
	for {
		if err := r.join(); err != nil {
			return nil, err
		}
		if n < MaxFrame {
			return r.joined, nil
		}
		if n, err = r.Frame(); err != nil {
			return nil, unexpected(err)
		}
		if len(r.joined)+n > limit {
			return nil, ErrPacketTooLarge
		}
	}
}

// join appends what is left of the frame to joined. The slice at most doubles
// when it is full: so it is never larger than twice what has really come.
func (r *Reader) join() error {
	for r.left > 0 {
		have := len(r.joined)
		if cap(r.joined) == have {
			bigger := make([]byte, have, have+min(r.left, max(have, 4*BufferSize)))
			copy(bigger, r.joined)
			r.joined = bigger
		}
		room := r.joined[have : have+min(r.left, cap(r.joined)-have)]
		var m int
		var err error
		if r.end > r.pos {
			m = copy(room, r.buf[r.pos:r.end])
			r.pos += m
		} else {
			m, err = r.read(room)
		}
		r.joined = r.joined[:have+m]
		r.left -= m
		if err != nil && r.left > 0 {
			return unexpected(err)
		}
	}
	return nil
}

// Rest consumes and returns what is left of the frame, which must fit into the
// buffer: for packets that are known to be short.
func (r *Reader) Rest() ([]byte, error) {
	if r.left > BufferSize {
		return nil, ErrMalformed
	}
	p, err := r.Peek(r.left)
	r.pos += len(p)
	r.left -= len(p)
	return p, err
}

// Skip consumes what is left of the current packet, all of its frames.
// REQUIRES: n is the length of the current frame.
func (r *Reader) Skip(n int) error {
	for {
		for r.left > 0 {
			if _, err := r.Chunk(); err != nil {
				return err
			}
		}
		if n < MaxFrame {
			return nil
		}
		var err error
		if n, err = r.Frame(); err != nil {
			return unexpected(err)
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bufferTaker sends the first n bytes of a buffer, and keeps it unless there is an error.
type bufferTaker interface {
	sendBuffer(buf *[BufferSize]byte, n int) error
}

// Writer writes frames and packets through one buffer.
type Writer struct {
	// copied is nil but between Conn.Copy and Copied.
	copied *copied
	dst    io.Writer
	// buf[:n] is not sent yet. nil when nothing is buffered.
	buf *[BufferSize]byte
	n   int
	seq uint8
	err error
	// total counts the bytes that were accepted, sent or not.
	total int64
	// sent counts those that the connection took.
	sent int64
	// cut: a packet is begun and not whole.
	cut bool

	// timeout bounds each write to conn, 0 for no bound.
	timeout time.Duration
	conn    net.Conn
	// taker, if not nil, takes whole buffers in dst's place.
	taker bufferTaker
	// bounded is when conn's deadline was last set, since epoch; 0: never.
	bounded time.Duration
}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer {
	w := &Writer{dst: dst}
	if nc, ok := dst.(net.Conn); ok {
		w.conn, w.dst = nc, newSocket(nc)
		w.taker, _ = nc.(bufferTaker)
	}
	return w
}

// SetTimeout bounds each write of a buffer to the connection. A peer that
// doesn't take 16 KiB in this time has failed. 0 is no bound.
func (w *Writer) SetTimeout(d time.Duration) {
	if d == 0 && w.timeout != 0 && w.conn != nil {
		_ = w.conn.SetWriteDeadline(time.Time{}) // one that is closed fails anyway
	}
	w.timeout, w.bounded = d, 0
}

// epoch is what times count from that are looked at often: one clock costs less than two.
var epoch = time.Now()

// bound sets the deadline of a write. Not for each anew: one may take an eighth
// longer than it should.
func (w *Writer) bound() error {
	if w.timeout == 0 || w.conn == nil {
		return nil
	}
	now := time.Since(epoch)
	if w.bounded > 0 && now-w.bounded < w.timeout/8 {
		return nil
	}
	w.bounded = now
	return w.conn.SetWriteDeadline(time.Now().Add(w.timeout + w.timeout/8))
}

// Sequence returns the number that the next frame will carry.
func (w *Writer) Sequence() uint8 { return w.seq }

// SetSequence sets the number that the next frame will carry.
func (w *Writer) SetSequence(s uint8) { w.seq = s }

// Err returns the first write's failure; every later write fails with it.
func (w *Writer) Err() error { return w.err }

// Total returns how many bytes were written so far, sent or still buffered.
func (w *Writer) Total() int64 { return w.total }

// Sent returns how many bytes the connection has taken so far.
func (w *Writer) Sent() int64 { return w.sent }

// Cut reports whether the last packet is not whole, because what it was copied
// from ended. Nothing can follow it then.
func (w *Writer) Cut() bool { return w.cut }

// Buffered returns how many bytes wait to be sent.
func (w *Writer) Buffered() int { return w.n }

func (w *Writer) send(p []byte) error {
	if w.err != nil {
		return w.err
	}
	if err := w.bound(); err != nil {
		w.err = err
		return err
	}
	n, err := w.dst.Write(p)
	w.sent += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	w.err = err
	return err
}

// Flush sends what is buffered and hands the buffer back.
func (w *Writer) Flush() error {
	if w.buf == nil {
		return w.err
	}
	if w.taker != nil && w.err == nil {
		return w.give()
	}
	err := w.send(w.buf[:w.n])
	w.drop()
	return err
}

// give is send of the whole buffer to who takes it.
func (w *Writer) give() error {
	err := w.bound()
	if err == nil {
		err = w.taker.sendBuffer(w.buf, w.n)
	}
	if err != nil {
		w.err = err
		w.drop()
		return err
	}
	w.sent += int64(w.n)
	w.buf, w.n = nil, 0
	return nil
}

// drop hands the buffer back without sending it.
func (w *Writer) drop() {
	if w.buf != nil {
		poison(w.buf[:])
		bufferPool.Put(w.buf)
		w.buf, w.n = nil, 0
	}
}

// raw appends bytes to the stream.
func (w *Writer) raw(p []byte) error {
	if w.err != nil {
		return w.err
	}
	w.total += int64(len(p))
	if w.copied != nil {
		w.copied.add(p)
	}
	if len(p) > BufferSize-w.n {
		if w.n > 0 {
			if err := w.send(w.buf[:w.n]); err != nil {
				return err
			}
			w.n = 0
		}
		// Large pieces go out from where they lie: a full buffer of the
		// reader is not copied into this one.
		if len(p) >= BufferSize/2 {
			return w.send(p)
		}
	}
	if w.buf == nil {
		w.buf = bufferPool.Get().(*[BufferSize]byte)
	}
	w.n += copy(w.buf[w.n:], p)
	return nil
}

// frame begins a frame of n payload bytes, which the caller writes with raw. It
// leaves room for a byte in the buffer.
func (w *Writer) frame(n int) error {
	if w.err != nil {
		return w.err
	}
	w.total += headerSize
	if BufferSize-w.n < headerSize+1 {
		if err := w.send(w.buf[:w.n]); err != nil {
			return err
		}
		w.n = 0
	}
	if w.buf == nil {
		w.buf = bufferPool.Get().(*[BufferSize]byte)
	}
	h := w.buf[w.n : w.n+headerSize]
	binary.LittleEndian.PutUint32(h, uint32(n)|uint32(w.seq)<<24)
	if w.copied != nil {
		w.copied.add(h)
	}
	w.n += headerSize
	w.seq++
	return nil
}

// WritePacket writes a packet, split into frames where it must be.
func (w *Writer) WritePacket(payload []byte) error {
	for {
		n := min(len(payload), MaxFrame)
		if err := w.frame(n); err != nil {
			return err
		}
		if err := w.raw(payload[:n]); err != nil {
			return err
		}
		if n < MaxFrame {
			return nil
		}
		payload = payload[n:]
	}
}

// WriteStatement is WriteCommand of a text.
func (w *Writer) WriteStatement(cmd byte, sql string) error {
	if 1+len(sql) >= MaxFrame {
		return w.WriteCommand(cmd, []byte(sql))
	}
	w.seq = 0
	if err := w.frame(1 + len(sql)); err != nil {
		return err
	}
	w.buf[w.n] = cmd // frame left room for it
	w.n++
	w.total += int64(len(sql))
	for {
		n := copy(w.buf[w.n:], sql)
		w.n += n
		if sql = sql[n:]; sql == "" {
			return nil
		}
		if err := w.send(w.buf[:w.n]); err != nil {
			return err
		}
		w.n = 0
	}
}

// WriteCommand writes a packet whose payload is cmd followed by payload, with
// the sequence begun anew.
func (w *Writer) WriteCommand(cmd byte, payload []byte) error {
	w.seq = 0
	n := min(len(payload)+1, MaxFrame)
	if err := w.frame(n); err != nil {
		return err
	}
	w.buf[w.n] = cmd // frame left room for it
	w.n++
	if err := w.raw(payload[:n-1]); err != nil {
		return err
	}
	if n < MaxFrame {
		return nil
	}
	return w.WritePacket(payload[n-1:])
}
