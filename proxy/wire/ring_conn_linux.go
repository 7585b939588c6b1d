package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// ringConn is a socket that a Ring sends to and receives from while it is used, and
// that is else read and written as any other.
//
// Whatever the kernel may still write to or read from belongs to the ringConn until
// it says that it has done so: who stops waiting, for a deadline or since it was closed,
// leaves that as it is.
//
// A small answer is handed over with its buffer and not waited for, so a Flush that
// returns doesn't say that the answer has left: Close waits for that (closeTime). The
// deadline for writing holds all the same, by a timer that is set once in a while (watch).
// Large answers are written as on any other socket.
type ringConn struct {
	net.Conn // the socket
	plain    io.ReadWriter
	control  syscall.RawConn
	ring     *Ring
	fd       int
	number   uint32

	mu sync.Mutex
	// uses are those of fd that are under way, by the kernel too. It is closed behind the last.
	uses int
	// closed by its owner; shut: what was sent has left before; gone: the socket is closed.
	closed, shut, gone bool

	in, out side
	// room is what is received into while a receive is under way, and unread what has
	// come and wasn't read yet. A client that is idle has the small room alone.
	receiving bool
	large     bool // answers come, not commands
	room      *[BufferSize]byte
	small     [smallRoom]byte
	unread    []byte
	failed    error // of reading, for good
	// asked: something was sent since the last read, so nothing has come yet.
	asked bool

	// sending[:left] is under way, nil for nothing.
	sending *[BufferSize]byte
	left    int
	broken  error // of writing, for good
	// overdue runs, if watched, at the deadline for what is being sent.
	overdue *time.Timer
	watched bool
}

// smallRoom is for most commands.
const smallRoom = 512

// closeTime bounds how long what was sent last may take to leave behind Close.
const closeTime = 10 * time.Second

// side is one of the two directions.
type side struct {
	turn  sync.Mutex // of those who read, or write; comes before the connection's
	until time.Time  // the deadline; zero for none
	// waiting: somebody waits for wake, which has room for one value. Invariant: who sets
	// it to false sends one.
	waiting bool
	wake    chan struct{}
	timer   *time.Timer
}

func (s *side) late() bool { return !s.until.IsZero() && !time.Now().Before(s.until) }

// stir ends the wait, if somebody waits.
func (s *side) stir() (woken bool) {
	if !s.waiting {
		return false
	}
	s.waiting = false
	s.wake <- struct{}{}
	return true
}

func newRingConn(r *Ring, nc net.Conn, large bool) (c *ringConn, ok bool) {
	raw := rawConn(nc)
	if raw == nil {
		return nil, false
	}
	c = &ringConn{Conn: nc, plain: newSocket(nc), control: raw, ring: r, large: large}
	c.in.wake, c.out.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	return c, raw.Control(func(fd uintptr) { c.fd = int(fd) }) == nil
}

// wait waits until s is stirred. mu is held before and behind it.
func (c *ringConn) wait(s *side) {
	s.waiting = true
	c.tick(s)
	c.mu.Unlock()
	if c.ring.woken.Load() > 0 {
		c.ring.woken.Add(-1)
	}
	<-s.wake
	c.mu.Lock()
	if s.timer != nil && !s.until.IsZero() {
		s.timer.Stop()
	}
}

// tick has the deadline end a wait.
func (c *ringConn) tick(s *side) {
	if s.until.IsZero() || !s.waiting {
		return
	}
	left := time.Until(s.until)
	switch {
	case left <= 0:
		s.stir()
	case s.timer != nil:
		s.timer.Reset(left)
	default:
		s.timer = time.AfterFunc(left, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.tick(s)
		})
	}
}

// stopped is why there is nothing to wait for.
func (c *ringConn) stopped(s *side) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case s.late():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// ours reports that the ring is used, or still has to do with the connection.
func (c *ringConn) ours() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ring.used.Load() || c.busy()
}

func (c *ringConn) busy() bool {
	return c.receiving || len(c.unread) > 0 || c.failed != nil || c.sending != nil
}

