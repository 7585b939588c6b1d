package virtual

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// filter is a condition of a column's definition that a row's image decides.
type filter struct {
	col       *catalog.Column
	codec     *keys.Codec // nil: it is of NULL alone
	null, not bool
	keys      map[string]bool
}

// filtersOf are all conditions of a definition, but for that of the key; none where some can't be decided.
//
// Rule same type: a column's keys are those of the type that the definition was read by. Counter-example: ALTER TABLE makes an INT of
// a VARCHAR, whose rows then have other keys than the condition's value.
func filtersOf(v *catalog.VirtualColumn, child *catalog.Table, mariaDB bool) (out []filter) {
	for _, of := range v.Filters {
		f := filter{col: child.Column(of.Column), null: of.Null, not: of.Not, keys: map[string]bool{}}
		if f.col == nil || f.col.Type != of.Type || f.col.Collation != of.Collation {
			return nil
		}
		if !of.Null {
			codec, err := keys.For(of.Type, f.col.Charset, of.Collation, mariaDB)
			if err != nil {
				return nil
			}
			f.codec = codec
		}
		for _, k := range of.Keys {
			f.keys[k] = true
		}
		out = append(out, f)
	}
	return out
}

// passes reports that a row meets all conditions; sure is false where its image doesn't tell.
func (r *reader) passes(img Image) (passes, sure bool) {
	sure = len(r.filters) > 0
	for _, f := range r.filters {
		switch is, known := f.is(img); {
		case !known:
			sure = false
		case !is:
			return false, true
		}
	}
	return sure, sure
}

func (f *filter) is(img Image) (is, known bool) {
	raw, ok := img.Column(f.col)
	switch {
	case !ok:
		return false, false
	case f.null:
		return (raw == nil) != f.not, true
	case raw == nil:
		return false, true
	}
	key, ok := f.codec.Scanned(nil, raw)
	return f.keys[string(key)] != f.not, ok
}
