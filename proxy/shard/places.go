package shard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Places are as many of something as may be done side by side. Who wants one waits for
// it. A holder has his share of them, as of connections.
type Places struct {
	what string
	max  int
	log  *slog.Logger

	mu     sync.Mutex
	shares shares
}

// NewPlaces returns them; what is the log's word for what is done there.
func NewPlaces(what string, most int, log *slog.Logger) *Places {
	return &Places{what: what, max: most, log: log}
}

func (p *Places) may(t *tally) bool {
	if p.shares.used >= p.max {
		return false
	}
	return t.unbound() || p.shares.mayShare(t, p.max)
}

// Enter waits for a place; leave gives it up. The error is ctx's cause.
func (p *Places) Enter(ctx context.Context, h *Holder) (leave func(), err error) {
	leave = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shares.giveBack(h)
		p.serve()
	}
	p.mu.Lock()
	t := p.shares.of(h)
	if p.may(t) {
		p.shares.take(t)
		p.mu.Unlock()
		return leave, nil
	}
	w := &waiter{holder: h, ready: make(chan grant, 1)}
	p.shares.enqueue(t, w)
	tell := h != nil && p.shares.used < p.max && t.tells(time.Now())
	held := t.held
	p.mu.Unlock()
	if tell {
		p.log.Warn(p.what+" of a user wait for the user's own: these have as many places as they may", "user", h.Name, "held", held, "of", p.max)
	}
	select {
	case <-w.ready:
		return leave, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	waited := p.shares.dequeue(w)
	p.mu.Unlock()
	if !waited { // it was served at the same moment
		leave()
	}
	return nil, context.Cause(ctx)
}

func (p *Places) serve() {
	for {
		w := p.shares.next(p.may)
		if w == nil {
			return
		}
		p.shares.dequeue(w)
		p.shares.take(p.shares.of(w.holder))
		w.ready <- grant{}
	}
}
