package indexer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Whatever the order and the limit: a key that was seen is known as seen, and
// one is called known only if the store had it or it was seen before.
func TestLedger(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(rapid.IntRange(1, 200).Draw(t, "limit"))
		had, seen := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(0, 300).Draw(t, "keys") {
			k := fmt.Sprint(rapid.IntRange(0, 150).Draw(t, "key"))
			if len(seen) == 0 && rapid.Bool().Draw(t, "had") {
				l.has([]byte(k))
				had[k] = true
				continue
			}
			if l.see([]byte(k)) && !had[k] && !seen[k] {
				t.Fatalf("%s is not known", k)
			}
			seen[k] = true
		}
		for k := range seen {
			if !l.saw([]byte(k)) {
				t.Fatalf("%s was seen", k)
			}
		}
		if l.bloom == nil {
			for k := range had {
				if l.saw([]byte(k)) != seen[k] {
					t.Fatalf("%s: saw is not %v", k, seen[k])
				}
			}
			unseen := map[string]bool{}
			if !l.unseen(func(key []byte) bool { unseen[string(key)] = true; return true }) {
				t.Fatal("what was not seen is not known")
			}
			for k := range had {
				if unseen[k] == seen[k] {
					t.Fatalf("%s: unseen is %v", k, unseen[k])
				}
			}
			for k := range unseen {
				if !had[k] {
					t.Fatalf("%s: unseen, but the store didn't have it", k)
				}
			}
		}
	})
}

func TestLedgerFalsePositives(t *testing.T) {
	t.Parallel()
	const n = 200_000
	for _, limit := range []int{1000, maxLedger} {
		l := newLedger(limit)
		r := rand.New(rand.NewPCG(1, 2))
		key := make([]byte, 16)
		draw := func() []byte {
			for i := range key {
				key[i] = byte(r.Uint32())
			}
			return key
		}
		for range n {
			l.see(draw())
		}
		wrong := 0
		for range n {
			if l.saw(draw()) {
				wrong++
			}
		}
		// Two in the mean over many seeds; more than 15 in one of 10^9 runs.
		if wrong > 15 {
			t.Errorf("limit %d: %d of %d keys are taken for seen", limit, wrong, n)
		}
	}
}

func TestFollowing(t *testing.T) {
	t.Parallel()
	pk := []*catalog.Column{{Name: "a", Type: "bigint unsigned"}, {Name: "b`", Type: "varchar(10)"}, {Name: "c", Type: "varbinary(4)"}, {Name: "d", Type: "datetime(6)"}}
	got := following(pk, [][]byte{[]byte("7"), []byte("x'y"), {0, 1}, []byte("2024-01-02 03:04:05.000001")})
	want := "(`a` > 7) OR (`a` = 7 AND `b``` > _utf8mb4 x'782779') OR (`a` = 7 AND `b``` = _utf8mb4 x'782779' AND `c` > x'0001')" +
		" OR (`a` = 7 AND `b``` = _utf8mb4 x'782779' AND `c` = x'0001' AND `d` > '2024-01-02 03:04:05.000001')"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if resumable([]*catalog.Column{{Type: "enum('a','b')"}}) || resumable([]*catalog.Column{{Type: "double"}}) || resumable(nil) || !resumable(pk) {
		t.Error("resumable")
	}
}

func TestOrdered(t *testing.T) {
	t.Parallel()
	a, b := &catalog.Column{Name: "A"}, &catalog.Column{Name: "b"}
	l := layout{keys: []shardKey{
		{"PRIMARY", []string{"a", "b"}, true},
		{"hash", []string{"a", "b"}, false},
		{"cut", []string{"a"}, true},
		{"both", []string{"a", "b", "c"}, true},
	}}
	for _, test := range []struct {
		columns []*catalog.Column
		want    string
	}{{[]*catalog.Column{a}, "cut"}, {[]*catalog.Column{a, b}, "both"}, {[]*catalog.Column{b}, ""}, {[]*catalog.Column{b, a}, ""}} {
		if got := l.ordered(test.columns); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestLedgerLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		memory int64
		want   int
	}{{math.MaxInt64, maxLedger}, {4 << 30, maxLedger}, {224 << 20, 229_376}} {
		if got := ledgerLimit(c.memory); got != c.want {
			t.Errorf("%d bytes: %d keys, want %d", c.memory, got, c.want)
		}
	}
}
