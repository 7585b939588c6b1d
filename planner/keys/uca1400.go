package keys

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// uca1400Text holds the weights of MariaDB's uca1400 collations, as its
// WEIGHT_STRING tells them (uca1400_test.go compares, and writes it anew). A line
// is what is weighed and its weights, in hexadecimal:
//
//	41 2075|20|8       a code point: the weights of its three levels
//	62 208F            the same with |20|2
//	FB01 2116.2167|... several weights on a level, or none
//	30+39 206B         a run: each weighs one more than the one before
//	0-8 ||             a run of which all weigh the same
//	E40,E01 3373.3374  a contraction
//	4E00*9FFF FB40     a run of implicit weights, which are made of this and the code
//	                   point; they are so from FBC0 for whatever isn't here
//
//go:embed uca1400.txt
var uca1400Text string

// uca1400 are the weights of text on three levels: letters, accents, cases.
type uca1400 struct {
	pages        [utf8.MaxRune>>8 + 1]*[256]element
	contractions map[string]element
	// weights of all elements, in big endian. The first is of none.
	weights []byte
}

// element is what is weighed as one.
type element struct {
	at   uint32 // in weights; 0: none, the weights are implicit
	size [3]uint8
	// longest counts the characters of the longest contraction that begins here.
	longest uint8
}

const implicitBase = 0xfbc0

// appendImplicit appends the primary weights of a character that has none of its own.
func appendImplicit(dst []byte, base uint16, r rune) []byte {
	dst = binary.BigEndian.AppendUint16(dst, base+uint16(r>>15))
	return binary.BigEndian.AppendUint16(dst, 0x8000|uint16(r&0x7fff))
}

// commonWeights are those of most characters on the second and the third level.
var commonWeights = [3][]byte{1: {0, 0x20}, 2: {0, 0x02}}

// append appends the weights of UTF-8 text on a level: 0, 1 or 2.
func (u *uca1400) append(dst, text []byte, level int) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		e := u.element(r)
		if e.longest > 1 {
			if c, length := u.contraction(text, int(e.longest)); length > 0 {
				e, n = c, length
			}
		}
		text = text[n:]
		switch {
		case e.at > 0:
			dst = append(dst, u.of(e, level)...)
		case level == 0:
			dst = appendImplicit(dst, implicitBase, r)
		default:
			dst = append(dst, commonWeights[level]...)
		}
	}
	return dst
}

func (u *uca1400) element(r rune) element {
	if page := u.pages[r>>8]; page != nil {
		return page[r&0xff]
	}
	return element{}
}

// of gives the weights of an element on a level.
func (u *uca1400) of(e element, level int) []byte {
	at := int(e.at)
	for _, size := range e.size[:level] {
		at += int(size)
	}
	return u.weights[at : at+int(e.size[level])]
}

// contraction finds the longest one that text begins with, and its length; 0 for none.
func (u *uca1400) contraction(text []byte, longest int) (found element, length int) {
	_, n := utf8.DecodeRune(text)
	for range longest - 1 {
		_, size := utf8.DecodeRune(text[n:])
		if size == 0 {
			break
		}
		n += size
		if e, ok := u.contractions[string(text[:n])]; ok {
			found, length = e, n
		}
	}
	return found, length
}

var loadUCA1400 = sync.OnceValue(func() *uca1400 {
	u := &uca1400{contractions: map[string]element{}, weights: []byte{0}}
	for line := range strings.Lines(uca1400Text) {
		if err := u.addLine(strings.TrimSpace(line)); err != nil {
			panic(fmt.Sprintf("uca1400.txt: line %q: %v", line, err))
		}
	}
	return u
})

func (u *uca1400) addLine(line string) error {
	weighed, weights, _ := strings.Cut(line, " ")
	if weighed == "" || weighed[0] == '#' {
		return nil
	}
	kind := strings.IndexAny(weighed, "+-*,")
	points, err := parseHex(weighed, "+-*,")
	if err != nil {
		return err
	}
	if kind >= 0 && weighed[kind] == ',' {
		var text []byte
		for _, p := range points {
			text = utf8.AppendRune(text, rune(p))
		}
		head := u.slot(rune(points[0]))
		head.longest = max(head.longest, uint8(len(points)))
		u.contractions[string(text)], err = u.parse(weights, 0)
		return err
	}
	first, last := rune(points[0]), rune(points[len(points)-1])
	for r := first; r <= last; r++ {
		var e element
		switch {
		case kind < 0 || weighed[kind] == '-':
			e, err = u.parse(weights, 0)
		case weighed[kind] == '+':
			e, err = u.parse(weights, uint16(r-first))
		default:
			var base uint64
			base, err = strconv.ParseUint(weights, 16, 16)
			e = u.add(appendImplicit(nil, uint16(base), r), commonWeights[1], commonWeights[2])
		}
		if err != nil {
			return err
		}
		slot := u.slot(r)
		e.longest = slot.longest
		*slot = e
	}
	return nil
}

// slot is where the element of a character is.
func (u *uca1400) slot(r rune) *element {
	page := u.pages[r>>8]
	if page == nil {
		page = new([256]element)
		u.pages[r>>8] = page
	}
	return &page[r&0xff]
}

// parse reads an element's weights, with step more on the last primary one.
func (u *uca1400) parse(text string, step uint16) (element, error) {
	levels := [3][]byte{1: commonWeights[1], 2: commonWeights[2]}
	parts := strings.Split(text, "|")
	if len(parts) != 1 && len(parts) != 3 {
		return element{}, fmt.Errorf("%d levels", len(parts))
	}
	for l, part := range parts {
		levels[l] = nil
		weights, err := parseHex(part, ".")
		if err != nil {
			return element{}, err
		}
		for i, w := range weights {
			if l == 0 && i == len(weights)-1 {
				w += uint32(step)
			}
			levels[l] = binary.BigEndian.AppendUint16(levels[l], uint16(w))
		}
	}
	return u.add(levels[0], levels[1], levels[2]), nil
}

func (u *uca1400) add(levels ...[]byte) element {
	e := element{at: uint32(len(u.weights))}
	for l, w := range levels {
		e.size[l] = uint8(len(w))
		u.weights = append(u.weights, w...)
	}
	return e
}

// parseHex reads numbers that one of the separators is between.
func parseHex(text, separators string) ([]uint32, error) {
	var out []uint32
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		n, err := strconv.ParseUint(part, 16, 32)
		if err != nil {
			return nil, err
		}
		out = append(out, uint32(n))
	}
	return out, nil
}
