package shared

import (
	"sync"
	"time"
)

// refusals are of writes, by a server that answers.
type refusals struct {
	mu          sync.Mutex
	first, last time.Time // of those in a row
}

// refusalsApart is how far those in a row are apart at most: what has become of a server meanwhile nobody knows.
const refusalsApart = time.Minute

// add reports that it is the first in a row.
func (r *refusals) add(now time.Time) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first = now.Sub(r.last) > refusalsApart; first {
		r.first = now
	}
	r.last = now
	return first
}

// end is for a write that was taken. It ends a row that was quiet for so long, and reports that there was one.
//
// A server whose disk is full takes some writes: those for which there is room where others of the kind are.
func (r *refusals) end(now time.Time, quiet time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.IsZero() || now.Sub(r.last) < quiet {
		return false
	}
	r.first, r.last = time.Time{}, time.Time{}
	return true
}

// lately reports one that isn't long ago.
func (r *refusals) lately(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.last) <= refusalsApart
}

// lasted is from the first to the last in a row, of which the last isn't long ago.
func (r *refusals) lasted(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > refusalsApart {
		return 0
	}
	return r.last.Sub(r.first)
}
