package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// An index of the shards whose COMMENT is 'virtual' is made as a virtual index too,
// wherever it is written: CREATE INDEX, a key of CREATE TABLE, ALTER TABLE ... ADD
// INDEX. SHOW CREATE TABLE tells the comment, so a restored dump has its virtual
// indexes again.

// createIndex: COMMENT 'virtual' makes the virtual index as well.
func createIndex(st *statement, cat *catalog.Catalog, i int) (Plan, *Error) {
	i = ifNotExists(st, i)
	index, ok := st.identifier(i)
	if !ok {
		return nil, st.near(i)
	}
	for i++; i < len(st.toks) && !st.is(i, "on"); i++ {
	}
	name, i, t, err := st.userTableAt(cat, i+1)
	if err != nil {
		return nil, err
	}
	ddl := &DDL{Catalog: cat, Op: "CREATE INDEX", Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: t.Shards}
	if !st.op(i, "(") {
		return nil, st.near(i)
	}
	v, virtual, err := st.virtualIndex(index, i, len(st.toks))
	if err != nil {
		return nil, err
	}
	if virtual {
		v.Table = name
		ddl.Virtual = []VirtualIndex{v}
	}
	return ddl, nil
}

// virtualIndex reads an index's columns, in parentheses from token i on, and its
// options up to end. ok: it is to be a virtual one as well.
func (st *statement) virtualIndex(name string, i, end int) (v VirtualIndex, ok bool, err *Error) {
	v.Name = name
	depth, plain := 0, true
	for ; i < end; i++ {
		switch {
		case st.op(i, "("):
			depth++
			// name(10) is a column too.
			plain = plain && (depth == 1 || depth == 2 && i+2 < len(st.toks) && st.toks[i+1].kind == tokInt && st.op(i+2, ")"))
		case st.op(i, ")"):
			depth--
		case depth == 1 && (st.op(i-1, "(") || st.op(i-1, ",")):
			if col, isName := st.identifier(i); isName {
				v.Columns = append(v.Columns, col)
			}
		}
		if depth == 0 {
			break
		}
	}
	for ; i < end; i++ {
		if !st.is(i, "comment") {
			continue
		}
		text := i + 1
		if st.op(text, "=") {
			text++
		}
		ok = text < end && st.toks[text].kind == tokString && strings.EqualFold(string(st.unescape(st.toks[text])), "virtual")
	}
	switch {
	case !ok:
		return v, false, nil
	case !plain || len(v.Columns) == 0:
		return v, false, notSupported("a virtual index over an expression is not supported: name columns")
	case v.Name == "":
		return v, false, notSupported("a virtual index needs a name: KEY name (%s) COMMENT 'virtual'", strings.Join(v.Columns, ", "))
	}
	return v, true, nil
}

// virtualKeys finds the virtual indexes among the definitions of CREATE TABLE or
// ALTER TABLE ... ADD, which stand in parentheses (depth 1) or behind ADD (0).
//
//	CREATE TABLE t (id INT, email VARCHAR(50), KEY by_email (email) COMMENT 'virtual')
//	ALTER TABLE t ADD UNIQUE KEY by_email (email) COMMENT 'virtual', ADD c INT
func (st *statement) virtualKeys(table TableName, i, depth int) (out []VirtualIndex, err *Error) {
	level, listed := 0, depth == 1
	for ; i < len(st.toks); i++ {
		switch {
		case st.op(i, "("):
			level++
		case st.op(i, ")"):
			level--
		case depth == 0 && level == 0:
			listed = st.is(i, "add") // ADD (c INT, KEY (c))
		}
		begins := listed && level == 1 && (st.op(i, "(") || st.op(i, ",")) || depth == 0 && level == 0 && st.is(i, "add")
		if !begins {
			continue
		}
		name, at, ok := st.keyAt(i + 1)
		if !ok {
			continue
		}
		end, inner := at, 0
		for ; end < len(st.toks); end++ {
			if st.op(end, "(") {
				inner++
			} else if st.op(end, ")") {
				if inner--; inner < 0 {
					break
				}
			}
			if inner == 0 && st.op(end, ",") {
				break
			}
		}
		v, virtual, err := st.virtualIndex(name, at, end)
		if err != nil {
			return nil, err
		}
		if virtual {
			v.Table = table
			out = append(out, v)
		}
	}
	return out, nil
}

// keyAt reads [CONSTRAINT [name]] {KEY | INDEX | UNIQUE | FULLTEXT | SPATIAL} [KEY]
// [IF NOT EXISTS] [name] [USING type] at token i; next is the parenthesis behind it.
func (st *statement) keyAt(i int) (name string, next int, ok bool) {
	if st.is(i, "constraint") {
		if i++; !st.is(i, "unique") && !st.is(i, "primary") {
			name, _ = st.identifier(i)
			i++
		}
	}
	switch st.word(i) {
	case "unique", "fulltext", "spatial":
		if i++; st.is(i, "key") || st.is(i, "index") {
			i++
		}
	case "key", "index":
		i++
	default:
		return "", i, false
	}
	i = ifNotExists(st, i)
	if !st.op(i, "(") && !st.is(i, "using") {
		if name, ok = st.identifier(i); !ok {
			return "", i, false
		}
		i++
	}
	if st.is(i, "using") || st.is(i, "type") {
		i += 2
	}
	return name, i, st.op(i, "(")
}
