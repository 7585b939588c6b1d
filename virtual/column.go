package virtual

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Image is a row of the log; value is a column's as a scan reads it, nil for NULL, ok false where the log lacks it.
type Image interface {
	Column(*catalog.Column) (value []byte, ok bool)
}

// column is a virtual column that is kept. Its fields belong to Engine.mu; who has work may read def, kind, child and
// homes, which change under both.
type column struct {
	// work is held by who builds, measures or consolidates: one at a time.
	work sync.Mutex
	// turns are those of who waits for it to be fresh.
	turns follow.Turns
	// consolidated is when it was last: all that was handed over before that is durable. All that was visible at current
	// is, zero: that isn't known.
	consolidated, current time.Time

	def  *catalog.VirtualColumn
	kind kind
	// built is when it was; tidy: what there was before is removed. work's.
	built time.Time
	tidy  bool

	ready bool
	// watched: another process keeps it, and whole values are kept here. cat is what its definition was read by.
	watched bool
	cat     *catalog.Catalog
	// failed says why it can't be built, anew why it is to be built again.
	failed, anew string
	dropped      bool
	// again is when it is tried again, rest how long it rests after the next failure.
	again time.Time
	rest  time.Duration
	// child are the shards that have the child's rows, homes those with durable values.
	child, homes catalog.ShardSet
	// hot is the hot part, by the shard of the durable value and by key.
	hot map[catalog.ShardID]map[string]*hot
	// kept are whole values, which is as true as the durable ones with what is hot. cleared counts how often all were dropped.
	kept    map[string]*kept
	cleared int
	wanted  wanted
	// reads of one key's value, and how many of them had it kept.
	reads, hits uint64
	// reader is that of the last catalog: see Engine.readerOf.
	reader *reader
	// doubtful are keys whose values aren't known, as literals; those in marked are durably so.
	doubtful map[string]string
	marked   map[string]bool
	// counted are the positions up to which the durable values of a shard count, by the child's shard.
	counted map[catalog.ShardID]positions
	// batch is the number of the last batch of a shard's durable values, tried the last one that there was.
	//
	// Rule no number twice: counter-example: a read is told what batch 7, which is being written without its key, doesn't
	// have. That fails, and the next one has the key: as batch 7 the read would count it twice.
	batch, tried map[catalog.ShardID]uint64
	// writing is what is being written of a shard's durable values.
	writing map[catalog.ShardID]*written
	// noting is told of all changes, nil: nobody measures.
	noting *noting
	// progress of a build: shards done.
	done int
}

// positions in the logs of shards.
type positions map[catalog.ShardID]follow.Place

func (p positions) covers(id catalog.ShardID, of follow.Position) bool {
	at, known := p[id]
	return known && at.Covers(of)
}

// hot is what is to be added to a durable value, or to replace it.
type hot struct {
	key   string // a literal
	add   amount
	whole bool
}

// effect is what one transaction has done to a key.
type effect struct {
	key   string
	add   amount
	doubt bool
}

// noting keeps the effects of transactions while rows are measured.
type noting struct {
	only map[string]bool // nil: of all keys
	of   map[string][]noted
	n    int
	// broken is why what is noted isn't all that has changed.
	broken string
}

type noted struct {
	on   catalog.ShardID
	gtid follow.Position
	effect
}

// reader takes row images apart for a column, by the catalog of the moment.
type reader struct {
	c        *column
	def      *catalog.VirtualColumn
	kind     kind
	of       catalog.ShardSet // those with durable values
	key, arg *catalog.Column
	order    *catalog.Column   // of Last and First
	uses     []*catalog.Column // that the definition names, of the child
	filters  []filter          // none where only the shards can say which rows count
	child    *catalog.Table
	parent   *catalog.Table
	codec    *keys.Codec // of the parent's key
	cat      *catalog.Catalog
	beside   bool
	// spread: the child's rows are spread by their key, as those of the key's type are.
	spread bool
}

// named finds the columns in a definition's conditions.
var named = regexp.MustCompile(catalog.ChildMark + "\\.`((?:[^`]|``)+)`")

// touches are the shards that its rows and its durable values are on.
func (c *column) touches() catalog.ShardSet { return c.child.Union(c.homes) }

