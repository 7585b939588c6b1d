package planner

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// planCache keeps plans by the shape of their statement, so that a statement
// whose shape was met before is bound without being parsed.
//
// The plan of a shape is that of its text with parameters for the literals that
// were cut out, made as for a prepared statement; planning treats a literal and a
// parameter of a known class alike (operand). What a plan depends on is in its
// key, byte by byte: the rest of the text, the literals' kinds, the Settings, and
// the catalog by its identity.
//
// Rule own text: a plan serves only where it is routed or merged, and what is
// sent is the client's text again, derived texts with the literals put back
// (BindShape). Anything else is planned anew with its literals: what is refused,
// whose message may quote them, what is gathered, what has its rows tried (Meets), and
// what asks for its session.
// Counter-example: a gather's copies are filled by conditions that are cut out of
// the text, where a ? has no value.
//
// Rule one catalog: a cache holds plans of one snapshot, and a newer one empties
// it. Old plans would keep old snapshots in memory. Sessions that have temporary
// tables, and so a catalog of their own, don't use it.
//
// Rule second look: a shape is planned when it is met for the second time. Texts
// whose literals can't be cut out are a shape each, and would fill the cache.
type planCache struct {
	current atomic.Pointer[cacheGeneration]
	entries atomic.Int64
	lastID  atomic.Uint64
}

const (
	cacheSets = 512
	cacheWays = 8
	// cacheLarge of the ways are for plans of more than fewLiterals, which take up to 80 KiB each.
	cacheLarge  = 2
	fewLiterals = 32
	// cacheSeen bounds the shapes that are remembered to have been met once.
	cacheSeen = 1 << 14
)

// cacheGeneration holds the plans of one catalog.
type cacheGeneration struct {
	cat  *catalog.Catalog
	seen [cacheSeen]atomic.Uint32
	sets [cacheSets]cacheSet
}

// cacheSet holds plans whose hash ends alike. Readers take no lock.
type cacheSet struct {
	mu   sync.Mutex // held to change ways
	ways [cacheWays]atomic.Pointer[cachedPlan]
	hand int
}

// cachedPlan is the plan of a shape; rows is nil where its statements have to be
// planned one by one.
type cachedPlan struct {
	id          uint64 // of each one another
	hash        uint64
	text, kinds string
	settings    text.Settings
	rows        *plan.Rows
	// namesVirtual: its statements may name virtual columns; virtual is for those that read them by their keys.
	namesVirtual bool
	virtual      *VirtualShape
	used         atomic.Bool // since the hand came by
}

func (e *cachedPlan) fits(sh *Shape) bool {
	return e.hash == sh.hash && sh.is(e.text, e.kinds) && e.settings == *sh.settings
}

