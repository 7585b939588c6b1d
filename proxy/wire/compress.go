package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// ErrCompressed: a compressed packet doesn't hold what its header says.
var ErrCompressed = errors.New("malformed compressed packet")

const (
	// compressedHeader is the length of what is sent, the sequence number, and
	// the length of what it was before: 0 where it goes as it is.
	compressedHeader = 3 + 1 + 3
	// minCompressed is the least that is compressed, as servers have it.
	minCompressed = 50
	// maxCompressed bounds a compressed packet's content: the more, the smaller
	// it gets, but it is held twice meanwhile.
	maxCompressed = 64 << 10
	// keptInflate is the content up to which an inflater, whose window may be as
	// large, is kept for others.
	keptInflate = 1 << 20
	// defaultZstdLevel is taken where the client names none that exists.
	defaultZstdLevel = 3
)

// compressed is the layer between a socket and the Reader and Writer of a client
// that asked for compression: a stream of packets of its own, which cut the
// frames wherever they like. Their sequence numbers begin with each command and
// go on over both directions.
//
// What comes is inflated as it is read, so that memory grows with what a command
// may have (Options.MaxPacket), whatever a few bytes claim to become. A client without
// compression pays nothing but comparisons with nil.
type compressed struct {
	nc  net.Conn
	in  *Reader // of the socket; its "frame" is the packet's payload
	seq uint8
	// deflate appends a packet's payload to dst.
	deflate func(dst, content []byte) ([]byte, error)
	open    func(*compressed) (io.Reader, error)
	release func(io.Reader)

	// left is what is to come of the packet's content, through inflate or, if
	// that is nil, as it is.
	left    int
	inflate io.Reader
	size    int
	// broken is what the socket failed with while inflate read from it.
	broken error
	whole  bytes.Reader
}

// newCompressed returns nil where the client has no compression. zlib goes
// before zstd, as with a server.
func newCompressed(nc net.Conn, capabilities uint32, level uint8) *compressed {
	c := &compressed{nc: nc, in: NewReader(nc)}
	switch {
	case capabilities&mysql.CLIENT_COMPRESS != 0:
		c.deflate, c.open, c.release = deflateZlib, openZlib, releaseZlib
	case capabilities&mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0:
		if level < 1 || level > 22 {
			level = defaultZstdLevel
		}
		c.deflate, c.open, c.release = zstdDeflater(level), openZstd, releaseZstd
	default:
		return nil
	}
	return c
}

// begin lets sequence numbers begin anew for a command, unless some of it has
// come with the one before. It returns where to wait for it; nil if bytes are
// here already.
func (c *compressed) begin() *Reader {
	if c.left > 0 {
		return nil
	}
	c.seq = 0
	if c.in.Buffered() > 0 {
		return nil
	}
	c.in.Release()
	return c.in
}

// Read reads content. It returns what one packet has at most, so that a reader
// that has got a whole command doesn't wait for another packet.
func (c *compressed) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	p = p[:min(len(p), c.left)]
	if c.inflate == nil {
		n, err = sent{c}.Read(p)
		c.left -= n
		return n, unexpected(err)
	}
	n, err = c.inflate.Read(p)
	c.left -= n
	switch {
	case err == nil && c.left > 0:
		return n, nil
	case c.left == 0 && (err == nil || errors.Is(err, io.EOF)):
		// Its end is read before its last bytes are given: the checksum is there.
		var more [1]byte
		var m int
		for empty := 0; err == nil && m == 0 && empty < 100; empty++ {
			m, err = c.inflate.Read(more[:])
		}
		if m == 0 && errors.Is(err, io.EOF) && c.in.left == 0 && c.whole.Len() == 0 {
			c.close()
			return n, nil
		}
	}
	c.left, c.inflate = 0, nil // not released: who knows what state it is in
	if c.broken != nil {
		return 0, unexpected(c.broken)
	}
	return 0, ErrCompressed
}

func (c *compressed) close() {
	if c.size <= keptInflate {
		c.release(c.inflate)
	}
	c.inflate = nil
	c.whole.Reset(nil)
}

// next reads the next packet's header. io.EOF: there is none.
func (c *compressed) next() error {
	if err := c.in.fill(compressedHeader); err != nil {
		return err
	}
	h := c.in.buf[c.in.pos : c.in.pos+compressedHeader]
	n, size := int(h[0])|int(h[1])<<8|int(h[2])<<16, int(h[4])|int(h[5])<<8|int(h[6])<<16
	if h[3] != c.seq {
		return ErrSequence
	}
	c.seq++
	c.in.pos += compressedHeader
	if n == 0 {
		return ErrCompressed
	}
	c.in.left, c.left, c.size = n, n, size
	if size == 0 {
		return nil
	}
	c.left = size
	var err error
	if c.inflate, err = c.open(c); err != nil {
		c.left, c.inflate = 0, nil
		if c.broken != nil {
			return unexpected(c.broken)
		}
		return ErrCompressed
	}
	return nil
}

