package keys

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// The first byte of a component. Their order is the order of the keys: NULL
// before every value. A column uses one family of them only.
const (
	tagNull = 0x00
	tagText = 0x01 // strings, binary strings and enum members

	// Integers, and the temporal types, which are packed into integers. The
	// outer two occur only in bounds: they are shorter or longer than any
	// stored component and carry no number.
	tagBelow    = 0x02
	tagNegative = 0x03
	tagPositive = 0x04 // zero too
	tagAbove    = 0x05

	tagDecimalNegative = 0x08
	tagDecimalZero     = 0x09
	tagDecimalPositive = 0x0a
)

// AppendNull appends the NULL component of a composite key. It sorts before
// every value.
func AppendNull(dst []byte) []byte { return append(dst, tagNull) }

// Successor returns the smallest key that is greater than every key beginning
// with prefix, in new memory; nil when there is none.
func Successor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			out := append([]byte(nil), prefix[:i+1]...)
			out[i]++
			return out
		}
	}
	return nil
}

func appendInt(dst []byte, n int64) []byte {
	if n < 0 {
		// Two's complement of a negative number is order-preserving as it is.
		return binary.BigEndian.AppendUint64(append(dst, tagNegative), uint64(n))
	}
	return appendUint(dst, uint64(n))
}

func appendUint(dst []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tagPositive), n)
}

// cutAt is the length of a text body, in encoded bytes, after which it is cut:
// the rest is replaced by its hash. Two different long strings then share a key
// only if their hashes collide, which costs a visit and is never wrong.
const cutAt = 256

// part says how much of a text component is wanted.
type part uint8

const (
	// whole is a complete component.
	whole part = iota
	// bound is as whole, but where the text would be cut it ends at the cut,
	// without marker and hash: a prefix of the components of all texts that
	// begin alike, and so a safe end of a range on either side.
	bound
	// prefix has no terminator: every continuation begins with it.
	prefix
)

// The bytes after 0x00 in a text without padding. 0x00 0xff is a zero byte of
// the weights themselves.
const (
	plainEnd  = 0x01
	plainCut  = 0x02
	plainZero = 0xff
)

// appendPlain appends the component of the weights w of a text that is not
// padded: shorter sorts first.
func appendPlain(dst, w []byte, p part) []byte {
	dst = append(dst, tagText)
	start := len(dst)
	for i, b := range w {
		if len(dst)-start >= cutAt {
			if p == whole {
				dst = append(dst, 0x00, plainCut)
				dst = binary.BigEndian.AppendUint64(dst, xxhash.Sum64(w[i:]))
			}
			return dst
		}
		dst = append(dst, b)
		if b == 0x00 {
			dst = append(dst, plainZero)
		}
	}
	if p == prefix {
		return dst
	}
	return append(dst, 0x00, plainEnd)
}

// The byte after a pad unit in a padded text, in their order: see doc.go.
const (
	padCutBelow = 0x00 // cut; what follows sorts below endless padding
	padRunBelow = 0x01 // a run of padding, then a unit below the pad unit
	padEnd      = 0x02 // nothing but padding follows
	padRunAbove = 0x03 // a run of padding, then a unit above the pad unit
	padCutAbove = 0x04 // cut; what follows sorts above endless padding
)

// appendPadded appends the component of the weights w of a text that compares
// as if padded with pad without end. All units of w are as long as pad.
func appendPadded(dst, w, pad []byte, p part) []byte {
	u := len(pad)
	for len(w) >= u && bytes.Equal(w[len(w)-u:], pad) {
		w = w[:len(w)-u]
	}
	dst = append(dst, tagText)
	start := len(dst)
	i := 0
	if len(w) <= cutAt && len(w)%u == 0 && !hasUnit(w, pad) {
		// Most texts: nothing in them sorts apart, and nothing is cut.
		dst, i = append(dst, w...), len(w)
	}
	for i+u <= len(w) {
		unit := w[i : i+u]
		run := i
		for bytes.Equal(unit, pad) { // ends: w does not end in pad
			i += u
			unit = w[i : i+u]
		}
		above := bytes.Compare(unit, pad) > 0
		if len(dst)-start >= cutAt {
			if p == whole {
				class := byte(padCutBelow)
				if above {
					class = padCutAbove
				}
				dst = append(append(dst, pad...), class)
				dst = binary.BigEndian.AppendUint64(dst, xxhash.Sum64(w[run:]))
			}
			return dst
		}
		if n := (i - run) / u; n > 0 {
			dst = append(dst, pad...)
			if above {
				// The longer the run, the nearer to endless padding from above.
				dst = appendRun(append(dst, padRunAbove), n, 0xff)
			} else {
				dst = appendRun(append(dst, padRunBelow), n, 0x00)
			}
		}
		dst = append(dst, unit...)
		i += u
	}
	if p == prefix {
		return dst
	}
	return append(append(dst, pad...), padEnd)
}

// hasUnit reports whether a unit of w is pad.
func hasUnit(w, pad []byte) bool {
	switch len(pad) {
	case 1:
		return bytes.IndexByte(w, pad[0]) >= 0
	case 2:
		for i := 0; i+2 <= len(w); i += 2 {
			if w[i+1] == pad[1] && w[i] == pad[0] {
				return true
			}
		}
		return false
	default:
		for i := 0; i+len(pad) <= len(w); i += len(pad) {
			if bytes.Equal(w[i:i+len(pad)], pad) {
				return true
			}
		}
		return false
	}
}

// appendRun appends n > 0 so that greater n sort later, or with flip 0xff
// earlier.
func appendRun(dst []byte, n int, flip byte) []byte {
	if n < 0xff {
		return append(dst, byte(n)^flip)
	}
	return append(dst, 0xff^flip,
		byte(n>>24)^flip, byte(n>>16)^flip, byte(n>>8)^flip, byte(n)^flip)
}