func (c *ringConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.turn.Lock()
	defer c.in.turn.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for tried := false; ; {
		if err := c.stopped(&c.in); err != nil {
			return 0, err
		}
		switch {
		case len(c.unread) > 0:
			n := copy(p, c.unread)
			if c.unread = c.unread[n:]; len(c.unread) == 0 {
				c.unread = nil
				c.leaveRoom()
			}
			return n, nil
		case c.failed != nil:
			return 0, c.failed
		case c.receiving:
			c.wait(&c.in)
		case !c.ring.used.Load():
			c.mu.Unlock()
			n, err := c.plain.Read(p)
			c.mu.Lock()
			return n, err
		case !c.asked && !tried:
			// The middle of what the peer sends.
			tried = true
			c.uses++
			c.mu.Unlock()
			n, came, err := receive(c.fd, p)
			c.mu.Lock()
			c.unuse()
			if came {
				return n, err
			}
		default:
			c.asked = false
			c.receive()
		}
	}
}

// receive has the ring receive what comes next.
func (c *ringConn) receive() {
	into := c.small[:]
	if c.large {
		c.room = bufferPool.Get().(*[BufferSize]byte)
		into = c.room[:]
	}
	c.receiving = true
	c.push(receives, submission{op: opRecv, ioprio: recvPollFirst, addr: uint64(uintptr(unsafe.Pointer(&into[0]))), len: uint32(len(into))})
}

// push queues what uses fd.
func (c *ringConn) push(k kind, s submission) {
	c.uses++
	s.fd, s.user = int32(c.fd), uint64(c.number)<<kindBits|uint64(k)
	c.ring.push(s)
}

func (c *ringConn) leaveRoom() {
	if c.room != nil {
		poison(c.room[:])
		bufferPool.Put(c.room)
		c.room = nil
	}
}

// completed is told by the poller what became of something that was pushed.
func (c *ringConn) completed(k kind, res int32) (woken int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.unuse()
	side := &c.in
	if k == receives {
		c.receiving = false
		switch {
		case res > 0 && c.room != nil:
			c.unread = c.room[:res]
		case res > 0:
			c.unread = c.small[:res]
		case undone(res) && !c.closed:
			c.leaveRoom()
			c.receive()
			return 0
		default:
			c.leaveRoom()
			if c.failed = io.EOF; res < 0 {
				c.failed = os.NewSyscallError("read", syscall.Errno(-res))
			}
		}
	} else {
		side = &c.out
		switch {
		case undone(res) && !c.closed:
			c.send()
			return 0
		case res < 0:
			c.breakOff(os.NewSyscallError("write", syscall.Errno(-res)))
		default:
			if c.left = copy(c.sending[:], c.sending[res:c.left]); c.left > 0 {
				c.send()
				return 0
			}
		}
		poison(c.sending[:])
		bufferPool.Put(c.sending)
		c.sending = nil
		c.shutLocked(false)
	}
	if side.stir() {
		return 1
	}
	return 0
}

// undone reports what is to be asked again: the thread that asked has ended, say.
func undone(res int32) bool {
	errno := syscall.Errno(-res)
	return errno == syscall.EAGAIN || errno == syscall.EINTR || errno == syscall.ECANCELED
}

// ready returns when nothing is being sent any more, or why nothing more can be.
func (c *ringConn) ready() error {
	for {
		if err := c.stopped(&c.out); err != nil {
			return err
		}
		if c.broken != nil {
			return c.broken
		}
		if c.sending == nil {
			return nil
		}
		c.wait(&c.out)
	}
}

// sendBuffer sends the first n bytes of buf, which is the connection's from then on
// unless there is an error. It need not wait for them to leave, but for what was sent
// before.
func (c *ringConn) sendBuffer(buf *[BufferSize]byte, n int) error {
	c.out.turn.Lock()
	defer c.out.turn.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ready(); err != nil {
		return err
	}
	if c.asked = true; !c.ring.used.Load() {
		c.mu.Unlock()
		_, err := c.plain.Write(buf[:n])
		c.mu.Lock()
		if err == nil {
			poison(buf[:])
			bufferPool.Put(buf)
		}
		return err
	}
	c.sending, c.left = buf, n
	c.send()
	c.watch()
	return nil
}

