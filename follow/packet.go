package follow

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// packets reads the packets of a connection, each as a stream: an event may be as large as a gigabyte.
type packets struct {
	r *bufio.Reader
	// left is what the frame has yet, more that another one of the packet follows.
	left     int
	more     bool
	sequence byte
	conn     *patient // nil: none
}

// searching is how long a server may look for a position in its log, during which it sends nothing
// (MariaDB before 11.4 reads a file from its beginning).
const searching = 10 * time.Minute

// newPackets reads from a connection. lull is called where all that had come has been read: see readEvery.
func newPackets(nc net.Conn, lull func(time.Duration)) *packets {
	p := &patient{Conn: nc, silence: searching, lull: lull}
	return &packets{r: bufio.NewReaderSize(p, 64<<10), sequence: 1, conn: p}
}

// found says that the server has come to the position, and may be silent for so long from now on.
func (p *packets) found(silence time.Duration) {
	if p.conn != nil {
		p.conn.silence = silence
	}
}

// readEvery is how long a connection rests from one read to the next, unless somebody waits for what comes, or more has come
// than a read takes. A server sends each transaction as it commits: a system call, and a goroutine that wakes, for each of
// thousands a second cost more than all that is done with them.
const readEvery = 5 * time.Millisecond

// patient reads with a deadline of its own each time, and not at once.
type patient struct {
	net.Conn
	silence time.Duration
	lull    func(time.Duration)
	last    time.Time // zero: the last read was full
	// waits is since when it has waited, 0: it doesn't, quiet up to when nothing had come for quietTime: Unix nanoseconds.
	waits, quiet atomic.Int64
}

// quietTime is how long a server that has more of its log sends nothing at most, unless it reads that from a slow disk.
const quietTime = 100 * time.Millisecond

// quietUntil is up to when the server had no more to send, zero where it has had all the time.
func (p *patient) quietUntil() (at time.Time) {
	if n := p.quiet.Load(); n > 0 {
		at = time.Unix(0, n)
	}
	now := time.Now()
	if n := p.waits.Load(); n > 0 && now.Sub(time.Unix(0, n)) >= quietTime {
		return now
	}
	return at
}

func (p *patient) Read(b []byte) (int, error) {
	now := time.Now()
	if rest := readEvery - now.Sub(p.last); rest > 0 {
		p.lull(rest)
		now = time.Now()
	}
	if err := p.SetReadDeadline(now.Add(p.silence)); err != nil {
		return 0, err
	}
	p.waits.Store(now.UnixNano())
	n, err := p.Conn.Read(b)
	p.waits.Store(0)
	if ended := time.Now(); ended.Sub(now) >= quietTime && err == nil {
		p.quiet.Store(ended.UnixNano())
	}
	p.last = time.Time{}
	if n < len(b) {
		p.last = time.Now()
	}
	return n, err
}

// next goes to the next packet, and leaves out what of this one hasn't been read.
func (p *packets) next() error {
	if _, err := io.Copy(io.Discard, p); err != nil {
		return err
	}
	return p.frame()
}

const wholeFrame = 1<<24 - 1

func (p *packets) frame() error {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return err
	}
	if head[3] != p.sequence {
		return fmt.Errorf("packet %d came in place of packet %d", head[3], p.sequence)
	}
	p.sequence++
	p.left = int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	p.more = p.left == wholeFrame
	return nil
}

// Read reads of the packet; io.EOF is its end.
func (p *packets) Read(b []byte) (int, error) {
	for p.left == 0 {
		if !p.more {
			return 0, io.EOF
		}
		if err := p.frame(); err != nil {
			return 0, unexpected(err)
		}
	}
	n, err := p.r.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, unexpected(err)
}

// unexpected has a connection's end not taken for a packet's.
func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // bufio gives it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}
