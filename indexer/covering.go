package indexer

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// CreateCovering is CreateIndex of one that keeps answers: of reads that need its columns, the primary key's and those of
// include.
func (x *Indexer) CreateCovering(ctx context.Context, schema, table, name string, columns, include []string, partitions int) error {
	return x.create(ctx, catalog.IndexDef{Schema: schema, Table: table, Name: name, Columns: columns, Include: include, Partitions: partitions})
}

// coverable returns the included columns by the names that the table has for them.
func (x *Indexer) coverable(ctx context.Context, t *catalog.Table, include []string) (names []string, err error) {
	switch {
	case x.opts.Answers == nil && x.opts.Everyone != nil:
		return nil, fmt.Errorf("INCLUDE is not supported where several Shunts have one store: none knows what is written through the others")
	case x.opts.Answers == nil:
		return nil, fmt.Errorf("INCLUDE needs the shards' binary logs to be followed (maintenance.follow: binlog or auto), and memory for answers (kept_answers)")
	case t.Early:
		return nil, fmt.Errorf("INCLUDE is not supported for table %s: its engine shows rows before they are in the binary log", t.Name)
	}
	x.awaitFollowed(ctx, t.Shards)
	live := x.followers.live(t.Shards)
	for id := range t.Shards.Minus(live).All {
		if x.opts.Following.Has(id) {
			if err := x.opts.Logs.Fit(ctx, id); err != nil {
				return nil, fmt.Errorf("INCLUDE needs the binary log of shard %s to be followed: %w", x.shardName(id), err)
			}
		}
		return nil, fmt.Errorf("INCLUDE needs the binary log of shard %s to be followed, which it isn't: see SHOW SHARDS", x.shardName(id))
	}
	for i, name := range include {
		c := t.Column(name)
		switch {
		case c == nil:
			return nil, fmt.Errorf("table %s has no column %s", t.Name, name)
		case c.Varies:
			return nil, fmt.Errorf("column %s can't be included: it is VIRTUAL, and what it is depends on the session that reads it; make it STORED", name)
		case slices.ContainsFunc(include[:i], func(have string) bool { return strings.EqualFold(have, name) }):
			return nil, fmt.Errorf("column %s is included twice", name)
		}
		names = append(names, c.Name)
	}
	return names, nil
}

// reaches are the covering indexes of the tables whose rows a write to some table may change, by that.
type reaches struct {
	cat *catalog.Catalog
	any bool
	of  map[*catalog.Table][]*catalog.Index
}

// reached are the covering indexes over rows that a write to a table may change: by its triggers and foreign keys, too.
func (x *Indexer) reached(t *catalog.Table) []*catalog.Index {
	cat := x.opts.Catalog()
	r := x.covering.Load()
	if r == nil || r.cat != cat {
		r = &reaches{cat: cat, of: map[*catalog.Table][]*catalog.Index{}}
		for t := range cat.Tables() {
			if reached := coveringOf(t); len(reached) > 0 {
				r.any, r.of[t] = true, reached
			}
		}
		x.covering.Store(r)
	}
	if !r.any {
		return nil
	}
	if is := cat.Table(t.Schema, t.Name); is != t { // it is planned by another catalog
		return append(coveringOf(t), r.of[is]...)
	}
	return r.of[t]
}

func coveringOf(t *catalog.Table) (out []*catalog.Index) {
	catalog.SetOff(t, map[*catalog.Table]bool{}, func(t *catalog.Table) {
		for _, ix := range t.Indexes {
			if len(ix.Include) > 0 {
				out = append(out, ix)
			}
		}
	})
	return out
}

// Writes has exact reads by covering indexes wait, from now on, for a statement that is sent to shards. It comes before Prepare.
func (o *Open) Writes(c *plan.Change, shards catalog.ShardSet) {
	x := o.x
	if x.opts.Answers == nil {
		return
	}
	write := func(t *catalog.Table) {
		for _, ix := range x.reached(t) {
			if touches, keys := c.Touches(ix); touches {
				o.writes = x.opts.Answers.Write(o.writes, ix, keys, shards)
			}
		}
	}
	for _, t := range c.Tables {
		write(t)
	}
	for i := range c.Adds {
		if t := c.Adds[i].Index.Table; !slices.Contains(c.Tables, t) {
			write(t)
		}
	}
	for i := range c.Marks {
		if t := c.Marks[i].Index.Table; !slices.Contains(c.Tables, t) {
			write(t)
		}
	}
}

// cover tells the kept answers of a change of a row, and of a table's rows in doubt.
func (f *follower) cover(t *catalog.Table, c RowChange) {
	if f.answers == nil {
		return
	}
	for _, ix := range t.Indexes {
		if len(ix.Include) == 0 {
			continue
		}
		r := f.reading(ix)
		if r == nil {
			f.answers.Doubt(ix)
			continue
		}
		was, is := r.of(c.Before), r.of(c.now(t))
		if was.how == partly || is.how == partly || was.how == odd || is.how == odd {
			f.answers.Doubt(ix)
			continue
		}
		if was.how == is.how && bytes.Equal(was.key, is.key) && untouched(ix, c) {
			continue
		}
		if was.how == keyed {
			f.answers.Change(ix, was.key)
		}
		if is.how == keyed && (was.how != keyed || !bytes.Equal(was.key, is.key)) {
			f.answers.Change(ix, is.key)
		}
	}
}

// untouched reports an update that leaves all columns as they were for which the index's answers are kept.
func untouched(ix *catalog.Index, c RowChange) bool {
	if c.Before == nil || c.After == nil {
		return false
	}
	for _, col := range ix.Table.Columns {
		if !ix.Answers(col) {
			continue
		}
		was, known := c.Before.Column(col)
		is, set := c.After.Column(col)
		if known != set || (was == nil) != (is == nil) || !bytes.Equal(was, is) {
			return false
		}
		if !known && col.Generated { // no log has it
			return false
		}
	}
	return true
}

// uncover tells the kept answers that any rows of tables may have changed.
func (f *follower) uncover(t *catalog.Table) {
	if f.answers == nil {
		return
	}
	for _, ix := range t.Indexes {
		if len(ix.Include) > 0 {
			f.answers.Doubt(ix)
		}
	}
}

// Defined is Reader's.
func (f *follower) Defined(tables []catalog.TableName) {
	c := f.x.opts.Catalog()
	if f.answers == nil || c == nil {
		return
	}
	for _, name := range tables {
		if name.Name != "" {
			if t := f.indexed(name); t != nil {
				f.uncover(t)
			}
			continue
		}
		for t := range c.Tables() {
			if name.Schema == "" || strings.EqualFold(name.Schema, t.Schema) {
				f.uncover(t)
			}
		}
	}
}

// Stopped is Reader's.
func (f *follower) Stopped() {
	if f.answers != nil {
		f.answers.Stopped()
	}
}

// answersOf begins to tell the kept answers of a shard's log; nil: none are kept.
func (x *Indexer) answersOf(id catalog.ShardID) *cover.Stream {
	if x.opts.Answers == nil {
		return nil
	}
	s := x.opts.Answers.Follow(id)
	s.Resumed()
	return s
}
