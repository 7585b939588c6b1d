package planner

import "github.com/shunt-sql/shunt/planner/catalog"

// duplicateMoves refuses an ON DUPLICATE KEY UPDATE of the shard key, but for
// VALUES(shard_key): that is the key by which the new row came to its shard, so the
// row that it meets stays where it is.
func duplicateMoves(t *catalog.Table, update []assignment) *Error {
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
