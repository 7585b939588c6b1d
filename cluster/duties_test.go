package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/storage"
)

type dutyClock struct{ cluster.Store }

func (dutyClock) Epoch() storage.Epoch { return 1 }

// TestDuties is what every kind of cluster must do: a duty is done once, until who does it leaves it.
func TestDuties(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string]func(*bench) (one, two cluster.Cluster, pay func()){
		"alone": func(*bench) (one, two cluster.Cluster, pay func()) {
			l := cluster.NewLocal(dutyClock{})
			return l, l, func() {}
		},
		"several": func(b *bench) (one, two cluster.Cluster, pay func()) {
			first, second := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
			return first, second, func() { b.check(first.Follow(b.t.Context())) }
		},
		"one of several": func(b *bench) (one, two cluster.Cluster, pay func()) {
			s := b.member(1, cluster.Member{})
			return s, s, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			one, two, pay := pair(b)
			ctx, end := context.WithCancel(t.Context())
			held, release, err := one.Hold(ctx, "x")
			b.check(err)
			if _, _, err := two.Hold(once(t), "x"); !errors.Is(err, context.Canceled) {
				t.Errorf("both have it: %v", err)
			}
			if _, _, err := two.Hold(once(t), "x"); !errors.Is(err, context.Canceled) {
				t.Errorf("both have it: %v", err)
			}
			_, other, err := two.Hold(once(t), "y")
			b.check(err)
			other()
			if held.Err() != nil {
				t.Error("it has ended")
			}
			if end(); held.Err() == nil {
				t.Error("it goes on")
			}
			if _, _, err := two.Hold(once(t), "x"); err == nil {
				t.Error("taken, and somebody is at work on it")
			}
			release()
			pay()
			if held, release, err = two.Hold(t.Context(), "x"); err != nil || held.Err() != nil {
				t.Error(err)
			}
			release()
		})
	}
}

// TestDutyTakenOver: a member that is gone loses its duty; one that has merely stood still finds out when it is back.
func TestDutyTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	held, release, err := one.Hold(t.Context(), "x")
	b.check(err)
	var taken context.Context
	var leave func()
	for range 4 {
		b.now = b.now.Add(20 * time.Second)
		b.beat(two)
		b.sweep(two)
		if taken, leave, err = two.Hold(once(t), "x"); err == nil {
			break
		}
	}
	b.check(err)
	defer leave()
	if held.Err() != nil {
		t.Error("it has heard of it, and is on no shard")
	}
	b.beat(one)
	if !errors.Is(context.Cause(held), cluster.ErrTurnLost) {
		t.Error(context.Cause(held))
	}
	release()
	b.check(one.Follow(t.Context()))
	if left := b.board.String(); !strings.Contains(left, "duty x:2") {
		t.Errorf("whose duty: %s", left)
	}
	if _, _, err := one.Hold(once(t), "x"); err == nil {
		t.Error("both have it")
	}
	if errors.Is(context.Cause(taken), cluster.ErrTurnLost) {
		t.Error("who took it over has lost it")
	}
}
