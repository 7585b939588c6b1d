//go:build unix

package wire

import (
	"net"
	"syscall"
)

// idleWait waits for a socket's next bytes without holding a buffer, and then
// reads them with the same system call that found them. Thousands of idle
// clients cost no buffers so.
type idleWait struct {
	raw  syscall.RawConn
	ring ringed // nil for none
	// try is wait.attempt, kept so that a wait allocates nothing.
	try func(fd uintptr) bool
	r   *Reader
	err error
}

func newIdleWait(nc net.Conn) *idleWait {
	nc, ring := withRing(nc)
	raw := rawConn(nc)
	if raw == nil {
		return nil
	}
	w := &idleWait{raw: raw, ring: ring}
	w.try = w.attempt
	return w
}

// read waits and fills r's buffer. REQUIRES: r holds no buffer.
func (w *idleWait) read(r *Reader) error {
	if w.ring != nil && w.ring.ours() {
		return r.Await()
	}
	w.r, w.err = r, nil
	if err := w.raw.Read(w.try); err != nil {
		return err
	}
	return w.err
}

func (w *idleWait) attempt(fd uintptr) (done bool) {
	done, w.err = w.r.readFrom(int(fd))
	return done
}

// readFrom reads what has come on a socket. done is false where that is nothing:
// no buffer is held then. REQUIRES: nothing is buffered.
func (r *Reader) readFrom(fd int) (done bool, err error) {
	buf := r.buf
	if buf == nil {
		buf = bufferPool.Get().(*[BufferSize]byte)
	}
	n, came, err := receive(fd, buf[:])
	if n > 0 {
		r.buf, r.pos, r.end = buf, 0, n
		return true, nil
	}
	r.buf, r.pos, r.end = nil, 0, 0
	bufferPool.Put(buf)
	return came, err
}
