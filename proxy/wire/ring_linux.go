package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Ring is an io_uring that does what connections send and receive, in place of
// Go's poller, while the process has one processor (Use): sessions queue it and wait, and
// one system call of the poller's goroutine does it for all of them. A statement for one
// shard so costs about one system call instead of six.
//
//	session    queues "send to the shard", "receive from the shard", and waits
//	...        as do others, until none can run
//	poller     io_uring_enter: sends, receives what has come
//	           wakes the sessions whose answers came, and lets them run
//
// It is a goroutine as any other, which gives way (Gosched) to all that can run. When
// nothing has come it waits in Go's poller, for the ring's descriptor. Waiting in
// io_uring_enter, with the goroutine's processor, would be a system call less, and isn't cheaper:
// what comes within the time until Go's poller waits is one wake-up less.
//
// With more processors each session that it woke would have the scheduler wake a thread,
// to see whether there is more to run: a point select takes a third more then than by Go's
// poller, which runs a session where it was found. So Go's poller serves then: it knows all
// sockets all the time, and each wait is by one or the other.
//
// Elsewhere, and with SHUNT_IO_URING=off, Go's poller serves alone. Of the end-to-end
// tests MySQL's half runs over io_uring, MariaDB's without.
//
// To a session a connection of the ring is a net.Conn as any other, under TLS and
// compression too (TestRingConn runs x/net/nettest over it): nothing above this package
// knows of the ring. Go has no well-kept library for io_uring, and three operations of
// the kernel's interface suffice.
//
// Why the poller is an ordinary goroutine: sessions block, lock and compute as they like,
// and the scheduler goes on with the others. A loop with callbacks or coroutines would be
// 1 to 2 µs faster a statement. Such a loop would stand still with each session that waits
// for anything but its socket.
//
// Why receives are asked for one by one, and not once and for all: a receive belongs to
// the thread that asked for it, and a thread that doesn't run any more would be woken
// for each.
type Ring struct {
	fd   int
	file *os.File // fd in Go's poller
	raw  syscall.RawConn
	// rested is r.attempt, kept so that a wait allocates nothing.
	rested func(fd uintptr) (done bool)
	maps   [][]byte
	used   atomic.Bool

	// mu is for what is queued, and for conns. It comes behind a ringConn's.
	mu             sync.Mutex
	queue          []submission
	tail           uint32
	sqHead, sqTail *uint32

	completions    []completion
	cqHead, cqTail *uint32
	flags          *uint32 // tell that the next call of the kernel completes more

	// asleep: the poller submits no more before it waits: who queues does.
	asleep atomic.Bool
	// woken is about how many of those that were woken last don't wait again yet.
	woken atomic.Int32
	// passing: Go's poller is to look at its sockets, and rest not to wait. It is the poller's.
	passing bool
	// conns has a place for each connection, which is its number to the kernel.
	conns   []*ringConn
	free    []uint32
	closing atomic.Bool
	ended   chan struct{}
}

const (
	ringEntries = 1024
	// patient is how often it lets others run who were woken and don't wait yet.
	patient = 2
	// lookEvery is how often Go's poller looks at its own sockets, such as listeners,
	// which it does only when a goroutine waits and no other can run: beside a busy ring never.
	lookEvery = time.Millisecond
)

// The kernel's names and numbers (linux/io_uring.h), the same on all architectures.
const (
	sysSetup, sysEnter = 425, 426

	setupCQSize      = 1 << 3
	setupSubmitAll   = 1 << 7
	setupCoopTaskrun = 1 << 8
	setupTaskrunFlag = 1 << 9

	featSingleMmap = 1 << 0
	featNoDrop     = 1 << 1
	featFastPoll   = 1 << 5

	enterGetEvents = 1 << 0

	offsetRings   = 0
	offsetEntries = 0x10000000

	sqCQOverflow = 1 << 1
	sqTaskrun    = 1 << 2

	opNop  = 0
	opSend = 26
	opRecv = 27

	recvPollFirst = 1 << 0
)

// submission is struct io_uring_sqe.
type submission struct {
	op, flags    uint8
	ioprio       uint16
	fd           int32
	offset, addr uint64
	len, opFlags uint32
	user         uint64
	_            [3]uint64
}

