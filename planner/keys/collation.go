package keys

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"vitess.io/vitess/go/mysql/collations"
	"vitess.io/vitess/go/mysql/collations/colldata"
)

// collation gives the weights that a column's comparisons go by.
type collation struct {
	name    string
	kind    string // of Codec.Kind
	charset *charsetInfo
	// One of these gives the weights. raw: the UTF-8 text itself is its weights, as
	// code points compare.
	raw     bool
	vitess  colldata.Collation
	uca1400 []int // the levels of MariaDB's that count, from 0
	// padded: PAD SPACE. pads are the weights of a space, of which there is one on each
	// level; all weights are units as long.
	padded bool
	pads   [][]byte
	// ascii holds the weight of each ASCII character where a text's weights are
	// those of its characters one after the other, else nil.
	ascii *[utf8.RuneSelf][]byte
	// like: LIKE 'prefix%' of ASCII is a range of keys.
	like bool
	// levels: the weights have several, separated by 0x0000 where nothing is padded.
	levels bool
	// odd holds the characters that Vitess weighs otherwise than the servers.
	// A text with one of them has no key.
	odd string
}

type collationKey struct {
	name    string
	mariaDB bool
}

type collationOrError struct {
	collation *collation
	err       error
}

var (
	loaded sync.Map // collationKey -> collationOrError
	// Vitess names collations by server version; MySQL 8's list is the one with
	// all that it has tables for.
	names = sync.OnceValue(func() *collations.Environment { return collations.NewEnvironment("8.0.30") })
)

func collationFor(name string, mariaDB bool) (*collation, error) {
	k := collationKey{name, mariaDB}
	if e, ok := loaded.Load(k); ok {
		return e.(collationOrError).collation, e.(collationOrError).err
	}
	c, err := newCollation(name, mariaDB)
	e, _ := loaded.LoadOrStore(k, collationOrError{c, err})
	return e.(collationOrError).collation, e.(collationOrError).err
}

func newCollation(name string, mariaDB bool) (*collation, error) {
	if strings.HasPrefix(name, "utf8_") {
		name = "utf8mb3_" + name[len("utf8_"):]
	}
	base := name
	if mariaDB {
		name = mariaDBName(name)
		base = strings.Replace(name, "_nopad", "", 1)
	}
	if why := refusedCollation(base); why != "" {
		return nil, fmt.Errorf("collation %s: %s", name, why)
	}
	charsetName, variant, _ := strings.Cut(base, "_")
	c := &collation{
		name:    name,
		kind:    name,
		uca1400: uca1400Levels[variant],
		padded:  base == name && !strings.Contains(name, "_0900_"),
		levels:  strings.Contains(name, "_as_"),
	}
	known := base
	if c.uca1400 != nil {
		known = charsetName + "_general_ci" // of which Vitess has the character set
		if c.kind = variant; !c.padded {
			c.kind += " no pad"
		}
	}
	vt := colldata.Lookup(names().LookupByName(known))
	if vt == nil {
		return nil, fmt.Errorf("collation %s: its weights are not known to Shunt", name)
	}
	c.charset = newCharset(vt.Charset().Name(), vt.Charset(), mariaDB)
	if c.uca1400 == nil {
		c.vitess, c.odd = vt, oddCharacters(vt, c.charset)
		c.raw = strings.HasSuffix(name, "_bin") && (c.charset.utf8 || c.charset.width > 1)
	}
	if c.padded {
		pad, ok := c.weights(&scratch{text: []byte(" ")})
		if !ok || len(pad) == 0 {
			return nil, fmt.Errorf("collation %s: a space has no weight", name)
		}
		for pad = slices.Clone(pad); len(pad) > 0; {
			var first []byte
			first, pad = c.cutLevel(pad)
			c.pads = append(c.pads, first)
		}
	}
	c.ascii = c.asciiWeights()
	c.like = c.raw || (c.ascii != nil || c.levels) && (c.uca1400 != nil || likeSafe(base))
	return c, nil
}

// mariaDBName is what MySQL's collations of UCA 9.0.0, whose names are known to MariaDB from
// 11.4 on, stand for there: other weights. It doesn't exist for those of a language.
func mariaDBName(name string) string {
	if name == "utf8mb4_0900_bin" {
		return "utf8mb4_nopad_bin"
	}
	return strings.Replace(name, "_0900_", "_uca1400_nopad_", 1)
}

