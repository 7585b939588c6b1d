package planner

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// TestOneMoment: the lookups of several keys, of which a row may have had first one and then
// another, are of one moment: they are made once more where entries go meanwhile, and then all
// shards are asked.
func TestOneMoment(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(100), name VARCHAR(100), city VARCHAR(100), age INT);\n"+
		"-- @virtual idx_email email\n-- @virtual idx_name_city name,city")
	for where, several := range map[string]bool{
		"email = 'a'":                                   false,
		"email IN ('a', 'b')":                           true,
		"email = 'a' OR email = 'b'":                    true,
		"email = 'a' OR name = 'b'":                     true,
		"age = 5 AND (email = 'a' OR name LIKE 'b%')":   true,
		"email = 'a' AND name = 'b'":                    false,
		"email = 'a' AND (age = 5 OR age = 6)":          false,
		"email LIKE 'a%'":                               false,
		"name IN ('a', 'b') AND city = 'c'":             true,
		"name = 'a' AND city IN ('b', 'c')":             true,
		"name = 'a' AND city > 'c'":                     false,
		"name IN ('a', 'b') AND city > 'c' AND age = 5": true,
	} {
		// What goes is noticed by how many lookups behind the first one.
		for _, gone := range []int{0, 1, 1000} {
			lookups := 0
			ix := &fakeIndexes{}
			found := func() catalog.ShardSet {
				lookups++
				if lookups <= gone {
					ix.removals++
					return catalog.Only(0)
				}
				return catalog.Only(1).Union(catalog.Only(2))
			}
			ix.lookup = func(*catalog.Index, []byte) (catalog.ShardSet, error) { return found(), nil }
			ix.ranged = func(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) { return found(), true, nil }
			p := New()
			planned, err := p.Plan("SELECT id FROM users WHERE "+where, shapeSettings, cat)
			if err != nil {
				t.Fatal(err)
			}
			b, err := p.Bind(planned.(*plan.Rows), nil, ix)
			if err != nil {
				t.Fatal(err)
			}
			var shards catalog.ShardSet
			for _, st := range b.Statements {
				shards.Add(st.Shard)
			}
			want := catalog.Only(1).Union(catalog.Only(2))
			switch {
			case gone == 1000 && several:
				want = cat.All
			case gone > 0 && !several: // what one lookup tells is of one moment
				continue
			}
			if lookups == 0 || shards != want {
				t.Errorf("%s, entries go during %d lookups: %d lookups, shards %v, want %v", where, gone, lookups, shards, want)
			}
		}
	}
}
