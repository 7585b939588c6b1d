package spoken

import (
	"regexp"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// An index of the shards whose COMMENT is 'virtual', or 'virtual INCLUDE (id, name)', is made as a virtual index too,
// wherever it is written: CREATE INDEX, a key of CREATE TABLE, ALTER TABLE ... ADD
// INDEX. SHOW CREATE TABLE tells the comment, so a restored dump has its virtual
// indexes again.

// createIndex: COMMENT 'virtual' makes the virtual index as well.
func createIndex(st *text.Statement, cat *catalog.Catalog, i int) (plan.Plan, *text.Error) {
	i = ifNotExists(st, i)
	index, ok := st.Identifier(i)
	if !ok {
		return nil, st.Near(i)
	}
	for i++; i < len(st.Tokens) && !st.Is(i, "on"); i++ {
	}
	name, i, t, err := UserTableAt(st, cat, i+1)
	if err != nil {
		return nil, err
	}
	ddl := &plan.DDL{Catalog: cat, Op: "CREATE INDEX", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: t.Shards}
	if !st.Op(i, "(") {
		return nil, st.Near(i)
	}
	v, virtual, err := virtualIndex(st, index, i, len(st.Tokens))
	if err != nil {
		return nil, err
	}
	if virtual {
		v.Table = name
		ddl.Virtual = []plan.VirtualIndex{v}
	}
	return ddl, nil
}

// virtualIndex reads an index's columns, in parentheses from token i on, and its
// options up to end. ok: it is to be a virtual one as well.
func virtualIndex(st *text.Statement, name string, i, end int) (v plan.VirtualIndex, ok bool, err *text.Error) {
	v.Name = name
	depth, plain := 0, true
	for ; i < end; i++ {
		switch {
		case st.Op(i, "("):
			depth++
			// name(10) is a column too.
			plain = plain && (depth == 1 || depth == 2 && i+2 < len(st.Tokens) && st.Tokens[i+1].Kind == text.Int && st.Op(i+2, ")"))
		case st.Op(i, ")"):
			depth--
		case depth == 1 && (st.Op(i-1, "(") || st.Op(i-1, ",")):
			if col, isName := st.Identifier(i); isName {
				v.Columns = append(v.Columns, col)
			}
		}
		if depth == 0 {
			break
		}
	}
	for ; i < end; i++ {
		if !st.Is(i, "comment") {
			continue
		}
		quoted := i + 1
		if st.Op(quoted, "=") {
			quoted++
		}
		ok = false
		if quoted < end && st.Tokens[quoted].Kind == text.String {
			v.Include, ok = virtualComment(string(st.Unescape(st.Tokens[quoted])))
		}
	}
	switch {
	case !ok:
		return v, false, nil
	case !plain || len(v.Columns) == 0:
		return v, false, text.NotSupported("a virtual index over an expression is not supported: name columns")
	case v.Name == "":
		return v, false, text.NotSupported("a virtual index needs a name: KEY name (%s) COMMENT 'virtual'", strings.Join(v.Columns, ", "))
	}
	return v, true, nil
}

// virtualComment reads the comment of a virtual index: virtual, or virtual INCLUDE (id, name). false: it is another's.
func virtualComment(comment string) (include []string, ok bool) {
	m := virtualIndexComment.FindStringSubmatch(comment)
	if m == nil {
		return nil, false
	}
	for name := range strings.SplitSeq(m[1], ",") {
		if name = strings.Trim(strings.TrimSpace(name), "`"); name != "" {
			include = append(include, name)
		}
	}
	return include, true
}

var virtualIndexComment = regexp.MustCompile(`(?i)^virtual(?:\s+include\s*\(([^()]*)\))?$`)

// VirtualKeys finds the virtual indexes among the definitions of CREATE TABLE or
// ALTER TABLE ... ADD, which stand in parentheses (depth 1) or behind ADD (0).
//
//	CREATE TABLE t (id INT, email VARCHAR(50), KEY by_email (email) COMMENT 'virtual')
//	ALTER TABLE t ADD UNIQUE KEY by_email (email) COMMENT 'virtual', ADD c INT
func VirtualKeys(st *text.Statement, table catalog.TableName, i, depth int) (out []plan.VirtualIndex, err *text.Error) {
	level, listed := 0, depth == 1
	for ; i < len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			level++
		case st.Op(i, ")"):
			level--
		case depth == 0 && level == 0:
			listed = st.Is(i, "add") // ADD (c INT, KEY (c))
		}
		begins := listed && level == 1 && (st.Op(i, "(") || st.Op(i, ",")) || depth == 0 && level == 0 && st.Is(i, "add")
		if !begins {
			continue
		}
		name, at, ok := keyAt(st, i+1)
		if !ok {
			continue
		}
		end, inner := at, 0
		for ; end < len(st.Tokens); end++ {
			if st.Op(end, "(") {
				inner++
			} else if st.Op(end, ")") {
				if inner--; inner < 0 {
					break
				}
			}
			if inner == 0 && st.Op(end, ",") {
				break
			}
		}
		v, virtual, err := virtualIndex(st, name, at, end)
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
func keyAt(st *text.Statement, i int) (name string, next int, ok bool) {
	if st.Is(i, "constraint") {
		if i++; !st.Is(i, "unique") && !st.Is(i, "primary") {
			name, _ = st.Identifier(i)
			i++
		}
	}
	switch st.Word(i) {
	case "unique", "fulltext", "spatial":
		if i++; st.Is(i, "key") || st.Is(i, "index") {
			i++
		}
	case "key", "index":
		i++
	default:
		return "", i, false
	}
	i = ifNotExists(st, i)
	if !st.Op(i, "(") && !st.Is(i, "using") {
		if name, ok = st.Identifier(i); !ok {
			return "", i, false
		}
		i++
	}
	if st.Is(i, "using") || st.Is(i, "type") {
		i += 2
	}
	return name, i, st.Op(i, "(")
}
