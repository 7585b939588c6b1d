package keys

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestUCA1400OnServer: uca1400.txt says what MariaDB weighs every code point and each
// contraction. SHUNT_TEST_REWRITE=1 writes it anew. Which contractions there are no
// server tells: they are those of Unicode's allkeys.txt, of which the versions 13 and 15
// have the same.
func TestUCA1400OnServer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		if !s.mariaDB {
			t.Skip("MySQL has no such collations")
		}
		got := s.uca1400Table(t)
		if got == uca1400Text {
			return
		}
		if os.Getenv("SHUNT_TEST_REWRITE") != "" {
			if err := os.WriteFile("uca1400.txt", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		lines, want := strings.Split(got, "\n"), strings.Split(uca1400Text, "\n")
		for i := range lines {
			if i >= len(want) || lines[i] != want[i] {
				t.Fatalf("line %d: the server says %q", i+1, lines[i])
			}
		}
		t.Fatalf("the server has %d lines, uca1400.txt %d", len(lines), len(want))
	})
}

// uca1400Table asks a server for all that uca1400.txt says.
func (s *server) uca1400Table(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	var r run
	const step = 1 << 14
	for from := 0; from <= utf8.MaxRune; from += step {
		query := fmt.Sprintf("SELECT seq, %s FROM (SELECT seq, CONVERT(CHAR(seq USING utf32) USING utf8mb4) AS c FROM mysql.seq_%d_to_%d) AS s ORDER BY seq", weightLevels("c"), from, from+step-1)
		for _, row := range s.rows(t, query) {
			n, err := strconv.Atoi(string(row[0]))
			if err != nil {
				t.Fatal(err)
			}
			if utf8.ValidRune(rune(n)) {
				r.add(&out, rune(n), hexLevels(row[1:]))
			}
		}
	}
	r.end(&out)
	for line := range strings.Lines(uca1400Text) {
		name, _, _ := strings.Cut(line, " ")
		if !strings.Contains(name, ",") {
			continue
		}
		points, err := parseHex(name, ",")
		if err != nil {
			t.Fatal(err)
		}
		var text []rune
		for _, p := range points {
			text = append(text, rune(p))
		}
		row := s.rows(t, "SELECT "+weightLevels(sqlText(string(text))))[0]
		fmt.Fprintf(&out, "%s %s\n", name, levelText(hexLevels(row)))
	}
	return out.String()
}

// contractionTexts has every contraction of uca1400, alone, in two halves, and beside others.
func contractionTexts(r *rand.Rand) []string {
	var texts []string
	all := slices.Sorted(maps.Keys(loadUCA1400().contractions))
	for _, c := range all {
		other, half := []rune(all[r.IntN(len(all))]), []rune(c)[:1]
		texts = append(texts, c, c+string(other[len(other)-1:]), string(half)+string(other), string(half)+"\u00ad"+c[len(string(half)):])
	}
	return texts
}

func weightLevels(expr string) string {
	var levels []string
	for l := 1; l <= 3; l++ {
		levels = append(levels, fmt.Sprintf("HEX(WEIGHT_STRING(%s COLLATE utf8mb4_uca1400_as_cs LEVEL %d))", expr, l))
	}
	return strings.Join(levels, ", ")
}

func hexLevels(row [][]byte) (levels [3][]uint16) {
	for l, h := range row {
		w, _ := hex.DecodeString(string(h))
		for i := 0; i+1 < len(w); i += 2 {
			levels[l] = append(levels[l], uint16(w[i])<<8|uint16(w[i+1]))
		}
	}
	return levels
}

func levelText(levels [3][]uint16) string {
	var parts []string
	for _, level := range levels {
		var weights []string
		for _, w := range level {
			weights = append(weights, fmt.Sprintf("%X", w))
		}
		parts = append(parts, strings.Join(weights, "."))
	}
	return strings.TrimSuffix(strings.Join(parts, "|"), "|20|2")
}

// run collects code points that one line tells of.
type run struct {
	first, last rune
	levels      [3][]uint16 // of the first one
	kind        byte        // '*', '+', '-', or 0 for a single one so far
	some        bool
}

func (r *run) add(out *strings.Builder, c rune, levels [3][]uint16) {
	for _, kind := range "*+-" {
		if r.some && c == r.last+1 && (r.kind == 0 || r.kind == byte(kind)) && r.continues(byte(kind), c, levels) {
			r.last, r.kind = c, byte(kind)
			return
		}
	}
	r.end(out)
	*r = run{first: c, last: c, levels: levels, some: true}
	if implicitFrom(c, levels) != 0 {
		r.kind = '*'
	}
}

// continues reports whether the levels of c go on with the run as one of that kind.
func (r *run) continues(kind byte, c rune, levels [3][]uint16) bool {
	if kind == '*' {
		base := implicitFrom(c, levels)
		return base != 0 && base == implicitFrom(r.first, r.levels)
	}
	want := r.levels
	if kind == '+' {
		if len(want[0]) == 0 {
			return false
		}
		want[0] = slices.Clone(want[0])
		want[0][len(want[0])-1] += uint16(c - r.first)
	}
	return slices.Equal(levels[0], want[0]) && slices.Equal(levels[1], want[1]) && slices.Equal(levels[2], want[2])
}

// implicitFrom is the base of a character's implicit weights, 0 where they are none.
func implicitFrom(c rune, levels [3][]uint16) uint16 {
	if len(levels[0]) == 2 && levels[0][1] == 0x8000|uint16(c&0x7fff) && levelText([3][]uint16{nil, levels[1], levels[2]}) == "" {
		if base := levels[0][0] - uint16(c>>15); base == 0xfb40 || base == 0xfb80 || base == implicitBase {
			return base
		}
	}
	return 0
}

func (r *run) end(out *strings.Builder) {
	base := uint16(0)
	if r.kind == '*' {
		base = implicitFrom(r.first, r.levels)
	}
	switch {
	case !r.some || base == implicitBase:
	case r.first == r.last && base == 0:
		fmt.Fprintf(out, "%X %s\n", r.first, levelText(r.levels))
	case base != 0:
		fmt.Fprintf(out, "%X*%X %X\n", r.first, r.last, base)
	default:
		fmt.Fprintf(out, "%X%c%X %s\n", r.first, r.kind, r.last, levelText(r.levels))
	}
}
