package indexer

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestKnown: what is forgotten is added again; memory is bounded.
func TestKnown(t *testing.T) {
	k := &known{}
	joined := uint64(1)
	join := func(catalog.ShardID) uint64 { return joined }
	of := func(e storage.Entry) fact { return entryFact(e, join) }
	ofMark := func(m storage.Mark) fact { return markFact(m, join) }
	one := func(key string, e storage.Epoch) []storage.Entry {
		return []storage.Entry{{Index: 1, Shard: 2, Key: []byte(key), Epoch: e}}
	}
	learn(k, one("a", 5), of)
	for e, want := range map[storage.Epoch]int{4: 0, 5: 0, 6: 1} {
		if got := len(unknown(k, one("a", e), of)); got != want {
			t.Errorf("in epoch %d %d entries are to be added, want %d", e, got, want)
		}
	}
	learn(k, one("a", 3), of)
	if len(unknown(k, one("a", 5), of)) != 0 {
		t.Error("an earlier epoch has replaced a later one")
	}
	others := one("a", 5)
	others[0].Shard = 3
	if len(unknown(k, others, of)) != 1 {
		t.Error("another shard's entry is known")
	}
	for i := range 3 * knownBound {
		learn(k, one(fmt.Sprint(i), 5), of)
		if i%knownBound == 0 && len(unknown(k, one("a", 5), of)) != 0 {
			t.Error("what is in use was forgotten")
		}
	}
	if n := len(k.latest) + len(k.before); n > 2*knownBound {
		t.Error(n, "are kept")
	}
	joined = 2
	if len(unknown(k, one("a", 5), of)) != 1 {
		t.Error("what was added in another join is known")
	}
	learn(k, one("a", 4), of)
	if len(unknown(k, one("a", 5), of)) != 1 {
		t.Error("what was added in another join is known by what was in this one")
	}
	joined = 1
	if len(unknown(k, one("0", 5), of)) != 1 {
		t.Error("what was long ago is known")
	}
	mark := func(e storage.Epoch, known ...[]byte) []storage.Mark {
		return []storage.Mark{{Index: 1, Shard: 2, Epoch: e, Known: known}}
	}
	learn(k, mark(5, []byte("x")), ofMark)
	if len(unknown(k, mark(5), ofMark)) != 1 {
		t.Error("a mark of which something is known stands for others")
	}
	learn(k, mark(5), ofMark)
	if len(unknown(k, mark(5), ofMark))+len(unknown(k, mark(5, []byte("x")), ofMark)) != 0 || len(unknown(k, mark(6), ofMark)) != 1 {
		t.Error("a mark is known for its epoch")
	}
}
