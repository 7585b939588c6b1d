package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// BeforeDDL must be called, and succeed, before a DDL statement is sent. It
// keeps scans off the tables (their snapshots would hold up the DDL, and with
// it every query behind it), and takes the indexes out of use whose keys may
// come to mean something else: after a crash in the middle they are found in
// the state building, and built. One DDL statement at a time.
//
// If it fails, the tables are free again, and what it began is built.
func (x *Indexer) BeforeDDL(ctx context.Context, c Change) (err error) {
	x.admin.Lock()
	defer x.admin.Unlock()
	defer func() {
		if err != nil {
			x.unfence()
			x.mend()
		}
	}()
	defs := x.concerned(c)
	if err := x.fence(ctx, c, defs); err != nil {
		return err
	}
	changed := false
	for _, def := range defs {
		if !c.unsettles(def) {
			continue
		}
		if err := x.dismiss(ctx, def.ID); err != nil {
			return err
		}
		// The building generation says, durably, that the readable one is not
		// to be used any more, whatever the status.
		if err := x.store.StartBuild(def.ID, 0); err != nil {
			return fmt.Errorf("virtual index %s: %w", def.Name, err)
		}
		// As it is now, not as it was found: a build that ended when it was dismissed
		// has made it ready.
		err := x.store.UpdateIndex(def.ID, func(d *storage.IndexDef) {
			if d.Status == storage.Ready {
				d.Status, changed = storage.Building, true
			}
		})
		if err != nil {
			return fmt.Errorf("virtual index %s: %w", def.Name, err)
		}
	}
	if changed {
		if err := x.opts.Publish(ctx); err != nil {
			return fmt.Errorf("publish catalog: %w", err)
		}
	}
	return nil
}

// AfterDDL must be called when the DDL statement has ended on all shards,
// whether it failed or not, after the schema was read anew.
func (x *Indexer) AfterDDL(ctx context.Context, c Change) error {
	x.admin.Lock()
	defer x.admin.Unlock()
	defer x.unfence()
	cat := x.opts.Catalog()
	if cat == nil {
		return errors.New("there is no catalog")
	}
	errs := []error{x.move(c, cat)}
	for _, def := range x.concerned(c) {
		errs = append(errs, x.after(ctx, c, cat, def))
	}
	return errors.Join(errs...)
}

// after does for one index what a DDL statement asks for.
func (x *Indexer) after(ctx context.Context, c Change, cat *catalog.Catalog, def storage.IndexDef) error {
	t := cat.Table(def.Schema, def.Table)
	gone := missing(t)
	switch {
	case gone && (strings.HasPrefix(c.Op, "DROP") || len(c.Renamed) > 0):
		x.log.Info("virtual index dropped with its table", "index", def.Name, "schema", def.Schema, "table", def.Table)
		return x.drop(ctx, def)
	case gone:
		return nil // no shard tells what became of it; it stays unused
	case c.Op == "TRUNCATE TABLE":
		return x.rebuild(ctx, def, c.Op)
	case !c.unsettles(def):
		return nil
	}
	for _, name := range def.Columns {
		col := t.Column(name)
		if col == nil {
			x.log.Warn("virtual index dropped: its column is gone", "index", def.Name, "schema", def.Schema, "table", def.Table, "column", name)
			return x.drop(ctx, def)
		}
		if _, err := x.codec(col, cat.MariaDB); err != nil {
			if err := x.dismiss(ctx, def.ID); err != nil {
				return err
			}
			return x.fail(ctx, def.ID, fmt.Errorf("column %s can't be in a virtual index: %w", name, err))
		}
	}
	// Another generation: what was added to the first one may have keys of the
	// old definition. Published first, so that everything planned from now on
	// knows the new one, and what was planned earlier is waited for.
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return x.rebuild(ctx, def, c.Op)
}

// concerned lists the indexes of the tables that a change names.
func (x *Indexer) concerned(c Change) []storage.IndexDef {
	var defs []storage.IndexDef
	for _, d := range x.store.Indexes() {
		named := c.Schema != "" && strings.HasSuffix(c.Op, "DATABASE") && x.same(c.Schema, d.Schema)
		table := TableName{d.Schema, d.Table}
		if named || x.names(c.Tables, table) || x.names(c.Renamed, table) { // a rename may already have moved it
			defs = append(defs, d)
		}
	}
	return defs
}

// unsettles reports whether after the change the index's entries may be short
// of rows. After a rename that is so because a statement may use the new name
// before the index has it.
func (c Change) unsettles(d storage.IndexDef) bool {
	switch {
	case c.AllColumns, slices.ContainsFunc(c.Renamed, func(n TableName) bool { return n.Name != "" }):
		return true
	case c.Op != "ALTER TABLE":
		return false
	}
	return slices.ContainsFunc(d.Columns, func(column string) bool {
		return slices.ContainsFunc(c.Touches, func(t string) bool { return strings.EqualFold(t, column) })
	})
}

// move gives the indexes of renamed tables to the new names, where the rename is known
// to have been done: all shards say so, or nothing is left under the old name, and the
// new one was none of these.
func (x *Indexer) move(c Change, cat *catalog.Catalog) error {
	to := map[storage.IndexID]storage.TableName{}
	for _, d := range x.concerned(c) {
		n := x.newName(c, d)
		t := cat.Table(n.Schema, n.Name)
		if t == nil || t.Schema == d.Schema && t.Name == d.Table {
			continue
		}
		if c.Done || !x.names(c.Tables, n) && missing(cat.Table(d.Schema, d.Table)) {
			to[d.ID] = storage.TableName{Schema: t.Schema, Name: t.Name}
		}
	}
	if len(to) == 0 {
		return nil
	}
	return x.store.MoveIndexes(to)
}

// missing is whether no shard has the table. One that the configuration names is known without columns.
func missing(t *catalog.Table) bool { return t == nil || len(t.Columns) == 0 }

// newName is what the change makes of the name of the index's table, step by step.
func (x *Indexer) newName(c Change, d storage.IndexDef) TableName {
	name := TableName{d.Schema, d.Table}
	for i, to := range c.Renamed {
		if to.Name != "" && x.names(c.Tables[i:i+1], name) {
			name = to
		}
	}
	return name
}

func (x *Indexer) names(tables []TableName, name TableName) bool {
	return slices.ContainsFunc(tables, func(n TableName) bool { return x.same(n.Schema, name.Schema) && x.same(n.Name, name.Name) })
}

// fence keeps jobs off the tables of a change, until unfence or the next fence.
func (x *Indexer) fence(ctx context.Context, c Change, defs []storage.IndexDef) error {
	x.work.mu.Lock()
	clear(x.work.fenced)
	for _, n := range append(slices.Clone(c.Tables), c.Renamed...) {
		x.work.fenced[n] = true
	}
	for _, d := range defs {
		x.work.fenced[TableName{d.Schema, d.Table}] = true
	}
	fenced := make(map[TableName]bool, len(x.work.fenced))
	for n := range x.work.fenced {
		fenced[n] = true
	}
	x.work.mu.Unlock()
	return x.interrupt(ctx, func(j *storage.Job) bool { return fenced[TableName{j.Schema, j.Table}] })
}

// fencing reports that DDL has begun and not ended.
func (x *Indexer) fencing() bool {
	x.work.mu.Lock()
	defer x.work.mu.Unlock()
	return len(x.work.fenced) > 0
}

func (x *Indexer) unfence() {
	x.work.mu.Lock()
	clear(x.work.fenced)
	x.work.mu.Unlock()
	x.work.wakeUp()
}
