package tpch

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// TestRows: a seed makes the same rows again, as many as the scale says, and
// no two of a table with one key.
func TestRows(t *testing.T) {
	t.Parallel()
	sum := func(seed uint64) (string, map[string]int) {
		h, n := sha256.New(), map[string]int{}
		if err := Rows(0.001, seed, func(table, row string) error {
			n[table]++
			fmt.Fprintln(h, table, row)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", h.Sum(nil)), n
	}
	one, n := sum(1)
	if two, _ := sum(1); one != two {
		t.Error("a seed makes other rows the second time")
	}
	if other, _ := sum(2); one == other {
		t.Error("two seeds make the same rows")
	}
	for table, want := range map[string]int{"region": 5, "nation": 25, "supplier": 10, "part": 200, "customer": 150, "orders": 1500} {
		if n[table] != want {
			t.Errorf("%d rows of %s, want %d", n[table], table, want)
		}
	}
	if n["lineitem"] < 5000 || n["lineitem"] > 7000 {
		t.Errorf("%d rows of lineitem", n["lineitem"])
	}
}
