package door

import (
	"testing"
	"time"
)

func TestStrangersLogged(t *testing.T) {
	t.Parallel()
	var x Strangers
	now := time.Unix(1000, 0)
	for i := range 1000 {
		if unlogged, ok := x.may(now); ok != (i < strangersLogged) || unlogged != 0 {
			t.Fatalf("line %d: %v, %d not logged before", i, ok, unlogged)
		}
	}
	now = now.Add(time.Second)
	for i, want := range []int{1000 - strangersLogged, 0} {
		if unlogged, ok := x.may(now); !ok || unlogged != want {
			t.Errorf("line %d of the next second: %v, %d not logged before", i, ok, unlogged)
		}
	}
}
