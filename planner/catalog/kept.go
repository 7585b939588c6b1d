package catalog

import (
	"bytes"
	"strings"
)

// Value is what an image of a row has of a column (nil: NULL); ok is false where it lacks it.
type Value func(*Column) (raw []byte, ok bool)

// Kept reports that an update has left a column as it was of which the row's new image has nothing. was and is are the
// images.
//
// A server leaves out what hasn't changed (binlog_row_image). MariaDB 11.8 leaves out generated columns whatever becomes of
// them: these are as they were if all is that they are computed from.
func (t *Table) Kept(c *Column, was, is Value) bool {
	if !c.Generated {
		return true
	}
	if c.Expression == "" {
		return false
	}
	expression := strings.ToLower(c.Expression)
	for _, of := range t.Columns {
		// A text that looks like a name makes no harm: the column counts, too.
		if of == c || !strings.Contains(expression, strings.ToLower(QuoteName(of.Name))) {
			continue
		}
		now, set := is(of)
		if !set {
			if !t.Kept(of, was, is) {
				return false
			}
			continue
		}
		if then, known := was(of); !known || (then == nil) != (now == nil) || !bytes.Equal(then, now) {
			return false
		}
	}
	return true
}
