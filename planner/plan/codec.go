package plan

import (
	"errors"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// SameKeys reports whether equal values of two columns have equal keys.
func SameKeys(cat *catalog.Catalog, x, y *catalog.Column) bool {
	if !strings.EqualFold(x.Collation, y.Collation) || !strings.EqualFold(x.Charset, y.Charset) {
		return false
	}
	if x.Type == y.Type {
		return true
	}
	bx, by := x.BaseType(), y.BaseType()
	if catalog.IsInteger(bx) && catalog.IsInteger(by) {
		// One encoding for all integers, if the codecs say so.
		cx, errx := CodecOf(cat, x)
		cy, erry := CodecOf(cat, y)
		if errx != nil || erry != nil {
			return false
		}
		for _, n := range [...]int64{0, 1, 100} {
			kx, okx := cx.Equal(nil, keys.Int(n))
			ky, oky := cy.Equal(nil, keys.Int(n))
			if !okx || !oky || string(kx) != string(ky) {
				return false
			}
		}
		return true
	}
	return bx == by && (bx == "varchar" || bx == "char")
}

// CodecOf encodes a column's values as keys. The error is that of a type without keys, or of a column
// whose values depend on the session.
func CodecOf(cat *catalog.Catalog, c *catalog.Column) (*keys.Codec, error) {
	if c.Varies {
		return nil, errVaries
	}
	return keys.For(c.Type, c.Charset, c.Collation, cat.MariaDB)
}

var errVaries = errors.New("its values depend on the session that reads them")
