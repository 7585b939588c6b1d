//go:build unix

package wire

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// Exchange sends a command and waits for its answer with one system call less
// than Flush and a read that finds nothing yet: between them lies only the wait.
type Exchange struct {
	raw  syscall.RawConn
	ring ringed // nil for none
	// try is e.attempt, kept so that an exchange allocates nothing.
	try  func(fd uintptr) bool
	r    *Reader
	w    *Writer
	sent bool
	err  error
}

// NewExchange returns nil where that isn't possible (TLS).
func NewExchange(nc net.Conn, r *Reader, w *Writer) *Exchange {
	nc, ring := withRing(nc)
	raw := rawConn(nc)
	if raw == nil {
		return nil
	}
	e := &Exchange{raw: raw, ring: ring, r: r, w: w}
	e.try = e.attempt
	return e
}

// Do sends what the Writer has buffered, and waits until the Reader has something
// of the answer, or the Reader's Patience comes to its end. Where not all could be
// sent at once, it flushes the rest and doesn't wait; nor where a Ring does both. REQUIRES: the peer sends nothing
// before it is asked, so nothing has come since the last read.
//
// The poller forgets at the wait's beginning what has come before, and here the
// wait begins before the command is sent. Counter-example: a peer that sends of
// its own accord just before; it would be waited for again.
func (e *Exchange) Do() error {
	if e.w.n == 0 || e.r.Buffered() > 0 || e.w.err != nil || e.ring != nil && e.ring.ours() {
		return e.w.Flush()
	}
	e.sent, e.err = false, nil
	w := e.r.patience
	if w != nil {
		w.begin(e.r.deadline)
	}
	err := e.raw.Read(e.try)
	if w != nil && w.end() && errors.Is(err, os.ErrDeadlineExceeded) {
		if !e.sent { // woken before it had begun
			return e.w.Flush()
		}
		err = nil // the reading of the answer waits on
	}
	if err != nil {
		if !e.sent {
			e.w.err = err
		}
		return err
	}
	if e.err == nil && e.w.n > 0 {
		return e.w.Flush()
	}
	return e.err
}

func (e *Exchange) attempt(fd uintptr) (done bool) {
	if e.sent {
		done, e.err = e.r.readFrom(int(fd))
		return done
	}
	e.sent = true
	n, errno := writeNow(int(fd), e.w.buf[:e.w.n])
	if errno != 0 && errno != syscall.EAGAIN {
		e.err, e.w.err = errno, errno
		return true
	}
	e.w.sent += int64(n)
	if n == e.w.n {
		e.w.drop()
		return false
	}
	e.w.n = copy(e.w.buf[:], e.w.buf[n:e.w.n])
	return true
}
