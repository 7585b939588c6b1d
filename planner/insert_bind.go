package planner

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

func (i *insertAction) bind(b *binder) (*plan.Bound, error) {
	t := i.table
	i, err := i.settled(b)
	if err != nil {
		return nil, err
	}
	if err := i.untried(b); err != nil {
		return nil, err
	}
	e := newEffects(b)
	spread := t.Shards.Len() > 1
	per := map[catalog.ShardID][]int{}
	places := make([]catalog.ShardSet, len(i.rows))
	var set catalog.ShardSet
	ids, generated, err := i.numbered(b)
	if err != nil {
		return nil, err
	}
	rows := make([]*insertRow, len(i.rows))
	for k := range i.rows {
		row := &i.rows[k]
		if ids != nil && ids[k] > 0 {
			row = i.withID(row, ids[k])
		}
		rows[k] = row
		if spread {
			if err := i.differing(row); err != nil {
				return nil, err
			}
		}
		var where catalog.ShardSet
		switch t.Placement {
		case catalog.Hash, catalog.Anywhere:
			id, err := i.shardOf(b, row)
			if err != nil {
				return nil, err
			}
			where = catalog.Only(id)
			per[id] = append(per[id], k)
		case catalog.Reference, catalog.Single:
			where = t.Shards
		}
		places[k] = where
		set = set.Union(where)
		i.entries(e, row, where)
	}
	if err := i.alone(b, rows, per); err != nil {
		return nil, err
	}
	if i.update != nil {
		i.onDuplicate(e, set, rows, places)
	}
	i.follow(e, set)

	var out *plan.Bound
	switch {
	case ids == nil && len(per) <= 1:
		out = b.sendTo(set, i.st.Src)
	case i.fused && !i.apart:
		return nil, text.NotSupported("rows for several shards inside of an executable comment can't be split: write the text out")
	default:
		out = b.bound()
		out.Statements = i.split(set, per, ids, b, generated)
	}
	if out.Generated = generated; generated != nil {
		generated.LastShard = places[len(places)-1].First()
		if i.update != nil && changes(i.update, i.auto.col) {
			out.Doubts = []*catalog.Table{t}
		}
	}
	out.Counted, out.Given = i.ids(b)
	e.into(out)
	out.SameTime = t.Placement == catalog.Reference && (i.clock || keepsTime(t))
	out.Unique = i.unique(b, rows, places, ids)
	i.describe(b, out, set.Len())
	return out, nil
}

// describe sets what EXPLAIN ROUTE shows.
func (i *insertAction) describe(b *binder, out *plan.Bound, shards int) {
	t := i.table
	out.Plan = "route"
	switch t.Placement {
	case catalog.Hash, catalog.Anywhere:
		out.Access = shardKeyAccess
	case catalog.Reference:
		out.Access = "reference"
	case catalog.Single:
		out.Access = "single"
	}
	if b.brief {
		return
	}
	switch t.Placement {
	case catalog.Hash:
		out.Reason = fmt.Sprintf("%d row%s by the shard key %s.%s", len(i.rows), plural(len(i.rows)), t.Name, keyName(t))
	case catalog.Anywhere:
		out.Reason = fmt.Sprintf("%d new row%s by hash of %s.%s", len(i.rows), plural(len(i.rows)), t.Name, keyName(t))
	case catalog.Reference:
		out.Reason = t.Name + " is on every shard"
	case catalog.Single:
		out.Reason = t.Name + " is on one shard"
	}
	out.Reason += fmt.Sprintf(": %d shard%s of %d", shards, plural(shards), b.cat.All.Len())
	if out.Unique != nil {
		out.Reason += "; the others are asked for rows of its unique keys, but for those that a virtual index leaves out"
	}
}

