package proxy

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// oneOnEach are ids of people of which each shard has one, by shard.
func (s *fakes) oneOnEach() []int {
	s.t.Helper()
	on := make([]int, len(s.shards))
	c := s.conn()
	for found, id := 0, 1; found < len(on); id++ {
		statement := fmt.Sprintf("UPDATE people SET city = 'sought' WHERE id = %d", id)
		if _, err := c.ExecContext(s.t.Context(), statement); err != nil {
			s.t.Fatal(err)
		}
		for i, f := range s.shards {
			if on[i] == 0 && f.count(statement) > 0 {
				on[i] = id
				found++
			}
		}
	}
	return on
}

// TestBeginsAtOnce: a transaction over several shards doesn't begin on one after the other,
// which takes as many round trips. Here one shard answers late.
func TestBeginsAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, 3, fakeOptions{})
	const begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
	for _, late := range s.shards {
		release := late.hold("START TRANSACTION")
		before := map[*fakeShard]int{}
		for _, f := range s.shards {
			before[f] = f.count("START TRANSACTION")
		}
		c := s.conn()
		ended := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(context.WithoutCancel(t.Context()), begin)
			ended <- err
		}()
		until(t, "it begins on the others", func() bool {
			for _, f := range s.shards {
				if f.count("START TRANSACTION") == before[f] {
					return false
				}
			}
			return true
		})
		release()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, statement := range []string{"UPDATE people SET city = 'x'", "ROLLBACK"} {
			if _, err := c.ExecContext(t.Context(), statement); err != nil {
				t.Error(err)
			}
		}
	}
	for _, f := range s.shards {
		if f.count("ROLLBACK") != 3 {
			t.Errorf("%s got %d times ROLLBACK", f.name, f.count("ROLLBACK"))
		}
	}
}

// TestCommitsAtOnce: a transaction is committed on its first shard, and then on the others at
// once: one that answers late holds up none of them, and one that answers nothing is told
// of with what has become of the others.
func TestCommitsAtOnce(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %v", lost), func(t *testing.T) {
			t.Parallel()
			s := serve(t, 3, fakeOptions{silence: 500 * time.Millisecond})
			on := s.oneOnEach()
			c := s.conn()
			if _, err := c.ExecContext(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			for _, id := range on {
				if _, err := c.ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET city = 'x' WHERE id = %d", id)); err != nil {
					t.Fatal(err)
				}
			}
			release := s.shards[1].hold("COMMIT")
			committed := make(chan error, 1)
			go func() {
				_, err := c.ExecContext(context.WithoutCancel(t.Context()), "COMMIT")
				committed <- err
			}()
			until(t, "the others have committed", func() bool { return s.shards[2].count("COMMIT") == 1 && s.shards[1].waiting("COMMIT") == 1 })
			if s.shards[0].count("COMMIT") != 1 {
				t.Error("the first shard has not committed before")
			}
			if !lost {
				release()
				if err := <-committed; err != nil {
					t.Error(err)
				}
				return
			}
			s.shards[1].freeze()
			err := <-committed
			failed(t, "COMMIT", err, 1180, "COMMIT on shard s1: ")
			failed(t, "COMMIT", err, 1180, "(outcome there: unknown, its connection was lost); committed: s0, s2; rolled back: none")
		})
	}
}
