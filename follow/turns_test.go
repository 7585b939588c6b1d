package follow

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: who waits gets a turn that has begun since, with all that wait then; none joins one under way.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := Turns{Time: time.Second}
		taken := 0
		end := make(chan error)
		do := func(context.Context) error {
			taken++
			return <-end
		}
		got := make(chan error, 10)
		wait := func() { got <- turns.Next(t.Context(), do) }
		want := func(what string, n, of int, err error) {
			t.Helper()
			synctest.Wait()
			if taken != n || len(got) != of {
				t.Fatalf("%s: %d turns, of which %d know; wanted %d, %d", what, taken, len(got), n, of)
			}
			for range of {
				if is := <-got; !errors.Is(is, err) {
					t.Errorf("%s: %v, wanted %v", what, is, err)
				}
			}
		}
		go wait()
		want("the first", 1, 0, nil)
		for range 5 {
			go wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := turns.Next(gone, do); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want("those that come meanwhile", 1, 0, nil)
		end <- nil
		want("the first has ended", 2, 1, nil)
		failed := errors.New("failed")
		end <- failed
		want("the second has", 2, 5, failed)
		go wait()
		want("one that comes later", 3, 0, nil)
		end <- nil
		want("it has ended", 3, 1, nil)
	})
}

// TestTurnsGather: a turn that follows one of many waits for as many, and no longer than that one took.
func TestTurnsGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = 2 * time.Millisecond
		turns := Turns{Time: time.Second, Gather: time.Second}
		taken := 0
		do := func(context.Context) error {
			time.Sleep(took)
			taken++
			return nil
		}
		var all sync.WaitGroup
		come := func(n int) {
			for range n {
				all.Go(func() { _ = turns.Next(t.Context(), do) })
			}
			synctest.Wait()
		}
		come(1) // its turn begins at once
		come(3)
		all.Wait()
		if taken != 2 {
			t.Fatalf("%d turns for one and three", taken)
		}
		began := time.Now()
		come(1)
		time.Sleep(took / 2)
		come(2) // as many as before: it begins
		all.Wait()
		if taken != 3 || time.Since(began) != took/2+took {
			t.Errorf("three that come one after the other had %d turns, %v", taken-2, time.Since(began))
		}
		began = time.Now()
		come(1)
		all.Wait()
		if taken != 4 || time.Since(began) != 2*took {
			t.Errorf("one that comes alone behind three had %d turns, %v", taken-3, time.Since(began))
		}
	})
}
