package follow

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// foreignKeys are those by which a change of a parent's row changes rows of its children. Engines do that
// below the log: it has the parent's row alone. MySQL has done it above from 9.6 on (unless
// innodb_native_foreign_keys is ON), and logs the children's rows.
type foreignKeys struct {
	source Source
	// logged: nothing is to be done here.
	logged bool
	// stale: they are to be asked for before the next transaction.
	stale bool
	// children by parent, in lower case.
	children map[catalog.TableName][]foreignKey
}

type foreignKey struct {
	child              catalog.TableName
	columns            []string // of the parent
	onUpdate, onDelete bool     // the child's rows change
}

// cascadesLogged asks the server whether it logs what foreign keys do.
func (c *conn) cascadesLogged() (bool, error) {
	if c.mariaDB {
		return false, nil
	}
	rows, err := c.rows("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
	if err != nil {
		return false, err
	}
	return len(rows) == 1 && rows[0][1] == "OFF", nil
}

// load asks for the foreign keys as they are now, which is after whatever the stream has come to. One that
// was dropped since has been dropped by a statement of which the child comes as Unknown; so do both
// names of a table that was renamed, and the children of the new one.
func (f *foreignKeys) load(ctx context.Context) error {
	c, err := f.source.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	rows, err := c.rows("SELECT k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, r.UPDATE_RULE, r.DELETE_RULE, k.REFERENCED_COLUMN_NAME " +
		"FROM information_schema.REFERENTIAL_CONSTRAINTS r JOIN information_schema.KEY_COLUMN_USAGE k " +
		"ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME AND k.TABLE_NAME = r.TABLE_NAME " +
		"WHERE r.UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR r.DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') " +
		"ORDER BY 1, 2, 3, 4, 5, k.ORDINAL_POSITION")
	if err != nil {
		return fmt.Errorf("read foreign keys: %w", err)
	}
	f.children, f.stale = map[catalog.TableName][]foreignKey{}, false
	changes := func(rule string) bool { return strings.Contains(rule, "CASCADE") || strings.HasPrefix(rule, "SET ") }
	last := []string(nil)
	for _, row := range rows {
		parent := lower(catalog.TableName{Schema: row[0], Name: row[1]})
		keys := f.children[parent]
		if last == nil || !slices.Equal(last[:5], row[:5]) {
			keys = append(keys, foreignKey{
				child:    catalog.TableName{Schema: row[2], Name: row[3]},
				onUpdate: changes(row[5]), onDelete: changes(row[6]),
			})
		}
		k := &keys[len(keys)-1]
		k.columns = append(k.columns, row[7])
		f.children[parent], last = keys, row
	}
	return nil
}

// lower: servers may not mind case in names, and one table too many does no harm.
func lower(t catalog.TableName) catalog.TableName {
	return catalog.TableName{Schema: strings.ToLower(t.Schema), Name: strings.ToLower(t.Name)}
}

// refresh asks for the foreign keys if they may have changed.
func (s *Stream) refresh() error {
	if f := &s.foreign; !f.logged && f.stale {
		return f.load(s.ctx)
	}
	return nil
}

// cascade gives Unknowns of the tables whose rows foreign keys change along with s.rows.
func (s *Stream) cascade(flags uint16) {
	if len(s.foreign.children) == 0 || s.rows.Kind == Insert || flags&withoutForeignKeys != 0 {
		return
	}
	parent := s.rows.Table.name()
	for _, k := range s.foreign.children[lower(parent)] {
		if s.rows.Kind == Delete && k.onDelete || s.rows.Kind == Update && k.onUpdate && s.rows.changes(k.columns) {
			s.unknown(k.child, "changed by a foreign key to "+parent.Schema+"."+parent.Name)
		}
	}
}

// unknown gives, once a transaction, an Unknown of a table and of all whose rows foreign keys may have
// changed along with its.
func (s *Stream) unknown(t catalog.TableName, why string) {
	if s.tx.unknown[t] {
		return
	}
	if s.tx.unknown == nil {
		s.tx.unknown = map[catalog.TableName]bool{}
	}
	s.tx.unknown[t] = true
	s.give(&Unknown{t.Schema, t.Name, why})
	for parent, keys := range s.foreign.children {
		if low := lower(t); parent == low || t.Name == "" && parent.Schema == low.Schema {
			for _, k := range keys {
				s.unknown(k.child, why)
			}
		}
	}
}

// changes reports whether any of an update's rows has another value in one of some columns.
func (r *Rows) changes(columns []string) (changed bool) {
	var at []int
	for _, name := range columns {
		i := r.Table.Column(name)
		if i < 0 {
			return true
		}
		at = append(at, i)
	}
	_ = r.Each(func(before, after *Row) error { // fn fails never
		for _, i := range at {
			changed = changed || !before.same(after, i)
		}
		return nil
	})
	return changed || r.malformed != nil
}

// same reports whether an update's after-image leaves a column as it was.
func (w *Row) same(after *Row, column int) bool {
	a, b := w.spans[column], after.spans[column]
	switch {
	case b.from == absent:
		return true
	case a.from < 0 || b.from < 0:
		return a.from == null && b.from == null
	}
	return bytes.Equal(w.data[a.from:a.to], after.data[b.from:b.to])
}
