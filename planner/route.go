package planner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// fanOut bounds the keys of a range; more scatter.
const fanOut = 1000

// maxLookups bounds the lookups of one statement.
const maxLookups = 10_000

// binder evaluates condition trees for given parameter values.
type binder struct {
	cat      *catalog.Catalog
	settings Settings
	params   []keys.Value
	ix       Indexes
	lookups  int
	reached  []reached
	// room, when set, is where the Bound is made; brief: without its Reason.
	// ungathered: a gather is not wanted, only to know that it takes one.
	room              *Binding
	brief, ungathered bool
	// Room for what a reach is found by. What is cut from these stays as it is
	// when they grow: it is in the memory from before then.
	components []byte
	found      [][]byte
	values     []keys.Value
	uses       []access
	probes     []Probe
	alone      [1]*cnode
	// labels are those of the reference whose tree is evaluated.
	labels []string
	// next is the AUTO_INCREMENT counter, 0 unknown; asParams: its values become
	// parameters.
	next     uint64
	asParams bool
	// placing: a row of Meets is bound, for the shard at; nil: that of a new row.
	placing bool
	at      *catalog.ShardID
}

// reached is a reference's reach.
type reached struct {
	ref   *ref
	reach reach
}

// Binding is room for binding one statement after the other without allocating.
// What is bound in it is good until it is used again, but for Adds, Marks and
// Maintain; whoever keeps a Probe makes a copy.
type Binding struct {
	binder     binder
	bound      Bound
	statements []ShardStatement
}

// roomKept bounds what a Binding keeps of its room.
const roomKept = 1 << 10

// begin makes a binder in the Binding.
func (bd *Binding) begin(r *Rows, params []keys.Value, ix Indexes) *binder {
	b := &bd.binder
	if cap(b.components) > roomKept || cap(b.found) > roomKept/16 || cap(b.values) > roomKept/16 || cap(bd.statements) > roomKept/64 {
		*bd = Binding{}
	}
	*b = binder{
		cat: r.Catalog, settings: r.settings, params: params, ix: ix, room: bd, brief: true,
		reached: b.reached[:0], components: b.components[:0], found: b.found[:0], values: b.values[:0], uses: b.uses[:0], probes: b.probes[:0],
	}
	return b
}

// Clear drops what was bound: it keeps the catalog in memory.
func (bd *Binding) Clear() {
	b := &bd.binder
	clear(b.reached)
	clear(b.found)
	clear(b.values)
	clear(b.uses)
	clear(b.probes)
	clear(bd.statements)
	b.cat, b.ix, b.params, b.labels, b.alone[0], bd.bound = nil, nil, nil, nil, nil, Bound{}
}

// explained is the binder of what has Reasons.
func (b *binder) explained() *binder {
	if !b.brief {
		return b
	}
	return &binder{cat: b.cat, settings: b.settings, params: b.params, ix: b.ix, next: b.next, asParams: b.asParams, placing: b.placing, at: b.at}
}

// bound is the Bound to fill.
func (b *binder) bound() *Bound {
	if b.room == nil {
		return &Bound{}
	}
	b.room.bound = Bound{}
	return &b.room.bound
}

// sendTo sends one text to all of a set.
func (b *binder) sendTo(set catalog.ShardSet, sql string) *Bound {
	out := b.bound()
	out.Plan = "route"
	if b.room != nil {
		out.Statements = b.room.statements[:0]
	} else {
		out.Statements = make([]ShardStatement, 0, set.Len())
	}
	for id := range set.All {
		out.Statements = append(out.Statements, ShardStatement{Shard: id, SQL: sql})
	}
	if b.room != nil {
		b.room.statements = out.Statements
	}
	return out
}

// reach is where the rows of one reference that count may be.
type reach struct {
	set catalog.ShardSet
	// used says by what the set was bounded.
	used []access
	// doubts say why what looks like a bound was not used.
	doubts []string
}

// access is one bound that was used.
type access struct {
	index *catalog.Index // nil: shard key
	how   string         // shard_key, index:NAME, or single for a condition that is never true
	text  string
	// probe is the one full key that was looked up, if it was one.
	probe []Probe
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
		out = b.eval(r.table, r.tree)
	}
	if r.derived != nil {
		out = b.derivedReach(out, r.derived)
	}
	b.reached = append(b.reached, reached{r, out})
	return out
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
	out := reach{set: t.Shards}
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
				b.narrow(&out, set, access{how: "shard_key", text: text})
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
		set, a, doubt, ok := b.byIndex(t, ix, kids)
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
	isNull := func(o *operand) bool {
		if o == nil {
			return false
		}
		v, _, ok := o.resolve(b.params)
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
		x, _, okx := p.values[0].resolve(b.params)
		y, _, oky := p.values[1].resolve(b.params)
		return okx && oky && x.IsInteger() && y.IsInteger() && x.Literal() != y.Literal()
	default:
		return false
	}
}

// padDoubt: under PAD_CHAR_TO_FULL_LENGTH a CHAR column compares with its
// trailing spaces, which keys don't have.
func (b *binder) padDoubt(c *catalog.Column) bool {
	return b.settings.PadCharToFullLength && baseType(c.Type) == "char"
}

