package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Error is one thing wrong with a configuration file.
type Error struct {
	File         string
	Line, Column int // from 1; 0 where the file as a whole is meant
	// Key is the path, e.g. shards[1].addr; "" for the whole file.
	Key string
	// Message says what is wrong and what was expected.
	Message string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors are all that is wrong with a file, in the file's order.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// document collects the errors found while one file is read.
type document struct {
	file   string
	env    func(string) (string, bool)
	errors Errors
}

// value is a node of the file and its path.
type value struct {
	doc  *document
	key  string
	node ast.Node
}

func parseDocument(file string, data []byte, env func(string) (string, bool)) (*document, ast.Node, error) {
	doc := &document{file: file, env: env}
	// A byte order mark, as Windows' editors write it, would be taken for part of the first key.
	tree, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		e := &Error{File: file, Message: err.Error()}
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			e.Message = syntax.GetMessage()
			if tk := syntax.GetToken(); tk != nil && tk.Position != nil {
				e.Line, e.Column = tk.Position.Line, tk.Position.Column
			}
		}
		return nil, nil, Errors{e}
	}
	switch {
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil:
		return nil, nil, Errors{{File: file, Message: "the file is empty: expected at least users and shards"}}
	case len(tree.Docs) > 1 && tree.Docs[1].Body != nil:
		return nil, nil, Errors{{File: file, Message: "the file holds several YAML documents: expected one"}}
	}
	return doc, tree.Docs[0].Body, nil
}

// errorf notes an error at the value.
func (v value) errorf(format string, args ...any) {
	v.errorAt(v.node, v.key, format, args...)
}

func (v value) errorAt(n ast.Node, key, format string, args ...any) {
	e := &Error{File: v.doc.file, Key: key, Message: fmt.Sprintf(format, args...)}
	if n != nil {
		if tk := n.GetToken(); tk != nil && tk.Position != nil {
			e.Line, e.Column = tk.Position.Line, tk.Position.Column
		}
	}
	// A mapping's token is the colon of its first pair; its start is the key.
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		pos := m.Values[0].Key.GetToken().Position
		e.Line, e.Column = pos.Line, pos.Column
	}
	v.doc.errors = append(v.doc.errors, e)
}

func (v value) child(name string, n ast.Node) value {
	key := name
	if v.key != "" {
		key = v.key + "." + name
	}
	return value{v.doc, key, n}
}

// pairs yields a mapping's keys and values. Anything else than a mapping is
// an error, with what was expected in its place.
func (v value) pairs(expected string, each func(name string, key ast.Node, child value)) {
	switch n := v.plain().(type) {
	case *ast.MappingNode:
		for _, p := range n.Values {
			v.pair(p, each)
		}
	case *ast.MappingValueNode:
		v.pair(n, each)
	default:
		v.errorf("is %s: expected %s", kindOf(n), expected)
	}
}

func (v value) pair(p *ast.MappingValueNode, each func(string, ast.Node, value)) {
	tk := p.Key.GetToken()
	if p.Key.IsMergeKey() || tk == nil {
		v.errorAt(p, v.key, "merge keys are not supported: write the keys out")
		return
	}
	each(tk.Value, p.Key, v.child(tk.Value, p.Value))
}

// fields reads a mapping whose keys are known. It returns those that were
// there.
func (v value) fields(known ...field) map[string]bool {
	seen := map[string]bool{}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	v.pairs("a mapping with "+strings.Join(names, ", "), func(name string, key ast.Node, child value) {
		i := slices.IndexFunc(known, func(f field) bool { return f.name == name })
		if i < 0 {
			hint := ""
			if near := nearest(name, names); near != "" {
				hint = fmt.Sprintf(" (did you mean %s?)", near)
			}
			v.errorAt(key, child.key, "unknown key%s: expected one of %s", hint, strings.Join(names, ", "))
			return
		}
		seen[name] = true
		known[i].read(child)
	})
	return seen
}

// items reads a list. It returns false, and notes an error, where there is none.
func (v value) items(expected string, each func(i int, item value)) bool {
	list, ok := v.plain().(*ast.SequenceNode)
	if !ok {
		v.errorf("is %s: expected %s", kindOf(v.plain()), expected)
		return false
	}
	for i, n := range list.Values {
		each(i, value{v.doc, fmt.Sprintf("%s[%d]", v.key, i), n})
	}
	return true
}

// plain is the node without the wrappings that only YAML cares for.
func (v value) plain() ast.Node {
	n := v.node
	for {
		switch w := n.(type) {
		case *ast.AnchorNode:
			n = w.Value
		case *ast.TagNode:
			n = w.Value
		default:
			return n
		}
	}
}

// text reads a scalar as it is written, with ${NAME} replaced. ok is false
// after an error.
func (v value) text(expected string) (s string, ok bool) {
	switch n := v.plain().(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s = n.GetToken().Value
	default:
		if s, ok = unspaced(n); !ok {
			v.errorf("is %s: expected %s", kindOf(n), expected)
			return "", false
		}
	}
	return v.expand(s)
}

// unspaced is the text that the parser takes for a mapping, as in [10.0.0.9:3306]: a key's colon has a space behind it.
func unspaced(n ast.Node) (s string, ok bool) {
	if m, is := n.(*ast.MappingNode); is && len(m.Values) == 1 && !m.IsFlowStyle {
		n = m.Values[0]
	}
	p, is := n.(*ast.MappingValueNode)
	if !is {
		return "", false
	}
	key, is := p.Key.(*ast.StringNode)
	tk := p.Value.GetToken()
	if !is || tk == nil || key.Token.Origin == "" {
		return "", false
	}
	before, after := key.Token.Position, tk.Position
	return key.Value + ":" + tk.Value, before.Line == after.Line && after.Column == before.Column+len(key.Value)+1
}

// variable reports whether the text has something in it, such as ${NAME}, even
// where nothing is left once that is replaced.
func (v value) variable() bool { return v.plain().GetToken().Value != "" }

// expand replaces ${NAME}; $${ is a literal ${.
func (v value) expand(s string) (string, bool) {
	var b strings.Builder
	ok := true
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), ok
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		name, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			v.errorf("${ is not closed: expected ${NAME}, or $${ for a literal ${")
			return "", false
		}
		val, set := v.doc.env(name)
		if !set {
			v.errorf("environment variable %s is not set: expected it to hold this value", name)
			ok = false
		}
		b.WriteString(val)
		s = rest
	}
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.AliasNode:
		return "an alias (which is not supported)"
	}
	return "something else"
}

// nearest finds the known name that a misspelt one most likely stands for.
func nearest(name string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(name), k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := prev
			if a[i] != b[j] {
				cost++
			}
			prev = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Load reads and checks a file.
func Load(file string) (*Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(file, data, os.LookupEnv)
}