// newReader is nil where the catalog lacks what the column is about. Callers have the column's work, or Engine.mu.
func newReader(c *column, cat *catalog.Catalog) *reader {
	of, child := cat.Table(c.def.Of.Schema, c.def.Of.Name), cat.Table(c.def.Child.Schema, c.def.Child.Name)
	if of == nil || child == nil {
		return nil
	}
	r := &reader{c: c, def: c.def, child: child, parent: of, kind: c.kind, of: c.homes, key: child.Column(c.def.ChildKey), cat: cat, beside: c.def.Beside(of) && of.Placement == catalog.Hash}
	for _, m := range named.FindAllStringSubmatch(c.def.Where, -1) {
		used := child.Column(strings.ReplaceAll(m[1], "``", "`"))
		if used == nil {
			return nil
		}
		r.uses = append(r.uses, used)
	}
	parent := of.Column(c.def.Key)
	if c.def.Argument != "" {
		if r.arg = child.Column(c.def.Argument); r.arg == nil {
			return nil
		}
		r.uses = append(r.uses, r.arg)
	}
	if c.def.Ordered() {
		if r.order = child.Column(c.def.Order); r.order == nil {
			return nil
		}
		r.uses = append(r.uses, r.order)
	}
	if r.key == nil || parent == nil {
		return nil
	}
	r.filters = filtersOf(c.def, child, cat.MariaDB)
	codec, err := keys.For(parent.Type, parent.Charset, parent.Collation, cat.MariaDB)
	if err != nil {
		return nil
	}
	r.codec = codec
	r.spread = child.Placement == catalog.Hash && child.ShardKey == r.key && r.key.Type == parent.Type && r.key.Collation == parent.Collation
	return r
}

// moved reports that the tables are on other shards than those that the column's values are of.
//
// Counter-example: a shard is added while all serve, and gets rows that no value has.
func (r *reader) moved() bool { return r.child.Shards != r.c.child || r.parent.Shards != r.c.homes }

// keyOf is a key by which equal values are equal, and its literal. ok is false for what no row of the parent has: NULL,
// or a value outside of its type.
func (r *reader) keyOf(raw []byte) (key, literal string, ok bool) {
	if raw == nil {
		return "", "", false
	}
	k, ok := r.codec.Scanned(nil, raw)
	if !ok {
		return "", "", false
	}
	switch base := r.key.BaseType(); {
	case catalog.IsInteger(base):
		return string(k), string(raw), true
	case base == "binary", base == "varbinary":
		return string(k), keys.Hex(raw).Literal(), true
	}
	return string(k), keys.String(raw, "utf8mb4").Literal(), true
}

// homes are the shards of a key's durable value.
func (r *reader) homes(key string) catalog.ShardSet {
	if r.beside {
		return catalog.Only(r.cat.ShardOf([]byte(key)))
	}
	return r.of
}

// rowsOn are the shards that may have rows of what is read. Callers hold Engine.mu.
func (e *Engine) rowsOn(c *column, read catalog.VirtualRead) catalog.ShardSet {
	if read.Key != nil {
		if r := e.readerOf(c); r != nil && r.spread {
			return catalog.Only(r.cat.ShardOf(read.Key))
		}
	}
	return c.child
}

// part is what a row's image tells of the row's part in the column.
type part struct {
	there        bool // the row is
	key, literal string
	keyed        bool // it has a key
	known        bool // the image has its key
	add          amount
	counted      bool // add is known
}

func (r *reader) part(img Image) (p part) {
	if img == nil {
		return part{known: true, counted: true}
	}
	p.there = true
	raw, ok := img.Column(r.key)
	if !ok {
		return p
	}
	p.known = true
	if p.key, p.literal, p.keyed = r.keyOf(raw); !p.keyed {
		p.counted = true
		return p
	}
	if r.def.Filtered {
		switch passes, sure := r.passes(img); {
		case !sure: // the shards say
			return p
		case !passes: // as if there were no row
			return part{known: true, counted: true}
		}
	}
	if r.arg == nil {
		p.add, p.counted = amount{n: 1}, true
		return p
	}
	value, ok := img.Column(r.arg)
	if !ok || r.kind.zoned {
		return p
	}
	var order []byte
	if r.order != nil {
		if order, ok = img.Column(r.order); !ok {
			return p
		}
	}
	n := int64(0)
	if value != nil || r.order != nil {
		n = 1
	}
	a, err := r.kind.read(n, value, order)
	p.add, p.counted = a, err == nil
	return p
}

// change takes in a change of a row; ok is false where its key isn't known.
func (r *reader) change(effects map[string]*effect, before, after Image) (ok bool) {
	is := after
	if before != nil && after != nil {
		is = updated{before, after, r.child}
		if r.untouched(before, after) {
			return true
		}
		if r.def.Aggregate == catalog.CountRows && !r.def.Filtered {
			if _, set := after.Column(r.key); !set && !r.child.Changed(r.key, before.Column, after.Column) {
				return true // the key is as it was
			}
		}
	}
	was, now := r.part(before), r.part(is)
	if !was.known || !now.known {
		return false
	}
	put := func(p part, gone bool) {
		if !p.there || !p.keyed {
			return
		}
		e := effects[p.key]
		if e == nil {
			e = &effect{key: p.literal}
			effects[p.key] = e
		}
		add, sure := p.add, p.counted
		if gone && sure {
			add, sure = r.kind.minus(p.add)
		}
		if !sure {
			e.doubt = true
			return
		}
		e.add = r.kind.plus(e.add, add)
	}
	if was.there && now.there && was.key == now.key && was.keyed && was.counted && now.counted && r.kind.same(was.add, now.add) {
		return true
	}
	put(was, true)
	put(now, false)
	return true
}

