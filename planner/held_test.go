package planner

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestHeld: the lookups of several keys, of which a row may have had first one and then another,
// find what there was at the first one.
func TestHeld(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(100), name VARCHAR(100), city VARCHAR(100), age INT);\n"+
		"-- @virtual idx_email email\n-- @virtual idx_name_city name,city")
	for where, held := range map[string]bool{
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
		lookups := 0
		ix := &fakeIndexes{}
		found := func() catalog.ShardSet {
			lookups++
			if held != (ix.held == cat.All) {
				t.Errorf("%s: lookup %d holds %v", where, lookups, ix.held)
			}
			return catalog.Only(1).Union(catalog.Only(2))
		}
		ix.lookup = func(*catalog.Index, []byte) (catalog.ShardSet, error) { return found(), nil }
		ix.ranged = func(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) { return found(), true, nil }
		p := New()
		plan, err := p.Plan("SELECT id FROM users WHERE "+where, shapeSettings, cat)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Bind(plan.(*Rows), nil, ix); err != nil {
			t.Fatal(err)
		}
		if lookups == 0 || ix.held.Len() > 0 {
			t.Errorf("%s: %d lookups, %v is held still", where, lookups, ix.held)
		}
	}
}
