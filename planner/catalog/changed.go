package catalog

import (
	"bytes"
	"slices"
	"strings"
)

// Value is what an image of a row has of a column (nil: NULL); ok is false where it lacks it.
type Value func(*Column) (raw []byte, ok bool)

// Changed reports that an update has changed a column, or may have: was is the row's image before it, is the one behind.
//
// A server leaves out of the second what hasn't changed (binlog_row_image). MariaDB 11.8 leaves out generated columns
// whatever becomes of them: these may have changed where something has that they are computed from.
func (t *Table) Changed(c *Column, was, is Value) bool {
	return t.changed(c, was, is, nil)
}

// changed is Changed. through are the columns that are computed from this one.
func (t *Table) changed(c *Column, was, is Value, through []*Column) bool {
	if now, set := is(c); set {
		then, known := was(c)
		return !known || (then == nil) != (now == nil) || !bytes.Equal(then, now)
	}
	if !c.Generated {
		return false
	}
	if c.Expression == "" {
		return true
	}
	expression, through := strings.ToLower(c.Expression), append(through, c)
	return slices.ContainsFunc(t.Columns, func(of *Column) bool {
		// A text in it that looks like a name counts as one, which does no harm.
		return !slices.Contains(through, of) && strings.Contains(expression, strings.ToLower(QuoteName(of.Name))) && t.changed(of, was, is, through)
	})
}

// Updated is a column of a row behind an update, by both images; ok is false where that isn't known.
func (t *Table) Updated(c *Column, was, is Value) (raw []byte, ok bool) {
	if raw, ok = is(c); ok {
		return raw, true
	}
	if t.Changed(c, was, is) {
		return nil, false
	}
	return was(c)
}
