package wire

import (
	"errors"
	"io"
)

// Divert has what is written from now on go to dst, as frames numbered from 0,
// until back is called, which flushes there. REQUIRES: nothing is buffered.
func (c *Conn) Divert(dst io.Writer) (back func()) {
	w := c.w
	c.w = NewWriter(dst)
	return func() {
		_ = c.w.Flush()
		c.w.drop()
		c.w = w
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
