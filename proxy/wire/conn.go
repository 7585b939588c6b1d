package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// Options of Accept.
type Options struct {
	// Users finds a user's credential.
	Users func(name string) (Credential, bool)
	// ServerVersion is told to the client. Clients read it: begin with a
	// number such as "8.4.0".
	ServerVersion string
	ConnectionID  uint32
	// TLS, when set, is offered to clients.
	TLS *tls.Config
	// RequireTLS refuses clients that don't ask for TLS (3159).
	RequireTLS bool
	// Denied, when set, is called before a client is told 1045, and may wait.
	Denied func(user string)
	// Deadline of the whole handshake; default 10 s.
	Deadline time.Duration
	// MaxPacket bounds a command's payload; default DefaultMaxPacket.
	MaxPacket int
	// WriteTimeout bounds each write of a buffer to the client, 0: no bound.
	// It keeps a client that stopped reading from holding a shard connection.
	WriteTimeout time.Duration
}

// Conn is a client's connection.
type Conn struct {
	// What the handshake told. Only ChangeUser's caller changes it.
	ID     uint32
	User   string
	Host   string // the client's IP address, "localhost" on a Unix socket
	Schema string // asked for, not checked; "" for none
	// Capabilities are those that both sides have: mysql.CLIENT_...
	Capabilities uint32
	// Charset is the collation id that the client asked for; in a handshake its low
	// byte.
	Charset uint16
	Attrs   Attributes // connection attributes
	TLS     bool

	// Changes, when set, gives what a client with SESSION_TRACK is told of its
	// session with the packet that is written next (AppendChange), nil for nothing, empty for a
	// change that it is told nothing of.
	// It is called once for each OK packet.
	Changes func() []byte
	// NoMetadata: results have no column definitions.
	// REQUIRES: CLIENT_OPTIONAL_RESULTSET_METADATA.
	NoMetadata bool

	nc  net.Conn
	raw net.Conn // the socket under TLS
	r   *Reader
	w   *Writer
	max int
	// readTimeout bounds the wait for each piece of what the client has begun to
	// send; 0: no bound.
	readTimeout time.Duration
	// salt is that of the greeting.
	salt [saltSize]byte
	// asked is the salt of the last question.
	asked [saltSize]byte
	// certificate is the hash of the one that the client has seen, nil where it was
	// signed by another. vouches is for the OK that ends the log-in.
	certificate []byte
	vouches     string
	// idle reads the first bytes of a command without holding a buffer until
	// they come; nil where that isn't possible (TLS).
	idle *idleWait
	// packed is the layer of a client that has compression, from Begin on.
	packed    *compressed
	zstdLevel uint8
	// scratch is where small packets are put together.
	scratch []byte
	// Answers counts the result sets that were begun.
	Answers uint64

	// Told is how many warnings of answers the client was told of before: they are left out.
	Told uint16
	// known is how many columns the client was told of when it prepared the statement
	// at hand, 0 for none, changed that the answer has others.
	known   int
	changed bool
	// diverted is nil but between Divert and back.
	diverted *Extent
}

// Attributes are what a client says of itself, in its order: program_name and the
// like.
type Attributes []Attribute

// Attribute is one of them.
type Attribute struct{ Name, Value string }

// Get returns a value, "" where there is none.
func (a Attributes) Get(name string) string {
	for _, x := range a {
		if x.Name == name {
			return x.Value
		}
	}
	return ""
}

// NewConn returns a Conn whose handshake is none of its business. Accept is
// what makes one for a client.
func NewConn(nc net.Conn) *Conn {
	return &Conn{
		Host: host(nc), Capabilities: serverCapabilities &^ AnswerCapabilities,
		nc: nc, raw: nc, r: NewReader(nc), w: NewWriter(nc),
		max: DefaultMaxPacket, idle: newIdleWait(nc),
	}
}

// Begin sends the end of the handshake, which the caller has written. From then
// on a client that asked for compression has it.
func (c *Conn) Begin() error {
	if err := c.w.Flush(); err != nil {
		return err
	}
	if c.packed = newCompressed(c.nc, c.Capabilities, c.zstdLevel); c.packed == nil {
		return nil
	}
	// What is buffered has come after the handshake: a client needn't wait.
	c.packed.in.buf, c.packed.in.pos, c.packed.in.end = c.r.buf, c.r.pos, c.r.end
	c.r = &Reader{src: c.packed, unnumbered: true}
	c.w.dst, c.w.taker = c.packed, nil
	return nil
}

