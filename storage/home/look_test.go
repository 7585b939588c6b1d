package home

import (
	"errors"
	"sync"
	"testing"

	"github.com/shunt-sql/shunt/storage"
)

// TestCountsAtOnce: an answer that comes late isn't taken for a lower count.
func TestCountsAtOnce(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		var counting sync.WaitGroup
		for range 8 {
			counting.Go(func() {
				for range 50 {
					_, err := p.Look(t.Context())
					if err = errors.Join(err, p.Count(t.Context())); err != nil {
						t.Error(err)
					}
				}
			})
		}
		counting.Wait()
	})
}

// TestWentBack: a server that has a lower count than it had isn't used, by whom knows that, until it is accepted.
func TestWentBack(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		id := p.ready(t, 1)
		check(t, p.Count(t.Context()))
		check(t, p.Count(t.Context()))
		if _, err := p.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		life := must[uint64](t)(p.Life(t.Context()))
		if _, err := p.direct.ExecContext(t.Context(), "UPDATE seen SET n = n - 1"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Look(t.Context()); !errors.Is(err, ErrWentBack) {
			t.Errorf("a look: %v", err)
		}
		p.db.SetMaxIdleConns(0) // each call makes a connection
		for what, err := range map[string]error{
			"add":   p.Add(t.Context(), []storage.Entry{{Index: id, Key: []byte("k"), Shard: 1, Epoch: 1}}),
			"count": p.Count(t.Context()),
		} {
			if !errors.Is(err, ErrWentBack) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := p.Lookup(t.Context(), []Question{{Index: id}}); !errors.Is(err, ErrWentBack) {
			t.Errorf("a lookup: %v", err)
		}
		check(t, p.Accept(t.Context(), p.config))
		if now := must[uint64](t)(p.Life(t.Context())); now != life+1 {
			t.Errorf("life %d, want %d", now, life+1)
		}
		if _, err := p.Look(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
