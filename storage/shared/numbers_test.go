package shared

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// counter is a source.
type counter struct {
	next  uint64
	calls int
	away  bool
}

func (c *counter) take(_ context.Context, take func(next uint64) (end uint64)) (first uint64, err error) {
	if c.away {
		return 0, errors.New("away")
	}
	c.calls++
	first, c.next = c.next, take(c.next)
	return first, nil
}

// TestNumbersAhead: a process has numbers for ten minutes at its rate, takes them while it still has some, and never hands out one
// twice or a lower one.
func TestNumbersAhead(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		rows  uint64 // of an INSERT
		every time.Duration
		away  time.Duration // how long the first home is
		calls int           // at most
	}{
		"2,000 a second":                  {1, time.Second / 2000, time.Minute, 40},
		"a hundred at once, 20 a second":  {100, time.Second / 20, time.Minute, 2000},
		"twenty at once, one each minute": {20, time.Minute, 4 * time.Minute, 400},
		"one a minute":                    {1, time.Minute, 8 * time.Minute, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, home, n, q := time.Unix(1e9, 0), &counter{next: 1}, &numbers{}, &taken{}
			n.init()
			n.now = func() time.Time { return now }
			last := uint64(0)
			insert := func() error {
				first, again, err := q.take(t.Context(), n, home.take, func(next uint64) uint64 { return next + x.rows })
				if err != nil {
					return err
				}
				if first <= last {
					t.Fatalf("%d behind %d", first, last)
				}
				last = first + x.rows - 1
				if again {
					q.takeBehind(t.Context(), n, home.take)
				}
				now = now.Add(x.every)
				return nil
			}
			for range 3_000_000 {
				if err := insert(); err != nil {
					t.Fatal(err)
				}
				if now.Sub(time.Unix(1e9, 0)) > 20*time.Hour {
					break
				}
			}
			if home.calls > x.calls {
				t.Errorf("it was asked %d times", home.calls)
			}
			home.away = true
			for end := now.Add(x.away); now.Before(end); {
				if err := insert(); err != nil {
					t.Fatalf("%s before the end: %v", end.Sub(now), err)
				}
			}
			if lost := home.next - last; lost > 3*maxNumbers || x.every == time.Minute && lost > 100*x.rows {
				t.Errorf("%d numbers are taken ahead", lost)
			}
		})
	}
}

// TestNumbersEnd: at the end of all numbers none is taken ahead; and many at once are never of two ranges.
func TestNumbersEnd(t *testing.T) {
	t.Parallel()
	n, q, home := &numbers{}, &taken{}, &counter{next: ^uint64(0) - 5}
	n.init()
	first, again, err := q.take(t.Context(), n, home.take, func(next uint64) uint64 { return next + 3 })
	if err != nil || first != ^uint64(0)-5 || again || q.next != q.end {
		t.Errorf("%d, %v, %v; %+v", first, again, err, q.numberRange)
	}
	home = &counter{next: 1}
	q = &taken{}
	many := func(wanted uint64) func(uint64) uint64 { return func(next uint64) uint64 { return next + wanted } }
	for _, wanted := range []uint64{10, 7, 20, 500, 3} {
		before := home.next
		first, again, err := q.take(t.Context(), n, home.take, many(wanted))
		if err != nil || first < before && q.next-first != wanted {
			t.Errorf("%d numbers from %d, next %d: %v", wanted, first, q.next, err)
		}
		if again {
			q.takeBehind(t.Context(), n, home.take)
		}
	}
}

// TestNumbersOfTwo: two processes never hand out a number twice, nor one a lower one than before, in whichever order they ask and are
// answered.
func TestNumbersOfTwo(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		now, home, n := time.Unix(1e9, 0), &counter{next: 1}, &numbers{}
		n.init()
		n.now = func() time.Time { return now }
		given, last := map[uint64]bool{}, [2]uint64{}
		processes := [2]*taken{{}, {}}
		var late []func()
		for range 2000 {
			now = now.Add(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			if len(late) > 0 && rnd.IntN(3) == 0 {
				i := rnd.IntN(len(late))
				late[i]()
				late = slices.Delete(late, i, i+1)
			}
			home.away = rnd.IntN(10) == 0
			i, wanted := rnd.IntN(2), 1+uint64(rnd.IntN(20))
			first, again, err := processes[i].take(t.Context(), n, home.take, func(next uint64) uint64 { return next + wanted })
			if again {
				late = append(late, func() { processes[i].takeBehind(t.Context(), n, home.take) })
			}
			if err != nil {
				continue
			}
			if first <= last[i] {
				t.Fatalf("process %d has %d behind %d", i, first, last[i])
			}
			for k := range wanted {
				if given[first+k] {
					t.Fatalf("%d is given twice", first+k)
				}
				given[first+k] = true
			}
			last[i] = first + wanted - 1
		}
	}
}
