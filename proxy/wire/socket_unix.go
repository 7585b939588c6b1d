//go:build unix

package wire

import (
	"io"
	"net"
	"os"
	"syscall"
)

// rawConn is a socket's, nil for what isn't one.
func rawConn(nc net.Conn) syscall.RawConn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// ringed is a socket that a Ring serves at times: ours.
type ringed interface {
	net.Conn
	NetConn() net.Conn // the socket itself
	ours() bool
	has() bool
}

// withRing tells a socket that a Ring serves from the socket itself.
func withRing(nc net.Conn) (net.Conn, ringed) {
	if c, ok := nc.(ringed); ok {
		return c.NetConn(), c
	}
	return nc, nil
}

// socket reads and writes with readNow and writeNow, and waits between.
type socket struct {
	raw syscall.RawConn
	// tryRead and tryWrite are the methods, kept so that a call allocates nothing.
	tryRead, tryWrite func(fd uintptr) bool
	in, out           transfer
}

// transfer is a read or a write under way.
type transfer struct {
	p   []byte
	n   int
	err error
}

// newSocket returns nc itself where that isn't a socket (TLS).
func newSocket(nc net.Conn) io.ReadWriter {
	raw := rawConn(nc)
	if raw == nil {
		return nc
	}
	s := &socket{raw: raw}
	s.tryRead, s.tryWrite = s.attemptRead, s.attemptWrite
	return s
}

func (s *socket) Read(p []byte) (int, error) {
	s.in = transfer{p: p}
	return s.in.ended(s.raw.Read(s.tryRead))
}

func (s *socket) Write(p []byte) (int, error) {
	s.out = transfer{p: p}
	return s.out.ended(s.raw.Write(s.tryWrite))
}

func (t *transfer) ended(err error) (int, error) {
	t.p = nil
	if err == nil {
		err = t.err
	}
	return t.n, err
}

// receive is readNow, with errors as Read tells them. came is false where nothing has
// come yet.
func receive(fd int, p []byte) (n int, came bool, err error) {
	n, errno := readNow(fd, p)
	switch {
	case errno == syscall.EAGAIN:
		return 0, false, nil
	case errno != 0:
		return 0, true, os.NewSyscallError("read", errno)
	case n == 0 && len(p) > 0:
		return 0, true, io.EOF
	}
	return n, true, nil
}

func (s *socket) attemptRead(fd uintptr) (done bool) {
	s.in.n, done, s.in.err = receive(int(fd), s.in.p)
	return done
}

func (s *socket) attemptWrite(fd uintptr) (done bool) {
	for s.out.n < len(s.out.p) {
		n, errno := writeNow(int(fd), s.out.p[s.out.n:])
		switch errno {
		case 0:
			s.out.n += n
		case syscall.EAGAIN:
			return false
		default:
			s.out.err = os.NewSyscallError("write", errno)
			return true
		}
	}
	return true
}
