package planner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// fanOut bounds the keys of a range; more scatter.
const fanOut = 1000

// maxLookups bounds the lookups of one statement.
const maxLookups = 10_000

// modeDoubt: under PAD_CHAR_TO_FULL_LENGTH a CHAR column compares with its trailing
// spaces, which keys don't have, and VIRTUAL columns are computed from them.
//
// Counter-example: g AS (CONCAT(c, 'x')), c being a CHAR(5). The scan reads 'ax', and a
// session of that mode looks for 'a    x'.
func (b *binder) modeDoubt(c *catalog.Column) bool { return modeDoubt(b.settings, c) }

func modeDoubt(s *text.Settings, c *catalog.Column) bool {
	return s.PadCharToFullLength && c.BaseType() == "char" || s.ComputesOtherwise && c.Virtual
}

// equalKeys gives the component of each value of an opIn. ok is false in any
// doubt about any value.
func (b *binder) equalKeys(p *cnode) (out [][]byte, vals []keys.Value, ok bool) {
	if p.codec == nil || b.modeDoubt(p.col) || !b.comparedAlike(p.beside) {
		return nil, nil, false
	}
	var cl text.Class
	var seen map[string]bool
	if len(p.values) > 16 {
		seen = map[string]bool{}
	}
	first, firstValue := len(b.found), len(b.values)
	for i := range p.values {
		o := &p.values[i]
		v, c, ok := o.Resolve(b.params)
		if !ok || !joinClass(&cl, c) {
			return nil, nil, false
		}
		if v.IsNull() {
			if p.nullSafe {
				return nil, nil, false
			}
			continue
		}
		if c == text.ClassString && (p.row || len(p.values) > 1) && p.col.Charset == "" && longText(v) {
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

// comparedAlike reports whether one column's values in a list of rows are all compared by the
// type that each would have alone. It is asked for each row, and answers for all.
//
// Counter-example: (tenant, amount) IN ((1, 12345678901234567890.3), (2, 1e0)), which MariaDB
// compares as doubles, also in the first row.
func (b *binder) comparedAlike(beside []text.Operand) bool {
	if len(beside) == 0 {
		return true
	}
	for i := range b.columns {
		if b.columns[i].of == &beside[0] {
			return b.columns[i].alike
		}
	}
	var cl text.Class
	alike, floats, exact := true, false, false
	for i := range beside {
		v, c, ok := beside[i].Resolve(b.params)
		alike = alike && ok && joinClass(&cl, c)
		floats, exact = floats || v.IsFloat(), exact || !v.IsFloat() && !v.IsNull()
	}
	alike = alike && (!floats || !exact)
	b.columns = append(b.columns, listColumn{&beside[0], alike})
	return alike
}

// listColumn is what comparedAlike has found of the values that begin at of.
type listColumn struct {
	of    *text.Operand
	alike bool
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
//
// keyed: full keys are to be asked for first, which mostly leave no more to ask: a range has up
// to fanOut of them.
func (b *binder) byIndex(t *catalog.Table, ix *catalog.Index, kids []*cnode, keyed bool) (set catalog.ShardSet, a access, doubt string, ok bool) {
	if len(ix.Columns) == 1 {
		if ks, vals, found := b.bestIn(kids, ix.Columns[0], maxValues); found && len(ks) > 0 {
			return b.byKeys(ix, ks, vals)
		}
	}
	p := b.prefixes(ix, kids)
	if len(p.keys) == 0 {
		return set, access{index: ix, text: ix.Name + ": an empty list"}, "", true
	}
	if p.columns == len(ix.Columns) {
		return b.byFullKeys(ix, p)
	}
	if keyed {
		return set, access{}, "", false
	}
	return b.byRange(t, ix, kids, p)
}

// keyPrefixes are the first components of an index's keys, as equalities give them.
type keyPrefixes struct {
	keys       [][]byte
	components [][][]byte // of each of keys
	columns    int        // of the index that are in keys
	// shown are the conditions, for Reason.
	shown []string
	// values has the value of each column that has only one.
	values []keys.Value
}

// prefixes goes over the index's columns as far as kids have equalities of them.
func (b *binder) prefixes(ix *catalog.Index, kids []*cnode) keyPrefixes {
	p := keyPrefixes{keys: [][]byte{nil}, components: [][][]byte{nil}}
	for ; p.columns < len(ix.Columns) && len(p.keys) > 0; p.columns++ {
		ks, vals, found := b.bestIn(kids, ix.Columns[p.columns], maxValues/len(p.keys))
		if !found {
			break
		}
		next := make([][]byte, 0, len(p.keys)*len(ks))
		parts := make([][][]byte, 0, cap(next))
		for i, key := range p.keys {
			for _, k := range ks {
				next = append(next, append(append(make([]byte, 0, len(key)+len(k)), key...), k...))
				parts = append(parts, append(slices.Clip(p.components[i]), k))
			}
		}
		p.keys, p.components = next, parts
		p.shown = append(p.shown, ix.Columns[p.columns].Name+valuesText(vals))
		if len(vals) == 1 {
			p.values = append(p.values, vals[0])
		}
	}
	return p
}

// text is what an index was used for, for Reason.
func (p *keyPrefixes) text(ix *catalog.Index) string {
	return ix.Name + " (" + strings.Join(p.shown, ", ") + ")"
}

// byFullKeys looks up each of some full keys.
func (b *binder) byFullKeys(ix *catalog.Index, p keyPrefixes) (set catalog.ShardSet, a access, doubt string, ok bool) {
	if b.lookups += len(p.keys); b.lookups > maxLookups {
		return set, access{}, ix.Name + " would need too many lookups", false
	}
	for i, k := range p.keys {
		s, err := b.ix.Lookup(ix, k, p.components[i])
		if err != nil {
			return set, access{}, unreadableIndex(ix, err), false
		}
		set = set.Union(s)
	}
	a = access{index: ix, spread: p.keys[0], text: p.text(ix)}
	if len(p.keys) == 1 && len(p.values) == len(ix.Columns) {
		a.probe = []plan.Probe{{Index: ix, Key: p.keys[0], Values: p.values}}
	}
	return set, a, "", true
}

// byRange looks up the keys that begin with one of some prefixes, and whose next
// column is in a range.
func (b *binder) byRange(t *catalog.Table, ix *catalog.Index, kids []*cnode, p keyPrefixes) (set catalog.ShardSet, a access, doubt string, ok bool) {
	next := ix.Columns[p.columns]
	lo, hi, text := b.bounds(kids, next)
	if p.columns == 0 && lo == nil && hi == nil {
		return set, access{}, "the comparison of " + t.Name + "." + next.Name + " is not exact for this type of value or has too many of them, so " + ix.Name + " is not used", false
	}
	if text != "" {
		p.shown = append(p.shown, next.Name+" "+text)
	}
	if b.lookups += len(p.keys); b.lookups > maxLookups {
		return set, access{}, ix.Name + " would need too many lookups", false
	}
	for _, key := range p.keys {
		from := slices.Concat(key, lo)
		var to []byte
		if hi != nil {
			to = slices.Concat(key, hi)
		} else if len(key) > 0 {
			to = keys.Successor(key)
		}
		if to != nil && string(from) >= string(to) {
			continue // BETWEEN 5 AND 1
		}
		s, within, err := b.ix.Range(ix, from, to, max(1, fanOut/len(p.keys)))
		if err != nil {
			return set, access{}, unreadableIndex(ix, err), false
		}
		if !within {
			return set, access{}, fmt.Sprintf("more than %d keys of %s are in the range", fanOut, ix.Name), false
		}
		set = set.Union(s)
	}
	return set, access{index: ix, spread: p.keys[0], text: p.text(ix)}, "", true
}

// unreadableIndex says why a lookup that failed bounds nothing.
func unreadableIndex(ix *catalog.Index, err error) string {
	return fmt.Sprintf("%s can't be read now (%v)", ix.Name, err)
}

// byKeys is byIndex for full keys of an index of one column.
func (b *binder) byKeys(ix *catalog.Index, ks [][]byte, vals []keys.Value) (set catalog.ShardSet, a access, doubt string, ok bool) {
	if b.lookups += len(ks); b.lookups > maxLookups {
		return set, access{}, ix.Name + " would need too many lookups", false
	}
	for i, k := range ks {
		s, err := b.ix.Lookup(ix, k, ks[i:i+1:i+1])
		if err != nil {
			return set, access{}, unreadableIndex(ix, err), false
		}
		set = set.Union(s)
	}
	a = access{index: ix, spread: ks[0]}
	if !b.brief {
		a.text = ix.Name + " (" + ix.Columns[0].Name + valuesText(vals) + ")"
	}
	if len(ks) == 1 {
		b.probes = append(b.probes, plan.Probe{Index: ix, Key: ks[0], Values: vals})
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
func (b *binder) bounds(kids []*cnode, col *catalog.Column) (lo, hi []byte, sql string) {
	for _, p := range kids {
		if p.op != opRange && p.op != opLike || p.col != col {
			continue
		}
		codec := p.codec
		if codec == nil || b.modeDoubt(p.col) {
			continue
		}
		var from, to []byte
		if p.op == opLike {
			v, c, ok := p.prefix.Resolve(b.params)
			if !ok || c != text.ClassString {
				continue
			}
			pattern, ok := patternPrefix(v)
			if !ok {
				continue
			}
			if from, to, ok = codec.LikePrefix(pattern); !ok {
				continue
			}
			sql = "LIKE " + shortLiteral(v)
		} else {
			var cl text.Class
			ok := true
			bound := func(o *text.Operand) []byte {
				if o == nil {
					return nil
				}
				v, c, have := o.Resolve(b.params)
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
			sql = "in a range"
		}
		if from != nil && (lo == nil || string(from) > string(lo)) {
			lo = from
		}
		if to != nil && (hi == nil || string(to) < string(hi)) {
			hi = to
		}
	}
	if lo == nil && col.Zeros() {
		// Rule zeros: what is computed may be '0000-00-00' here, and a later date to the scan.
		//
		// Counter-example: d DATE AS (at), at being '2024-01-00 10:00:00'. A client with
		// NO_ZERO_IN_DATE finds it by d < '2020-01-01'.
		return nil, nil, ""
	}
	return lo, hi, sql
}

// patternPrefix is the part of a LIKE pattern before its first wildcard.
func patternPrefix(v keys.Value) (keys.Value, bool) {
	text, charset, ok := v.AsText()
	if !ok {
		return v, false
	}
	return keys.String(likePrefix([]byte(text)), charset), true
}
