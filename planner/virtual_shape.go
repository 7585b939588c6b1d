package planner

import (
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// VirtualShape is a shape of statements that read virtual columns by keys that are literals of theirs:
//
//	SELECT total_messages FROM conversations WHERE id = ?
//
// With values that are known it is another shape, in which the values are literals, too:
//
//	SELECT CAST(? AS SIGNED) AS `total_messages` FROM conversations WHERE id = ?
//
// So a statement whose values are known is neither parsed nor planned.
type VirtualShape struct {
	columns []*catalog.VirtualColumn
	keys    []virtualKey // theirs
	pieces  []virtualPiece
}

// virtualKey is a literal that is a column's key.
type virtualKey struct {
	literal int
	column  *catalog.Column
	codec   *keys.Codec
}

// virtualPiece is text, and what stands behind it: a literal, or a value; -1: neither.
type virtualPiece struct {
	text           string
	literal, value int
}

// firstMark stands for the first value while the pieces are made, and those behind it for the others.
const firstMark = 9_182_736_455_463_728_000

// FindVirtual is the VirtualShape of a statement's shape, nil where it has none. plain: it names no virtual column.
func (p *Planner) FindVirtual(sh *Shape, cat *catalog.Catalog) (v *VirtualShape, plain bool) {
	e := p.kept(sh, cat)
	if e == nil && spoken.MayNameVirtual(sh.sql, cat) {
		e = p.find(sh, cat)
	}
	if e == nil {
		return nil, false
	}
	return e.virtual, e.rows != nil && !e.namesVirtual
}

// virtualShape is a shape's, nil where it has none.
func (p *Planner) virtualShape(e *cachedPlan, cat *catalog.Catalog) *VirtualShape {
	return p.shapeVirtual(spoken.Read(e.text, e.settings, cat), e.settings, e.kinds)
}

// VirtualPrepared is the VirtualShape of a statement that is prepared with so many parameters, nil where it has none.
func (p *Planner) VirtualPrepared(t *spoken.Text, s text.Settings, params int) *VirtualShape {
	return p.shapeVirtual(t, s, strings.Repeat(string(text.NumberLiteral), params))
}

func (p *Planner) shapeVirtual(read *spoken.Text, s text.Settings, kinds string) *VirtualShape {
	if kinds == "" || strings.Contains(read.SQL, strconv.Itoa(firstMark)[:10]) {
		return nil
	}
	t := p.virtual(read, nil, kinds)
	if t == nil || t.from > 0 {
		return nil
	}
	v, known, marks := &VirtualShape{}, map[int]catalog.VirtualHot{}, map[string]int{}
	for i, r := range t.Reads {
		n, err := strconv.Atoi(string(r.Key))
		if err != nil || r.Column.Status != catalog.Ready && !r.Column.Watched || !r.Column.Whole() {
			return nil
		}
		k := virtualKey{literal: n, column: read.Catalog.Table(r.Column.Of.Schema, r.Column.Of.Name).Column(r.Column.Key)}
		if k.codec, err = plan.CodecOf(read.Catalog, k.column); err != nil {
			return nil
		}
		v.columns, v.keys = append(v.columns, r.Column), append(v.keys, k)
		mark := strconv.Itoa(firstMark + i)
		known[i], marks[mark] = catalog.VirtualHot{Known: true, N: firstMark + int64(i), Value: mark}, i
	}
	src := t.Put(known)
	lx := text.NewLexer(src, s, text.ServerVersion{})
	from, literals := uint32(0), 0
	for {
		tok := lx.Next()
		piece := virtualPiece{src[from:tok.Start], -1, -1}
		switch tok.Kind {
		case text.Bad:
			return nil
		case text.EOF:
			piece.text = src[from:]
			v.pieces = append(v.pieces, piece)
			if literals != len(kinds) {
				return nil
			}
			return v
		case text.Param:
			piece.literal = literals
			literals++
		case text.Int:
			var marked bool
			if piece.value, marked = marks[src[tok.Start:tok.End]]; !marked {
				continue
			}
		default:
			continue
		}
		v.pieces, from = append(v.pieces, piece), tok.End
	}
}

// Reads are what a statement of the shape reads; ok is false where it isn't sure which rows a key is of.
func (v *VirtualShape) Reads(sh *Shape) (out []catalog.VirtualRead, ok bool) {
	return v.ReadsOf(sh.Values(), sh.settings)
}

// ReadsOf are what a prepared statement reads with these parameters, as Reads.
func (v *VirtualShape) ReadsOf(params []keys.Value, s *text.Settings) (out []catalog.VirtualRead, ok bool) {
	out = make([]catalog.VirtualRead, len(v.columns))
	for i, k := range v.keys {
		out[i].Column = v.columns[i]
		if !readBy(&out[i], k.codec, k.column, params[k.literal], s) {
			return nil, false
		}
	}
	return out, true
}

// Text is a prepared statement with parameters for the values as well.
func (v *VirtualShape) Text() string {
	var b strings.Builder
	for _, p := range v.pieces {
		b.WriteString(p.text)
		if p.literal >= 0 || p.value >= 0 {
			b.WriteByte('?')
		}
	}
	return b.String()
}

// Params calls param for each parameter of the client's, and value for each value of a read, in the order of Text's.
func (v *VirtualShape) Params(values []catalog.VirtualHot, param func(int), value func(literal string)) {
	for _, p := range v.pieces {
		switch {
		case p.literal >= 0:
			param(p.literal)
		case p.value >= 0:
			value(v.columns[p.value].Literal(values[p.value]))
		}
	}
}

// Put makes a statement of the shape one with these values, which are known.
func (v *VirtualShape) Put(sh *Shape, values []catalog.VirtualHot, s *text.Settings) (ok bool) {
	var b strings.Builder
	literals := make([]shapeLiteral, 0, len(v.pieces))
	for _, p := range v.pieces {
		b.WriteString(p.text)
		l := shapeLiteral{start: uint32(b.Len()), kind: text.KnownLiteral}
		switch {
		case p.literal >= 0:
			was := sh.literals[p.literal]
			b.WriteString(sh.sql[was.start:was.end])
			l.kind, l.escaped = was.kind, was.escaped
		case p.value >= 0:
			b.WriteString(v.columns[p.value].Literal(values[p.value]))
		default:
			continue
		}
		l.end = uint32(b.Len())
		literals = append(literals, l)
	}
	sh.sql, sh.settings, sh.literals, sh.plan, sh.generation = b.String(), s, literals, nil, nil
	return len(sh.sql) <= maxShapeText && sh.sum()
}