// equalKeys gives the component of each value of an opIn. ok is false in any
// doubt about any value.
func (b *binder) equalKeys(p *cnode) (out [][]byte, vals []keys.Value, ok bool) {
	if p.codec == nil || b.padDoubt(p.col) {
		return nil, nil, false
	}
	var cl class
	var seen map[string]bool
	if len(p.values) > 16 {
		seen = map[string]bool{}
	}
	first, firstValue := len(b.found), len(b.values)
	for i := range p.values {
		o := &p.values[i]
		v, c, ok := o.resolve(b.params)
		if !ok || !joinClass(&cl, c) {
			return nil, nil, false
		}
		if v.IsNull() {
			if p.nullSafe {
				return nil, nil, false
			}
			continue
		}
		if c == classString && (p.row || len(p.values) > 1) && p.col.Charset == "" && longText(v) {
			return nil, nil, false
		}
		n := len(b.components)
		b.components, ok = p.codec.Equal(b.components, v)
		if !ok {
			return nil, nil, false
		}
		k := b.components[n:len(b.components):len(b.components)]
		if seen != nil && seen[string(k)] || seen == nil && containsKey(b.found[first:], k) {
			b.components = b.components[:n]
			continue
		}
		if seen != nil {
			seen[string(k)] = true
		}
		b.found, b.values = append(b.found, k), append(b.values, v)
	}
	out, vals = b.found[first:len(b.found):len(b.found)], b.values[firstValue:len(b.values):len(b.values)]
	return out, vals, true
}

func containsKey(list [][]byte, k []byte) bool {
	for _, x := range list {
		if bytes.Equal(x, k) {
			return true
		}
	}
	return false
}

// longText finds a text whose number a double does not hold exactly. A list or
// row may compare texts with a number as doubles, where `=` alone makes a number
// of the text first: id IN ('9007199254740993', 'x') finds 9007199254740992.
func longText(v keys.Value) bool {
	text, _, ok := v.AsText()
	return !ok || len(text) > 15 && !strings.ContainsAny(text, "-: ")
}

func (b *binder) byShardKey(t *catalog.Table, p *cnode) (set catalog.ShardSet, text string, ok bool) {
	ks, vals, ok := b.equalKeys(p)
	if !ok {
		return set, "", false
	}
	for _, k := range ks {
		set.Add(b.cat.ShardOf(k))
	}
	if !b.brief {
		text = t.Name + "." + p.col.Name + valuesText(vals)
	}
	return set.Intersect(t.Shards), text, true
}

func valuesText(vals []keys.Value) string {
	switch len(vals) {
	case 1:
		return " = " + shortLiteral(vals[0])
	default:
		return fmt.Sprintf(" IN (%d values)", len(vals))
	}
}

func shortLiteral(v keys.Value) string {
	s := strings.TrimPrefix(v.Literal(), "_utf8mb4")
	if r := []rune(s); len(r) > 64 {
		s = string(r[:60]) + "..."
	}
	return s
}

// byIndex looks keys up: full keys one by one, a prefix of the columns or a
// range on the next one as a range of keys.
func (b *binder) byIndex(t *catalog.Table, ix *catalog.Index, kids []*cnode) (set catalog.ShardSet, a access, doubt string, ok bool) {
	if len(ix.Columns) == 1 {
		if ks, vals, found := b.bestIn(kids, ix.Columns[0], maxValues); found && len(ks) > 0 {
			return b.byKeys(ix, ks, vals)
		}
	}
	prefixes := [][]byte{nil}
	components := [][][]byte{nil} // of each prefix
	var shown []string
	var probe []keys.Value
	depth := 0
	for ; depth < len(ix.Columns); depth++ {
		ks, vals, found := b.bestIn(kids, ix.Columns[depth], maxValues/len(prefixes))
		if !found {
			break
		}
		next := make([][]byte, 0, len(prefixes)*len(ks))
		parts := make([][][]byte, 0, cap(next))
		for i, p := range prefixes {
			for _, k := range ks {
				next = append(next, append(append(make([]byte, 0, len(p)+len(k)), p...), k...))
				parts = append(parts, append(slices.Clip(components[i]), k))
			}
		}
		prefixes, components = next, parts
		shown = append(shown, ix.Columns[depth].Name+valuesText(vals))
		if len(vals) == 1 {
			probe = append(probe, vals[0])
		}
		if len(prefixes) == 0 {
			break
		}
	}
	a = access{index: ix}
	if len(prefixes) == 0 {
		a.text = ix.Name + ": an empty list"
		return set, a, "", true
	}
	a.spread = prefixes[0]
	unusable := func(err error) (catalog.ShardSet, access, string, bool) {
		return set, access{}, fmt.Sprintf("%s can't be read now (%v)", ix.Name, err), false
	}
	if depth == len(ix.Columns) {
		if b.lookups += len(prefixes); b.lookups > maxLookups {
			return set, access{}, ix.Name + " would need too many lookups", false
		}
		for i, k := range prefixes {
			s, err := b.ix.Lookup(ix, k, components[i])
			if err != nil {
				return unusable(err)
			}
			set = set.Union(s)
		}
		a.text = ix.Name + " (" + strings.Join(shown, ", ") + ")"
		if len(prefixes) == 1 && len(probe) == len(ix.Columns) {
			a.probe = []Probe{{Index: ix, Key: prefixes[0], Values: probe}}
		}
		return set, a, "", true
	}
	lo, hi, text := b.bounds(kids, ix.Columns[depth])
	if depth == 0 && lo == nil && hi == nil {
		return set, access{}, "the comparison of " + t.Name + "." + ix.Columns[0].Name + " is not exact for this type of value or has too many of them, so " + ix.Name + " is not used", false
	}
	if text != "" {
		shown = append(shown, ix.Columns[depth].Name+" "+text)
	}
	if b.lookups += len(prefixes); b.lookups > maxLookups {
		return set, access{}, ix.Name + " would need too many lookups", false
	}
	for _, p := range prefixes {
		from := append(append([]byte(nil), p...), lo...)
		var to []byte
		if hi != nil {
			to = append(append([]byte(nil), p...), hi...)
		} else if len(p) > 0 {
			to = keys.Successor(p)
		}
		if to != nil && string(from) >= string(to) {
			continue // BETWEEN 5 AND 1
		}
		s, within, err := b.ix.Range(ix, from, to, max(1, fanOut/len(prefixes)))
		if err != nil {
			return unusable(err)
		}
		if !within {
			return set, access{}, fmt.Sprintf("more than %d keys of %s are in the range", fanOut, ix.Name), false
		}
		set = set.Union(s)
	}
	a.text = ix.Name + " (" + strings.Join(shown, ", ") + ")"
	return set, a, "", true
}

