package insights

import (
	"math"
	"math/bits"
	"time"
)

const (
	// subBuckets of an octave: a time is known by 1/32 at worst, so that the middle of its bucket is
	// at most 1.6 % off.
	subBits    = 5
	subBuckets = 1 << subBits
	// Times below 2^lowest ns (1 us) are as that, those of 2^(lowest+octaves) (2.4 h) as just below.
	lowest  = 10
	octaves = 33
)

// histogram counts times in buckets that grow with them. Octaves that none fell into take no memory.
type histogram struct {
	// at is 1 + where in counts an octave is; 0: it has none.
	at     [octaves]uint8
	counts []octave
}

type octave [subBuckets]uint32

const octaveBytes = subBuckets * 4

// observe counts a time; grew: it is the first of its octave.
func (h *histogram) observe(d time.Duration) (grew bool) {
	v := min(max(uint64(max(d, 0)), 1<<lowest), 1<<(lowest+octaves)-1)
	n := bits.Len64(v) - 1
	sub := v >> (n - subBits) & (subBuckets - 1)
	at := h.at[n-lowest]
	if at == 0 {
		at, grew = h.grow(n-lowest), true
	}
	c := &h.counts[at-1][sub]
	if *c++; *c == math.MaxUint32 {
		h.halve()
	}
	return grew
}

func (h *histogram) grow(octaveOf int) uint8 {
	grown := make([]octave, len(h.counts)+1)
	copy(grown, h.counts)
	h.counts = grown
	h.at[octaveOf] = uint8(len(grown))
	return h.at[octaveOf]
}

// halve makes room in all counters: shares stay what they are.
func (h *histogram) halve() {
	for i := range h.counts {
		for j := range h.counts[i] {
			h.counts[i][j] = h.counts[i][j]/2 + h.counts[i][j]&1
		}
	}
}

// add counts what another one has; it returns how many octaves are new.
func (h *histogram) add(other *histogram) (grown int) {
	for o, at := range other.at {
		if at == 0 {
			continue
		}
		if h.at[o] == 0 {
			h.grow(o)
			grown++
		}
		for h.overflows(o, &other.counts[at-1]) {
			h.halve()
		}
		to := &h.counts[h.at[o]-1]
		for j, n := range &other.counts[at-1] {
			to[j] += n
		}
	}
	return grown
}

func (h *histogram) overflows(o int, more *octave) bool {
	for j, n := range more {
		if uint64(h.counts[h.at[o]-1][j])+uint64(n) >= math.MaxUint32 {
			return true
		}
	}
	return false
}

// quantiles are the times below which these shares of all are, in ascending order.
func (h *histogram) quantiles(shares ...float64) []time.Duration {
	out := make([]time.Duration, len(shares))
	var all, seen uint64
	for i := range h.counts {
		for _, n := range h.counts[i] {
			all += uint64(n)
		}
	}
	next := 0
	rank := func() uint64 { return max(1, uint64(math.Ceil(shares[next]*float64(all)))) }
	for o, at := range h.at {
		if at == 0 {
			continue
		}
		for j, n := range h.counts[at-1] {
			seen += uint64(n)
			for next < len(shares) && n > 0 && seen >= rank() {
				out[next] = middle(o, j)
				next++
			}
		}
	}
	return out
}

// middle is the middle of a bucket.
func middle(o, sub int) time.Duration {
	width := time.Duration(1) << (o + lowest - subBits)
	return time.Duration(subBuckets+sub)*width + width/2
}
