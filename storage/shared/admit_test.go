package shared

import (
	"errors"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestAdmit: a shard that is in an earlier epoch than a home knows of is marked, at once or as the home is
// back, and scanned; one that isn't is left alone.
func TestAdmit(t *testing.T) {
	s := open(t)
	d, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "idx", Columns: []string{"email"}})
	check(t, err)
	check(t, s.StartBuild(d.ID, 1))
	heads, err := s.first().Heads(t.Context())
	check(t, err)
	check(t, s.FinishBuild(d.ID, heads[d.ID].Building, map[catalog.ShardID]storage.Epoch{1: 5, 2: 7}))
	marked := func() catalog.ShardSet {
		t.Helper()
		f, err := s.Lookup(d.ID, []byte("a"), nil)
		check(t, err)
		return f.Shards
	}
	admit := func(shard catalog.ShardID, e, want storage.Epoch) {
		t.Helper()
		if raise, err := s.Admit(t.Context(), shard, e); err != nil || raise != want {
			t.Errorf("shard %d in epoch %d: to be raised to %d (%v), want %d", shard, e, raise, err, want)
		}
	}
	p := s.homes()[0]
	admit(1, 5, 0)
	admit(2, 9, 0)
	check(t, s.remember(t.Context(), p))
	if m := marked(); !m.Empty() || len(s.Jobs()) > 0 {
		t.Errorf("marked %v, jobs %v", m, s.Jobs())
	}
	admit(2, 6, 8)
	if m := marked(); m != catalog.Only(2) || len(s.Jobs()) != 1 || s.Jobs()[0].Shards != catalog.Only(2) {
		t.Errorf("marked %v, jobs %v", m, s.Jobs())
	}
	p.out.Store(&OutError{Home: p.told(), Cause: errors.New("away")})
	admit(1, 4, 0)
	p.out.Store(nil)
	for range 2 {
		check(t, s.remember(t.Context(), p))
	}
	if m := marked(); m != catalog.Only(2).Union(catalog.Only(1)) || len(p.admits) > 0 {
		t.Errorf("marked %v, to be asked %v", m, p.admits)
	}
}