// ReadCommand sends what is buffered, then reads the next command: its first
// byte and the rest of its payload, valid until the next call. The sequence
// starts anew. The caller bounds the wait with SetReadDeadline.
//
// A command larger than MaxPacket is answered with 1153 and returns
// ErrPacketTooLarge, one with a wrong sequence number is answered with 1156
// and returns ErrSequence, one that can't be inflated with 1157 and
// ErrCompressed: the caller closes the connection then, as after every error.
// io.EOF: the client has gone.
func (c *Conn) ReadCommand() (cmd byte, payload []byte, err error) {
	if err := c.w.Flush(); err != nil {
		return 0, nil, err
	}
	c.r.SetSequence(0)
	if c.r.Buffered() == 0 {
		// An idle connection holds no buffer.
		c.r.Release()
		from := c.r
		if c.packed != nil {
			from = c.packed.begin()
		}
		if from != nil {
			var err error
			if c.idle != nil {
				if err = c.idle.read(from); errors.Is(err, os.ErrDeadlineExceeded) {
					err = errNoCommand
				}
			} else {
				err = from.Await()
			}
			if err != nil {
				return 0, nil, err
			}
		}
	}
	var p []byte
	n, err := c.r.Frame()
	if err == nil {
		if n > c.r.Buffered() && c.readTimeout > 0 {
			end := c.boundReads()
			p, err = c.r.Packet(n, c.max)
			end()
		} else {
			p, err = c.r.Packet(n, c.max)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.w.SetSequence(1)
			_ = c.WriteError(mysqlerr.New(mysqlerr.NetReadInterrupted, "Got timeout reading communication packets"))
			_ = c.w.Flush()
			return 0, nil, err
		}
	}
	c.w.SetSequence(c.r.Sequence())
	switch {
	case err == nil:
	case errors.Is(err, ErrPacketTooLarge):
		c.w.SetSequence(1)
		_ = c.WriteError(mysqlerr.New(mysqlerr.NetPacketTooLarge, "Got a packet bigger than 'max_allowed_packet' bytes"))
		c.refuse()
		return 0, nil, err
	case errors.Is(err, ErrSequence):
		c.w.SetSequence(1)
		_ = c.WriteError(mysqlerr.New(mysqlerr.NetPacketsOutOfOrder, "Got packets out of order"))
		c.refuse()
		return 0, nil, err
	case errors.Is(err, ErrCompressed):
		_ = c.WriteError(mysqlerr.New(mysqlerr.NetUncompressError, "Couldn't uncompress communication packet"))
		c.refuse()
		return 0, nil, err
	default:
		return 0, nil, err
	}
	if len(p) == 0 {
		// COM_SLEEP, which nobody serves: the caller answers 1047.
		return 0, nil, nil
	}
	return p[0], p[1:], nil
}

// errNoCommand: the deadline came, and nothing has been read.
var errNoCommand = fmt.Errorf("no command: %w", os.ErrDeadlineExceeded)

// Came reports, after ReadCommand failed for its deadline, that a command has
// come all the same and can be read by another call.
func (c *Conn) Came(err error) bool {
	if !errors.Is(err, errNoCommand) || !pending(c.raw) {
		return false
	}
	return c.nc.SetReadDeadline(time.Time{}) == nil
}

// FlushLast is Flush of the last answer: the end of the connection goes with it,
// so that a client that has the answer also sees, before it sends anything more,
// that the connection is closed. Close must follow.
func (c *Conn) FlushLast() error {
	cork(c.raw)
	c.w.SetTimeout(lingerTime)
	if err := c.w.Flush(); err != nil {
		return err
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		_ = t.CloseWrite() // the raw connection's is below
	}
	linger(c.raw, int64(c.max)+MaxFrame, lingerTime)
	return nil
}

// ReadPacket sends what is buffered, then reads a packet that the client sends
// in the middle of a command.
func (c *Conn) ReadPacket() ([]byte, error) {
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	c.r.SetSequence(c.w.Sequence())
	if c.readTimeout > 0 {
		defer c.boundReads()()
	}
	p, err := c.r.ReadPacket(c.max)
	c.w.SetSequence(c.r.Sequence())
	return p, err
}

// Keep is a text of the command that was read last, for good. A long one isn't copied: it lies
// in memory that the next command wouldn't use anyway.
func (c *Conn) Keep(text string) string {
	if len(text) <= keptPayload {
		return strings.Clone(text)
	}
	c.r.joined = nil
	return text
}

// boundReads bounds the wait for each piece of a packet, until end is called. Not that for all of
// it, as no server does: 64 MiB may take minutes.
func (c *Conn) boundReads() (end func()) {
	r := c.r
	if c.packed != nil {
		r = c.packed.in
	}
	r.before = func() { _ = c.nc.SetReadDeadline(time.Now().Add(c.readTimeout)) }
	return func() {
		r.before = nil
		_ = c.nc.SetReadDeadline(time.Time{})
	}
}

// Flush sends what is buffered.
func (c *Conn) Flush() error { return c.w.Flush() }

// Writer returns the packet writer, for forwarding.
func (c *Conn) Writer() *Writer { return c.w }

// Err returns the first failure of a write to the client.
func (c *Conn) Err() error { return c.w.Err() }

// SetReadDeadline bounds the wait for the next command.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.nc.SetReadDeadline(t) }

// SetDeadline interrupts reads and writes at t, also from another goroutine.
func (c *Conn) SetDeadline(t time.Time) error { return c.nc.SetDeadline(t) }

// SetWriteTimeout changes Options.WriteTimeout.
func (c *Conn) SetWriteTimeout(d time.Duration) { c.w.SetTimeout(d) }

// SetReadTimeout bounds the wait for each piece of a command that the client has
// begun to send, and of a packet within a command (1159). 0: no bound.
func (c *Conn) SetReadTimeout(d time.Duration) { c.readTimeout = d }

// RemoteAddr returns the client's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Local reports a client of this machine, over a Unix socket.
func (c *Conn) Local() bool {
	_, unix := c.raw.RemoteAddr().(*net.UnixAddr)
	return unix
}

// LocalAddr returns the address that the client connected to.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// Gone reports whether the client has closed the connection. It costs one
// system call, doesn't block and consumes nothing, so it may be called from
// another goroutine while a statement runs.
func (c *Conn) Gone() bool { return Gone(c.raw) }

// Close closes the connection. What is buffered is not sent.
func (c *Conn) Close() error { return c.nc.Close() }

// refuse sends the error packet and drops what the client still sends, within
// bounds: closing with unread bytes would reset the connection, and the client
// would see that instead of the error.
func (c *Conn) refuse() {
	c.w.SetTimeout(lingerTime)
	if c.w.Flush() != nil {
		return
	}
	linger(c.raw, int64(c.max)+MaxFrame, lingerTime)
}
