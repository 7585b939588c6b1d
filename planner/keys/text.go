package keys

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"
)

// scratch holds a string on its way to its weights.
type scratch struct{ text, encoded, weights []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release gives s back, unless it grew so large that it would hold the memory
// of one long string for good.
func (s *scratch) release() {
	if cap(s.text)+cap(s.encoded)+cap(s.weights) < 64<<10 {
		scratches.Put(s)
	}
}

// decode appends the UTF-8 text of a string literal. ok is false for values
// that are no character strings, character sets that Shunt doesn't read, and
// bytes that are not valid in theirs.
func decode(dst []byte, v Value) ([]byte, bool) {
	if v.kind != kindString {
		return dst, false
	}
	switch v.charset {
	case "utf8mb4":
		return append(dst, v.text...), utf8.ValidString(v.text)
	case "utf8mb3":
		return append(dst, v.text...), utf8.ValidString(v.text) && inBMP(v.text)
	case "ascii":
		return append(dst, v.text...), isASCII(v.text)
	case "latin1":
		return latin1().decode(dst, v.text)
	}
	return dst, false
}

func isASCII[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// inBMP reports whether valid UTF-8 has no character beyond U+FFFF.
func inBMP[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= 0xf0 {
			return false
		}
	}
	return true
}

func (c *Codec) storedText(dst []byte, v Value, padChar bool) ([]byte, bool) {
	if padChar && c.PadSensitive() {
		return dst, false
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	ok := true
	switch v.kind {
	case kindInt:
		s.text = strconv.AppendInt(s.text[:0], int64(v.num), 10)
	case kindUint:
		s.text = strconv.AppendUint(s.text[:0], v.num, 10)
	case kindBytes:
		// The column takes bytes as text of its own character set.
		s.text = append(s.text[:0], v.text...)
		ok = isASCII(s.text) && c.text.charset.ascii ||
			c.text.charset.utf8 && utf8.Valid(s.text)
	default:
		s.text, ok = decode(s.text[:0], v)
	}
	if (v.kind == kindInt || v.kind == kindUint) && !c.text.charset.ascii && len(s.text) > 16 {
		// The servers write a number in 64 bytes: in UTF-32 its last digits are lost.
		return dst, false
	}
	if !ok || !c.holds(s.text) || c.blurred(s.text) {
		return dst, false
	}
	if c.fixed && !c.text.padded {
		// CHAR gives its value back without the trailing spaces.
		for n := len(s.text); n > 0 && s.text[n-1] == ' '; n-- {
			s.text = s.text[:n-1]
		}
	}
	return c.text.component(dst, s, whole)
}

// holds reports whether the column is long enough for a text; a longer one is
// refused or truncated.
func (c *Codec) holds(text []byte) bool {
	if len(text) <= c.length/4 {
		return true
	}
	n := utf8.RuneCount(text)
	if c.inBytes {
		if c.text.charset.utf8 {
			n = len(text)
		} else {
			n *= c.text.charset.width
		}
	}
	return n <= c.length
}

// blurred reports a text that, read back, may stand for another one: '?' is also what the
// server sends for bytes without a character.
func (c *Codec) blurred(text []byte) bool {
	return c.text.charset.holes && slices.Contains(text, '?')
}

// cutsSpace reports that what a text has beyond the column's length is white space,
// and not spaces alone, which are padding. MySQL looks a CHAR up in its index by what
// the column would hold.
func (c *Codec) cutsSpace(text []byte) bool {
	if len(text) <= c.length {
		return false
	}
	for range c.length {
		_, n := utf8.DecodeRune(text)
		text = text[n:]
	}
	return len(bytes.TrimFunc(text, unicode.IsSpace)) == 0 && len(bytes.Trim(text, " ")) > 0
}

func (c *Codec) equalText(dst []byte, v Value, p part) ([]byte, bool) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var ok bool
	if s.text, ok = decode(s.text[:0], v); !ok {
		return dst, false
	}
	if n := len(s.text); c.fixed && !c.text.padded && n > 0 && s.text[n-1] == ' ' {
		// No CHAR value ends in a space, unless PAD_CHAR_TO_FULL_LENGTH is on.
		return dst, false
	}
	if c.fixed && c.text.padded && c.cutsSpace(s.text) {
		return dst, false
	}
	return c.text.component(dst, s, p)
}

func (c *Codec) scannedText(dst, raw []byte) ([]byte, bool) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.text = append(s.text[:0], raw...)
	if !utf8.Valid(s.text) {
		return dst, false
	}
	if c.blurred(s.text) {
		return dst, false
	}
	return c.text.component(dst, s, whole)
}

// likeText: LIKE compares character by character, keys by weights. They agree
// on a prefix of printable ASCII where no ASCII character is part of a
// contraction; the first level's weights are the key's beginning.
func (c *Codec) likeText(v Value) ([]byte, bool) {
	if !c.text.like {
		return nil, false
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	var ok bool
	if s.text, ok = decode(s.text[:0], v); !ok || len(s.text) == 0 {
		return nil, false
	}
	for _, b := range s.text {
		if b < 0x20 || b > 0x7e {
			return nil, false
		}
	}
	out, ok := c.text.component(nil, s, prefix)
	return out, ok && len(out) > 1 // not spaces alone, which are padding
}

// Enum values are keyed as their members' strings. Comparisons with numbers go
// by the member's number, < and > with anything too: no index for these.

func (c *Codec) addMembers(members []string) error {
	c.members = make(map[string]struct{}, len(members))
	for _, m := range members {
		key, ok := c.scannedText(nil, []byte(m))
		if !ok {
			return fmt.Errorf("type ENUM: member %q has no exact key in its character set", m)
		}
		c.members[string(key)] = struct{}{}
	}
	return nil
}

// equalEnum: a row may read as ” because it holds the member ” or the error
// value, which equals no member.
func (c *Codec) equalEnum(dst []byte, v Value) ([]byte, bool) {
	out, ok := c.memberOf(dst, v)
	if !ok {
		return dst, false
	}
	if empty, _ := c.scannedText(nil, []byte{}); string(out[len(dst):]) == string(empty) {
		return dst, false
	}
	return out, true
}

// memberOf gives the component of a string that is a member. Any other is
// stored as the error value ”, or as the member of that number.
func (c *Codec) memberOf(dst []byte, v Value) ([]byte, bool) {
	out, ok := c.equalText(dst, v, whole)
	if !ok {
		return dst, false
	}
	if _, ok := c.members[string(out[len(dst):])]; !ok {
		return dst, false
	}
	return out, true
}
