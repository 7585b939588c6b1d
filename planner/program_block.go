package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// programBlock is a query, or a statement that changes rows, in the body of a stored program,
// which the parser doesn't know: it is read by its tokens, subqueries as blocks of their own.
type programBlock struct {
	st   *statement
	verb string // select, insert, replace, update or delete
	at   int    // its token
	// refs are the tables that it reads or changes; of insert and replace the one that gets rows.
	refs []*blockRef
}

// blockRef is a table in a block. Its alias is what follows the name, and may be a keyword.
type blockRef struct {
	name  string
	alias string
	table *catalog.Table // nil: none that is known
	next  int            // the token behind the name
}

// blocks are those from token i on; names without a schema are in the one that is given.
func (st *statement) blocks(cat *catalog.Catalog, schema string, i int) (out []*programBlock) {
	// What is known of each parenthesis around the token: the block that it belongs to, whether
	// a comma stands between tables, and whether a table's name comes next.
	type level struct {
		in         *programBlock
		list, name bool
	}
	levels := []level{{}}
	begin := func(verb string, list, name bool) {
		b := &programBlock{st: st, verb: verb, at: i}
		out = append(out, b)
		levels[len(levels)-1] = level{b, list, name}
	}
	names := &statement{src: st.src, settings: Settings{Schema: schema}, toks: st.toks}
	for ; i < len(st.toks); i++ {
		l := &levels[len(levels)-1]
		if st.op(i-1, ".") {
			continue // no keyword
		}
		switch w := st.word(i); {
		case st.toks[i].kind == tokEnd:
			levels = []level{{}}
		case st.op(i, "("):
			inner := level{l.in, l.name, l.name}
			l.name = false
			levels = append(levels, inner)
		case st.op(i, ")"):
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
		case st.op(i, ","):
			l.name = l.list
		case w == "select", w == "delete":
			begin(w, false, false)
		case w == "update":
			if !st.is(i-1, "key") && !st.is(i-1, "for") && !st.is(i-1, "on") && !st.is(i-1, "before") && !st.is(i-1, "after") {
				begin(w, true, true)
			}
		case (w == "insert" || w == "replace") && !st.op(i+1, "("):
			begin(w, false, true)
		case w == "table" && !st.is(i-1, "temporary"):
			begin("select", false, true)
		case w == "from", w == "using" && !st.op(i+1, "("):
			if l.list, l.name = true, true; l.in != nil && w == "using" {
				l.in.refs = nil // those before were which of these it deletes from
			}
		case w == "join", w == "straight_join":
			l.name = true
		case w == "on", w == "union", w == "except", w == "intersect":
			l.name = false
		case w == "where", w == "set", w == "group", w == "having", w == "order", w == "limit", w == "values", w == "into" && l.in != nil && l.in.verb == "select":
			l.list, l.name = false, false
		case l.name && !slices.Contains(tableModifiers, w):
			l.name = false
			name, next, err := names.tableAt(i)
			if err == nil && l.in != nil && (!st.op(next, "(") || l.in.verb == "insert" || l.in.verb == "replace") { // else a function
				r := &blockRef{name: name.Name, table: cat.Table(name.Schema, name.Name), next: next}
				if st.is(next, "as") {
					next++
				}
				r.alias, _ = st.identifier(next)
				l.in.refs = append(l.in.refs, r)
				i = r.next - 1
			}
		}
	}
	return out
}

// tableModifiers are words that may stand before a table's name.
var tableModifiers = []string{"ignore", "into", "low_priority", "high_priority", "delayed", "quick", "lateral"}

// own calls do with each token behind the block's verb that is neither in parentheses nor of
// another block, until that says that it has seen enough.
func (b *programBlock) own(do func(i int) bool) {
	st := b.st
	for i, depth := b.at+1, 0; i < len(st.toks) && st.toks[i].kind != tokEnd; i++ {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			if depth--; depth < 0 {
				return
			}
		case depth > 0:
		case st.is(i, "union"), st.is(i, "except"), st.is(i, "intersect"), !do(i):
			return
		}
	}
}

// blockSet is `column = ...` behind SET.
type blockSet struct {
	of     []*blockRef // whose column it is: all that it may be
	column string
}

// assignments are those of an UPDATE.
func (b *programBlock) assignments() (out []blockSet) {
	st := b.st
	set, begins := false, false
	b.own(func(i int) bool {
		switch {
		case !set:
			set = st.is(i, "set")
			begins = set
		case begins:
			begins = false
			of, column := "", i
			for st.op(column+1, ".") {
				of, _ = st.identifier(column)
				column += 2
			}
			name, _ := st.identifier(column)
			out = append(out, blockSet{b.written(of, name), name})
		case st.op(i, ","):
			begins = true
		}
		return !set || !st.is(i, "where") && !st.is(i, "order") && !st.is(i, "limit")
	})
	return out
}