// split cuts the statement into one a shard, or one for all where all get all
// rows.
func (i *insertAction) split(set catalog.ShardSet, per map[catalog.ShardID][]int, ids []uint64, b *binder, g *plan.Generated) []plan.ShardStatement {
	var out []plan.ShardStatement
	if len(per) == 0 {
		all := make([]int, len(i.rows))
		for k := range all {
			all[k] = k
		}
		sql, params := i.text(all, ids, b, g)
		for id := range set.All {
			out = append(out, plan.ShardStatement{Shard: id, SQL: sql, Params: params})
		}
		return out
	}
	for id := range set.All {
		sql, params := i.text(per[id], ids, b, g)
		out = append(out, plan.ShardStatement{Shard: id, SQL: sql, Params: params, Rows: per[id]})
	}
	return out
}

// text writes a statement for some of the rows: what is before them, the rows as
// they are written but for counted values, what is after.
func (i *insertAction) text(rows []int, ids []uint64, b *binder, g *plan.Generated) (sql string, params []int) {
	src, all := i.st.Src, i.st.Params
	var out strings.Builder
	size := len(src) - int(i.tail-i.head)
	for _, k := range rows {
		size += int(i.rows[k].span.End-i.rows[k].span.Start) + 1
	}
	out.Grow(size)
	p := 0
	take := func(from, to uint32) {
		out.WriteString(src[from:to])
		for p < len(all) && all[p] < from {
			p++
		}
		for p < len(all) && all[p] < to {
			params = append(params, p)
			p++
		}
	}
	if ids != nil && i.auto.at > 0 {
		take(0, i.auto.at)
		out.WriteString(i.auto.text)
		take(i.auto.at, i.head)
	} else {
		take(0, i.head)
	}
	for n, k := range rows {
		row := &i.rows[k]
		if n > 0 {
			out.WriteString(",")
		}
		if ids == nil || ids[k] == 0 {
			take(row.span.Start, row.span.End)
			continue
		}
		take(row.span.Start, row.auto.start)
		out.WriteString(row.auto.before)
		if b.asParams {
			out.WriteString("?")
			params = append(params, len(all)+len(g.Values))
			g.Values = append(g.Values, ids[k])
		} else {
			out.WriteString(strconv.FormatUint(ids[k], 10))
		}
		take(row.auto.end, row.span.End)
	}
	take(i.tail, uint32(len(src)))
	if params == nil && len(all) > 0 {
		params = []int{} // nil would be all of them
	}
	return out.String(), params
}

// Forms has a shard asked what it would store for the shard keys of the rows that have them
// in another form than the column's: '2024-1-4', b'11'. It is nil where that doesn't help.
// Such a row's refusal is Error.Unstored.
func Forms(r *plan.Rows, params []keys.Value) *plan.Constants {
	i, ok := insertOf(r)
	if !ok || i.fused || i.asked != nil || i.unasked || i.keyAt < 0 || len(i.st.Rows) == 0 {
		return nil
	}
	b := newBinder(r, params, nil)
	c := &plan.Constants{Statement: i.st, Table: i.table, Ignore: i.ignore, Forms: true}
	for k := range i.rows {
		_, err := i.shardOf(b, &i.rows[k])
		switch {
		case err == nil:
			continue
		case !err.Unstored, c.Len() == maxConstants:
			return nil
		}
		f := i.st.RowColumns(i.rows[k].span)[i.keyAt]
		c.Add(plan.ConstantPlace{Start: f[0].Start, End: f[len(f)-1].End}, i.table.ShardKey)
	}
	return c
}