// completion is struct io_uring_cqe.
type completion struct {
	user  uint64
	res   int32
	flags uint32
}

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	sq                                                   struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, completions, flags, _ uint32
		_                                                          uint64
	}
}

// NewRing fails where the kernel has none, or doesn't allow it, as in many containers.
func NewRing() (*Ring, error) { return newRing(ringEntries, 8*ringEntries) }

func newRing(entries, completions uint32) (*Ring, error) {
	p := ringParams{flags: setupCQSize | setupSubmitAll | setupCoopTaskrun | setupTaskrunFlag, cqEntries: completions}
	fd, _, errno := syscall.Syscall(sysSetup, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	r := &Ring{fd: int(fd), ended: make(chan struct{})}
	r.rested = r.attempt
	syscall.CloseOnExec(r.fd)
	err := r.begin(&p)
	if err != nil {
		r.unmap()
		if r.file != nil { // the descriptor is its
			_ = r.file.Close()
		} else {
			_ = syscall.Close(r.fd)
		}
		return nil, err
	}
	go r.poll()
	return r, nil
}

func (r *Ring) begin(p *ringParams) error {
	const wanted = featSingleMmap | featNoDrop | featFastPoll
	if p.features&wanted != wanted {
		return errors.New("io_uring of this kernel is too old")
	}
	size := max(p.sq.array+p.sqEntries*4, p.cq.completions+p.cqEntries*uint32(unsafe.Sizeof(completion{})))
	rings, err := r.mmap(offsetRings, int(size))
	if err != nil {
		return err
	}
	entries, err := r.mmap(offsetEntries, int(p.sqEntries)*int(unsafe.Sizeof(submission{})))
	if err != nil {
		return err
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&rings[offset])) }
	r.sqHead, r.sqTail, r.cqHead, r.cqTail, r.flags = at(p.sq.head), at(p.sq.tail), at(p.cq.head), at(p.cq.tail), at(p.sq.flags)
	r.queue = unsafe.Slice((*submission)(unsafe.Pointer(&entries[0])), p.sqEntries)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&rings[p.cq.completions])), p.cqEntries)
	for i := range p.sqEntries {
		*at(p.sq.array + 4*i) = i
	}
	r.push(submission{op: opNop, user: noConn})
	if errno := r.enter(1, 0); errno != 0 { // it may be forbidden by itself
		return os.NewSyscallError("io_uring_enter", errno)
	}
	if err := syscall.SetNonblock(r.fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	r.file = os.NewFile(uintptr(r.fd), "io_uring")
	if r.raw, err = r.file.SyscallConn(); err == nil {
		err = r.file.SetDeadline(time.Time{}) // fails where Go's poller doesn't have it
	}
	if err != nil {
		return fmt.Errorf("poll io_uring: %w", err)
	}
	return nil
}

func (r *Ring) mmap(offset int64, size int) ([]byte, error) {
	m, err := syscall.Mmap(r.fd, offset, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	r.maps = append(r.maps, m)
	return m, nil
}

func (r *Ring) unmap() {
	for _, m := range r.maps {
		_ = syscall.Munmap(m)
	}
}

// Use says whether connections wait by the ring from now on, or by Go's poller.
func (r *Ring) Use(use bool) {
	if r != nil {
		r.used.Store(use)
	}
}

// Close ends the poller: connections that are still open wait for ever then.
func (r *Ring) Close() {
	if r == nil || r.closing.Swap(true) {
		return
	}
	r.push(submission{op: opNop, user: noConn})
	r.submit()
	<-r.ended
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) == len(r.conns) { // or somebody may still use it
		r.queue = nil
		r.unmap()
		_ = r.file.Close()
	}
}

// noConn is the number of none.
const noConn = ^uint64(0)

