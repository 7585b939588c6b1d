package proxy

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestReadPlannedBefore: a read that has looked up its shards by a catalog which isn't the one any
// more as it has its connections, looks them up anew, and nothing of the first one was sent.
func TestReadPlannedBefore(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"SELECT city FROM people WHERE email = 'a@x'",                      // one shard
		"SELECT city FROM people WHERE email IN ('a@x', 'b@x')",            // several
		"SELECT city FROM people WHERE email = 'a@x' FOR UPDATE",           // locks
		"SELECT COUNT(*) FROM people WHERE email = 'a@x' OR email = 'b@x'", // summed
	} {
		var s *fakes
		var reads atomic.Bool
		connected := func(context.Context, *shard.Conn) error {
			if reads.CompareAndSwap(true, false) { // as who joins the shard anew does
				s.p.opts.Directory.Put(observedCatalog(s.p.opts.Directory.Catalog().Shards, 2, "by_email"))
			}
			return nil
		}
		index := &moved{observed: &observed{t: t}}
		s = serve(t, 4, fakeOptions{Options: shard.Options{OnConnect: connected}}, func(o *Options) {
			o.Directory.Put(observedCatalog(o.Directory.Catalog().Shards, 1, "by_email"))
			o.Index = index
		})
		index.p = s.p
		s.answer("SELECT city", fakeAnswer{columns: []string{"city"}, rows: [][]any{{"here"}}})
		s.answer("SELECT COUNT", fakeAnswer{columns: []string{"#n"}, rows: [][]any{{1}}})
		c := s.conn()
		reads.Store(true)
		rows, err := c.QueryContext(t.Context(), sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		for rows.Next() {
		}
		rows.Close()
		for id, f := range s.shards {
			asked := f.count("SELECT city")+f.count("SELECT COUNT") > 0
			if want := id >= 2 && (id == 2 || strings.Contains(sql, "b@x")); asked != want {
				t.Errorf("%s: shard %d is asked: %t", sql, id, asked)
			}
		}
		if reads.Load() {
			t.Errorf("%s: no connection was made", sql)
		}
	}
}

// moved is an index whose rows are on shards 0 and 1 by the first catalog, and on 2 and 3 by the second.
type moved struct {
	*observed
	first atomic.Pointer[string]
}

func (m *moved) Lookup(_ *catalog.Index, key []byte, _ [][]byte) (catalog.ShardSet, error) {
	id := catalog.ShardID(2 * (m.p.opts.Directory.Catalog().Version - 1))
	k := string(key)
	if m.first.CompareAndSwap(nil, &k); *m.first.Load() != k {
		id++
	}
	return catalog.Only(id), nil
}

func (m *moved) Removals() uint64 { return 0 }
