package door

import (
	"context"
	"testing"
)

// TestHandshakesOfOneHost: an address that has all its handshakes under way leaves places for others.
func TestHandshakesOfOneHost(t *testing.T) {
	t.Parallel()
	h := NewHandshakes()
	now, cancel := context.WithCancel(t.Context())
	cancel() // whoever would have to wait gets no place
	var ends []func()
	take := func(host string) (n int) {
		for {
			end, ok := h.Begin(now, host)
			if !ok {
				return n
			}
			ends = append(ends, end)
			n++
		}
	}
	if n := take("a"); n != hostHandshakes {
		t.Errorf("one address has %d handshakes", n)
	}
	if n := take("b"); n != maxHandshakes-hostHandshakes {
		t.Errorf("another has %d beside them", n)
	}
	ends[0]()
	if n := take("b"); n != 1 {
		t.Errorf("%d more", n)
	}
	for _, end := range ends[1:] {
		end()
	}
	if len(h.byHost) != 0 || len(h.all) != 0 {
		t.Errorf("%d addresses and %d handshakes are left", len(h.byHost), len(h.all))
	}
}
