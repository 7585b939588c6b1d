package keys

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// comparePadded is the definition of PAD SPACE: both texts go on with pad
// without end.
func comparePadded(a, b, pad []byte) int {
	u := len(pad)
	for i := 0; i < max(len(a), len(b)); i += u {
		x, y := pad, pad
		if i < len(a) {
			x = a[i : i+u]
		}
		if i < len(b) {
			y = b[i : i+u]
		}
		if c := bytes.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// weights draws units around pad, with runs of it that pass every limit.
func weights(t *rapid.T, pad []byte, label string) []byte {
	above, below := bytes.Clone(pad), bytes.Clone(pad)
	above[len(above)-1]++
	below[len(below)-1]--
	units := [][]byte{pad, pad, pad, above, below, bytes.Repeat([]byte{0x00}, len(pad)), bytes.Repeat([]byte{0xff}, len(pad))}
	var w []byte
	for range rapid.IntRange(0, 6).Draw(t, label+" tokens") {
		unit := rapid.SampledFrom(units).Draw(t, label)
		w = append(w, bytes.Repeat(unit, rapid.SampledFrom([]int{1, 1, 2, 3, 127, 254, 255, 256, 300}).Draw(t, label+" times"))...)
	}
	return w
}

func TestTextComponents(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		pad  []byte // nil: no padding
	}{
		{"plain", nil},
		{"byte pad", []byte{0x20}},
		{"unit pad", []byte{0x02, 0x09}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			encode := func(w []byte, p part) []byte {
				if tc.pad == nil {
					return appendPlain(nil, w, p)
				}
				return appendPadded(nil, w, tc.pad, p)
			}
			compare := func(a, b []byte) int {
				if tc.pad == nil {
					return bytes.Compare(a, b)
				}
				return comparePadded(a, b, tc.pad)
			}
			rapid.Check(t, func(t *rapid.T) {
				unit := tc.pad
				if unit == nil {
					unit = []byte{0x01}
				}
				texts := [][]byte{weights(t, unit, "text")}
				for range 12 {
					more := weights(t, unit, "text")
					if rapid.Bool().Draw(t, "common prefix") {
						more = append(bytes.Clone(rapid.SampledFrom(texts).Draw(t, "prefix")), more...)
					}
					texts = append(texts, more)
				}
				for _, a := range texts {
					for _, b := range texts {
						checkPair(t, encode, compare, a, b)
					}
				}
			})
		})
	}
}

// checkPair checks what a pair of texts must keep.
func checkPair(t *rapid.T, encode func([]byte, part) []byte, compare func(a, b []byte) int, a, b []byte) {
	ka, kb := encode(a, whole), encode(b, whole)
	want := compare(a, b)
	if (want == 0) != bytes.Equal(ka, kb) {
		t.Fatalf("%x %x: equal %v, keys %x %x", a, b, want == 0, ka, kb)
	}
	ba, bb := encode(a, bound), encode(b, bound)
	if uncut := bytes.Equal(ba, ka) && bytes.Equal(bb, kb); uncut && bytes.Compare(ka, kb) != want {
		t.Fatalf("%x %x: order %d, keys %x %x", a, b, want, ka, kb)
	}
	if len(ka) > cutAt+20 {
		t.Fatalf("%d bytes of key", len(ka))
	}
	// a component is no beginning of another one
	if want != 0 && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
		t.Fatalf("%x and %x: one begins with the other", ka, kb)
	}
	// bounds cover
	if want <= 0 && (bytes.Compare(ka, Successor(bb)) >= 0 || bytes.Compare(kb, ba) < 0) {
		t.Fatalf("%x <= %x: keys %x %x, bounds %x %x", a, b, ka, kb, ba, bb)
	}
	// a prefix of the weights is a prefix of the key
	if p := encode(a, prefix); bytes.HasPrefix(b, a) && !bytes.HasPrefix(kb, p) {
		t.Fatalf("%x begins with %x, %x not with %x", b, a, kb, p)
	}
}

func TestSuccessor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want []byte }{
		{[]byte{1, 2}, []byte{1, 3}}, {[]byte{1, 0xff}, []byte{2}}, {[]byte{0xff, 0xff}, nil}, {nil, nil}, {[]byte{0}, []byte{1}},
	} {
		in := bytes.Clone(c.in)
		if got := Successor(in); !bytes.Equal(got, c.want) || (got == nil) != (c.want == nil) || !bytes.Equal(in, c.in) {
			t.Errorf("Successor(%x) = %x", c.in, got)
		}
	}
}

// TestCutKeepsRuns: two long texts that differ only in a run of spaces at the
// cut have different keys, in the order of what follows the cut where that is
// known.
func TestCutKeepsRuns(t *testing.T) {
	t.Parallel()
	pad := []byte{' '}
	long := bytes.Repeat([]byte("x"), cutAt)
	encode := func(rest string) []byte { return appendPadded(nil, append(bytes.Clone(long), rest...), pad, whole) }
	below, end, above := encode(" \t"), encode("   "), encode("  !")
	if bytes.Compare(below, end) >= 0 || bytes.Compare(end, above) >= 0 {
		t.Errorf("%x, %x, %x are not in order", below, end, above)
	}
	if bytes.Equal(encode(" !"), encode("  !")) || bytes.Equal(encode(" \t"), encode("  \t")) {
		t.Error("the length of a run at the cut is lost")
	}
	if !bytes.Equal(encode(""), encode("  ")) {
		t.Error("padding after the cut counts")
	}
}
