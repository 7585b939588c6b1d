package main

import (
	"testing"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestTellOfLess: who waits for a serial that was told with a higher one meanwhile goes on, and who waits for a shard that
// isn't used any more.
func TestTellOfLess(t *testing.T) {
	t.Parallel()
	for what, happens := range map[string]func(*teller){
		"a higher one was told": func(x *teller) { x.said = 6 },
		"the shard was lost":    func(x *teller) { x.claimed = false },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			x := newTeller(&claim{name: "s0"})
			x.claimed, x.said, x.want = true, 4, 6 // 6 is being told
			done := make(chan error, 1)
			go func() { done <- x.tell(t.Context(), 5) }()
			<-x.wake // it waits for the next attempt
			x.mu.Lock()
			happens(x)
			x.mu.Unlock()
			x.attempt(t.Context(), shard.Config{})
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Error("it waits for ever")
			}
		})
	}
}
