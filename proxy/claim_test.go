package proxy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/shard"
)

func row(n int) claimed {
	return claimed{catalog.TableName{Schema: "shop", Name: "t"}, strconv.Itoa(n)}
}

// claimants are sessions with a transaction each, the first the oldest.
func claimants(n int) (*Proxy, []*session) {
	plans := planner.New()
	p := &Proxy{deadlocks: deadlock.NewSpread(), claims: newClaims(), metrics: newMetrics(prometheus.NewRegistry(), plans)}
	list := make([]*session, n)
	for i := range list {
		s := &session{proxy: p, log: slog.New(slog.DiscardHandler)}
		s.tx = &transaction{s: s, began: time.Now().Add(time.Duration(i))}
		list[i] = s
	}
	return p, list
}

// want has a session claim, and await it. The shard doesn't give what others have.
func (s *session) want(ctx context.Context, what claimed) error {
	wait := s.claim(what)
	if wait == nil {
		return nil
	}
	err := s.await(ctx, wait, claimPatience, claimMost)
	if errors.Is(err, errClaimed) {
		s.proxy.claims.asked(wait, false)
	}
	return err
}

func (s *session) leaveAll() {
	s.proxy.claims.leave(s.tx, maps.Keys(s.tx.claims))
	s.tx.claims = nil
}

// asks has a session claim beside the test.
func asks(s *session, what claimed) chan error {
	done := make(chan error, 1)
	go func() { done <- s.want(context.Background(), what) }()
	return done
}

func nothingClaimed(t *testing.T, p *Proxy) {
	t.Helper()
	p.claims.mu.Lock()
	defer p.claims.mu.Unlock()
	if len(p.claims.held)+len(p.claims.waits) > 0 {
		t.Errorf("there are left: %v %v", p.claims.held, p.claims.waits)
	}
}

// TestClaimsInOrder: who has come first is next, and nothing is left behind the last.
func TestClaimsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := claimants(4)
		var came []chan error
		for _, s := range s {
			came = append(came, asks(s, row(1)))
			synctest.Wait()
		}
		for i := range s {
			select {
			case err := <-came[i]:
				if err != nil {
					t.Fatalf("%d: %v", i, err)
				}
			default:
				t.Fatalf("%d is not the next", i)
			}
			s[i].leaveAll()
			synctest.Wait()
		}
		nothingClaimed(t, p)
	})
}

// TestClaimsPatience: who has a claim and sleeps keeps others for claimPatience, and those that give it on for
// claimMost. Then they are told so, and have it not.
func TestClaimsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := claimants(3)
		began := time.Now()
		if err := s[0].want(t.Context(), row(1)); err != nil {
			t.Fatal(err)
		}
		for _, s := range s[1:] {
			if err := s.want(t.Context(), row(1)); !errors.Is(err, errClaimed) {
				t.Fatal(err)
			}
			if len(s.tx.claims) > 0 {
				t.Error("it has the claim")
			}
		}
		if took := time.Since(began); took != 2*claimPatience {
			t.Errorf("it took %v", took)
		}
		s[0].leaveAll()
		nothingClaimed(t, p)

		// One after the other, each for less than claimPatience.
		p, s = claimants(30)
		began = time.Now()
		last := make(chan error, 1)
		for i, x := range s {
			came := asks(x, row(1))
			synctest.Wait()
			go func() {
				if err := <-came; i == len(s)-1 {
					last <- err
				} else if err == nil {
					time.Sleep(claimPatience * 3 / 4)
					x.leaveAll()
				}
			}()
		}
		if err := <-last; !errors.Is(err, errClaimed) || time.Since(began) != claimMost {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		nothingClaimed(t, p)
	})
}

// TestClaimsCircle: the youngest of a circle is the victim as soon as it closes, whoever closes it.
func TestClaimsCircle(t *testing.T) {
	for closes := range 3 {
		synctest.Test(t, func(t *testing.T) {
			_, s := claimants(3)
			for i, s := range s {
				if err := s.want(t.Context(), row(i)); err != nil {
					t.Fatal(err)
				}
			}
			began, came := time.Now(), make([]chan error, 3)
			for i := range 3 {
				at := (closes + 1 + i) % 3
				came[at] = asks(s[at], row((at+1)%3))
				synctest.Wait()
			}
			err := <-came[2]
			if e, ok := errors.AsType[mysqlerr.Error](err); !ok || e.Code != mysqlerr.LockDeadlock || s[2].tx.victim != deadlock.Err {
				t.Fatalf("%v", err)
			}
			s[2].leaveAll()
			if err := <-came[1]; err != nil {
				t.Error(err)
			}
			s[1].leaveAll()
			if err := <-came[0]; err != nil {
				t.Error(err)
			}
			if time.Since(began) > 0 {
				t.Errorf("it took %v", time.Since(began))
			}
		})
	}
}