func (c *ringConn) send() {
	c.push(sends, submission{
		op: opSend, addr: uint64(uintptr(unsafe.Pointer(c.sending))), len: uint32(c.left), opFlags: syscall.MSG_NOSIGNAL | syscall.MSG_WAITALL,
	})
}

// watch has the deadline hold for what was handed over, and isn't waited for.
func (c *ringConn) watch() {
	if c.watched || c.out.until.IsZero() {
		return
	}
	c.watched = true
	left := time.Until(c.out.until)
	if c.overdue == nil {
		c.overdue = time.AfterFunc(left, c.expire)
	} else {
		c.overdue.Reset(left)
	}
}

// rewatch is watch with another deadline.
func (c *ringConn) rewatch() {
	if c.sending != nil {
		c.watched = false
		c.watch()
	}
}

func (c *ringConn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	switch {
	case c.sending == nil || c.shut:
	case !c.out.late():
		c.watch()
	case c.closed:
		c.shutLocked(true)
	default:
		c.breakOff(os.ErrDeadlineExceeded)
	}
}

// breakOff ends reading, too: whoever waits for the answer to what wasn't sent would wait for ever.
// REQUIRES: fd is in use.
func (c *ringConn) breakOff(err error) {
	if c.broken == nil {
		c.broken = err
	}
	_ = syscall.Shutdown(c.fd, syscall.SHUT_RDWR)
}

func (c *ringConn) Write(p []byte) (int, error) {
	c.out.turn.Lock()
	defer c.out.turn.Unlock()
	c.mu.Lock()
	err := c.ready()
	c.asked = true
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.plain.Write(p)
}

// unuse ends a use of fd.
func (c *ringConn) unuse() {
	if c.uses--; c.uses == 0 && c.shut && !c.gone {
		c.gone = true
		_ = c.Conn.Close()
		c.ring.forget(c)
	}
}

// Close closes the connection behind what is being sent.
func (c *ringConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.in.stir()
	c.out.stir()
	if c.sending != nil {
		_ = c.Conn.SetDeadline(longAgo) // of who waits without the ring
		c.out.until = time.Now().Add(closeTime)
		c.rewatch()
	}
	c.shutLocked(false)
	return nil
}

// shutLocked ends a closed connection, and what the ring does with it.
func (c *ringConn) shutLocked(anyway bool) {
	if !c.closed || c.shut || c.sending != nil && !anyway {
		return
	}
	c.shut = true
	if c.overdue != nil {
		c.overdue.Stop()
	}
	if c.uses > 0 {
		_ = syscall.Shutdown(c.fd, syscall.SHUT_RDWR)
	}
	c.uses++
	c.unuse()
}

// CloseWrite tells the peer that nothing more comes, behind what is being sent.
func (c *ringConn) CloseWrite() error {
	c.out.turn.Lock()
	defer c.out.turn.Unlock()
	c.mu.Lock()
	err := c.ready()
	c.mu.Unlock()
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if err != nil || !ok {
		return err
	}
	return half.CloseWrite()
}

func (c *ringConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *ringConn) SetReadDeadline(t time.Time) error {
	return errors.Join(c.bound(&c.in, t), c.Conn.SetReadDeadline(t))
}

func (c *ringConn) SetWriteDeadline(t time.Time) error {
	return errors.Join(c.bound(&c.out, t), c.Conn.SetWriteDeadline(t))
}

func (c *ringConn) bound(s *side, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	s.until = t
	c.tick(s)
	if s == &c.out {
		c.rewatch()
	}
	return nil
}

// NetConn is the socket.
func (c *ringConn) NetConn() net.Conn { return c.Conn }

// has reports whether something has come that wasn't read yet.
func (c *ringConn) has() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unread) > 0
}
