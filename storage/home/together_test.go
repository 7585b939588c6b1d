package home

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// flights records what was sent, each flight landing when told.
type flights struct {
	sent chan []int
	land chan error
}

func newTogether() (*together[int], *flights) {
	f := &flights{sent: make(chan []int, 100), land: make(chan error)}
	return &together[int]{
		room: 5, size: func(of int) int { return 1 },
		send: func(ctx context.Context, all []int) error {
			f.sent <- slices.Clone(all)
			return <-f.land
		},
	}, f
}

// TestTogether: who comes while a flight is under way goes with the next, and never with it.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newTogether()
		errs := make(chan error, 100)
		do := func(n int) {
			go func() { errs <- g.do(t.Context(), n) }()
			synctest.Wait()
		}
		want := func(all ...int) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-f.sent:
				if !slices.Equal(got, all) {
					t.Fatalf("sent %v, want %v", got, all)
				}
			default:
				t.Fatal("nothing was sent")
			}
		}
		do(1)
		want(1)
		for n := 2; n <= 9; n++ {
			do(n)
		}
		f.land <- nil
		want(2, 3, 4, 5, 6) // that is all there is room for
		broken := errors.New("broken")
		f.land <- broken
		want(7, 8, 9)
		f.land <- nil
		synctest.Wait()
		failed := 0
		for range 9 {
			if errors.Is(<-errs, broken) {
				failed++
			}
		}
		if failed != 5 || g.flights != 0 {
			t.Fatalf("%d callers failed, %d flights are under way", failed, g.flights)
		}
	})
}

// TestTogetherImpatient: a flight that doesn't land holds nobody up for long, and who leaves has left.
func TestTogetherImpatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newTogether()
		errs := make(chan error, 100)
		go func() { errs <- g.do(t.Context(), 1) }()
		synctest.Wait()
		<-f.sent
		ctx, leave := context.WithCancel(t.Context())
		go func() { errs <- g.do(ctx, 2) }()
		synctest.Wait()
		if len(f.sent) > 0 {
			t.Fatal("it was sent at once")
		}
		time.Sleep(patience)
		synctest.Wait()
		if got := <-f.sent; !slices.Equal(got, []int{2}) {
			t.Fatalf("sent %v", got)
		}
		leave()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for n := 3; n < 3+2*mostFlights; n++ {
			go func() { errs <- g.do(t.Context(), n) }()
			time.Sleep(patience)
		}
		synctest.Wait()
		if g.flights != mostFlights {
			t.Fatalf("%d flights", g.flights)
		}
		close(f.land)
		synctest.Wait()
		if g.flights != 0 || len(g.waiting) != 0 {
			t.Fatalf("%d flights, %d wait", g.flights, len(g.waiting))
		}
	})
}
