package generate

import (
	"strings"
	"testing"
)

// TestDeterministic: a seed makes the same statements again.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{{}, {MariaDB: true}} {
		for seed := range uint64(50) {
			if one, two := sample(seed, d, 200), sample(seed, d, 200); one != two {
				t.Fatalf("seed %d: the second run differs", seed)
			}
		}
	}
	if sample(1, Dialect{}, 50) == sample(2, Dialect{}, 50) {
		t.Error("two seeds make the same statements")
	}
}

func sample(seed uint64, d Dialect, n int) string {
	w := New(seed, d)
	var b strings.Builder
	for _, s := range w.Setup() {
		b.WriteString(s.SQL() + "\n")
	}
	for range n {
		s := w.Next()
		b.WriteString(s.SQL() + "\n")
		if s.Prepared {
			text, params := s.Node.Prepared()
			if strings.Count(text, "?") != len(params) {
				panic(text)
			}
		}
	}
	return b.String()
}

// TestSimplerShrinks: every simpler tree differs, and leaving things out comes
// to an end.
func TestSimplerShrinks(t *testing.T) {
	t.Parallel()
	w := New(3, Dialect{})
	for range 300 {
		s := w.Next()
		for steps := 0; ; steps++ {
			var next *Node
			for n := range s.Node.Simpler() {
				if len(n.String()) < len(s.Node.String()) {
					next = n
					break
				}
			}
			if next == nil {
				break
			}
			if s.Node = next; steps > 2000 {
				t.Fatalf("no end: %s", s.SQL())
			}
		}
	}
}
