package instructions

import (
	"strconv"
	"testing"
)

var sum int

// TestCount: what a loop takes more for more turns is the same for each turn.
func TestCount(t *testing.T) {
	counts := map[int]int{}
	for _, turns := range []int{100, 200, 300} {
		t.Run(strconv.Itoa(turns), func(t *testing.T) {
			n, err := Count(t, func() {
				for i := range turns {
					sum += i
				}
			})
			if err != nil {
				t.Skip(err)
			}
			counts[turns] = n
		})
	}
	if len(counts) < 3 {
		t.Skip("nobody counted")
	}
	if first, second := counts[200]-counts[100], counts[300]-counts[200]; first != second || first < 100 || first > 1000 {
		t.Errorf("%v", counts)
	}
}
