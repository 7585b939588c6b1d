package planner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// keySearch makes the questions.
type keySearch struct {
	plan.Unique
	b *binder
	// insert is the action whose rows are at places; nil for an UPDATE.
	insert *insertAction
	rows   []*insertRow
	places []catalog.ShardSet
	ids    []uint64
	// sought are an UPDATE's keys, and route its shards.
	sought []soughtKey
	route  catalog.ShardSet
}

// soughtKey is a unique key as an UPDATE sets it.
type soughtKey struct {
	columns []*catalog.Column
	comps   []component
	values  []keys.Value
}

// apart reports a table whose unique keys Shunt looks after.
func apart(t *catalog.Table) bool {
	return t.Placement == catalog.Anywhere && t.Shards.Len() > 1 && !t.UniqueByShard && len(t.Unique)+len(t.OtherUnique) > 0
}

// unique is what is to be looked for behind a plain INSERT; nil for nothing.
//
// Rule counted keys: a value that Shunt's counter gives is in no row.
func (i *insertAction) unique(b *binder, rows []*insertRow, places []catalog.ShardSet, ids []uint64) *plan.Unique {
	if !apart(i.table) || i.tries() || b.placing {
		return nil
	}
	// Clones, so that bind's own are on its stack.
	u := &keySearch{Unique: plan.Unique{Table: i.table}, b: b.kept(), insert: i, rows: slices.Clone(rows), places: slices.Clone(places), ids: ids}
	if len(i.table.OtherUnique) == 0 && !slices.ContainsFunc(i.table.Unique, func(key []*catalog.Column) bool {
		for k := range rows {
			if !u.counted(key, k) {
				return true
			}
		}
		return false
	}) {
		return nil
	}
	u.Looks = u
	return &u.Unique
}

// kept is a binder that outlives a Binding's next use within the statement.
func (b *binder) kept() *binder {
	return &binder{cat: b.cat, settings: b.settings, params: b.params, ix: b.ix}
}

func (u *keySearch) counted(key []*catalog.Column, row int) bool {
	return u.ids != nil && u.ids[row] > 0 && slices.Contains(key, u.insert.auto.col) && len(triggersOf(u.Table, "INSERT")) == 0
}

func triggersOf(t *catalog.Table, event string) (out []catalog.Trigger) {
	for _, x := range t.Triggers {
		if x.Event == event {
			out = append(out, x)
		}
	}
	return out
}

// Elsewhere implements Looks.
func (u *keySearch) Elsewhere() (looks []plan.Look) {
	u.b.atOnce(func() { looks = u.elsewhere() })
	return looks
}

func (u *keySearch) elsewhere() []plan.Look {
	if u.insert == nil {
		return u.looks()
	}
	per := map[catalog.ShardID][]int{}
	for k := range u.rows {
		for id := range u.others(k).All {
			per[id] = append(per[id], k)
		}
	}
	var out []plan.Look
	for id := range u.Table.Shards.All {
		if rows := per[id]; rows != nil {
			out = append(out, plan.Look{Shard: id, SQL: u.text(rows), Rows: rows})
		}
	}
	return out
}

// Each implements Looks.
func (u *keySearch) Each(l plan.Look) []plan.Look {
	var out []plan.Look
	for _, k := range l.Rows {
		out = append(out, plan.Look{Shard: l.Shard, SQL: u.text([]int{k}), Rows: []int{k}})
	}
	return out
}

// others are the shards that may have a row of one of a row's keys.
//
// Rule triggers: what a BEFORE trigger makes of a row isn't known, and it is looked for everywhere.
func (u *keySearch) others(row int) (set catalog.ShardSet) {
	t := u.Table
	rest := t.Shards.Minus(u.places[row])
	if len(t.OtherUnique)+len(triggersOf(t, "INSERT")) > 0 {
		return rest
	}
	e := &effects{b: u.b}
	for _, key := range t.Unique {
		if u.counted(key, row) {
			continue
		}
		comps := make([]component, len(key))
		for j, c := range key {
			comps[j] = e.stored(c, u.insert.value(u.rows[row], c))
		}
		set = set.Union(rest.Intersect(u.b.mayHold(t, key, comps)))
	}
	return set
}