// uca1400Levels are the levels that count in the uca1400 collations that For takes.
var uca1400Levels = map[string][]int{"uca1400_ai_ci": {0}, "uca1400_as_ci": {0, 1}, "uca1400_as_cs": {0, 1, 2}}

// oddCharacters gives collation.odd.
func oddCharacters(vt colldata.Collation, cs *charsetInfo) (odd string) {
	uca, general := false, false
	switch vt.(type) {
	case *colldata.Collation_uca_legacy:
		uca = true
	case *colldata.Collation_unicode_general_ci:
		general = true
	}
	if uca && !strings.Contains(vt.Name(), "_520_") {
		odd = "\uffff" // UCA 4.0.0: no weight here, one on the servers
	}
	if (uca || general) && cs.width > 1 && !cs.utf8 {
		odd += "\ufffd" // taken for a decoding error, which ends the string
	}
	return odd
}

// likeSafe names the collations in which no ASCII character begins a
// contraction.
func likeSafe(name string) bool {
	for _, s := range []string{"_bin", "_general_ci", "_unicode_ci", "_unicode_520_ci", "latin1_swedish_ci"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	switch name {
	case "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci", "utf8mb4_0900_as_cs":
		return true
	}
	return false
}

// weights gives the weights of s.text, in memory of s; ok is false where the
// character set can't hold the text.
func (c *collation) weights(s *scratch) (w []byte, ok bool) {
	if c.raw {
		return s.text, !c.charset.bmp || inBMP(s.text)
	}
	if c.ascii != nil && isASCII(s.text) {
		s.weights = s.weights[:0]
		for _, b := range s.text {
			s.weights = append(s.weights, c.ascii[b]...)
		}
		return s.weights, true
	}
	if c.odd != "" && bytes.ContainsAny(s.text, c.odd) {
		return nil, false
	}
	if c.uca1400 != nil {
		s.weights = s.weights[:0]
		for i, level := range c.uca1400 {
			if i > 0 {
				s.weights = append(s.weights, 0, 0)
			}
			s.weights = loadUCA1400().append(s.weights, s.text, level)
		}
		return s.weights, !c.charset.bmp || inBMP(s.text)
	}
	if s.encoded, ok = c.charset.encode(s.encoded[:0], s.text); !ok {
		return nil, false
	}
	s.weights = c.vitess.WeightString(s.weights[:0], s.encoded, 0)
	return s.weights, true
}

// component appends the component of s.text.
func (c *collation) component(dst []byte, s *scratch, p part) ([]byte, bool) {
	w, ok := c.weights(s)
	if !ok {
		return dst, false
	}
	if p == prefix || p == bound && c.padded {
		w, _ = c.cutLevel(w)
	}
	if !c.padded {
		return appendPlain(dst, w, p), true
	}
	for i := 0; i == 0 || i < len(c.pads) && p == whole; i++ {
		var level []byte
		level, w = c.cutLevel(w)
		dst = appendPadded(dst, level, c.pads[i], p)
	}
	return dst, true
}

// cutLevel cuts the first level off weights.
func (c *collation) cutLevel(w []byte) (level, rest []byte) {
	for i := 0; c.levels && i+1 < len(w); i += 2 {
		if w[i] == 0 && w[i+1] == 0 {
			return w[:i], w[i+2:]
		}
	}
	return w, nil
}

// asciiWeights makes the table for c.ascii, nil where a pair of characters
// weighs something else than its characters do, or one is not in the set.
func (c *collation) asciiWeights() *[utf8.RuneSelf][]byte {
	if c.raw || c.levels || !c.charset.ascii {
		return nil
	}
	var table [utf8.RuneSelf][]byte
	s := new(scratch)
	for i := range table {
		s.text = append(s.text[:0], byte(i))
		w, ok := c.weights(s)
		if !ok {
			return nil
		}
		table[i] = append([]byte(nil), w...)
	}
	for i, first := range table {
		for j, second := range table {
			s.text = append(s.text[:0], byte(i), byte(j))
			w, ok := c.weights(s)
			if !ok || string(w) != string(first)+string(second) {
				return nil
			}
		}
	}
	return &table
}
