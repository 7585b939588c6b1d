package wire

import (
	"errors"
	"io"
)

// Extent is where the first result set of what was diverted lies, in bytes.
type Extent struct {
	Results int // result sets begun
	// Header is where the first one's definitions end, Rows where its rows begin.
	Header, Rows int64
	// End is where the packet that ends it begins, if Ended, and Status and Warnings
	// are that packet's.
	Ended            bool
	End              int64
	Status, Warnings uint16
}

// Divert has what is written from now on go to dst, as frames numbered from 0,
// until back is called, which flushes there. Changes of the session are kept back
// from the ends of result sets. REQUIRES: nothing is buffered.
func (c *Conn) Divert(dst io.Writer) (back func() Extent) {
	w, outer := c.w, c.diverted
	c.w, c.diverted = NewWriter(dst), &Extent{}
	return func() Extent {
		_ = c.w.Flush()
		c.w.drop()
		e := *c.diverted
		c.w, c.diverted = w, outer
		return e
	}
}

// Replay writes the packets that src has in frames, n of them at most, n < 0 for
// all, and returns how many and how many bytes of src they took.
func (c *Conn) Replay(src io.Reader, n int) (packets int, bytes int64, err error) {
	r := NewReader(src)
	r.unnumbered = true
	defer func() {
		r.pos = r.end
		r.Release()
	}()
	for n < 0 || packets < n {
		size, err := r.Frame()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return packets, bytes, err
		}
		before := c.w.total
		if err := r.copyPacket(c.w, size); err != nil {
			return packets, bytes, err
		}
		bytes += c.w.total - before
		packets++
	}
	return packets, bytes, nil
}
