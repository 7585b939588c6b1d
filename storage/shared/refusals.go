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

// end ends the row, and reports that there was one.
func (r *refusals) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := !r.last.IsZero()
	r.first, r.last = time.Time{}, time.Time{}
	return was
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