// mayHold are the shards that may have rows of a key, as the virtual indexes of its columns
// say. Several NULLs are no duplicates.
func (b *binder) mayHold(t *catalog.Table, key []*catalog.Column, comps []component) catalog.ShardSet {
	set := t.Shards
	if slices.ContainsFunc(comps, func(c component) bool { return c.null }) {
		return catalog.ShardSet{}
	}
	if b.ix == nil || t.Differs != "" || t.Unseen != "" {
		return set
	}
next:
	for _, ix := range t.Indexes {
		if !ix.Usable() {
			continue
		}
		var sought []byte
		parts := make([][]byte, len(ix.Columns))
		for n, c := range ix.Columns {
			j := slices.Index(key, c)
			if j < 0 || comps[j].key == nil {
				continue next
			}
			parts[n] = comps[j].key
			sought = append(sought, parts[n]...)
		}
		if len(parts) == 1 {
			parts = nil
		}
		if found, err := b.ix.Lookup(ix, sought, parts); err == nil {
			set = set.Intersect(found)
		}
	}
	return set
}

// text is a plain INSERT of some rows, with their values in it.
func (u *keySearch) text(rows []int) string {
	i, st, params := u.insert, u.insert.st, u.b.params
	var out strings.Builder
	take := func(from, to uint32) { out.WriteString(st.Written(from, to, params)) }
	if u.ids != nil && i.auto.at > 0 {
		take(0, i.auto.at)
		out.WriteString(i.auto.text)
		take(i.auto.at, i.head)
	} else {
		take(0, i.head)
	}
	for n, k := range rows {
		row := u.rows[k]
		if n > 0 {
			out.WriteString(",")
		}
		if u.ids == nil || u.ids[k] == 0 {
			take(row.span.Start, row.span.End)
			continue
		}
		take(row.span.Start, row.auto.start)
		out.WriteString(row.auto.before + strconv.FormatUint(u.ids[k], 10))
		take(row.auto.end, row.span.End)
	}
	end := uint32(len(st.Src))
	if st.Returning {
		end = st.Tokens[len(st.Tokens)-1].End
	}
	if end > i.tail {
		take(i.tail, end)
	}
	return trial(out.String(), st.Tokens[0], u.b.cat.MariaDB)
}

// unique is what is to be looked for behind an UPDATE; nil for nothing.
//
// Rule known keys: the key that rows get must be known, from SET, or from WHERE for columns
// that stay. Counter-example: UPDATE old SET id = id + 1000.
func (w *writeAction) unique(b *binder, route catalog.ShardSet) (*plan.Unique, *text.Error) {
	if w.delete {
		return nil, nil
	}
	var u *keySearch
	for _, t := range w.targets {
		if !apart(t.ref.table) {
			continue
		}
		if u == nil {
			u = &keySearch{Unique: plan.Unique{Ignore: w.ignore}, route: route, b: b.kept()}
		}
		if u.Table != nil {
			return nil, text.NotSupported("setting unique columns of several tables that are placed anywhere in one UPDATE is not supported: update %s and %s one after the other", u.Table.Name, t.ref.table.Name)
		}
		if err := t.seek(b, u); err != nil {
			return nil, err
		}
	}
	if u == nil || u.Table == nil {
		return nil, nil
	}
	u.Looks = u
	return &u.Unique, nil
}

