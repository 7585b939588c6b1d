package virtual

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// image is a row of the log; it lacks what isn't in it, and nil is NULL.
type image map[string][]byte

func (i image) Column(c *catalog.Column) ([]byte, bool) {
	value, ok := i[c.Name]
	return value, ok
}

// TestFilters: a row counts if it meets all conditions. What an image lacks, or was of another type when the conditions were read,
// nobody but the shards can say.
func TestFilters(t *testing.T) {
	t.Parallel()
	child := &catalog.Table{Columns: []*catalog.Column{{Name: "n", Type: "int"}, {Name: "s", Type: "varchar(20)", Charset: "utf8mb4", Collation: "utf8mb4_general_ci"}}}
	key := func(of int, v keys.Value) string {
		c := child.Columns[of]
		codec, err := keys.For(c.Type, c.Charset, c.Collation, false)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := codec.Equal(nil, v)
		if !ok {
			t.Fatal("no key")
		}
		return string(k)
	}
	col := &catalog.VirtualColumn{Filtered: true, Filters: []catalog.ChildFilter{
		{Column: "n", Type: "int", Not: true, Keys: []string{key(0, keys.Int(0)), key(0, keys.Int(7))}},
		{Column: "s", Type: "varchar(20)", Collation: "utf8mb4_general_ci", Keys: []string{key(1, keys.Text("Bob", "utf8mb4"))}},
	}}
	null := &catalog.VirtualColumn{Filtered: true, Filters: []catalog.ChildFilter{{Column: "n", Type: "int", Null: true}, {Column: "s", Type: "varchar(20)", Collation: "utf8mb4_general_ci", Null: true, Not: true}}}
	other := *child
	other.Columns = []*catalog.Column{{Name: "n", Type: "varchar(20)"}, child.Columns[1]}
	for _, c := range []struct {
		of           *catalog.VirtualColumn
		in           *catalog.Table
		row          image
		passes, sure bool
	}{
		{col, child, image{"n": []byte("1"), "s": []byte("bob")}, true, true},
		{col, child, image{"n": []byte("7"), "s": []byte("bob")}, false, true},
		{col, child, image{"n": nil, "s": []byte("bob")}, false, true}, // NULL <> 0 isn't true
		{col, child, image{"n": []byte("1"), "s": nil}, false, true},
		{col, child, image{"n": []byte("1"), "s": []byte("eve")}, false, true},
		{col, child, image{"s": []byte("bob")}, false, false},
		{col, child, image{"s": []byte("eve")}, false, true}, // whatever n is
		{null, child, image{"n": nil, "s": []byte("")}, true, true},
		{null, child, image{"n": nil, "s": nil}, false, true},
		{null, child, image{"n": []byte("0"), "s": []byte("x")}, false, true},
		{col, &other, image{"n": []byte("1"), "s": []byte("bob")}, false, false},
		{&catalog.VirtualColumn{Filtered: true}, child, image{"n": nil, "s": nil}, false, false},
	} {
		r := &reader{def: c.of, filters: filtersOf(c.of, c.in, false)}
		if passes, sure := r.passes(c.row); passes != c.passes || sure != c.sure {
			t.Errorf("%q: passes %v, sure %v", c.row, passes, sure)
		}
	}
}