// shardOf places a row. What the column will hold must be surely known:
// a row on the wrong shard is never found again by its key.
func (i *insertAction) shardOf(b *binder, row *insertRow) (catalog.ShardID, *text.Error) {
	t := i.table
	if t.Shards.Len() == 1 {
		return t.Shards.First(), nil
	}
	if b.at != nil {
		return *b.at, nil
	}
	c := t.ShardKey
	if c == nil {
		return 0, text.NotSupported("%s has no shard key: set shard_key for it in the configuration", t.Name)
	}
	o := i.value(row, c)
	v, known := defaultOf(c)
	if o.Kind != text.Default {
		v, _, known = o.Resolve(b.params)
	}
	switch {
	case !known && o.Kind == text.Default && c.Default == nil && !c.DefaultExpr && b.settings.Strict && i.fails(c):
		return b.cat.ShardOf(keys.AppendNull(nil)), nil
	case !known && o.Kind == text.Default && c.Generated:
		return 0, text.NotSupported("%s takes no rows: %s", t.Name, UnfitKey(b.cat, t))
	case !known && o.Kind == text.Default:
		return 0, text.NotSupported("a row for %s without a value for its shard key %s can't be placed: give %s a value", t.Name, c.Name, c.Name)
	case !known:
		return 0, text.NotSupported("the shard key %s.%s must be a literal or a parameter: compute it in the client", t.Name, c.Name)
	case v.IsNull() && (c.Nullable || i.fails(c)):
		return b.cat.ShardOf(keys.AppendNull(nil)), nil
	case v.IsNull():
		return 0, text.NotSupported("a row for %s with NULL as its shard key %s can't be placed: give %s a value", t.Name, c.Name, c.Name)
	}
	codec, err := plan.CodecOf(b.cat, c)
	if err != nil {
		return 0, text.NotSupported("%s.%s can't be a shard key: %v; in the configuration, give %s another shard_key or placement: single", t.Name, c.Name, err, t.Name)
	}
	k, ok := codec.Stored(nil, v, b.settings.Strict && !i.ignore, b.settings.PadCharToFullLength)
	if !ok {
		e := text.NotSupported("what %s.%s (%s) would hold for %s is not surely known, so the row can't be placed: send it in the column's own type", t.Name, c.Name, c.Type, shortLiteral(v))
		e.Unstored = true
		return 0, e
	}
	return b.cat.ShardOf(k), nil
}

// UnfitKey is why no row can be placed by a table's shard key, and what to do; "" where rows can.
func UnfitKey(cat *catalog.Catalog, t *catalog.Table) string {
	c := t.ShardKey
	if t.Placement != catalog.Hash || c == nil || t.Shards.Len() < 2 {
		return ""
	}
	why := "it is generated"
	if !c.Generated {
		_, err := plan.CodecOf(cat, c)
		if err == nil {
			return ""
		}
		why = err.Error()
	}
	return fmt.Sprintf("%s can't be a shard key: %s; in the configuration, give %s another shard_key or placement: single", c.Name, why, t.Name)
}

func keyName(t *catalog.Table) string {
	if t.ShardKey == nil {
		return "?"
	}
	return t.ShardKey.Name
}

// defaultOf is the value of a shard key that a row doesn't give; ok is false where
// it is not surely known.
func defaultOf(c *catalog.Column) (v keys.Value, ok bool) {
	switch {
	case c.DefaultExpr, c.DefaultBlurred, c.AutoIncrement, c.Generated:
		return v, false
	case c.Default != nil:
		return keys.String([]byte(*c.Default), "utf8mb4"), true
	case c.Nullable:
		return keys.Null(), true
	}
	return v, false
}

// Rule refused NULL: NULL for a NOT NULL column is an error in a statement of one
// row, whatever the mode, so any shard can say it. Rows with NULL in a column that
// may be NULL are all on one shard.
//
// Counter-example: INSERT IGNORE, and without a strict mode a statement of many
// rows, which store 0 or ”. A TIMESTAMP may store the time.
func (i *insertAction) fails(c *catalog.Column) bool {
	return len(i.rows) == 1 && !i.ignore && !c.AutoIncrement && !c.Generated && c.BaseType() != "timestamp"
}

// differing refuses a row of a reference table for which each copy would compute
// a default of its own.
func (i *insertAction) differing(row *insertRow) *text.Error {
	if i.table.Placement != catalog.Reference {
		return nil
	}
	for _, c := range i.needed {
		if c.DefaultExpr && !c.DefaultNow && i.value(row, c).Kind == text.Default {
			return refuseVolatile("the default of "+c.Name, i.table)
		}
	}
	return nil
}

// keepsTime reports columns that are set to the time of a write by themselves, or may be by a trigger.
func keepsTime(t *catalog.Table) bool {
	if len(t.Triggers) > 0 {
		return true
	}
	for _, c := range t.Columns {
		if c.DefaultNow || c.OnUpdate {
			return true
		}
	}
	return false
}

