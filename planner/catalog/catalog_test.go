package catalog

import "testing"

// TestWith: a temporary table hides the table of its name from the session's statements. From what is about all tables
// (marks, triggers, lists) it hides nothing.
func TestWith(t *testing.T) {
	lasting, other := &Table{Schema: "shop", Name: "users"}, &Table{Schema: "shop", Name: "orders"}
	c := &Catalog{Schemas: map[string]*Schema{"shop": {Name: "shop", Tables: map[string]*Table{"users": lasting, "orders": other}}}}
	temporary := &Table{Schema: "shop", Name: "users", Temporary: true, Shards: Only(1)}
	over := c.With([]*Table{temporary})
	if got := over.Table("shop", "users"); got != temporary {
		t.Errorf("users is %+v", got)
	}
	seen := map[*Table]int{}
	for x := range over.Tables() {
		seen[x]++
	}
	for _, x := range []*Table{lasting, other, temporary} {
		if seen[x] != 1 {
			t.Errorf("%s (temporary: %t): %d times", x.Name, x.Temporary, seen[x])
		}
	}
	if c.Table("shop", "users") != lasting {
		t.Error("the catalog of all has changed")
	}
}
