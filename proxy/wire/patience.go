package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Patience bounds how long its owner waits for a Reader before he is told, at the
// price of two atomic operations a read: no timer is set. Somebody else calls Look
// at intervals, and a read that was under way at the last call already is woken.
//
// A Patience is for one goroutine's Readers, one after the other.
type Patience struct {
	// Late is called by the reading goroutine when a read takes long, once a read.
	// It must not use the Reader.
	Late func()

	// state is the number of the read, twice, and 1 while it is under way; woken
	// when it is that no more.
	state atomic.Uint64
	// waits: see Waits.
	waits atomic.Bool
	// reads is the number of the last one. Invariant: its reader's alone.
	reads uint64
	// on is what the read under way waits for. Invariant: changes only while none is.
	on Deadliner
	// mu is held while a read is woken.
	mu sync.Mutex
	// seen is the looker's.
	seen uint64
}

// Deadliner ends reads that wait. It may be called from another goroutine.
type Deadliner interface {
	SetReadDeadline(t time.Time) error
}

var longAgo = time.Unix(1, 0)

// Look wakes the read that was under way at the last call and still is. It reports
// a read under way, or one that has been since, or a longer wait. One goroutine at a
// time may call it.
func (w *Patience) Look() (active bool) {
	v := w.state.Load()
	if v != w.seen || v&1 == 0 {
		active = v != w.seen || w.waits.Load()
		w.seen = v
		return active
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.CompareAndSwap(v, v+1) {
		_ = w.on.SetReadDeadline(longAgo) // one that is closed ends anyway
	}
	return true
}

// Waits says that its owner waits for what Late was called for, or does no more: other
// reads will follow, which Look must see.
func (w *Patience) Waits(on bool) { w.waits.Store(on) }

// Touch counts as a read for Look.
func (w *Patience) Touch() {
	w.reads++
	w.state.Store(w.reads << 1)
}

func (w *Patience) begin(on Deadliner) {
	w.on = on
	w.reads++
	w.state.Store(w.reads<<1 | 1)
}

// end reports whether the read was woken. Its deadline is lifted again then.
func (w *Patience) end() (woken bool) {
	if w.state.CompareAndSwap(w.reads<<1|1, w.reads<<1) {
		return false
	}
	w.mu.Lock() // until the deadline is set
	defer w.mu.Unlock()
	w.reads++ // state has been raised by as much
	_ = w.on.SetReadDeadline(time.Time{})
	return true
}

// SetPatience has reads of r bound by w, nil for no bound. on ends those that wait.
// REQUIRES: no read is under way.
func (r *Reader) SetPatience(w *Patience, on Deadliner) { r.patience, r.deadline = w, on }

// read is src.Read, and calls Late when it takes long.
func (r *Reader) read(p []byte) (int, error) {
	if r.failed != nil {
		err := r.failed
		r.failed = nil
		return 0, err
	}
	if r.before != nil {
		r.before()
	}
	if r.patience == nil {
		return r.src.Read(p)
	}
	n, late, err := r.readFor(p)
	if late {
		// Not again: nothing more can come to be done while nothing is read.
		r.patience.Waits(true)
		n, err = r.src.Read(p)
		r.patience.Waits(false)
	}
	return n, err
}

// readFor reads for as long as patience lasts.
func (r *Reader) readFor(p []byte) (n int, late bool, err error) {
	w := r.patience
	w.begin(r.deadline)
	n, err = r.src.Read(p)
	if !w.end() {
		return n, false, err
	}
	w.Late()
	return n, n == 0 && errors.Is(err, os.ErrDeadlineExceeded), err
}

// Arrive waits until something can be read without waiting: bytes, or an error,
// which the next read gives. late: Patience came to its end before.
func (r *Reader) Arrive() (late bool) {
	if r.end > r.pos || r.failed != nil {
		return false
	}
	if r.buf == nil {
		r.buf = bufferPool.Get().(*[BufferSize]byte)
	}
	r.pos, r.end = 0, 0
	for empty := 0; r.end == 0; empty++ {
		n, err := 0, io.ErrNoProgress
		switch {
		case empty > 100:
		case r.patience == nil:
			n, err = r.src.Read(r.buf[:])
		default:
			if n, late, err = r.readFor(r.buf[:]); late {
				return true
			}
		}
		if r.end = n; n == 0 && err != nil {
			r.failed = err
			return false
		}
	}
	return false
}
