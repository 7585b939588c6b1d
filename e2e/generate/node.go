package generate

import (
	"iter"
	"slices"
	"strings"
)

// Mark says what a comparison must know of a node.
type Mark uint16

// Marks of select items but for Ordering and its kin.
const (
	// Item is one column of the answer.
	Item Mark = 1 << iota
	// Star is as many columns as there are.
	Star
	// Folded: one of several equal texts.
	Folded
	// Approximate: rounded differently in another order of addition.
	Approximate
	// Sorted: the item is one of those that ORDER BY names.
	Sorted
	// Ordering is an ORDER BY; Total one that leaves no two rows equal.
	Ordering
	Total
	// Loose: a text that others may equal.
	Loose
	// Limited: a LIMIT.
	Limited
)

// Node is a part of a statement: its own text, or its kids' joined by Sep.
// Nodes don't change once made, so trees share them.
type Node struct {
	Text string
	Kids []*Node
	Sep  string
	// Sort: a node may be replaced by a descendant of the same Sort. "" for none.
	Sort string
	// Optional nodes may be left out. A list may lose kids down to Least (less
	// than 0: none).
	Optional bool
	Least    int
	Marks    Mark
	// Literal is set on a literal that a parameter may stand for: its value as
	// a driver is given it (nil, int64, float64 or string).
	Literal *Value
	// Simple is what the node may be replaced with beside its descendants.
	Simple []*Node
}

// Value is a parameter's.
type Value struct{ Of any }

func text(s string) *Node { return &Node{Text: s, Least: -1} }

// words joins texts and nodes with blanks between; a nil part is left out.
func words(parts ...any) *Node {
	n := &Node{Sep: " ", Least: -1}
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			n.Kids = append(n.Kids, text(p))
		case *Node:
			if p != nil {
				n.Kids = append(n.Kids, p)
			}
		}
	}
	return n
}

// glued is words without blanks.
func glued(parts ...any) *Node {
	n := words(parts...)
	n.Sep = ""
	return n
}

// list is a comma list that may shrink to least kids.
func list(least int, kids ...*Node) *Node { return &Node{Kids: kids, Sep: ", ", Least: least} }

func optional(n *Node) *Node {
	if n == nil {
		return nil
	}
	c := *n
	c.Optional = true
	return &c
}

func sorted(sort string, n *Node) *Node {
	c := *n
	c.Sort = sort
	return &c
}

func marked(n *Node, m Mark) *Node {
	c := *n
	c.Marks |= m
	return &c
}

// String is the text with literals written out.
func (n *Node) String() string {
	var b strings.Builder
	n.write(&b, nil)
	return b.String()
}

// Prepared is the text with a ? for each literal that allows it, and their
// values.
func (n *Node) Prepared() (string, []any) {
	var b strings.Builder
	params := []any{}
	n.write(&b, &params)
	return b.String(), params
}

// written is n with its literals as text in a prepared statement too. An
// aggregate needs that: MySQL answers NULL for one of nothing but parameters, or
// not, by its plan.
func (n *Node) written() *Node {
	c := *n
	c.Literal, c.Simple, c.Kids = nil, nil, nil
	for _, k := range n.Kids {
		c.Kids = append(c.Kids, k.written())
	}
	return &c
}

func (n *Node) write(b *strings.Builder, params *[]any) {
	if params != nil && n.Literal != nil {
		b.WriteByte('?')
		*params = append(*params, n.Literal.Of)
		return
	}
	b.WriteString(n.Text)
	for i, k := range n.Kids {
		if i > 0 {
			b.WriteString(n.Sep)
		}
		k.write(b, params)
	}
}

// Simpler yields trees that are n with one thing left out or replaced by a
// part of itself, the largest changes first.
func (n *Node) Simpler() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, s := range n.Simple {
			if !yield(s) {
				return
			}
		}
		if n.Sort != "" {
			for d := range n.descendants {
				if d.Sort == n.Sort && !yield(d) {
					return
				}
			}
		}
		for i, k := range n.Kids {
			if k.Optional && !yield(n.without(i, i+1)) {
				return
			}
		}
		if n.Least >= 0 {
			for size := len(n.Kids) - n.Least; size > 0; size /= 2 {
				for i := 0; i+size <= len(n.Kids); i += size {
					if !yield(n.without(i, i+size)) {
						return
					}
				}
			}
		}
		for i, k := range n.Kids {
			for s := range k.Simpler() {
				s := *s
				s.Optional = k.Optional
				c := *n
				c.Kids = slices.Clone(n.Kids)
				c.Kids[i] = &s
				if !yield(&c) {
					return
				}
			}
		}
	}
}

func (n *Node) without(from, to int) *Node {
	c := *n
	c.Kids = slices.Delete(slices.Clone(n.Kids), from, to)
	return &c
}

// descendants yields them level by level within each kid.
func (n *Node) descendants(yield func(*Node) bool) {
	for level := n.Kids; len(level) > 0; {
		var next []*Node
		for _, k := range level {
			if !yield(k) {
				return
			}
			next = append(next, k.Kids...)
		}
		level = next
	}
}

// Check says what of an answer can be compared.
type Check struct {
	// Items of the select list; nil where there is a star.
	Items []Mark
	// Ordered: the Sorted items are in order; Total: so are all rows. Limited
	// but not Total: only the number of rows and the Sorted items are determined.
	Ordered, Total, Limited bool
	// Condition: a write that has one.
	Condition bool
}

// Check reads the marks of the outermost query.
func (n *Node) Check() Check {
	var c Check
	star := false
	enter := func(k *Node) bool {
		switch {
		case k.Marks&Star != 0:
			star = true
		case k.Marks&Item != 0:
			c.Items = append(c.Items, k.Marks)
		}
		c.Ordered = c.Ordered || k.Marks&(Ordering|Total) != 0
		c.Total = c.Total || k.Marks&Total != 0
		c.Limited = c.Limited || k.Marks&Limited != 0
		// What is inside an item or another query is not of this one.
		return k.Marks&(Item|Star) == 0 && k.Sort != "subquery"
	}
	for _, k := range n.Kids {
		k.visit(enter)
	}
	if star {
		c.Items = nil
	}
	c.Condition = HasCondition(n.String())
	return c
}

func (n *Node) visit(enter func(*Node) bool) {
	if !enter(n) {
		return
	}
	for _, k := range n.Kids {
		k.visit(enter)
	}
}

// Verbatim is a node of a text that can't be made simpler.
func Verbatim(s string) *Node { return text(s) }

// HasCondition reports an UPDATE or DELETE, or a statement that reads as well as
// writes.
func HasCondition(sql string) bool {
	return strings.HasPrefix(sql, "UPDATE") || strings.HasPrefix(sql, "DELETE") || strings.Contains(sql, "SELECT")
}
