package planner

import (
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// duplicateMoves refuses an ON DUPLICATE KEY UPDATE of the shard key, but for
// VALUES(shard_key): that is the key by which the new row came to its shard, so the
// row that it meets stays where it is.
func duplicateMoves(t *catalog.Table, update []assignment) *text.Error {
	if t.ShardKey == nil || t.Placement != catalog.Hash || t.Shards.Len() == 1 {
		return nil
	}
	for _, s := range update {
		if s.col == t.ShardKey && !s.self && s.inserted != t.ShardKey {
			return refuseShardKey(t)
		}
	}
	if movesByItself(t, update) {
		return refuseShardKey(t)
	}
	return nil
}

// settled is the action with what ON DUPLICATE KEY UPDATE sets to what all rows have been given there
// taken for VALUES(column), unless it changes the shard key all the same.
//
// Counter-example: INSERT INTO users (id, n) VALUES (2, 1) ON DUPLICATE KEY UPDATE id = 2, n = 1, as
// libraries write an upsert that names all columns.
func (i *insertAction) settled(b *binder) (*insertAction, *text.Error) {
	if i.update == nil {
		return i, nil
	}
	e := &effects{b: b}
	update := slices.Clone(i.update)
	for n := range update {
		if s := &update[n]; i.unmoved(s) && i.givesAll(e, s) {
			s.inserted = s.col
		}
	}
	if err := duplicateMoves(i.table, update); err != nil {
		return nil, err
	}
	out := *i
	out.update = update
	return &out, nil
}

// unmoved reports an assignment to a column that had better stay what the new row has.
func (i *insertAction) unmoved(s *assignment) bool {
	if s.self || s.inserted != nil || s.value.Kind != text.Literal && s.value.Kind != text.Placeholder {
		return false
	}
	return s.col == i.table.ShardKey || slices.ContainsFunc(i.table.Unique, func(u []*catalog.Column) bool { return slices.Contains(u, s.col) })
}

// givesAll reports that all rows have the value that is assigned.
func (i *insertAction) givesAll(e *effects, s *assignment) bool {
	to := e.stored(s.col, s.value)
	if to.key == nil || len(triggersOf(i.table, "INSERT")) > 0 {
		return false
	}
	for k := range i.rows {
		o := i.value(&i.rows[k], s.col)
		if o.Kind == text.Default {
			return false
		}
		if given := e.stored(s.col, o); string(given.key) != string(to.key) || given.null != to.null {
			return false
		}
	}
	return true
}

// onDuplicate handles the rows that exist: their columns that are not assigned
// hold what Shunt doesn't know.
func (i *insertAction) onDuplicate(e *effects, set catalog.ShardSet, rows []*insertRow, places []catalog.ShardSet) {
	t := i.table
	assigned := lastAssignments(i.update)
	if touchesPrimaryKey(t, assigned) {
		e.markAll(t, set, "UPDATE")
	}
	changed := make([]*catalog.Column, 0, len(assigned))
	for c, s := range assigned {
		if s == nil || !s.self {
			changed = append(changed, c)
		}
	}
	for _, ix := range t.Indexes {
		affected := false
		for _, c := range ix.Columns {
			s, ok := assigned[c]
			affected = affected || ok && (s == nil || !s.self) || c.Generated || c.OnUpdate
		}
		if !affected {
			continue
		}
		e.maintainIndexes(t, "UPDATE", set, []*catalog.Index{ix}, columnNames(changed))
		for k, row := range rows {
			comps := make([]component, len(ix.Columns))
			for j, c := range ix.Columns {
				s := assigned[c]
				switch {
				case s == nil || s.self:
				case s.inserted != nil:
					if s.inserted == c {
						comps[j] = e.stored(c, i.value(row, c))
					}
				default:
					comps[j] = e.stored(c, s.value)
				}
			}
			for id := range places[k].All {
				e.row(ix, id, comps, "UPDATE")
			}
		}
	}
	e.updates(t, changed, set)
	e.triggers(t, set, "UPDATE")
}