// named are the tables that a column's qualifier may mean, "" for none.
func (b *programBlock) named(of, column string) (out []*blockRef) {
	for _, r := range b.refs {
		if of != "" && strings.EqualFold(r.alias, of) || of == "" && (r.table == nil || len(r.table.Columns) == 0 || r.table.Column(column) != nil) {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, r := range b.refs {
		if strings.EqualFold(r.name, of) {
			out = append(out, r)
		}
	}
	return out
}

// written is named of a column that is set, or of a table that is deleted from: in doubt all.
func (b *programBlock) written(of, column string) []*blockRef {
	if out := b.named(of, column); len(out) > 0 {
		return out
	}
	return b.refs
}

// changed are the tables whose rows the block inserts, updates or deletes.
func (b *programBlock) changed() (out []*blockRef) {
	switch b.verb {
	case "select":
	case "update":
		for _, a := range b.assignments() {
			for _, r := range a.of {
				if !slices.Contains(out, r) {
					out = append(out, r)
				}
			}
		}
	case "delete":
		// DELETE a, b FROM ..., DELETE FROM a, b USING ..., or DELETE FROM a.
		st, whole := b.st, true
		b.own(func(i int) bool {
			name, ok := st.identifier(i)
			switch {
			case st.is(i, "from"), st.is(i, "using"):
				whole = len(out) == 0
				return whole
			case st.is(i, "where"), st.is(i, "order"), st.is(i, "limit"):
				return false
			case ok && !slices.Contains(tableModifiers, strings.ToLower(name)) && (!st.op(i+1, ".") || st.op(i+2, "*")):
				out = append(out, b.written(name, "")...)
			}
			return true
		})
		if whole {
			return b.refs
		}
	default:
		return b.refs
	}
	return out
}

// sets reports whether an UPDATE may set the shard key of one of its tables.
func (b *programBlock) sets(r *blockRef) bool {
	return r.table.ShardKey != nil && b.verb == "update" && slices.ContainsFunc(b.assignments(), func(a blockSet) bool {
		return slices.Contains(a.of, r) && strings.EqualFold(a.column, r.table.ShardKey.Name)
	})
}

// programColumn is a column as it is written: its qualifier may be empty.
type programColumn struct{ of, name string }

// columnAt reads one, and says which token follows; the name is "" where none is.
func (st *statement) columnAt(i int) (c programColumn, next int) {
	for st.op(i+1, ".") {
		c.of, _ = st.identifier(i)
		i += 2
	}
	c.name, _ = st.identifier(i)
	return c, i + 1
}

// equated are the columns that are equal in each row that the block's conditions let through.
//
// Counter-examples, which have none:
//
//	WHERE user_id = NEW.id OR total > 5
//	WHERE user_id = NEW.id + 1
//	WHERE total BETWEEN 1 AND user_id = NEW.id
//	FROM orders LEFT JOIN countries ON user_id = NEW.id
func (b *programBlock) equated() (out [][2]programColumn) {
	st := b.st
	outer, holds, begins, between := false, false, false, false
	b.own(func(i int) bool {
		switch w := st.word(i); {
		case w == "or", w == "xor", w == "case", st.op(i, "||"):
			out = nil
			return false
		case w == "group", w == "having", w == "order", w == "limit", w == "window":
			return false
		case (w == "left" || w == "right") && !st.op(i+1, "("):
			outer = true
		case w == "where", w == "on", w == "set":
			holds = w == "where" || w == "on" && !outer
			begins, between = holds, false
		case w == "between":
			begins, between = false, true
		case w == "and", st.op(i, "&&"):
			begins, between = holds && !between, false
		case begins:
			begins = false
			x, next := st.columnAt(i)
			if !st.op(next, "=") && !st.op(next, "<=>") {
				break
			}
			y, end := st.columnAt(next + 1)
			if x.name != "" && y.name != "" && st.endsCondition(end) {
				out = append(out, [2]programColumn{x, y})
			}
		}
		return true
	})
	return out
}

// endsCondition reports whether nothing at token i goes on with `a = b` before it.
func (st *statement) endsCondition(i int) bool {
	if i >= len(st.toks) || st.toks[i].kind == tokEnd || st.op(i, ")") || st.op(i, ",") || st.op(i, "&&") {
		return true
	}
	switch st.word(i) {
	case "and", "where", "group", "having", "order", "limit", "window", "for", "lock", "into", "set", "returning", "union", "except", "intersect",
		"join", "inner", "cross", "left", "right", "natural", "straight_join", "then", "do":
		return true
	}
	return false
}
