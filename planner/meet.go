package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// BindRow is Bind for one of Meets.Rows, for the shard where it goes; nil: where
// a new row would. first is the AUTO_INCREMENT value to give it, if it needs one.
func (p *Planner) BindRow(r *plan.Rows, ix plan.Indexes, first uint64, at *catalog.ShardID) (*plan.Bound, error) {
	b := newBinder(r, nil, ix)
	b.next, b.at, b.placing = first, at, true
	return bindAction(bindableOf(r).action, b)
}

// LooksBehind reports that a row which met some shards' is to be tried once more when it is written,
// on the other shards: a new one, or one that has taken another's place with other keys. several: so have to be rows
// whose shard key is counted.
func LooksBehind(m *plan.Meets, met catalog.ShardSet, several bool) bool {
	return (apart(m.Table) || several && m.Table.Placement == catalog.Hash) && (met.Empty() || m.Replace)
}

// Trial is the plain INSERT of a row by a statement of Meets.
func Trial(sql string, s text.Settings, cat *catalog.Catalog) (string, error) {
	st, err := text.Read(sql, s, cat)
	if err != nil {
		return "", err
	}
	alias, span := findRowAlias(st)
	end := uint32(len(sql))
	for i := range st.Outside(0, len(st.Tokens)) {
		if st.Is(i, "on") && st.Is(i+1, "duplicate") {
			end = min(end, st.Tokens[i].Start)
		}
	}
	if alias != nil {
		end = min(end, span[0])
	}
	return trial(sql[:end], st.Tokens[0], cat.MariaDB), nil
}

// trial makes a plain INSERT of a statement, which begins with a verb.
//
// Rule no parents: a foreign key may be looked at before the unique key is, and the row's
// parent be on the row's own shard.
func trial(sql string, verb text.Token, mariaDB bool) string {
	rest := strings.TrimRight(sql[verb.End:], " \n\t")
	if mariaDB {
		return "SET STATEMENT foreign_key_checks = 0 FOR " + sql[:verb.Start] + "INSERT" + rest
	}
	return sql[:verb.Start] + "INSERT /*+ SET_VAR(foreign_key_checks = 0) */" + rest
}

// meets is set where rows must be tried; nil where the statement is as any other.
func (i *insertAction) meets() *plan.Meets {
	if !i.tries() || i.fused {
		return nil
	}
	m := &plan.Meets{Statement: i.st, Head: i.head, Tail: i.tail, Table: i.table, Ignore: i.ignore, Replace: i.replace}
	for k := range i.rows {
		m.Spans = append(m.Spans, [2]uint32{i.rows[k].span.Start, i.rows[k].span.End})
	}
	return m
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
		if o := i.value(&i.rows[k], t.ShardKey); o.Kind != text.Default && !o.IsNull() {
			return false
		}
	}
	return slices.ContainsFunc(t.Unique, func(u []*catalog.Column) bool { return !slices.Contains(u, t.ShardKey) })
}

// untried refuses to bind what must be tried first, and what a trial doesn't see.
//
// Counter-example: INSERT INTO legacy (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 2
// where row 2 is on another shard than row 1.
func (i *insertAction) untried(b *binder) *text.Error {
	if !i.tries() {
		return nil
	}
	if i.update != nil {
		for _, s := range i.update {
			if i.table.Placement == catalog.Hash && s.col == i.table.ShardKey && !s.self {
				return text.NotSupported("changing the shard key %s.%s by ON DUPLICATE KEY UPDATE is not supported: the row would have to move to another shard", i.table.Name, s.col.Name)
			}
			for _, u := range i.table.Unique {
				if slices.Contains(u, s.col) && !s.self && s.inserted != s.col {
					return text.NotSupported("ON DUPLICATE KEY UPDATE of %s.%s, which is unique, is not supported: the row that it meets may be on any shard%s, and another may have the new value; use UPDATE", i.table.Name, s.col.Name, i.anywhere())
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
	return text.NotSupported("%s into %s is not supported in this form: the row that it meets may be on any shard%s; use UPDATE or DELETE, then INSERT", what, i.table.Name, i.anywhere())
}

// anywhere says in a refusal why.
func (i *insertAction) anywhere() string {
	if i.table.Placement == catalog.Anywhere {
		return " (placement anywhere)"
	}
	return ""
}