// use notes that the plan is being used.
func (e *cachedPlan) use() *cachedPlan {
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

// CachedPlans is the number of plans kept by shape.
func (p *Planner) CachedPlans() int { return int(p.cache.entries.Load()) }

// Find is the plan of a statement's shape, made if need be; nil where the
// statement is to be planned by itself. It is bound by BindShape.
//
// REQUIRES: cat is a published snapshot, none that a session has for itself.
func (p *Planner) Find(sh *Shape, cat *catalog.Catalog) *plan.Rows {
	if e := p.find(sh, cat); e != nil {
		return e.rows
	}
	return nil
}

// kept is what there is already for a shape.
func (p *Planner) kept(sh *Shape, cat *catalog.Catalog) *cachedPlan {
	g := p.cache.current.Load()
	if g == nil || g.cat != cat {
		return nil
	}
	if sh.plan != nil && sh.generation == g {
		return sh.plan.use()
	}
	set := &g.sets[sh.hash%cacheSets]
	for i := range set.ways {
		if e := set.ways[i].Load(); e != nil && e.fits(sh) {
			sh.remember(e, sh.hash%cacheSets, i)
			return e.use()
		}
	}
	return nil
}

// find is Find with all that is kept for a shape.
func (p *Planner) find(sh *Shape, cat *catalog.Catalog) *cachedPlan {
	g := p.cache.current.Load()
	if g == nil || g.cat != cat {
		if g = p.cache.turn(g, cat); g == nil {
			return nil
		}
	}
	if e := p.kept(sh, cat); e != nil {
		return e
	}
	if mark := uint32(sh.hash>>32) | 1; g.seen[sh.hash/cacheSets%cacheSeen].Swap(mark) != mark {
		return nil
	}
	e := &cachedPlan{id: p.cache.lastID.Add(1), hash: sh.hash, text: sh.text(), kinds: sh.kinds(), settings: *sh.settings}
	e.rows = p.planShape(e, cat)
	if e.namesVirtual = !e.settings.Virtual && spoken.MayNameVirtual(e.text, cat); e.namesVirtual {
		e.virtual = p.virtualShape(e, cat)
	}
	e, grown := g.sets[sh.hash%cacheSets].add(e, sh)
	if grown {
		p.cache.entries.Add(1)
	}
	return e
}

// FindText is Find for a text as it is, parameters and all, as it is prepared: a plan
// that Plan would give, or nil.
func (p *Planner) FindText(sql string, s *text.Settings, cat *catalog.Catalog) *plan.Rows {
	if len(sql) > maxShape {
		return nil
	}
	sh := Shape{sql: sql, settings: s}
	sh.sum()
	return p.Find(&sh, cat)
}

// turn begins a new generation for a newer catalog; nil where cat is an older one
// than the cache's.
func (c *planCache) turn(old *cacheGeneration, cat *catalog.Catalog) *cacheGeneration {
	if old != nil && cat.Version < old.cat.Version {
		return nil
	}
	g := &cacheGeneration{cat: cat}
	if !c.current.CompareAndSwap(old, g) {
		return nil
	}
	c.entries.Store(0)
	return g
}

// add keeps a plan in place of one that wasn't used lately; grown: in that of
// none. Where another session has added one meanwhile, that is the one.
func (s *cacheSet) add(e *cachedPlan, sh *Shape) (kept *cachedPlan, grown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, ways := -1, cacheWays
	if max(len(e.kinds), strings.Count(e.text, "?")) > fewLiterals {
		ways = cacheLarge
	}
	for i := range s.ways {
		switch old := s.ways[i].Load(); {
		case old == nil && i < ways:
			free = i
		case old == nil:
		case old.fits(sh):
			return old, false
		}
	}
	if free >= 0 {
		s.ways[free].Store(e)
		return e, true
	}
	for {
		s.hand = (s.hand + 1) % ways
		if at := &s.ways[s.hand]; !at.Load().used.Swap(false) {
			at.Store(e)
			return e, false
		}
	}
}

// planShape plans a shape's text; nil where it can't serve for its statements.
func (p *Planner) planShape(e *cachedPlan, cat *catalog.Catalog) *plan.Rows {
	// What the session has to be asked for is written into each text.
	read := spoken.Read(e.text, e.settings, cat)
	text, err := read.ForSession(func(string) string { return "" })
	if err != nil || text != e.text {
		return nil
	}
	planned, err := p.planText(read, e.kinds)
	if err != nil {
		return nil
	}
	rows, ok := planned.(*plan.Rows)
	if !ok || rows.Params != len(e.kinds) || rows.Lock != nil || rows.Meets != nil || rows.Constants != nil || rows.Copy != nil {
		return nil
	}
	switch bindableOf(rows).action.(type) {
	case *selectAction, *insertAction, *writeAction:
		bindableOf(rows).shape = e.text
		return rows
	}
	return nil
}

// BindShape is Bind, or from a first value on BindGenerated, for a plan that Find
// gave for a shape, to the Values that were read last, and without a Reason. ok is
// false where the statement has to be planned with its literals. The Bound is as
// good as one of a Binding.
func (p *Planner) BindShape(r *plan.Rows, sh *Shape, ix plan.Indexes, first uint64) (b *plan.Bound, ok bool) {
	binder := sh.binding.begin(r, sh.values, ix)
	binder.next, binder.ungathered = first, true
	return sh.bind(r, binder)
}

func (sh *Shape) bind(r *plan.Rows, in *binder) (b *plan.Bound, ok bool) {
	b, err := bindRows(r, in)
	if err != nil || b.Refuse != nil || b.Gather != nil || b.System != nil {
		return nil, false
	}
	shape, text := "", ""
	var places []int
	for i := range b.Statements {
		st := &b.Statements[i]
		switch {
		case st.Params == nil && st.SQL == bindableOf(r).shape:
			text = sh.commented(sh.sql)
		case i == 0 || st.SQL != shape || (st.Params == nil) != (places == nil) || !slices.Equal(st.Params, places):
			shape, places = st.SQL, st.Params
			if text, ok = sh.filled(shape, places); !ok {
				return nil, false
			}
		}
		st.SQL, st.Params = text, nil
	}
	return b, true
}

// filled puts literals back into a derived text: places says which, nil for all
// in their order.
func (sh *Shape) filled(src string, places []int) (string, bool) {
	var b strings.Builder
	b.Grow(len(sh.sql) + len(src))
	lx := text.NewLexer(src, *sh.settings, text.ServerVersion{})
	from, n := 0, 0
	for {
		t := lx.Next()
		switch t.Kind {
		case text.EOF:
			b.WriteString(src[from:])
			return sh.commented(b.String()), n == len(places) || places == nil && n == len(sh.literals)
		case text.Bad:
			return "", false
		case text.Param:
			at := n
			if places != nil {
				if n == len(places) {
					return "", false
				}
				at = places[n]
			}
			if at >= len(sh.literals) {
				return "", false
			}
			l := &sh.literals[at]
			b.WriteString(src[from:t.Start])
			b.WriteString(sh.sql[l.start:l.end])
			from = int(t.End)
			n++
		default:
		}
	}
}
