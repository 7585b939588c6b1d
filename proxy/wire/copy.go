package wire

// isEnd tells from a packet's first byte and first frame's length whether it
// ends a sequence of rows or column definitions: an EOF packet (0xFE and less
// than nine bytes; a row that begins with 0xFE holds a value of 16 MiB at
// least) or an ERR packet (0xFF, which begins no row).
func isEnd(first byte, n int) bool {
	return first == 0xFE && n < 9 || first == 0xFF
}

// AtEnd reads the header of the next packet's first frame and tells whether it
// is an EOF or ERR packet. The payload is not consumed; n is its length.
func (r *Reader) AtEnd() (end bool, n int, err error) {
	n, err = r.Frame()
	if err != nil || n == 0 {
		return false, n, err
	}
	p, err := r.Peek(1)
	if err != nil {
		return false, n, err
	}
	return isEnd(p[0], n), n, nil
}

// CopyUntilEnd copies packets from r to w until an EOF or ERR packet, whose
// header it consumes, and returns the number copied and the length of that
// last packet. Nothing is decoded; frames get w's sequence numbers. A nil w
// discards. On an error w.Err tells whether it was the writer's.
func (r *Reader) CopyUntilEnd(w *Writer) (packets int64, n int, err error) {
	for {
		k, err := r.copyBuffered(w)
		packets += k
		if err != nil {
			return packets, 0, err
		}
		end, n, err := r.AtEnd()
		if err != nil || end {
			return packets, n, err
		}
		if err := r.copyPacket(w, n); err != nil {
			return packets, 0, err
		}
		packets++
	}
}

// copyBuffered copies the packets that lie whole in the buffer, all in one
// piece, with the sequence numbers rewritten in place.
func (r *Reader) copyBuffered(w *Writer) (packets int64, err error) {
	if r.buf == nil {
		return 0, nil
	}
	pos := r.pos
	for r.end-pos > headerSize {
		h := r.buf[pos : pos+headerSize+1]
		n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
		if n > r.end-pos-headerSize || n == MaxFrame {
			break
		}
		if n > 0 && isEnd(h[headerSize], n) {
			break
		}
		if h[3] != r.seq {
			err = ErrSequence
			break
		}
		r.seq++
		if w != nil {
			h[3] = w.seq
			w.seq++
		}
		pos += headerSize + n
		packets++
	}
	p := r.buf[r.pos:pos]
	r.pos = pos
	if w != nil && len(p) > 0 {
		if err := w.raw(p); err != nil {
			return packets, err
		}
	}
	return packets, err
}

// copyPacket copies the packet whose first frame of length n is begun.
func (r *Reader) copyPacket(w *Writer, n int) error {
	if w == nil {
		return r.Skip(n)
	}
	if n <= BufferSize {
		// Whole before any of it is sent: a shard that dies here leaves no
		// half of a packet at the client.
		p, err := r.Rest()
		if err != nil {
			return err
		}
		if err := w.frame(n); err != nil {
			return err
		}
		return w.raw(p)
	}
	w.cut = true
	for {
		if err := w.frame(n); err != nil {
			return err
		}
		for r.left > 0 {
			p, err := r.Chunk()
			if err != nil {
				return err
			}
			if err := w.raw(p); err != nil {
				return err
			}
		}
		if n < MaxFrame {
			w.cut = false
			return nil
		}
		var err error
		if n, err = r.Frame(); err != nil {
			return unexpected(err)
		}
	}
}
