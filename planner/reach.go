package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// reach is where the rows of one reference that count may be.
type reach struct {
	set catalog.ShardSet
	// used says by what the set was bounded.
	used []access
	// doubts say why what looks like a bound was not used.
	doubts []string
}

// shardKeyAccess is the Access of what is found by the shard key.
const shardKeyAccess = "shard_key"

// access is one bound that was used.
type access struct {
	index *catalog.Index // nil: shard key
	how   string         // shardKeyAccess, index:NAME, or single for a condition that is never true
	text  string
	// probe is the one full key that was looked up, if it was one.
	probe []plan.Probe
	// spread is a key to choose a shard by where no shard is left.
	spread []byte
	// never: the condition is true for no row.
	never bool
}

// reach evaluates a reference's conditions once.
func (b *binder) reach(r *ref) reach {
	for i := range b.reached {
		if b.reached[i].ref == r {
			return b.reached[i].reach
		}
	}
	var out reach
	switch {
	case r.table == nil:
	case r.table.IsView:
		// Where it was made says nothing of where its rows are.
		out.set = b.cat.All
	case r.table.Placement == catalog.Reference:
	case r.table.Placement == catalog.Single:
		out.set = r.table.Shards
	default:
		b.labels = r.labels
		if r.several {
			out = b.evalSeveral(r.table, r.tree)
		} else {
			out = b.eval(r.table, r.tree)
		}
	}
	if r.derived != nil {
		out = b.derivedReach(out, r.derived)
	}
	b.reached = append(b.reached, reached{r, out})
	return out
}

// momentTries bounds how often several keys are looked up while entries are removed.
const momentTries = 3

// evalSeveral is eval of a tree by which an index may be asked for several keys, as of one
// moment (plan.Indexes.Removals).
func (b *binder) evalSeveral(t *catalog.Table, n *cnode) reach {
	if b.ix == nil {
		return b.eval(t, n)
	}
	for range momentTries {
		before, lookups := b.ix.Removals(), b.lookups
		out := b.eval(t, n)
		if b.ix.Removals() == before {
			return out
		}
		b.lookups = lookups
	}
	return reach{set: t.Shards, doubts: []string{"entries were removed while several keys were looked up"}}
}

// eval says which shards may hold rows that satisfy the tree.
func (b *binder) eval(t *catalog.Table, n *cnode) reach {
	switch n.op {
	case opAll:
		return reach{set: t.Shards}
	case opNone:
		return reach{used: []access{{how: "single", text: "a condition that is never true", never: true}}}
	case opOr:
		var out reach
		for _, k := range n.kids {
			r := b.eval(t, k)
			out.doubts = append(out.doubts, r.doubts...)
			if len(r.used) == 0 { // no bound in this branch, so none at all
				return reach{set: t.Shards, doubts: out.doubts}
			}
			out.set = out.set.Union(r.set)
			out.used = mergeAccess(out.used, r.used)
		}
		out.used = unproved(out.used) // none decides by itself
		return out
	case opAnd:
		return b.evalAnd(t, n.kids)
	default:
		b.alone[0] = n
		return b.evalAnd(t, b.alone[:])
	}
}

const maxAccess = 4 // bounds that a reason names

// unproved are bounds that a probe is not enough for.
func unproved(used []access) []access {
	out := slices.Clone(used)
	for i := range out {
		out[i].probe = nil
	}
	return out
}

func mergeAccess(to, from []access) []access {
	if len(to) == 0 && len(from) <= maxAccess {
		return slices.Clip(from)
	}
	for _, a := range from {
		if len(to) < maxAccess {
			to = append(to, a)
			continue
		}
		seen := false
		for _, x := range to {
			seen = seen || x.index == a.index
		}
		if !seen {
			to = append(to, a)
		}
	}
	return to
}

