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
		now := time.Now()
		p.sessions.each(func(s *session) {
			s.expire(now)
			if s.vanished() {
				go s.endVanished(ctx)
			}
		})
	}
}

// vanished reports a session that works for a client that has gone, and is to be ended.
func (s *session) vanished() bool {
	a := &s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == nil || a.leaving || len(a.running) == 0 || a.outlives || time.Since(a.since) <= vanishedAfter || !a.client.Gone() {
		return false
	}
	a.leaving = true
	return true
}

// endVanished ends what vanished reports. A shard that doesn't answer takes its time.
func (s *session) endVanished(ctx context.Context) {
	s.log.Info("the client has gone; its statement is ended")
	s.kill()
	if err := s.interrupt(ctx); err != nil {
		s.log.Info("end the statement of a client that has gone", "error", err)
	}
	s.activity.mu.Lock()
	s.activity.leaving = false
	s.activity.mu.Unlock()
}
