package wire

import "encoding/binary"

// AppendLenInt appends a length-encoded integer.
func AppendLenInt(dst []byte, n uint64) []byte {
	switch {
	case n <= 250:
		return append(dst, byte(n))
	case n <= 0xFFFF:
		return append(dst, 0xFC, byte(n), byte(n>>8))
	case n <= 0xFFFFFF:
		return append(dst, 0xFD, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(dst, 0xFE), n)
}

// AppendLenBytes appends a length-encoded string.
func AppendLenBytes[T string | []byte](dst []byte, s T) []byte {
	return append(AppendLenInt(dst, uint64(len(s))), s...)
}

// TakeLenInt cuts a length-encoded integer off p. ok is false when p is too
// short, or begins with the NULL marker 0xFB or with 0xFF.
func TakeLenInt(p []byte) (n uint64, rest []byte, ok bool) {
	if len(p) == 0 {
		return 0, nil, false
	}
	size := 0
	switch p[0] {
	case 0xFB, 0xFF:
		return 0, p, false
	case 0xFC:
		size = 2
	case 0xFD:
		size = 3
	case 0xFE:
		size = 8
	default:
		return uint64(p[0]), p[1:], true
	}
	if len(p) < 1+size {
		return 0, p, false
	}
	for i := size; i > 0; i-- {
		n = n<<8 | uint64(p[i])
	}
	return n, p[1+size:], true
}

// TakeLenBytes cuts a length-encoded string off p. It isn't copied.
func TakeLenBytes(p []byte) (s, rest []byte, ok bool) {
	n, rest, ok := TakeLenInt(p)
	if !ok || n > uint64(len(rest)) {
		return nil, p, false
	}
	return rest[:n:n], rest[n:], true
}

// takeNul cuts a NUL-terminated string off p.
func takeNul(p []byte) (s, rest []byte, ok bool) {
	for i, b := range p {
		if b == 0 {
			return p[:i], p[i+1:], true
		}
	}
	return nil, p, false
}
