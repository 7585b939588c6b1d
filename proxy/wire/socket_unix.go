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

func (s *socket) attemptRead(fd uintptr) (done bool) {
	n, err := readNow(int(fd), s.in.p)
	for err == syscall.EINTR { //nolint:errorlint // what a system call returns wraps nothing
		n, err = readNow(int(fd), s.in.p)
	}
	s.in.n = max(n, 0)
	switch err { //nolint:errorlint // as above
	case syscall.EAGAIN:
		return false
	case nil:
		if n == 0 && len(s.in.p) > 0 {
			s.in.err = io.EOF
		}
	default:
		s.in.err = os.NewSyscallError("read", err)
	}
	return true
}

func (s *socket) attemptWrite(fd uintptr) (done bool) {
	for s.out.n < len(s.out.p) {
		n, err := writeNow(int(fd), s.out.p[s.out.n:])
		switch err { //nolint:errorlint // what a system call returns wraps nothing
		case nil:
			s.out.n += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			s.out.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}
