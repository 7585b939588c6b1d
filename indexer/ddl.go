package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// BeforeDDL must be called, and succeed, before a DDL statement is sent. It
// keeps scans off the tables (their snapshots would hold up the DDL, and with
// it every query behind it), and takes the indexes out of use whose keys may
// come to mean something else: after a crash in the middle they are found in
// the state building, and built. Several statements may run, of other tables each.
//
// If it fails, the tables are free again, and what it began is built.
func (x *Indexer) BeforeDDL(ctx context.Context, d *plan.DDL) (err error) {
	if err := x.cluster.LockChanges(ctx); err != nil {
		return err
	}
	defer x.cluster.UnlockChanges()
	defined := x.opts.Answers.Define()
	defer func() {
		if err != nil {
			err = errors.Join(err, x.unfence(ctx, d))
			x.mend()
		}
	}()
	defs := x.concerned(d)
	if err := x.fence(ctx, d, defs, defined); err != nil {
		return err
	}
	changed := false
	for _, def := range defs {
		if !unsettles(d, def) {
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
		err := x.store.UpdateIndex(def.ID, func(r *storage.IndexRecord) {
			if r.Status == catalog.Ready {
				r.Status, changed = catalog.Building, true
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
// whether it failed or not, after the schema was read anew. done: all shards have
// done it. Where that isn't known it is false.
func (x *Indexer) AfterDDL(ctx context.Context, d *plan.DDL, done bool) (err error) {
	defer func() { err = errors.Join(err, x.unfence(ctx, d)) }()
	if err := x.cluster.LockChanges(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	defer x.cluster.UnlockChanges()
	cat := x.opts.Catalog()
	if cat == nil {
		return errors.New("there is no catalog")
	}
	errs := []error{x.move(d, done, cat)}
	for _, def := range x.concerned(d) {
		errs = append(errs, x.after(ctx, d, cat, def))
	}
	return errors.Join(errs...)
}

// after does for one index what a DDL statement asks for.
func (x *Indexer) after(ctx context.Context, d *plan.DDL, cat *catalog.Catalog, def storage.IndexRecord) error {
	t := cat.Table(def.Schema, def.Table)
	gone := missing(t)
	switch {
	case gone && (strings.HasPrefix(d.Op, "DROP") || len(d.Renamed) > 0):
		x.log.Info("virtual index dropped with its table", "index", def.Name, "schema", def.Schema, "table", def.Table)
		return x.drop(ctx, def)
	case gone:
		return nil // no shard tells what became of it; it stays unused
	case d.Op == "TRUNCATE TABLE":
		return x.rebuild(ctx, def, d.Op)
	case !unsettles(d, def):
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
	return x.rebuild(ctx, def, d.Op)
}

// concerned lists the indexes of the tables that a change names.
func (x *Indexer) concerned(d *plan.DDL) []storage.IndexRecord {
	var defs []storage.IndexRecord
	for _, def := range x.store.Indexes() {
		named := d.Schema != "" && strings.HasSuffix(d.Op, "DATABASE") && x.same(d.Schema, def.Schema)
		table := catalog.TableName{Schema: def.Schema, Name: def.Table}
		if named || x.names(d.Tables, table) || x.names(d.Renamed, table) { // a rename may already have moved it
			defs = append(defs, def)
		}
	}
	return defs
}

// unsettles reports whether after the change the index's entries may be short
// of rows. After a rename that is so because a statement may use the new name
// before the index has it.
func unsettles(d *plan.DDL, def storage.IndexRecord) bool {
	switch {
	case d.AllColumns, slices.ContainsFunc(d.Renamed, func(n catalog.TableName) bool { return n.Name != "" }):
		return true
	case d.Op != "ALTER TABLE":
		return false
	}
	return slices.ContainsFunc(def.Columns, func(column string) bool {
		return slices.ContainsFunc(d.Touches, func(t string) bool { return strings.EqualFold(t, column) })
	})
}

// move gives the indexes of renamed tables to the new names, where the rename is known
// to have been done: all shards say so, or nothing is left under the old name, and the
// new one was none of these.
func (x *Indexer) move(d *plan.DDL, done bool, cat *catalog.Catalog) error {
	to := map[catalog.IndexID]catalog.TableName{}
	for _, def := range x.concerned(d) {
		n := x.newName(d, def)
		t := cat.Table(n.Schema, n.Name)
		if t == nil || t.Schema == def.Schema && t.Name == def.Table {
			continue
		}
		if done || !x.names(d.Tables, n) && missing(cat.Table(def.Schema, def.Table)) {
			to[def.ID] = catalog.TableName{Schema: t.Schema, Name: t.Name}
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
func (x *Indexer) newName(d *plan.DDL, def storage.IndexRecord) catalog.TableName {
	name := catalog.TableName{Schema: def.Schema, Name: def.Table}
	for i, to := range d.Renamed {
		if to.Name != "" && x.names(d.Tables[i:i+1], name) {
			name = to
		}
	}
	return name
}

func (x *Indexer) names(tables []catalog.TableName, name catalog.TableName) bool {
	return slices.ContainsFunc(tables, func(n catalog.TableName) bool { return x.same(n.Schema, name.Schema) && x.same(n.Name, name.Name) })
}

// ddlUnderWay is DDL between BeforeDDL and AfterDDL.
type ddlUnderWay struct {
	mu sync.Mutex
	of map[*plan.DDL]definition
}

type definition struct {
	tables []catalog.TableName // that jobs keep off
	done   func()              // ends what kept answers are waiting for
}

// fence keeps jobs off the tables of a change, until unfence, which calls done.
func (x *Indexer) fence(ctx context.Context, d *plan.DDL, defs []storage.IndexRecord, done func()) error {
	tables := slices.Concat(d.Tables, d.Renamed)
	for _, def := range defs {
		tables = append(tables, catalog.TableName{Schema: def.Schema, Name: def.Table})
	}
	x.ddl.mu.Lock()
	defer x.ddl.mu.Unlock()
	if x.ddl.of == nil {
		x.ddl.of = map[*plan.DDL]definition{}
	}
	x.ddl.of[d] = definition{tables, done}
	return x.cluster.Fence(ctx, x.ddl.tables()...)
}

// unfence has jobs at the tables of a change again, and keeps them off those of others that are under way.
func (x *Indexer) unfence(ctx context.Context, d *plan.DDL) error {
	x.ddl.mu.Lock()
	defer x.ddl.mu.Unlock()
	x.ddl.of[d].done()
	delete(x.ddl.of, d)
	if len(x.ddl.of) == 0 {
		x.cluster.Unfence()
		return nil
	}
	return x.cluster.Fence(context.WithoutCancel(ctx), x.ddl.tables()...)
}

func (u *ddlUnderWay) tables() (all []catalog.TableName) {
	for _, d := range u.of {
		all = append(all, d.tables...)
	}
	return all
}
