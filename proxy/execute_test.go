package proxy

import (
	"maps"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestPlannedBesideDDL: a statement isn't planned anew because of DDL of other tables, however often there is some while it is
// planned. That of its own tables has it planned anew each time.
func TestPlannedBesideDDL(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		sql    string
		own    bool // it is the statement's own table that is otherwise each time, for the first two
		lookup int
	}{
		{"UPDATE people SET city = 'x' WHERE email = 'a@x'", false, 1},
		{"UPDATE people SET city = 'x' WHERE email = 'a@x'", true, 3},
		{"SELECT city FROM people WHERE email = 'a@x' FOR UPDATE", false, 1},
		{"SELECT city FROM people WHERE email = 'a@x' FOR UPDATE", true, 3},
	} {
		index := &redefining{observed: &observed{t: t}, own: x.own}
		s := serve(t, 2, fakeOptions{}, func(o *Options) {
			c := observedCatalog(o.Directory.Catalog().Shards, 1, "by_email")
			c.Whole = 1
			o.Directory.Put(c)
			o.Index = index
		})
		index.p = s.p
		s.answer("SELECT city", fakeAnswer{columns: []string{"city"}, rows: [][]any{{"here"}}})
		if _, err := s.conn().ExecContext(t.Context(), x.sql); err != nil {
			t.Errorf("%s: %v", x.sql, err)
		}
		if index.lookups != x.lookup {
			t.Errorf("%s, of its own table %t: looked up %d times, expected %d", x.sql, x.own, index.lookups, x.lookup)
		}
	}
}

// redefining is an index behind each of whose lookups a table is another one.
type redefining struct {
	*observed
	own     bool
	lookups int
}

func (r *redefining) Lookup(*catalog.Index, []byte, [][]byte) (catalog.ShardSet, error) {
	if r.lookups++; r.own && r.lookups > 2 {
		return catalog.Only(1), nil
	}
	d := r.p.opts.Directory
	next := *d.Catalog()
	next.Version++
	shop := *next.Schemas["shop"]
	next.Schemas, shop.Tables = maps.Clone(next.Schemas), maps.Clone(shop.Tables)
	next.Schemas["shop"] = &shop
	name := "notes"
	if r.own {
		name = "people"
	}
	other := *shop.Tables[name]
	shop.Tables[name] = &other
	d.Put(&next)
	return catalog.Only(1), nil
}