// push queues what the kernel shall do. Who pushes for a connection holds its mutex.
func (r *Ring) push(s submission) {
	r.mu.Lock()
	if r.queue == nil { // closed, and nothing belongs to the kernel any more
		r.mu.Unlock()
		return
	}
	for r.tail-atomic.LoadUint32(r.sqHead) == uint32(len(r.queue)) {
		r.mu.Unlock()
		r.submit()
		runtime.Gosched() // the kernel may have no memory at the moment
		r.mu.Lock()
	}
	r.queue[r.tail%uint32(len(r.queue))] = s
	r.tail++
	atomic.StoreUint32(r.sqTail, r.tail)
	r.mu.Unlock()
	if r.asleep.Load() {
		r.submit()
	}
}

// submit begins all that is queued, and has what was done be told for which there was no
// room. What fails is left queued for the next call.
func (r *Ring) submit() {
	if r.overflowed() {
		_ = r.enter(0, enterGetEvents)
	}
	_ = r.enter(r.queued(), 0)
}

func (r *Ring) queued() uint32 { return atomic.LoadUint32(r.sqTail) - atomic.LoadUint32(r.sqHead) }

// enter calls the kernel, which heeds flags only where as much is queued as it is told of.
func (r *Ring) enter(queued uint32, flags uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(sysEnter, uintptr(r.fd), uintptr(queued), 0, flags, 0, 0)
	return errno
}

func (r *Ring) overflowed() bool { return atomic.LoadUint32(r.flags)&sqCQOverflow != 0 }

// due reports that something has come of which the kernel tells when it is called.
func (r *Ring) due() bool { return atomic.LoadUint32(r.flags)&(sqTaskrun|sqCQOverflow) != 0 }

// rest waits in Go's poller, for no longer than a look at its sockets takes if passing.
func (r *Ring) rest(passing bool) {
	r.passing = passing
	_ = r.raw.Read(r.rested) // can't fail: the file is open for as long as there is a poller
}

func (r *Ring) attempt(uintptr) (done bool) {
	if r.passing {
		r.passing = false
		r.push(submission{op: opNop, user: noConn}) // only what is done from here on ends the wait
		return false
	}
	return r.ready() || r.closing.Load()
}

// ready reports that something has been done.
func (r *Ring) ready() bool {
	return atomic.LoadUint32(r.cqTail) != *r.cqHead || r.overflowed()
}

func (r *Ring) poll() {
	defer close(r.ended)
	for looked := time.Now(); !r.closing.Load(); {
		for n := 0; n < patient && r.woken.Load() > 0; n++ {
			runtime.Gosched()
		}
		r.asleep.Store(true)
		if r.queued() > 0 || r.due() {
			r.submit()
		}
		now := time.Now()
		if look := now.Sub(looked) > lookEvery; look || !r.ready() {
			r.rest(look)
			looked = now
		}
		r.asleep.Store(false)
		if woken := r.reap(); woken > 0 {
			r.woken.Store(int32(woken))
			runtime.Gosched()
		}
	}
}

// reap looks at what has been done.
func (r *Ring) reap() (woken int) {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	if head == tail {
		return 0
	}
	r.mu.Lock()
	conns := r.conns
	r.mu.Unlock()
	for ; head != tail; head++ {
		c := r.completions[head%uint32(len(r.completions))]
		atomic.StoreUint32(r.cqHead, head+1)
		if c.user != noConn {
			woken += conns[c.user>>kindBits].completed(kind(c.user&(1<<kindBits-1)), c.res)
		}
	}
	return woken
}

// kind is what was asked of the kernel, in the low bits of a submission's number.
type kind uint64

const (
	receives kind = iota
	sends
	kindBits = 1
)

// Adopt returns a connection in nc's place that is sent to and received from by the ring
// while that is used; nc itself where r is nil or nc no socket. asks: the peer is one that
// answers, often with more than a command has.
func (r *Ring) Adopt(nc net.Conn, asks bool) net.Conn {
	if r == nil {
		return nc
	}
	c, ok := newRingConn(r, nc, asks)
	if !ok {
		return nc
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		c.number, r.free = r.free[n-1], r.free[:n-1]
		r.conns[c.number] = c
	} else {
		c.number = uint32(len(r.conns))
		r.conns = append(r.conns, c)
	}
	return c
}

// forget is for a connection of which nothing more is asked.
func (r *Ring) forget(c *ringConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c.number] = nil
	r.free = append(r.free, c.number)
}
