package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// programBlock is a query, or a statement that changes rows, in the body of a stored program,
// which the parser doesn't know: it is read by its tokens, subqueries as blocks of their own.
type programBlock struct {
	st   *text.Statement
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
func blocks(st *text.Statement, cat *catalog.Catalog, schema string, i int) (out []*programBlock) {
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
	names := &text.Statement{Src: st.Src, Settings: text.Settings{Schema: schema}, Tokens: st.Tokens}
	for ; i < len(st.Tokens); i++ {
		l := &levels[len(levels)-1]
		if st.Op(i-1, ".") {
			continue // no keyword
		}
		switch w := st.Word(i); {
		case st.Tokens[i].Kind == text.Semicolon:
			levels = []level{{}}
		case st.Op(i, "("):
			inner := level{l.in, l.name, l.name}
			l.name = false
			levels = append(levels, inner)
		case st.Op(i, ")"):
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
		case st.Op(i, ","):
			l.name = l.list
		case w == "select", w == "delete":
			begin(w, false, false)
		case w == "update":
			if !st.Is(i-1, "key") && !st.Is(i-1, "for") && !st.Is(i-1, "on") && !st.Is(i-1, "before") && !st.Is(i-1, "after") {
				begin(w, true, true)
			}
		case (w == "insert" || w == "replace") && !st.Op(i+1, "("):
			begin(w, false, true)
		case w == "table" && !st.Is(i-1, "temporary"):
			begin("select", false, true)
		case w == "from", w == "using" && !st.Op(i+1, "("):
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
			name, next, err := names.TableAt(i)
			if err == nil && l.in != nil && (!st.Op(next, "(") || l.in.verb == "insert" || l.in.verb == "replace") { // else a function
				r := &blockRef{name: name.Name, table: cat.Table(name.Schema, name.Name), next: next}
				if st.Is(next, "as") {
					next++
				}
				r.alias, _ = st.Identifier(next)
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
	for i, depth := b.at+1, 0; i < len(st.Tokens) && st.Tokens[i].Kind != text.Semicolon; i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			if depth--; depth < 0 {
				return
			}
		case depth > 0:
		case st.Is(i, "union"), st.Is(i, "except"), st.Is(i, "intersect"), !do(i):
			return
		}
	}
}

// blockSet is `column = ...` behind SET.
type blockSet struct {
	of     []*blockRef // whose column it is: all that it may be
	column string
	value  int // the token where its value begins
}

// assignments are those of an UPDATE.
func (b *programBlock) assignments() (out []blockSet) {
	st := b.st
	set, begins := false, false
	b.own(func(i int) bool {
		switch {
		case !set:
			set = st.Is(i, "set")
			begins = set
		case begins:
			begins = false
			of, column := "", i
			for st.Op(column+1, ".") {
				of, _ = st.Identifier(column)
				column += 2
			}
			name, _ := st.Identifier(column)
			out = append(out, blockSet{b.written(of, name), name, column + 2})
		case st.Op(i, ","):
			begins = true
		}
		return !set || !st.Is(i, "where") && !st.Is(i, "order") && !st.Is(i, "limit")
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
			name, ok := st.Identifier(i)
			switch {
			case st.Is(i, "from"), st.Is(i, "using"):
				whole = len(out) == 0
				return whole
			case st.Is(i, "where"), st.Is(i, "order"), st.Is(i, "limit"):
				return false
			case ok && !slices.Contains(tableModifiers, strings.ToLower(name)) && (!st.Op(i+1, ".") || st.Op(i+2, "*")):
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

// sets reports whether an UPDATE may set the shard key of one of its tables to another value than NEW.own or OLD.own.
func (b *programBlock) sets(r *blockRef, own string) bool {
	st := b.st
	return r.table.ShardKey != nil && b.verb == "update" && slices.ContainsFunc(b.assignments(), func(a blockSet) bool {
		i := a.value
		keeps := (st.Named(i, "new") || st.Named(i, "old")) && st.Op(i+1, ".") && st.Named(i+2, own) &&
			(i+3 >= len(st.Tokens) || st.Op(i+3, ",") || st.Is(i+3, "where") || st.Is(i+3, "order") || st.Is(i+3, "limit") || st.Tokens[i+3].Kind == text.Semicolon)
		return !keeps && slices.Contains(a.of, r) && strings.EqualFold(a.column, r.table.ShardKey.Name)
	})
}

// programColumn is a column as it is written: its qualifier may be empty.
type programColumn struct{ of, name string }

// columnAt reads one, and says which token follows; the name is "" where none is.
func columnAt(st *text.Statement, i int) (c programColumn, next int) {
	for st.Op(i+1, ".") {
		c.of, _ = st.Identifier(i)
		i += 2
	}
	c.name, _ = st.Identifier(i)
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
		switch w := st.Word(i); {
		case w == "or", w == "xor", w == "case", st.Op(i, "||"):
			out = nil
			return false
		case w == "group", w == "having", w == "order", w == "limit", w == "window":
			return false
		case (w == "left" || w == "right") && !st.Op(i+1, "("):
			outer = true
		case w == "where", w == "on", w == "set":
			holds = w == "where" || w == "on" && !outer
			begins, between = holds, false
		case w == "between":
			begins, between = false, true
		case w == "and", st.Op(i, "&&"):
			begins, between = holds && !between, false
		case begins:
			begins = false
			x, next := columnAt(st, i)
			if !st.Op(next, "=") && !st.Op(next, "<=>") {
				break
			}
			y, end := columnAt(st, next+1)
			if x.name != "" && y.name != "" && endsEquation(st, end) {
				out = append(out, [2]programColumn{x, y})
			}
		}
		return true
	})
	return out
}

// endsEquation reports whether nothing at token i goes on with `a = b` before it.
func endsEquation(st *text.Statement, i int) bool {
	if i >= len(st.Tokens) || st.Tokens[i].Kind == text.Semicolon || st.Op(i, ")") || st.Op(i, ",") || st.Op(i, "&&") {
		return true
	}
	switch st.Word(i) {
	case "and", "where", "group", "having", "order", "limit", "window", "for", "lock", "into", "set", "returning", "union", "except", "intersect",
		"join", "inner", "cross", "left", "right", "natural", "straight_join", "then", "do":
		return true
	}
	return false
}
