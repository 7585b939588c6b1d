package follow

import (
	"bufio"
	"fmt"
	"io"
	"net"
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

func newPackets(nc net.Conn) *packets {
	p := &patient{nc, searching}
	return &packets{r: bufio.NewReaderSize(p, 64<<10), sequence: 1, conn: p}
}

// found says that the server has come to the position, and may be silent for so long from now on.
func (p *packets) found(silence time.Duration) {
	if p.conn != nil {
		p.conn.silence = silence
	}
}

// patient reads with a deadline of its own each time.
type patient struct {
	net.Conn
	silence time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
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
