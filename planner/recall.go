package planner

import "github.com/shunt-sql/shunt/planner/text"

// A session's statements come in few shapes, one after the other. Recall tells a statement of a
// shape that was met lately by comparing its text with that shape's, which costs a tenth of
// reading it.
//
// Rule same surroundings: what Read makes of a literal depends on the text around it, on its kind
// and on its length. So a text that is the shape's but for literals of the same kinds, each within
// Read's bounds and ending where the text goes on, is read as the shape was.
// Counter-examples, which are left to Read: `a = -5` where the shape had `a = 5` (a sign may be an
// operator); LIMIT 1.5; a number that a letter follows; "x" where the shape had 'x'.
//
// What is kept of a shape is where its plan lies in the cache: a session that is idle keeps no plan,
// and so no old catalog, in memory.

// recalled is a shape that a session has met lately.
type recalled struct {
	id       uint64 // of the cachedPlan, 0: none
	set, way uint16
	literals []recalledLiteral
}

// recalledLiteral is a literal of a shape's text, in which it is the ? at a place.
type recalledLiteral struct {
	at     uint32
	kind   text.LiteralKind
	quote  byte // of a text
	signed bool // -5
}

// recalledShapes is how many a session keeps: each costs a comparison of its beginning.
const recalledShapes = 4

// ReadShape reads a statement into sh. ok is false for one that has no shape.
func (p *Planner) ReadShape(sh *Shape, sql string, s *text.Settings) (ok bool) {
	sh.head, sql, sh.tail = withoutComments(sql)
	if g := p.cache.current.Load(); g != nil && len(sql) <= maxShapeText {
		for i := range sh.recalled {
			if r := &sh.recalled[i]; r.id != 0 {
				if e := g.sets[r.set].ways[r.way].Load(); e != nil && e.id == r.id && sh.recall(r, e, sql, s) {
					sh.plan, sh.generation = e, g
					return true
				}
			}
		}
	}
	return sh.Read(sql, s)
}

// recall reads a statement of a plan's shape; ok is false for any other.
func (sh *Shape) recall(r *recalled, e *cachedPlan, sql string, s *text.Settings) (ok bool) {
	literals := sh.literals[:0]
	from, at := 0, 0 // in the shape's text, and in sql
	for i := range r.literals {
		l := &r.literals[i]
		piece := e.text[from:l.at]
		if len(sql)-at <= len(piece) || sql[at:at+len(piece)] != piece {
			return false
		}
		at += len(piece)
		read := shapeLiteral{start: uint32(at), kind: l.kind}
		if l.kind == text.TextLiteral {
			if sql[at] != l.quote {
				return false
			}
			var closed bool
			if at, read.escaped, closed = shapeQuoted(sql, at, s); !closed {
				return false
			}
		} else {
			if l.signed {
				if sql[at] != '-' {
					return false
				}
				at++
			}
			if at == len(sql) || !text.IsDigit(sql[at]) {
				return false
			}
			end, kind := shapeNumber(sql, at)
			if kind != text.NumberLiteral || !numberFits(sql[at:end], l.kind) {
				return false
			}
			at = end
		}
		read.end = uint32(at)
		literals = append(literals, read)
		from = int(l.at) + 1
	}
	if sql[at:] != e.text[from:] || *s != e.settings {
		return false
	}
	sh.sql, sh.settings, sh.literals, sh.hash = sql, s, literals, e.hash
	return true
}

// remember keeps where the plan of the shape that was read lies.
func (sh *Shape) remember(e *cachedPlan, set uint64, way int) {
	r := &sh.recalled[sh.oldest]
	sh.oldest = (sh.oldest + 1) % recalledShapes
	r.id, r.set, r.way, r.literals = e.id, uint16(set), uint16(way), r.literals[:0]
	at, from := uint32(0), uint32(0)
	for i := range sh.literals {
		l := &sh.literals[i]
		at += l.start - from
		k := recalledLiteral{at: at, kind: l.kind}
		if c := sh.sql[l.start]; l.kind == text.TextLiteral {
			k.quote = c
		} else {
			k.signed = c == '-'
		}
		r.literals = append(r.literals, k)
		at, from = at+1, l.end
	}
}
