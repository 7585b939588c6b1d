package keys

// binaryOf gives the bytes that a string literal has in a binary column or
// comparison: those it came with, whatever its character set. Where the client's
// differs from the connection's, they are others: 'ö' of a utf8mb4 client on a
// latin1 connection is stored as X'F6'.
func binaryOf(v Value) (string, bool) {
	switch v.kind {
	case kindBytes:
		return v.text, true
	case kindString:
		return v.text, v.charset != UnknownCharset
	default:
		return "", false
	}
}

func (c *Codec) storedBinary(dst []byte, v Value) ([]byte, bool) {
	b, ok := binaryOf(v)
	if !ok || len(b) > c.length {
		return dst, false
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	s.text = append(s.text[:0], b...)
	for c.fixed && len(s.text) < c.length { // BINARY(n) pads with zero bytes
		s.text = append(s.text, 0x00)
	}
	return appendPlain(dst, s.text, whole), true
}

// equalBinary compares all bytes, without padding. On BINARY(n) a shorter
// value equals nothing, but a server that looks it up in an index pads it: only
// the full length is taken.
func (c *Codec) equalBinary(dst []byte, v Value, p part) ([]byte, bool) {
	b, ok := binaryOf(v)
	if !ok || c.fixed && len(b) != c.length {
		return dst, false
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	s.text = append(s.text[:0], b...)
	return appendPlain(dst, s.text, p), true
}

func (c *Codec) likeBinary(v Value) ([]byte, bool) {
	b, ok := binaryOf(v)
	if !ok || b == "" || v.kind == kindString && !asciiSet(v.charset) {
		return nil, false
	}
	return appendPlain(nil, []byte(b), prefix), true
}
