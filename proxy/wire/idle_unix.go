//go:build unix

package wire

import (
	"io"
	"net"
	"os"
	"syscall"
)

// idleWait waits for a socket's next bytes without holding a buffer, and then
// reads them with the same system call that found them. Thousands of idle
// clients cost no buffers so.
type idleWait struct {
	raw syscall.RawConn
	// try is wait.attempt, kept so that a wait allocates nothing.
	try func(fd uintptr) bool
	r   *Reader
	err error
}

func newIdleWait(nc net.Conn) *idleWait {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &idleWait{raw: raw}
	w.try = w.attempt
	return w
}

// read waits and fills r's buffer. REQUIRES: r holds no buffer.
func (w *idleWait) read(r *Reader) error {
	w.r, w.err = r, nil
	if err := w.raw.Read(w.try); err != nil {
		return err
	}
	return w.err
}

func (w *idleWait) attempt(fd uintptr) (done bool) {
	r := w.r
	buf := bufferPool.Get().(*[BufferSize]byte)
	for {
		n, err := syscall.Read(int(fd), buf[:])
		switch {
		case err == syscall.EINTR:
			continue
		case n > 0:
			r.buf, r.pos, r.end = buf, 0, n
			return true
		case err == nil:
			w.err = io.EOF
		case err != syscall.EAGAIN:
			w.err = os.NewSyscallError("read", err)
		}
		bufferPool.Put(buf)
		return w.err != nil
	}
}
