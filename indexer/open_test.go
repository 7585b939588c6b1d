package indexer

import (
	"context"
	"errors"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// TestExtendKeepsTheEpoch: what a transaction adds is as old as its registration.
func TestExtendKeepsTheEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t, 5, nil)
	b.until("the shards are settled", func() bool { return b.x.isSettled(3) && b.x.isSettled(4) })
	o := b.x.Begin(catalog.Only(3))
	was, err := b.store.Advance()
	if err != nil {
		t.Fatal(err)
	}
	was--
	horizon := func() storage.Epoch {
		h, err := b.x.cluster.Horizon(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	o.Extend(catalog.Only(3).Union(catalog.Only(4)))
	if len(o.regs) != 2 {
		t.Errorf("%d registrations on two shards", len(o.regs))
	}
	if e, _ := o.Epoch(3); e != was || horizon() != was {
		t.Errorf("registered in epoch %d, horizon %d", e, horizon())
	}
	if e, _ := o.Epoch(4); e != was+1 {
		t.Errorf("registered in epoch %d", e)
	}
	o.End()
	if h := horizon(); h != was+1 {
		t.Errorf("horizon %d when it has ended", h)
	}
}

// TestBounds: what is registered while a snapshot is opened lies between its bounds, though
// it ends at once.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.until("the shard is settled", func() bool { return b.x.isSettled(0) })
	var epoch storage.Epoch
	bounds, err := b.x.begin(t.Context(), 0, nil)
	check(t, err)
	err = bounds.around(t.Context(), b.x, func() error {
		o := b.x.Begin(catalog.Only(0))
		defer o.End()
		epoch, _ = o.Epoch(0)
		_, err := b.store.Advance()
		return err
	})
	if err != nil || bounds.horizon > epoch || bounds.after <= epoch {
		t.Errorf("bounds %+v of epoch %d, error %v", bounds, epoch, err)
	}
}

// TestFloors: a scan waits for no transaction; one that may have an older snapshot looks where
// the scan has removed entries (Open.Lookup), and a read of several keys notices (Removals).
func TestFloors(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[1].set(1, "b")
	b.create()
	b.until("no job of the build is left", func() bool { return len(b.store.Jobs()) == 0 })
	_, err := b.store.Advance() // the entry is older
	check(t, err)
	old := b.x.Begin(b.index().Table.Shards)
	defer old.End()
	removals := b.x.Removals()
	b.expect("a")
	b.update(1, 1, "a")
	b.until("the entry is retired", func() bool { return len(b.shardsOf("b")) == 0 })
	if b.x.Removals() == removals {
		t.Error("a read of a and b would not know")
	}
	young := b.x.Begin(b.index().Table.Shards)
	defer young.End()
	for _, c := range []struct {
		by   *Open
		key  string
		want catalog.ShardSet
	}{{old, "b", catalog.Only(1)}, {old, "a", catalog.Only(1)}, {young, "b", catalog.ShardSet{}}, {young, "a", catalog.Only(1)}} {
		if got, err := c.by.Lookup(b.index(), b.key(c.key), nil); err != nil || got != c.want {
			t.Errorf("%s is on %v for %v, want %v (%v)", c.key, got, c.by.regs, c.want, err)
		}
		// So it does where all is asked at once.
		far := &Open{x: &Indexer{store: asked{b.store}}, regs: c.by.regs}
		questions := []plan.Question{
			{Index: b.index(), Key: b.key(c.key)},
			{Index: b.index(), Ranged: true, From: b.key(c.key), To: append(b.key(c.key), 0xff), Limit: 5},
			{Index: &catalog.Index{ID: 1 << 20}, Key: b.key(c.key)},
		}
		check(t, far.Ask(t.Context(), questions))
		for _, q := range questions[:2] {
			if q.Shards != c.want || q.Within != q.Ranged || q.Err != nil {
				t.Errorf("%s is on %v (within %v) for %v, want %v (%v)", c.key, q.Shards, q.Within, c.by.regs, c.want, q.Err)
			}
		}
		if q := questions[2]; !errors.Is(q.Err, storage.ErrNoIndex) || !q.Shards.Empty() {
			t.Errorf("an unknown index is on %v (%v)", q.Shards, q.Err)
		}
		check(t, far.x.Ask(t.Context(), questions)) // without a registration
		if got, err := b.x.Lookup(b.index(), b.key(c.key), nil); err != nil || questions[0].Shards != got {
			t.Errorf("%s is on %v, want %v (%v)", c.key, questions[0].Shards, got, err)
		}
	}
	if err := b.x.Ask(t.Context(), make([]plan.Question, 1)); !errors.Is(err, errNotAsked) {
		t.Errorf("asked a store that isn't: %v", err)
	}
}

// asked is a store that answers several lookups.
type asked struct{ Store }

func (a asked) Ask(_ context.Context, questions []storage.Question) error {
	for i := range questions {
		q := &questions[i]
		if q.Ranged {
			q.Found, q.Within, q.Err = a.Range(q.Index, q.From, q.To, q.Limit)
		} else {
			q.Found, q.Err = a.Lookup(q.Index, q.Key, q.Components)
		}
	}
	return nil
}

func (asked) Takes(catalog.IndexID) bool { return true }

func (asked) Guess([]storage.Question) (holds func(context.Context) bool) { return nil }

// TestAwaitOpen waits for what is registered in this epoch too.
func TestAwaitOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.until("the shard is settled", func() bool { return b.x.isSettled(0) })
	o := b.x.Begin(catalog.Only(0))
	errOpen := errors.New("still open")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOpen)
	if err := b.x.AwaitOpen(ctx, catalog.Only(0)); !errors.Is(err, errOpen) {
		t.Errorf("beside an open one: %v", err)
	}
	o.End()
	if err := b.x.AwaitOpen(t.Context(), catalog.Only(0)); err != nil {
		t.Error(err)
	}
}
