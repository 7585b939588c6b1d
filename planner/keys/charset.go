package keys

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"vitess.io/vitess/go/mysql/collations/charset"
	"vitess.io/vitess/go/mysql/collations/colldata"
)

// Decode appends a text in a character set as the UTF-8 that servers send of it: '?' in place of a
// byte without a character. ok is false where that isn't surely known.
type Decode func(dst, text []byte) (out []byte, ok bool)

// Decoder gives a character set's, nil where Shunt doesn't know the set.
func Decoder(name string) Decode {
	switch name {
	case "utf8mb4", "utf8mb3", "utf8":
		return func(dst, text []byte) ([]byte, bool) { return append(dst, text...), utf8.Valid(text) }
	}
	collation := colldata.Lookup(names().DefaultCollationForCharset(name))
	if collation == nil {
		collation = colldata.Lookup(names().LookupByName(name + "_general_ci")) // armscii8
	}
	if collation == nil || name == "binary" {
		return nil
	}
	cs := collation.Charset()
	if cs.MaxWidth() == 1 {
		return func(dst, text []byte) ([]byte, bool) {
			for i := range text {
				r, _ := cs.DecodeRune(text[i : i+1])
				if r == utf8.RuneError || r == 0 && text[i] != 0 {
					r = '?'
				}
				dst = utf8.AppendRune(dst, r)
			}
			return dst, true
		}
	}
	return func(dst, text []byte) ([]byte, bool) {
		start := len(dst)
		for len(text) > 0 {
			r, n := cs.DecodeRune(text)
			if r == utf8.RuneError {
				// An error, or the character U+FFFD.
				var again [4]byte
				if n = max(cs.EncodeRune(again[:], r), 0); n == 0 || !bytes.HasPrefix(text, again[:n]) {
					return dst[:start], false
				}
			}
			if n <= 0 || n > len(text) {
				return dst[:start], false
			}
			dst = utf8.AppendRune(dst, r)
			text = text[n:]
		}
		return dst, true
	}
}

// charsetInfo is a column's character set: how the UTF-8 text that literals
// and scans come in becomes its bytes.
type charsetInfo struct {
	name  string
	utf8  bool // its bytes are the UTF-8 text
	bmp   bool // holds characters up to U+FFFF only
	ascii bool // ASCII bytes are ASCII
	width int  // most bytes of a character
	// holes: some bytes stand for no character, and a column may hold them.
	holes bool

	vitess  charset.Charset // nil where utf8
	toRune  *[256]rune      // single-byte sets; -1: no or not the only such byte
	toBytes map[rune]byte
}

func newCharset(name string, cs charset.Charset, mariaDB bool) *charsetInfo {
	c := &charsetInfo{name: name, width: cs.MaxWidth(), vitess: cs}
	switch name {
	case "utf8mb4":
		return &charsetInfo{name: name, utf8: true, ascii: true, width: 4}
	case "utf8mb3":
		return &charsetInfo{name: name, utf8: true, bmp: true, ascii: true, width: 3}
	case "ucs2":
		c.bmp = true
		return c
	}
	if c.width > 1 {
		return c
	}
	c.toRune, c.toBytes = new([256]rune), make(map[rune]byte, 256)
	c.ascii = true
	for i := range 256 {
		r, _ := cs.DecodeRune([]byte{byte(i)})
		if r == utf8.RuneError || r == 0 && i != 0 {
			c.toRune[i] = -1
			// MySQL refuses bytes from 0x80 on in ASCII columns.
			c.holes = c.holes || name != "ascii" || mariaDB
			continue
		}
		if i < utf8.RuneSelf && r != rune(i) {
			c.ascii = false
		}
		if other, ok := c.toBytes[r]; ok {
			// Two bytes for one character: which of them a text has is unknown.
			c.toRune[i], c.toRune[other] = -1, -1
			delete(c.toBytes, r)
			c.holes = true
			continue
		}
		c.toRune[i] = r
		c.toBytes[r] = byte(i)
	}
	return c
}

// encode appends valid UTF-8 text in the character set; ok is false where it
// can't hold a character.
func (c *charsetInfo) encode(dst, text []byte) ([]byte, bool) {
	if c.utf8 {
		return append(dst, text...), !c.bmp || inBMP(text)
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		if c.toBytes != nil {
			b, ok := c.toBytes[r]
			if !ok {
				return dst, false
			}
			dst = append(dst, b)
			continue
		}
		var buf [4]byte
		n = c.vitess.EncodeRune(buf[:], r)
		if n <= 0 {
			return dst, false
		}
		dst = append(dst, buf[:n]...)
	}
	return dst, true
}

// decode appends the text of a single-byte character set's bytes as UTF-8.
func (c *charsetInfo) decode(dst []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		r := c.toRune[s[i]]
		if r < 0 {
			return dst, false
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, true
}

// latin1 is MySQL's: cp1252 with its five gaps filled by the C1 controls.
var latin1 = sync.OnceValue(func() *charsetInfo { return newCharset("latin1", charset.Charset_latin1{}, false) })
