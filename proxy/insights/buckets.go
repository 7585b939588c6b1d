package insights

import (
	"slices"
	"time"
)

// quarters of an octave are buckets: between a time and twice that there are four, of the same width.
const quarters = 4

// Bucket counts the times below Below that are not in the bucket before.
type Bucket struct {
	Below time.Duration
	Count uint64
}

// Histograms are those of a shape's executions, and of shards' parts.
type Histograms struct{ Whole, Part []Bucket }

// Histograms are those of the shapes that have these numbers. They begin with the shortest time and end with the longest.
func (s *Statistics) Histograms(ids ...uint64) map[uint64]Histograms {
	out := make(map[uint64]Histograms, len(ids))
	if s == nil {
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.ring {
		if id := ID(x.name.schema, x.name.text); slices.Contains(ids, id) {
			x.mu.Lock()
			out[id] = Histograms{x.whole.buckets(), x.part.buckets()}
			x.mu.Unlock()
		}
	}
	return out
}

// buckets are by quarters of octaves.
func (h *histogram) buckets() (out []Bucket) {
	for o, at := range h.at {
		for q := range quarters {
			var n uint64
			if at > 0 {
				for _, c := range h.counts[at-1][q*subBuckets/quarters : (q+1)*subBuckets/quarters] {
					n += uint64(c)
				}
			}
			if n > 0 || len(out) > 0 {
				out = append(out, Bucket{time.Duration(quarters+q+1) << (o + lowest) / quarters, n})
			}
		}
	}
	for len(out) > 0 && out[len(out)-1].Count == 0 {
		out = out[:len(out)-1]
	}
	return out
}
