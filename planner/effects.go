package planner

import (
	"bytes"
	"slices"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// effects gathers what a bound write does to the virtual indexes.
type effects struct {
	b        *binder
	adds     []plan.Entry
	marks    []plan.Mark
	maintain []plan.Maintenance
	seenAdd  map[addKey]bool
	seenMark map[addKey]int // where in marks
	// unlogged: what follows is done by foreign keys, and servers needn't have that in their binary logs.
	unlogged bool
}

type addKey struct {
	index *catalog.Index
	key   string
	shard catalog.ShardID
}

func newEffects(b *binder) *effects { return &effects{b: b} }

// fewEffects are looked through one by one for what is there already.
const fewEffects = 16

func (e *effects) into(out *plan.Bound) {
	out.Adds, out.Marks, out.Maintain = e.adds, e.marks, e.maintain
}

func (e *effects) add(ix *catalog.Index, key []byte, shard catalog.ShardID) {
	if len(e.adds) < fewEffects {
		for i := range e.adds {
			if a := &e.adds[i]; a.Index == ix && a.Shard == shard && bytes.Equal(a.Key, key) {
				return
			}
		}
		e.adds = append(e.adds, plan.Entry{Index: ix, Key: key, Shard: shard})
		return
	}
	if e.seenAdd == nil {
		e.seenAdd = map[addKey]bool{}
		for _, a := range e.adds {
			e.seenAdd[addKey{a.Index, string(a.Key), a.Shard}] = true
		}
	}
	k := addKey{ix, string(key), shard}
	if !e.seenAdd[k] {
		e.seenAdd[k] = true
		e.adds = append(e.adds, plan.Entry{Index: ix, Key: key, Shard: shard})
	}
}

// mark sets an unknown mark and asks for the scan that clears it. known holds
// the components that are known, nil for the others.
func (e *effects) mark(ix *catalog.Index, shard catalog.ShardID, known [][]byte, operation string) {
	any := false
	id := ""
	for _, c := range known {
		any = any || c != nil
		id += string(c) + "\x00\xff"
	}
	if !any {
		known, id = nil, ""
	}
	k := addKey{ix, id, shard}
	if at, seen := e.seenMark[k]; seen {
		e.marks[at].Logged = e.marks[at].Logged && e.logged(ix.Table)
		return
	}
	if e.seenMark == nil {
		e.seenMark = map[addKey]int{}
	}
	e.seenMark[k] = len(e.marks)
	e.marks = append(e.marks, plan.Mark{Index: ix, Shard: shard, Known: known, Logged: e.logged(ix.Table)})
	e.maintainIndexes(ix.Table, operation, catalog.Only(shard), []*catalog.Index{ix}, nil)
}

// logged reports that rows of a table are in its server's binary log before anybody sees what becomes of them.
func (e *effects) logged(t *catalog.Table) bool { return !e.unlogged && !t.Early }

// maintainIndexes asks for a scan; requests for one table merge.
func (e *effects) maintainIndexes(t *catalog.Table, operation string, shards catalog.ShardSet, indexes []*catalog.Index, columns []string) {
	if len(indexes) == 0 || shards.Empty() {
		return
	}
	for i := range e.maintain {
		m := &e.maintain[i]
		if m.Table != t || m.Operation != operation || m.Keys != nil {
			continue
		}
		m.Shards, m.Logged = m.Shards.Union(shards), m.Logged && e.logged(t)
		for _, ix := range indexes {
			if !slices.Contains(m.Indexes, ix) {
				m.Indexes = append(m.Indexes, ix)
			}
		}
		for _, c := range columns {
			if !slices.Contains(m.Columns, c) {
				m.Columns = append(m.Columns, c)
			}
		}
		return
	}
	e.maintain = append(e.maintain, plan.Maintenance{
		Table: t, Operation: operation, Shards: shards,
		Indexes: append([]*catalog.Index(nil), indexes...), Columns: append([]string(nil), columns...),
		Logged: e.logged(t),
	})
}

// component is what a column of a row will hold, as far as it is known. Its key is
// in the binder's memory.
type component struct {
	key  []byte // nil: unknown
	null bool
}

// stored gives the component of a column after storing an operand.
func (e *effects) stored(c *catalog.Column, o text.Operand) component {
	codec, err := plan.CodecOf(e.b.cat, c)
	if err != nil || c.Generated {
		return component{}
	}
	var v keys.Value
	switch o.Kind {
	case text.Default:
		switch {
		case c.DefaultExpr, c.DefaultBlurred, c.AutoIncrement:
			return component{}
		case c.Default != nil:
			v = keys.String([]byte(*c.Default), "utf8mb4")
		case c.Nullable:
			return component{keys.AppendNull(nil), true}
		default:
			return component{} // an error, or without strict mode '' or 0
		}
	default:
		var ok bool
		if v, _, ok = o.Resolve(e.b.params); !ok {
			return component{}
		}
	}
	if v.IsNull() {
		if !c.Nullable || c.AutoIncrement {
			return component{}
		}
		return component{keys.AppendNull(nil), true}
	}
	// Never as strict: what a strict mode refuses, INSERT IGNORE and tables
	// without transactions may clip and keep.
	n := len(e.b.components)
	out, ok := codec.Stored(e.b.components, v, false, e.b.settings.PadCharToFullLength)
	if !ok {
		return component{}
	}
	e.b.components = out
	return component{key: out[n:len(out):len(out)]}
}

// row adds the entry that a row with these components needs on a shard, or
// marks where they aren't all known. Rows whose first component is NULL have no
// entry.
func (e *effects) row(ix *catalog.Index, shard catalog.ShardID, comps []component, operation string) {
	if comps[0].null {
		return
	}
	if ix.Table.Differs != "" {
		// The shards' columns differ, and with them perhaps the keys.
		e.mark(ix, shard, nil, operation)
		return
	}
	n := 0
	for _, c := range comps {
		if c.key == nil {
			known := make([][]byte, len(comps))
			for i, c := range comps {
				known[i] = bytes.Clone(c.key) // its memory is used again
			}
			e.mark(ix, shard, known, operation)
			return
		}
		n += len(c.key)
	}
	key := make([]byte, 0, n)
	for _, c := range comps {
		key = append(key, c.key...)
	}
	e.add(ix, key, shard)
}

// markAll marks all indexes of a table.
func (e *effects) markAll(t *catalog.Table, shards catalog.ShardSet, operation string) {
	for _, ix := range t.Indexes {
		for id := range shards.All {
			e.mark(ix, id, nil, operation)
		}
	}
}

// triggers marks what the triggers for an event of a table may change: all
// indexes of the tables that their bodies name, and of what those tables'
// triggers and foreign keys change in turn.
//
// Counter-example: a trigger BEFORE INSERT ON users SET NEW.email =
// LOWER(NEW.email). The row's key is not the one in the statement.
func (e *effects) triggers(t *catalog.Table, shards catalog.ShardSet, events ...string) {
	seen := map[*catalog.Table]bool{}
	var reached []*catalog.Table
	for _, tr := range t.Triggers {
		for _, ev := range events {
			if tr.Event == ev {
				for _, touched := range tr.Touches {
					catalog.SetOff(touched, seen, func(t *catalog.Table) { reached = append(reached, t) })
				}
			}
		}
	}
	e.byForeignKeys(slices.ContainsFunc(reached, func(t *catalog.Table) bool { return len(t.Cascades) > 0 }), func() {
		for _, t := range reached {
			e.markAll(t, shards, "UNKNOWN")
		}
	})
}

// byForeignKeys does what foreign keys' rules may have a part in.
func (e *effects) byForeignKeys(part bool, do func()) {
	was := e.unlogged
	e.unlogged = was || part
	do()
	e.unlogged = was
}

// updates follows foreign keys with ON UPDATE rules from a table of which the
// columns were set.
//
// Counter-example: orders.user_email REFERENCES users(email) ON UPDATE CASCADE.
// UPDATE users SET email = 'n' changes orders without naming them.
func (e *effects) updates(t *catalog.Table, set []*catalog.Column, shards catalog.ShardSet) {
	if len(t.Cascades) > 0 {
		e.byForeignKeys(true, func() { e.cascadeUpdate(t, set, shards, columnsSeen{}) })
	}
}

func (e *effects) cascadeUpdate(t *catalog.Table, set []*catalog.Column, shards catalog.ShardSet, seen columnsSeen) {
	if set = seen.news(t, set); len(set) == 0 {
		return
	}
	for i := range t.Cascades {
		c := &t.Cascades[i]
		if !c.OnUpdate || !mayReference(t, c, set) {
			continue
		}
		e.columnsChanged(c.Child, c.Columns, shards)
		e.cascadeUpdate(c.Child, c.Columns, shards, seen)
	}
}

// columnsSeen are the columns whose changes were followed. A table may be reached
// twice, by other columns.
//
// Counter-example: kids.a and kids.b each refer to a column of parents that is set,
// and toys.b to kids.b: with kids done after kids.a, toys would be left out.
type columnsSeen map[*catalog.Table][]*catalog.Column

// news are those of a table's columns that change with some of them and are new.
//
// Rule unnamed: with any column those change that are computed from others, and
// those that keep the time. Counter-example: parents.at is ON UPDATE
// CURRENT_TIMESTAMP, and kids.at REFERENCES it ON UPDATE CASCADE. UPDATE parents SET
// name = 'x' changes kids.at.
func (seen columnsSeen) news(t *catalog.Table, set []*catalog.Column) []*catalog.Column {
	var out []*catalog.Column
	for _, c := range t.Columns {
		if len(set) > 0 && (c.Generated || c.OnUpdate || slices.Contains(set, c)) && !slices.Contains(seen[t], c) {
			out = append(out, c)
		}
	}
	seen[t] = append(seen[t], out...)
	return out
}

// movesChildren refuses a write whose foreign keys would change the shard key of
// a child's rows, which stay where they are: they would be looked for on another
// shard. deleted: the rows are, and set means nothing.
//
// Counter-example: kids.parent_ext is the shard key of kids and REFERENCES
// parents(ext) ON UPDATE CASCADE. UPDATE parents SET ext = 'y'.
func movesChildren(t *catalog.Table, set []*catalog.Column, deleted bool) *text.Error {
	if len(t.Cascades) == 0 {
		return nil
	}
	return childrenMoved(t, set, deleted, map[*catalog.Table]bool{}, columnsSeen{})
}

func childrenMoved(t *catalog.Table, set []*catalog.Column, deleted bool, gone map[*catalog.Table]bool, seen columnsSeen) *text.Error {
	if deleted && gone[t] {
		return nil
	}
	gone[t] = gone[t] || deleted
	if set = seen.news(t, set); !deleted && len(set) == 0 {
		return nil
	}
	for i := range t.Cascades {
		c := &t.Cascades[i]
		rows := deleted && c.OnDelete && c.DeletesRows
		cols := deleted && c.OnDelete && !c.DeletesRows || !deleted && c.OnUpdate && mayReference(t, c, set)
		switch {
		case cols:
			k := c.Child
			if k.Placement == catalog.Hash && k.Shards.Len() > 1 && k.ShardKey != nil && slices.Contains(c.Columns, k.ShardKey) {
				return text.NotSupported("a foreign key of %s may change its shard key %s with this statement, and the rows would have to move to another shard: write to %s first", k.Name, k.ShardKey.Name, k.Name)
			}
			if err := childrenMoved(k, c.Columns, false, gone, seen); err != nil {
				return err
			}
		case rows:
			if err := childrenMoved(c.Child, nil, true, gone, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayReference reports whether a foreign key may refer to one of the columns set.
// Where it isn't known to which one, to those of a unique key, and any of the type of
// a referring column, since InnoDB lets foreign keys refer to columns that are not
// unique.
func mayReference(t *catalog.Table, c *catalog.Cascade, set []*catalog.Column) bool {
	if c.Refers != nil {
		return slices.Contains(set, c.Refers)
	}
	for _, s := range set {
		for _, u := range t.Unique {
			if slices.Contains(u, s) {
				return true
			}
		}
		for _, col := range c.Columns {
			if col.BaseType() == s.BaseType() {
				return true
			}
		}
	}
	return false
}

// columnsChanged marks the indexes of a table over columns that a rule sets to
// what Shunt doesn't know; all of them where that moves rows in the primary key (see
// touchesPrimaryKey).
func (e *effects) columnsChanged(t *catalog.Table, cols []*catalog.Column, shards catalog.ShardSet) {
	changes := func(c *catalog.Column) bool { return slices.Contains(cols, c) || changesUnnamed(c, false) }
	moves := slices.ContainsFunc(t.PrimaryKey, changes)
	for _, ix := range t.Indexes {
		if moves || slices.ContainsFunc(ix.Columns, changes) {
			for id := range shards.All {
				e.mark(ix, id, nil, "UPDATE")
			}
		}
	}
}

// deletes follows foreign keys with ON DELETE rules: children whose rows go
// have stale entries, children whose columns are set to NULL new keys too.
func (e *effects) deletes(t *catalog.Table, shards catalog.ShardSet) {
	e.byForeignKeys(true, func() { e.cascadeDelete(t, shards, map[*catalog.Table]bool{}) })
}

func (e *effects) cascadeDelete(t *catalog.Table, shards catalog.ShardSet, seen map[*catalog.Table]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	for _, c := range t.Cascades {
		switch {
		case !c.OnDelete:
		case c.DeletesRows:
			e.maintainIndexes(c.Child, "DELETE", shards, c.Child.Indexes, nil)
			e.cascadeDelete(c.Child, shards, seen)
		default: // SET NULL, SET DEFAULT
			e.columnsChanged(c.Child, c.Columns, shards)
			e.updates(c.Child, c.Columns, shards)
		}
	}
}