// entries adds what a new row needs in each index.
func (i *insertAction) entries(e *effects, row *insertRow, where catalog.ShardSet) {
	for _, ix := range i.table.Indexes {
		var few [4]component
		comps := append(few[:0], make([]component, len(ix.Columns))...)
		for k, c := range ix.Columns {
			comps[k] = e.stored(c, i.value(row, c))
		}
		for id := range where.All {
			e.row(ix, id, comps, i.verb())
		}
	}
}

// follow handles triggers, foreign keys and what a REPLACE removes.
func (i *insertAction) follow(e *effects, set catalog.ShardSet) {
	e.triggers(i.table, set, "INSERT")
	if i.replace {
		e.triggers(i.table, set, "DELETE")
		e.deletes(i.table, set)
		e.maintainIndexes(i.table, "REPLACE", set, i.table.Indexes, nil)
	}
}

// ids is Bound.Counted and Given.
func (i *insertAction) ids(b *binder) (counted, given bool) {
	if i.update != nil {
		return false, false // a row that is there already has an id, too
	}
	counted, given = true, true
	for _, c := range i.table.Columns {
		if !c.AutoIncrement {
			continue
		}
		for k := range i.rows {
			o := i.value(&i.rows[k], c)
			if o.Kind == text.Default {
				given = false
				continue
			}
			v, _, ok := o.Resolve(b.params)
			if ok && v.IsNull() {
				given = false
				continue
			}
			counted = false
			if ok {
				_, n, whole := wholeNumber(v)
				ok = whole && n > 0
			}
			given = given && ok
		}
	}
	return counted, given
}

// Rule lone NULL: without a strict mode NULL for a NOT NULL column becomes ” or 0
// in a statement of many rows, and is an error in one of a single row. So a row
// with such a NULL must not become one of its own.
//
// Counter-example: INSERT INTO t (id, n) VALUES (1, NULL), (2, 3) with sql_mode ”
// and rows that go to two shards: a server stores 0, the shard would say 1048.
func (i *insertAction) alone(b *binder, rows []*insertRow, per map[catalog.ShardID][]int) *text.Error {
	if b.settings.Strict || i.ignore || len(per) < 2 {
		return nil
	}
	for _, list := range per {
		if len(list) > 1 {
			continue
		}
		if err := i.loneNull(b, rows[list[0]]); err != nil {
			return err
		}
	}
	return nil
}

// Ignores reports an INSERT IGNORE.
func Ignores(r *plan.Rows) bool {
	switch act := bindableOf(r).action.(type) {
	case *insertAction:
		return act.ignore
	case spentAction:
		return act.ignore
	}
	return false
}

// Apart refuses rows that can't be statements of their own; see alone. copied:
// they stand for those of a query or a file, of whose NULLs a server stores an
// empty text or 0 even if there is one row. Rows that are left together are bind's to refuse.
func Apart(r *plan.Rows, params []keys.Value, copied bool) error {
	i, ok := insertOf(r)
	if !ok || i.ignore || bindableOf(r).settings.Strict {
		return nil
	}
	if one := len(i.rows) == 1; one && !copied || !one && r.Meets == nil {
		return nil
	}
	for k := range i.rows {
		if err := i.loneNull(&binder{params: params}, &i.rows[k]); err != nil {
			return err
		}
	}
	return nil
}

// loneNull refuses a row that must not be one of its own.
func (i *insertAction) loneNull(b *binder, row *insertRow) *text.Error {
	for _, c := range i.needed {
		if c.Nullable || c.AutoIncrement {
			continue
		}
		o := i.value(row, c)
		if v, _, ok := o.Resolve(b.params); ok && v.IsNull() {
			return text.NotSupported("NULL for the column %s.%s, which is NOT NULL, in a statement whose rows go to several shards is not supported without a strict sql_mode: give the value that is to be stored, or DEFAULT", i.table.Name, c.Name)
		}
	}
	return nil
}
