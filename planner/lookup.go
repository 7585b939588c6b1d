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

// patternPrefix is the part of a LIKE pattern before its first wildcard.
func patternPrefix(v keys.Value) (keys.Value, bool) {
	text, charset, ok := v.AsText()
	if !ok {
		return v, false
	}
	return keys.String(likePrefix([]byte(text)), charset), true
}
