package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Meets is a REPLACE, INSERT IGNORE or INSERT ... ON DUPLICATE KEY UPDATE into a
// table placed anywhere, or of rows whose shard key is counted (see
// insertAction.countsKey). What becomes of a row depends on whether it meets one
// with the same unique key, which may be on any shard: each row is tried as a
// plain INSERT on all of them, which is then undone, and goes to the shard where
// it met one, or to that of a new row.
//
// Counter-example: REPLACE INTO legacy (id) VALUES (5) where row 5 is on another
// shard than new rows with id 5 go to. Sent there, both would stay.
type Meets struct {
	act *insertAction
	// Table is where the rows go.
	Table *catalog.Table
	// Ignore: rows that meet one are left out. Replace: they take its place, so that one whose
	// shard key is counted needs a value that belongs to that one's shard.
	Ignore, Replace bool
}

// Rows are the statement's rows, each as a statement of its own.
func (m *Meets) Rows(params []keys.Value) []string {
	i, st := m.act, m.act.st
	if len(i.rows) == 1 {
		return []string{st.written(0, uint32(len(st.src)), params)}
	}
	out := make([]string, len(i.rows))
	head, tail := st.written(0, i.head, params), st.written(i.tail, uint32(len(st.src)), params)
	for k, r := range i.rows {
		out[k] = head + st.written(r.span.start, r.span.end, params) + tail
	}
	return out
}

// BindRow is Bind for one of Meets.Rows, for the shard where it goes; nil: where
// a new row would. first is the AUTO_INCREMENT value to give it, if it needs one.
func (p *Planner) BindRow(r *Rows, ix Indexes, first uint64, at *catalog.ShardID) (*Bound, error) {
	return r.action.bind(&binder{cat: r.Catalog, settings: r.settings, ix: ix, next: first, at: at, placing: true})
}

// Trial is the plain INSERT of a row by a statement of Meets.
func Trial(sql string, s Settings, cat *catalog.Catalog) (string, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil {
		return "", err
	}
	alias, span := st.rowAlias()
	end := uint32(len(sql))
	for i := range st.outside(0, len(st.toks)) {
		if st.is(i, "on") && st.is(i+1, "duplicate") {
			end = min(end, st.toks[i].start)
		}
	}
	if alias != nil {
		end = min(end, span[0])
	}
	verb := st.toks[0]
	return sql[:verb.start] + "INSERT" + strings.TrimRight(sql[verb.end:end], " \n\t"), nil
}

// meets is set where rows must be tried; nil where the statement is as any other.
func (i *insertAction) meets() *Meets {
	if !i.tries() || i.fused {
		return nil
	}
	return &Meets{act: i, Table: i.table, Ignore: i.ignore, Replace: i.replace}
}

func (i *insertAction) tries() bool {
	if i.table.Shards.Len() == 1 || !i.replace && !i.ignore && i.update == nil {
		return false
	}
	return i.table.Placement == catalog.Anywhere || i.countsKey()
}

// countsKey: Shunt counts the shard key of all rows, so that the row of another
// unique key that one meets may be on any shard. Rows that meet none go by their
// new shard key. Triggers' tables aren't tried so: the duplicate may be of another
// table, and the row would be inserted where its shard key doesn't say.
//
// Counter-example: INSERT INTO users (email) VALUES ('a') ON DUPLICATE KEY UPDATE
// seen = seen + 1, where the user with that email has another id, on another shard.
func (i *insertAction) countsKey() bool {
	t := i.table
	if t.Placement != catalog.Hash || i.auto == nil || i.auto.col != t.ShardKey {
		return false
	}
	for _, x := range t.Triggers {
		if x.Event == "INSERT" {
			return false
		}
	}
	for k := range i.rows {
		if o := i.value(&i.rows[k], t.ShardKey); o.kind != defaulted && !o.isNull() {
			return false
		}
	}
	return slices.ContainsFunc(t.Unique, func(u []*catalog.Column) bool { return !slices.Contains(u, t.ShardKey) })
}

// untried refuses to bind what must be tried first, and what a trial doesn't see.
//
// Counter-example: INSERT INTO legacy (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 2
// where row 2 is on another shard than row 1.
func (i *insertAction) untried(b *binder) *Error {
	if !i.tries() {
		return nil
	}
	if i.update != nil {
		for _, s := range i.update {
			if i.table.Placement == catalog.Hash && s.col == i.table.ShardKey && !s.self {
				return notSupported("changing the shard key %s.%s by ON DUPLICATE KEY UPDATE is not supported: the row would have to move to another shard", i.table.Name, s.col.Name)
			}
			for _, u := range i.table.Unique {
				if slices.Contains(u, s.col) && !s.self && s.inserted != s.col {
					return notSupported("ON DUPLICATE KEY UPDATE of %s.%s, which is unique, is not supported: the row that it meets may be on any shard%s, and another may have the new value; use UPDATE", i.table.Name, s.col.Name, i.anywhere())
				}
			}
		}
	}
	if b.placing {
		return nil
	}
	what := "INSERT IGNORE"
	switch {
	case i.replace:
		what = "REPLACE"
	case i.update != nil:
		what = "ON DUPLICATE KEY UPDATE"
	}
	return notSupported("%s into %s is not supported in this form: the row that it meets may be on any shard%s; use UPDATE or DELETE, then INSERT", what, i.table.Name, i.anywhere())
}

// anywhere says in a refusal why.
func (i *insertAction) anywhere() string {
	if i.table.Placement == catalog.Anywhere {
		return " (placement anywhere)"
	}
	return ""
}