// untouched reports an update that leaves all that the definition names as it was.
func (r *reader) untouched(before, after Image) bool {
	return !slices.ContainsFunc(r.uses, func(c *catalog.Column) bool { return r.child.Changed(c, before.Column, after.Column) })
}

func (k kind) same(a, b amount) bool {
	return a.n == b.n && a.has == b.has && a.text == b.text && (a.row == nil) == (b.row == nil) && bytes.Equal(a.row, b.row) && (a.num == nil) == (b.num == nil) && (a.num == nil || a.num.Cmp(b.num) == 0)
}

// sameValue compares amounts of all rows of a key. Of no rows, there is no value: the sum of those that have gone is 0.
func (k kind) sameValue(a, b amount) bool { return a.n == 0 && b.n == 0 || k.same(a, b) }

// updated is a row after an update: what its image lacks is as it was, unless it may have changed.
type updated struct {
	before, after Image
	of            *catalog.Table
}

func (u updated) Column(c *catalog.Column) ([]byte, bool) {
	return u.of.Updated(c, u.before.Column, u.after.Column)
}

// take adds the effects of a transaction; watches: to whole values alone. Callers hold Engine.mu.
func (c *column) take(r *reader, on catalog.ShardID, gtid follow.Position, effects map[string]*effect, watches bool) {
	for key, e := range effects {
		if c.noting != nil && (c.noting.only == nil || c.noting.only[key]) {
			c.noting.of[key] = append(c.noting.of[key], noted{on, gtid, *e})
			c.noting.n++
		}
		if c.building() { // it begins by what is noted
			continue
		}
		if watches {
			c.see(key, e)
			continue
		}
		if _, doubtful := c.doubtful[key]; doubtful {
			continue
		}
		for home := range r.homes(key).All {
			if c.counted[home].covers(on, gtid) {
				continue // it was consolidated in an earlier life
			}
			if e.doubt {
				c.doubt(key, e.key)
				break
			}
			c.add(home, key, e.key, e.add)
			if k := c.kept[key]; k != nil { // it has one home
				k.value = c.kind.plus(k.value, e.add)
				k.changes++
			}
		}
	}
}

// building reports that the rows of all keys are being measured. Callers hold Engine.mu.
func (c *column) building() bool { return c.noting != nil && c.noting.only == nil }

// overfull is why a column has to be built anew, for it has more than may be held; else "". Callers hold Engine.mu.
func (c *column) overfull(most int) string {
	if c.size() > most || c.building() && c.noting.n > notesMost*most {
		return "more values have changed than are held in memory"
	}
	return ""
}

// notesMost is how many times as much a build may note as is held at other times.
const notesMost = 8

// doubt has a key measured. What is hot of it stays: who waited for less than what has made it doubtful reads that.
func (c *column) doubt(key, literal string) {
	c.doubtful[key] = literal
	delete(c.marked, key)
	delete(c.kept, key)
}

// add adds to a key's hot part.
func (c *column) add(home catalog.ShardID, key, literal string, a amount) {
	of := c.hot[home]
	if of == nil {
		of = map[string]*hot{}
		c.hot[home] = of
	}
	h := of[key]
	if h == nil {
		h = &hot{key: literal}
		of[key] = h
	}
	h.add = c.kind.plus(h.add, a)
}

// size is how many values are in the hot part.
func (c *column) size() (n int) {
	for _, of := range c.hot {
		n += len(of)
	}
	return n + len(c.doubtful)
}

// idle reports that the durable values lack nothing that was handed over.
func (c *column) idle() bool { return c.size() == 0 && len(c.writing) == 0 }

// clear forgets all that is known.
func (c *column) clear() {
	c.writing, c.batch, c.tried = map[catalog.ShardID]*written{}, map[catalog.ShardID]uint64{}, map[catalog.ShardID]uint64{}
	c.hot, c.doubtful, c.marked, c.counted = map[catalog.ShardID]map[string]*hot{}, map[string]string{}, map[string]bool{}, map[catalog.ShardID]positions{}
	c.noting, c.current = nil, time.Time{}
	c.kept, c.wanted = map[string]*kept{}, wanted{}
	c.cleared++
}

// sorted are the keys of a map, in order.
func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
