package proxy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestRoomToPlan: large statements wait for each other, until KILL ends one; small ones don't.
func TestRoomToPlan(t *testing.T) {
	p := &Proxy{planning: planningRoom{semaphore.NewWeighted(4 << 20), 4 << 20}}
	newSession := func() *session {
		s := &session{proxy: p, client: &wire.Conn{}}
		s.activity.busy = true
		return s
	}
	large := strings.Repeat("x", 3<<20)
	leave, err := newSession().roomToPlan(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	if free, err := newSession().roomToPlan(t.Context(), large[:largeText]); err != nil {
		t.Fatal("a small statement: ", err)
	} else {
		free()
	}

	wait := func(s *session, sql string) chan error {
		came := make(chan error, 1)
		go func() {
			leave, err := s.roomToPlan(t.Context(), sql)
			if err == nil {
				leave()
			}
			came <- err
		}()
		waits := func() bool {
			s.activity.mu.Lock()
			defer s.activity.mu.Unlock()
			return s.activity.cancel != nil
		}
		for !waits() {
			time.Sleep(time.Millisecond)
		}
		return came
	}
	victim := newSession()
	killed := wait(victim, large)
	if err := victim.interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-killed; !errors.Is(err, errInterrupted) {
		t.Errorf("killed while it waited: %v", err)
	}
	// One that is larger than all the room gets all of it.
	largest := wait(newSession(), strings.Repeat("x", 5<<20))
	leave()
	if err := <-largest; err != nil {
		t.Error(err)
	}
	if !p.planning.sem.TryAcquire(p.planning.all) {
		t.Error("room was not given back")
	}
}
