package proxy

import (
	"fmt"
	"slices"
	"testing"
)

// TestByRow: warnings of several parts are in the order of the client's rows. What doesn't say its row is about the first that
// it can be of its part's.
func TestByRow(t *testing.T) {
	t.Parallel()
	duplicate := condition("Warning", 1062, "Duplicate entry")
	cut := func(row int) [][]byte { return condition("Note", 1265, fmt.Sprintf("Data truncated at row %d", row)) }
	w := writing{}
	all := [][][]byte{duplicate, cut(4), duplicate, duplicate}
	w.place(all, []int{1, 3, 5}) // the client's second, fourth and sixth row
	if want := []int{2, 4, 4, 6}; !slices.Equal(w.about, want) {
		t.Errorf("about %d, want %d", w.about, want)
	}
	all = append(all, cut(1), cut(5))
	byRow(all, w.about)
	var rows []string
	for _, x := range all {
		rows = append(rows, string(x[2]))
	}
	if want := []string{"Data truncated at row 1", "Duplicate entry", "Data truncated at row 4", "Duplicate entry", "Data truncated at row 5", "Duplicate entry"}; !slices.Equal(rows, want) {
		t.Errorf("%q, want %q", rows, want)
	}
	unknown := [][][]byte{duplicate, cut(1)}
	if byRow(unknown, []int{0}); string(unknown[0][0]) != "Warning" {
		t.Error("what is about no row that is known has moved")
	}
}
