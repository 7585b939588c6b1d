package merge

import (
	"container/heap"
	"fmt"
	"slices"
)

// maxHeld bounds the rows that are held to be sorted, in bytes.
const maxHeld = 64 << 20

// TooManyError: more groups than can be held to be sorted.
type TooManyError struct{ Rows int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("more than %d MiB of groups (%d) are to be sorted by what they add up to", maxHeld>>20, e.Rows)
}

// held keeps rows and puts them into an order that isn't that of their coming:
// all, or with a limit the first ones.
type held struct {
	sorters []sorter
	// limit is the number of rows that will be asked for.
	limit uint64
	rows  []heldRow
	bytes int
	came  int
}

type heldRow struct {
	packet []byte
	key    Key
	came   int
}

func (r *heldRow) size() int {
	n := len(r.packet) + 48
	for i := range r.key {
		n += len(r.key[i].b) + len(r.key[i].pad) + 64
	}
	return n
}

// heap.Interface: the last of the rows at the root.
func (h *held) Len() int           { return len(h.rows) }
func (h *held) Less(i, j int) bool { return h.order(&h.rows[i], &h.rows[j]) > 0 }
func (h *held) Swap(i, j int)      { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *held) Push(x any)         { h.rows = append(h.rows, x.(heldRow)) }
func (h *held) Pop() any {
	last := h.rows[len(h.rows)-1]
	h.rows = h.rows[:len(h.rows)-1]
	return last
}

func (h *held) order(x, y *heldRow) int {
	if c := compare(h.sorters, x.key, y.key); c != 0 {
		return c
	}
	return x.came - y.came
}

// add keeps a row of values.
func (h *held) add(l *Layout, values [][]byte) error {
	if h.limit == 0 {
		return nil
	}
	row := Row{values: values}
	key, err := fill(nil, h.sorters, &row)
	if err != nil {
		return err
	}
	h.came++
	r := heldRow{key: key, came: h.came}
	full := uint64(len(h.rows)) >= h.limit
	if full && h.order(&r, &h.rows[0]) > 0 {
		return nil
	}
	r.packet = l.packet(nil, values)
	if full {
		h.bytes -= h.rows[0].size()
		h.rows[0] = r
		heap.Fix(h, 0)
	} else {
		heap.Push(h, r)
	}
	if h.bytes += r.size(); h.bytes > maxHeld {
		return &TooManyError{len(h.rows)}
	}
	return nil
}

// sort puts the rows into their order.
func (h *held) sort() {
	slices.SortFunc(h.rows, func(x, y heldRow) int { return h.order(&x, &y) })
}
