package proxy

import (
	"context"
	"time"
)

// vanishedAfter is how long a statement runs before its client is looked for.
const vanishedAfter = time.Second

// EndVanished ends what shards do for clients that have gone, until ctx ends.
// While a statement runs nothing reads from its client; so one that went would
// be noticed when the answer comes, with locks held until then. It looks at
// sessions that have been busy for a while, and nothing is to be paid for the
// others. It also ends sessions that are idle for too long.
func (p *Proxy) EndVanished(ctx context.Context) {
	tick := time.NewTicker(vanishedAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var gone []*session
		now := time.Now()
		p.sessions.each(func(s *session) {
			s.expire(now)
			if s.vanished() {
				gone = append(gone, s)
			}
		})
		for _, s := range gone {
			s.log.Info("the client has gone; its statement is ended")
			s.kill()
			if err := s.interrupt(ctx); err != nil {
				s.log.Info("end the statement of a client that has gone", "error", err)
			}
		}
	}
}

// vanished reports whether a session works for a client that has gone.
func (s *session) vanished() bool {
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	a := &s.activity
	return a.client != nil && len(a.running) > 0 && !a.outlives && time.Since(a.since) > vanishedAfter && a.client.Gone()
}