// sent reads what is left of a packet's payload.
type sent struct{ c *compressed }

func (p sent) Read(b []byte) (int, error) {
	in := p.c.in
	if in.left == 0 {
		return 0, io.EOF
	}
	if err := in.fill(1); err != nil {
		p.c.broken = unexpected(err)
		return 0, p.c.broken
	}
	n := copy(b, in.buf[in.pos:min(in.end, in.pos+in.left)])
	in.pos += n
	in.left -= n
	return n, nil
}

// ReadByte keeps zlib from reading through a buffer of its own.
func (p sent) ReadByte() (byte, error) {
	in := p.c.in
	if in.left > 0 && in.pos < in.end {
		b := in.buf[in.pos]
		in.pos++
		in.left--
		return b, nil
	}
	var b [1]byte
	_, err := p.Read(b[:])
	return b[0], err
}

var deflated = sync.Pool{New: func() any {
	b := make([]byte, 0, compressedHeader+maxCompressed)
	return &b
}}

// Write sends p in packets.
func (c *compressed) Write(p []byte) (n int, err error) {
	buf := deflated.Get().(*[]byte)
	defer deflated.Put(buf)
	for n < len(p) {
		content := p[n:min(len(p), n+maxCompressed)]
		size := len(content)
		b := (*buf)[:compressedHeader]
		if size >= minCompressed {
			if b, err = c.deflate(b, content); err != nil {
				return n, err
			}
		}
		if size < minCompressed || len(b)-compressedHeader >= size {
			b, size = append(b[:compressedHeader], content...), 0
		}
		length := len(b) - compressedHeader
		copy(b, []byte{byte(length), byte(length >> 8), byte(length >> 16), c.seq, byte(size), byte(size >> 8), byte(size >> 16)})
		c.seq++
		*buf = b[:0]
		if _, err := c.nc.Write(b); err != nil {
			return n, err
		}
		n += len(content)
	}
	return n, nil
}

// appender is an io.Writer to a slice.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// The fastest level: all clients share the proxy's processors, and the next
// levels are hardly smaller.
var zlibWriters = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed) // only a level that doesn't exist is an error
	return w
}}

func deflateZlib(dst, content []byte) ([]byte, error) {
	w := zlibWriters.Get().(*zlib.Writer)
	defer zlibWriters.Put(w)
	a := appender(dst)
	w.Reset(&a)
	_, err := w.Write(content)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return a, err
}

var zlibReaders sync.Pool

func openZlib(c *compressed) (io.Reader, error) {
	if r, ok := zlibReaders.Get().(io.Reader); ok {
		return r, r.(zlib.Resetter).Reset(sent{c}, nil)
	}
	return zlib.NewReader(sent{c})
}

func releaseZlib(r io.Reader) { zlibReaders.Put(r) }

// zstdWriters are by level; each takes as many packets at a time as there are
// processors, and makes others wait.
var zstdWriters [zstd.SpeedBestCompression + 1]struct {
	once sync.Once
	w    *zstd.Encoder
	err  error
}

func zstdDeflater(level uint8) func(dst, content []byte) ([]byte, error) {
	l := zstd.EncoderLevelFromZstd(int(level))
	e := &zstdWriters[l]
	return func(dst, content []byte) ([]byte, error) {
		e.once.Do(func() {
			e.w, e.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithWindowSize(maxCompressed), zstd.WithLowerEncoderMem(true))
		})
		if e.err != nil {
			return nil, e.err
		}
		return e.w.EncodeAll(content, dst), nil
	}
}

var zstdReaders sync.Pool

// openZstd has the whole payload here first: a frame's header alone makes the
// reader take memory for its window.
func openZstd(c *compressed) (io.Reader, error) {
	c.in.joined = c.in.joined[:0]
	if err := c.in.join(); err != nil {
		c.broken = err
		return nil, err
	}
	c.whole.Reset(c.in.joined)
	r, ok := zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		// In the caller's goroutine, which a decoder that isn't closed leaves behind.
		if r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(1<<24)); err != nil {
			return nil, err
		}
	}
	return r, r.Reset(&c.whole)
}

func releaseZstd(r io.Reader) {
	_ = r.(*zstd.Decoder).Reset(nil)
	zstdReaders.Put(r)
}