// TestClaimsAsked: who has asked the shard is still known to wait, and in a circle; the claim is whose the shard gives the
// lock to.
func TestClaimsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := claimants(4)
		for i, s := range s {
			if err := s.want(t.Context(), row(i)); err != nil {
				t.Fatal(err)
			}
		}
		asks := func(s *session) rowClaims {
			wait := s.claim(row(0))
			if err := s.await(t.Context(), wait, claimPatience, claimMost); !errors.Is(err, errClaimed) {
				t.Fatal(err)
			}
			return rowClaims{tx: s.tx, asked: wait}
		}
		b, c, d := asks(s[1]), asks(s[2]), asks(s[3])
		// The oldest closes the circle, and nobody else waits in Shunt.
		if err := s[0].want(t.Context(), row(1)); s[0].tx.victim != deadlock.Err {
			t.Fatal(err)
		}
		s[0].leaveAll()
		// It is the turn of b; the shard has it another way.
		c.tx.found = 1
		c.answered()
		if p.claims.held[row(0)].by != c.tx || !c.tx.claims[row(0)] {
			t.Error("who has the lock has not the claim")
		}
		if wait := s[2].claim(row(1)); wait == nil || c.tx.victim != nil {
			t.Error("who was to have it next isn't known to wait")
		} else if err := s[2].await(t.Context(), wait, claimPatience, claimMost); !errors.Is(err, mysqlerr.Error(*deadlock.Err)) {
			t.Error(err)
		}
		s[2].leaveAll()
		b.answered() // it has found nothing
		if p.claims.held[row(0)].by != d.tx {
			t.Error("it isn't the next one's")
		}
		d.tx.found = 1
		d.answered()
		s[1].leaveAll()
		s[3].leaveAll()
		nothingClaimed(t, p)
	})
}

// TestClaimsKilled: a KILL ends a wait, and one that comes with the claim leaves it to the transaction's end.
func TestClaimsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := claimants(2)
		if err := s[0].want(t.Context(), row(1)); err != nil {
			t.Fatal(err)
		}
		came := asks(s[1], row(1))
		synctest.Wait()
		if err := s[1].interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-came; !errors.Is(err, errInterrupted) || len(p.claims.waits) > 0 {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := s[1].claim(row(1))
		s[0].leaveAll()
		cancel(errInterrupted)
		if err := s[1].await(ctx, wait, claimPatience, claimMost); !errors.Is(err, errInterrupted) {
			t.Fatal(err)
		}
		s[1].leaveAll()
		nothingClaimed(t, p)
	})
}

// TestClaimsNoCircles: whatever transactions claim, a victim is of a circle, and no circle is left.
func TestClaimsNoCircles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, s := claimants(6)
		c := &p.claims
		waits := make([]*claimWait, len(s))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(s)-1).Draw(t, "who")
			x := s[i]
			if w := waits[i]; w != nil {
				select {
				case err := <-w.ends:
					waits[i] = nil
					if err == nil {
						x.tx.has(w.what)
					} else {
						x.leaveAll()
					}
				default:
				}
				continue
			}
			what := row(rapid.IntRange(0, 4).Draw(t, "row"))
			if x.tx.claims[what] || rapid.IntRange(0, 4).Draw(t, "ends") == 0 {
				x.leaveAll()
				continue
			}
			before := maps.Clone(c.waits)
			wait, victim := c.take(x.tx, what)
			if wait == nil {
				x.tx.has(what)
				continue
			}
			waits[i] = wait
			// The way from the wait on, as it was before.
			on, circle := wait.on.by, []*transaction{x.tx}
			for before[on] != nil && !slices.Contains(circle, on) {
				circle, on = append(circle, on), before[on].on.by
			}
			if closed := on == x.tx; closed != (victim != nil) {
				t.Fatalf("a circle: %t, a victim: %t", closed, victim != nil)
			}
			if victim == nil {
				continue
			}
			if !slices.Contains(circle, victim.tx) || slices.ContainsFunc(circle, func(tx *transaction) bool { return tx.began.After(victim.tx.began) }) {
				t.Fatal("it is not the youngest of the circle")
			}
			if c.waits[victim.tx] != nil {
				t.Fatal("it waits on")
			}
		}
		for tx := range c.waits {
			seen := map[*transaction]bool{}
			for at := c.waits[tx]; at != nil; at = c.waits[at.on.by] {
				if seen[at.tx] {
					t.Fatal("a circle is left")
				}
				seen[at.tx] = true
			}
		}
	})
}

func TestFoundRows(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		sum  shard.Summary
		want int64
	}{
		{shard.Summary{Rows: 2, ResultSet: true}, 2},
		{shard.Summary{Info: "Rows matched: 3  Changed: 0  Warnings: 0"}, 3},
		{shard.Summary{Info: "Rows matched: 0  Changed: 0  Warnings: 0"}, 0},
		{shard.Summary{Affected: 4}, 4}, // DELETE
		{shard.Summary{Rows: 1, Err: deadlock.Err}, 0},
	} {
		if got := foundRows(&x.sum); got != x.want {
			t.Errorf("%+v: %d", x.sum, got)
		}
	}
}