// evalAnd intersects all bounds of a conjunction. What is in doubt for these
// values is left out, which leaves the others as they are.
func (b *binder) evalAnd(t *catalog.Table, kids []*cnode) reach {
	out, guessed := reach{set: t.Shards}, b.guessed()
	for _, k := range kids {
		if b.never(k) {
			text := "a condition that is never true"
			if k.col != nil {
				text = k.col.Name + " compared with NULL"
			}
			return reach{used: []access{{how: "single", text: text, never: true}}}
		}
	}
	if t.Placement == catalog.Hash && t.ShardKey != nil {
		for _, p := range kids {
			if p.op != opIn || p.col != t.ShardKey {
				continue
			}
			set, text, ok := b.byShardKey(t, p)
			if ok {
				b.narrow(&out, set, access{how: shardKeyAccess, text: text})
			} else {
				b.doubt(&out, "the comparison of the shard key %s.%s is not exact for this type of value", t.Name, t.ShardKey.Name)
			}
		}
	}
	if out.set.Len() <= 1 {
		return out
	}
	// Branches first: an OR by shard key costs no lookup.
	for _, k := range kids {
		if k.op == opOr || k.op == opAnd {
			r := b.eval(t, k)
			out.doubts = append(out.doubts, r.doubts...)
			if len(r.used) > 0 {
				out.set = out.set.Intersect(r.set)
				out.used = mergeAccess(out.used, r.used)
			}
		}
	}
	if t.Differs != "" {
		if len(t.Indexes) > 0 {
			b.doubt(&out, "the shards disagree about the table's columns (%s), so its indexes are not used", t.Differs)
		}
		return out
	}
	if b.ix == nil {
		if len(t.Indexes) > 0 {
			b.doubt(&out, "replicas are read, which may have rows whose index entries are gone")
		}
		return out
	}
	for i, ix := range t.Indexes {
		if out.set.Len() <= 1 {
			break
		}
		if !slices.ContainsFunc(kids, func(k *cnode) bool { return k.one() && k.col == ix.Columns[0] }) {
			continue
		}
		if !ix.Usable() {
			b.doubt(&out, "%s is %s", ix.Name, string(ix.Status))
			continue
		}
		set, a, doubt, ok := b.byIndex(t, ix, kids, b.guessed() > guessed)
		if ok {
			a.how = b.labels[i]
			b.narrow(&out, set, a)
		} else if !b.brief {
			out.doubts = append(out.doubts, doubt)
		}
	}
	return out
}

// one reports a predicate of one column.
func (n *cnode) one() bool { return n.op == opIn || n.op == opRange || n.op == opLike }

// narrow bounds a reach by one more access.
func (b *binder) narrow(r *reach, set catalog.ShardSet, a access) {
	r.set = r.set.Intersect(set)
	if r.used != nil {
		r.used = append(r.used, a)
		return
	}
	b.uses = append(b.uses, a)
	r.used = b.uses[len(b.uses)-1 : len(b.uses) : len(b.uses)]
}

// doubt notes why a bound is not used. Formatting it is left out where nobody
// reads it.
func (b *binder) doubt(r *reach, format string, args ...string) {
	if b.brief {
		return
	}
	list := make([]any, len(args))
	for i := range args {
		list[i] = args[i]
	}
	r.doubts = append(r.doubts, fmt.Sprintf(format, list...))
}

// never reports a predicate that is true for no row: col = NULL, col < NULL, 1 = 0.
func (b *binder) never(p *cnode) bool {
	isNull := func(o *text.Operand) bool {
		if o == nil {
			return false
		}
		v, _, ok := o.Resolve(b.params)
		return ok && v.IsNull()
	}
	switch p.op {
	case opIn:
		if p.nullSafe {
			return false
		}
		for i := range p.values {
			if !isNull(&p.values[i]) {
				return false
			}
		}
		return true
	case opRange:
		return isNull(p.lo) || isNull(p.hi)
	case opLike:
		return isNull(p.prefix)
	case opSame:
		x, _, okx := p.values[0].Resolve(b.params)
		y, _, oky := p.values[1].Resolve(b.params)
		return okx && oky && x.IsInteger() && y.IsInteger() && x.Literal() != y.Literal()
	default:
		return false
	}
}

// describe makes Access and Reason of what a reach was found by.
func (b *binder) describe(r reach, t *catalog.Table, final catalog.ShardSet) (how, reason string) {
	if b.brief {
		switch {
		case len(r.used) == 1:
			return r.used[0].how, ""
		case len(r.used) == 0 && t.Placement == catalog.Single:
			return "single", ""
		case len(r.used) == 0:
			return "scatter", ""
		}
	}
	if len(r.used) == 0 {
		how = "scatter"
		reason = "no condition bounds the shard key or an indexed column of " + t.Name
		if t.Placement == catalog.Single {
			how, reason = "single", t.Name+" is on one shard"
		}
	} else {
		var hows, texts []string
		seen := map[string]bool{}
		for _, u := range r.used {
			h := u.how
			if !seen[h] && (h != "single" || len(r.used) == 1) {
				seen[h] = true
				hows = append(hows, h)
			}
			if len(texts) < maxAccess {
				texts = append(texts, u.text)
			}
		}
		how, reason = strings.Join(hows, ","), strings.Join(texts, " and ")
	}
	if b.brief {
		return how, ""
	}
	reason += fmt.Sprintf(": %d shard%s of %d", final.Len(), plural(final.Len()), b.cat.All.Len())
	for i, d := range r.doubts {
		if i == maxAccess {
			break
		}
		reason += "; " + d
	}
	return how, reason
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
