package indexer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// rawCodec takes a value for its key; what begins with ? has none.
type rawCodec struct{}

func (rawCodec) Scanned(dst, raw []byte) ([]byte, bool) {
	return append(append(dst, '|'), raw...), !bytes.HasPrefix(raw, []byte("?"))
}

func (rawCodec) Equal(dst []byte, v keys.Value) ([]byte, bool) { return dst, false }

// TestScanRow: which rows of a scan need an entry, and which a mark, since they have no
// key.
func TestScanRow(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), storage.MaxKey)
	for _, c := range []struct {
		row [][]byte
		key string
		odd int
	}{
		{[][]byte{[]byte("a"), []byte("b")}, "|a|b", 0},
		{[][]byte{[]byte("a"), nil}, "|a|", 0},
		{[][]byte{nil, []byte("b")}, "", 0}, // as NULL in the first column is not looked up
		{[][]byte{[]byte("?"), []byte("b")}, "", 1},
		{[][]byte{[]byte("a"), []byte("?")}, "", 1},
		{[][]byte{[]byte("a"), long}, "", 1},
	} {
		r := &reading{id: 1, codecs: []codec{rawCodec{}, rawCodec{}}, at: []int{0, 1}}
		s := &scan{bounds: bounds{shard: 2, after: 7}, readings: []*reading{r}, adds: &slice{}}
		if err := s.row(r, c.row); err != nil {
			t.Fatal(err)
		}
		key := ""
		for _, e := range s.adds.entries {
			key += string(e.Key)
			if e.Epoch != 7 || e.Shard != 2 || e.Index != 1 {
				t.Errorf("%.20q: %+v", c.row, e)
			}
		}
		if key != c.key || r.odd != c.odd {
			t.Errorf("%.20q: key %.20q, %d without a key", c.row, key, r.odd)
		}
	}
}

// cuttingStore keeps no more of a key than its beginning, as a home does of a long one.
type cuttingStore struct{ *storage.Store }

func (cuttingStore) Kept(key []byte) []byte { return key[:min(len(key), 4)] }

func (s cuttingStore) Add(entries []storage.Entry) error {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Key = s.Kept(entries[i].Key)
	}
	return s.Store.Add(entries)
}

func (s cuttingStore) Lookup(id catalog.IndexID, key []byte, components [][]byte) (storage.Found, error) {
	return s.Store.Lookup(id, s.Kept(key), components)
}

// TestScanOfCutKeys: a key that the store doesn't keep whole isn't taken for stale, by a scan that can't
// tell what the store has, least of all: it confirms nothing.
func TestScanOfCutKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, func(o *Options) { o.Store = cuttingStore{o.Store.(*storage.Store)} })
	b.x.ledgerLimit = 1
	for i := range 3 {
		b.shards[0].set(i, fmt.Sprint(i, " is a long key"))
	}
	b.create()
	check(t, b.x.maintain(t.Context(), b.index().Table, 0, []*catalog.Index{b.index()}))
	for i := range 3 {
		b.expect(fmt.Sprint(i, " is a long key"), 0)
	}
	checked := 0
	check(t, b.x.Check(t.Context(), "s", "t", "ix", func(row plan.CheckRow) error {
		if checked++; row.Checked != 3 || row.Missing+row.Stale != 0 {
			t.Errorf("%+v", row)
		}
		return nil
	}))
	if checked != 1 {
		t.Error(checked)
	}
}

// TestScanBesideABuild: what the readable generation has may be missing in the one being
// built, so nothing is taken for known.
func TestScanBesideABuild(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	id := b.store.Indexes()[0].ID
	for _, building := range []bool{false, true} {
		if building {
			if err := b.store.StartBuild(id, 0); err != nil {
				t.Fatal(err)
			}
		}
		r := &reading{id: id}
		bounds, err := b.x.begin(t.Context(), 0, []*catalog.Index{{ID: id}})
		check(t, err)
		if err := b.x.load(r, bounds); err != nil || r.blind != building {
			t.Errorf("building %v: blind %v, %v", building, r.blind, err)
		}
	}
}