// seek adds the unique keys that an UPDATE sets.
func (t *writeTarget) seek(b *binder, u *keySearch) *text.Error {
	table := t.ref.table
	changes := func(c *catalog.Column) bool {
		s, set := t.assigned[c]
		return set && (s == nil || !s.self && !t.same(b, *s)) || changesUnnamed(c, set) || slices.Contains(t.besides, c)
	}
	any := slices.ContainsFunc(table.Columns, changes)
	for _, c := range table.OtherUnique {
		if c == nil && any || c != nil && changes(c) {
			return refuseUnknownKey(table, c)
		}
	}
	e := &effects{b: u.b}
	for _, key := range table.Unique {
		if !slices.ContainsFunc(key, changes) {
			continue
		}
		k := soughtKey{columns: key}
		for _, c := range key {
			comp, v, ok := t.becomes(e, b, c, changes(c))
			if !ok {
				return refuseUnknownKey(table, c)
			}
			k.comps, k.values = append(k.comps, comp), append(k.values, v)
		}
		u.Table, u.sought = table, append(u.sought, k)
	}
	return nil
}

// becomes is what a column has behind an UPDATE.
func (t *writeTarget) becomes(e *effects, b *binder, c *catalog.Column, changes bool) (comp component, v keys.Value, ok bool) {
	if s := t.assigned[c]; s != nil && !s.self && !slices.Contains(t.besides, c) && len(triggersOf(t.ref.table, "UPDATE")) == 0 {
		if v, _, ok = s.value.Resolve(b.params); ok {
			comp = e.stored(c, s.value)
		}
		if codec, err := plan.CodecOf(b.cat, c); !comp.null {
			// 1.5 in an INT is stored as 2, and found by no comparison with 1.5.
			if err != nil {
				return component{}, v, false
			}
			if equal, ok := codec.Equal(nil, v); !ok || string(equal) != string(comp.key) {
				return component{}, v, false
			}
		}
	} else if !changes {
		var n *cnode
		if comp, n = t.ref.pinned(b, c); n != nil {
			_, vals, _ := b.equalKeys(n)
			v = vals[0]
		}
	}
	return comp, v, comp.key != nil
}

func refuseUnknownKey(t *catalog.Table, c *catalog.Column) *text.Error {
	name := "a part of a unique key"
	if c != nil {
		name = c.Name
	}
	return text.NotSupported("UPDATE of %s, where %s is unique, and what it becomes is not known, is not supported (placement anywhere): another shard may have a row of that key. Set the key's columns to literals, or name them in WHERE; or configure check_unique: false for the table", t.Name, name)
}

// looks ask for the rows of an UPDATE's keys. A row of each is on the statement's own shard, if it
// has one, and two are one too many.
func (u *keySearch) looks() []plan.Look {
	var out []plan.Look
	for n, k := range u.sought {
		set := u.b.mayHold(u.Table, k.columns, k.comps)
		if u.route.Len() == 1 && u.route.Contains(set) {
			continue
		}
		var where []string
		for j, c := range k.columns {
			where = append(where, catalog.QuoteName(c.Name)+" = "+u.literal(k.values[j]))
		}
		lock := " FOR SHARE"
		if u.b.cat.MariaDB {
			lock = " LOCK IN SHARE MODE"
		}
		sql := "SELECT 1 FROM " + catalog.QuoteName(u.Table.Schema) + "." + catalog.QuoteName(u.Table.Name) + " WHERE " + strings.Join(where, " AND ") + " LIMIT 1" + lock
		for id := range set.Union(u.route).All {
			out = append(out, plan.Look{Shard: id, SQL: sql, Key: n})
		}
	}
	return out
}

func (u *keySearch) literal(v keys.Value) string {
	return (&text.Statement{Settings: *u.b.settings}).Literal(v)
}

// Duplicate implements Looks.
func (u *keySearch) Duplicate(key int) *text.Error {
	var entry, columns []string
	for j, c := range u.sought[key].columns {
		v := u.sought[key].values[j]
		text, _, ok := v.AsText()
		if !ok {
			text = v.Literal()
		}
		entry, columns = append(entry, text), append(columns, c.Name)
	}
	return text.NewError(mysqlerr.DupEntry, "Duplicate entry '"+strings.Join(entry, "-")+"' for key '"+u.Table.Name+"."+strings.Join(columns, "_")+"'")
}
