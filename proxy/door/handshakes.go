package door

import (
	"context"
	"sync"
	"time"
)

const (
	// maxHandshakes bounds the connections that aren't logged in yet. The next ones
	// wait until they are greeted: after a restart all clients come at once.
	maxHandshakes = 1000
	// hostHandshakes bounds those of one address. One that opens thousands and never
	// goes on would keep everybody out, for as long as a handshake may take, again and again.
	hostHandshakes = 750
	// handshakeWait is for how long they wait.
	handshakeWait = 10 * time.Second
)

// Handshakes are those under way.
type Handshakes struct {
	all    chan struct{} // has an element for each
	mu     sync.Mutex
	byHost map[string]*fromHost
}

type fromHost struct {
	places chan struct{}
	// asking are those that have a place or wait for one.
	asking int
}

// NewHandshakes has none under way.
func NewHandshakes() *Handshakes {
	return &Handshakes{all: make(chan struct{}, maxHandshakes), byHost: map[string]*fromHost{}}
}

// Begin waits for a place; end gives it back.
func (h *Handshakes) Begin(ctx context.Context, host string) (end func(), ok bool) {
	h.mu.Lock()
	from := h.byHost[host]
	if from == nil {
		from = &fromHost{places: make(chan struct{}, hostHandshakes)}
		h.byHost[host] = from
	}
	from.asking++
	h.mu.Unlock()
	leave := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if from.asking--; from.asking == 0 {
			delete(h.byHost, host)
		}
	}

	ctx, cancel := context.WithTimeout(ctx, handshakeWait)
	defer cancel()
	if !enter(ctx, from.places) {
		leave()
		return nil, false
	}
	if !enter(ctx, h.all) {
		<-from.places
		leave()
		return nil, false
	}
	return func() {
		<-h.all
		<-from.places
		leave()
	}, true
}

// enter takes a place, one that is free in any case.
func enter(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