// byKeys is byIndex for full keys of an index of one column.
func (b *binder) byKeys(ix *catalog.Index, ks [][]byte, vals []keys.Value) (set catalog.ShardSet, a access, doubt string, ok bool) {
	if b.lookups += len(ks); b.lookups > maxLookups {
		return set, access{}, ix.Name + " would need too many lookups", false
	}
	for i, k := range ks {
		s, err := b.ix.Lookup(ix, k, ks[i:i+1:i+1])
		if err != nil {
			return set, access{}, fmt.Sprintf("%s can't be read now (%v)", ix.Name, err), false
		}
		set = set.Union(s)
	}
	a = access{index: ix, spread: ks[0]}
	if !b.brief {
		a.text = ix.Name + " (" + ix.Columns[0].Name + valuesText(vals) + ")"
	}
	if len(ks) == 1 {
		b.probes = append(b.probes, Probe{Index: ix, Key: ks[0], Values: vals})
		a.probe = b.probes[len(b.probes)-1 : len(b.probes) : len(b.probes)]
	}
	return set, a, "", true
}

// bestIn chooses the equality of a column with the fewest values.
func (b *binder) bestIn(kids []*cnode, col *catalog.Column, limit int) (ks [][]byte, vals []keys.Value, found bool) {
	for _, p := range kids {
		if p.op != opIn || p.col != col {
			continue
		}
		k, v, ok := b.equalKeys(p)
		if ok && len(k) <= limit && (!found || len(k) < len(ks)) {
			ks, vals, found = k, v, true
		}
	}
	return ks, vals, found
}

// bounds intersects the ranges on one column: components from lo (included) to
// hi (excluded), nil for open.
func (b *binder) bounds(kids []*cnode, col *catalog.Column) (lo, hi []byte, text string) {
	for _, p := range kids {
		if p.op != opRange && p.op != opLike || p.col != col {
			continue
		}
		codec := p.codec
		if codec == nil || b.padDoubt(p.col) {
			continue
		}
		var from, to []byte
		if p.op == opLike {
			v, c, ok := p.prefix.resolve(b.params)
			if !ok || c != classString {
				continue
			}
			pattern, ok := patternPrefix(v)
			if !ok {
				continue
			}
			if from, to, ok = codec.LikePrefix(pattern); !ok {
				continue
			}
			text = "LIKE " + shortLiteral(v)
		} else {
			var cl class
			ok := true
			bound := func(o *operand) []byte {
				if o == nil {
					return nil
				}
				v, c, have := o.resolve(b.params)
				if !have || v.IsNull() || !joinClass(&cl, c) {
					ok = false
					return nil
				}
				k, fine := codec.Order(nil, v)
				ok = ok && fine
				return k
			}
			from = bound(p.lo)
			if top := bound(p.hi); top != nil {
				// Also for `<`: a cut key stands for longer values too.
				to = keys.Successor(top)
			}
			if !ok {
				continue
			}
			text = "in a range"
		}
		if from != nil && (lo == nil || string(from) > string(lo)) {
			lo = from
		}
		if to != nil && (hi == nil || string(to) < string(hi)) {
			hi = to
		}
	}
	return lo, hi, text
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

// patternPrefix is the part of a LIKE pattern before its first wildcard.
func patternPrefix(v keys.Value) (keys.Value, bool) {
	text, charset, ok := v.AsText()
	if !ok {
		return v, false
	}
	return keys.String(likePrefix([]byte(text)), charset), true
}
