package proxy

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// kill ends the statement of a session on all shards, and with KILL CONNECTION the session.
var kill = &own{
	form: spoken.Kill,
	do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
		return nil, s.killByID(ctx, cmp.Or(a.Connection, uint64(s.client.ID)), a.QueryOnly)
	},
}

// processKill is COM_PROCESS_KILL, KILL of older clients.
func (s *session) processKill(ctx context.Context, payload []byte) error {
	if len(payload) != 4 {
		return mysqlerr.New(mysqlerr.UnknownCommand, "Malformed COM_PROCESS_KILL")
	}
	return s.killByID(ctx, uint64(binary.LittleEndian.Uint32(payload)), false)
}

func (s *session) killByID(ctx context.Context, id uint64, queryOnly bool) error {
	if id == uint64(s.client.ID) {
		// Its statement is this one: as on a server it fails, and with
		// KILL CONNECTION the session ends.
		s.release = !queryOnly
		return errInterrupted
	}
	k := &killQuestion{id, queryOnly, s.only()}
	if found, err := s.proxy.killOwn(ctx, k); found || err != nil {
		return err
	}
	return s.killElsewhere(ctx, k)
}

// killOwn ends what a client of this process does, and reports that it has one.
func (p *Proxy) killOwn(ctx context.Context, k *killQuestion) (found bool, err error) {
	var victim *session
	user := ""
	p.sessions.each(func(x *session) {
		if p, ok := x.process(); ok && uint64(p.id) == k.ID {
			victim, user = x, p.user
		}
	})
	switch {
	case victim == nil:
		return false, nil
	case k.By != nil && user != *k.By:
		return true, mysqlerr.Newf(mysqlerr.KillDenied, "You are not owner of thread %d", k.ID)
	}
	if !k.QueryOnly {
		victim.kill()
	}
	return true, victim.interrupt(ctx)
}

// interrupt ends what shards do for a session.
func (s *session) interrupt(ctx context.Context) error { return s.interruptAs(ctx, nil) }

// interruptAs is interrupt whose reason the client is told in place of 1317.
func (s *session) interruptAs(ctx context.Context, reason *shard.ServerError) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a := &s.activity
	a.ending.Lock()
	defer a.ending.Unlock()
	a.mu.Lock()
	a.interrupted = a.busy
	end, running := a.cancel, slices.Clone(a.running)
	a.mu.Unlock()
	if end != nil {
		end(errInterrupted)
	}
	// One that doesn't answer holds up no other's.
	var kills sync.WaitGroup
	errs := make([]error, len(running))
	for i, x := range running {
		if reason != nil {
			x.conn.InterruptedBy(reason)
		}
		kills.Go(func() {
			if err := x.conn.Kill(ctx); err != nil && ctx.Err() != nil {
				errs[i] = shard.Down(err)
			}
		})
	}
	kills.Wait()
	return cmp.Or(errs...)
}

// killed reports that KILL QUERY was asked for since the command came: between two of
// the statements that it is made of there is nothing to kill.
func (a *activity) killed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.interrupted
}

// resume has what undoes a statement run though that was killed.
func (a *activity) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interrupted = false
}

// killable is ctx, which a KILL ends, or cancel, until done is called: for what isn't one
// statement on one shard.
func (a *activity) killable(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc, done func()) {
	ctx, cancel = context.WithCancelCause(ctx)
	before := a.cancelBy(cancel)
	return ctx, cancel, func() {
		a.cancelBy(before)
		cancel(nil)
	}
}

// cancelBy notes what KILL calls, and returns what it was to call before.
func (a *activity) cancelBy(cancel context.CancelCauseFunc) (before context.CancelCauseFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, a.cancel = a.cancel, cancel
	return before
}
