package shunt_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/mysqlerr"
)

const errorsFile = "docs/errors.md"

const errorsIntro = `# Errors

Written by ` + "`go test . -run ErrorsDocument -rewrite`" + ` from ` + "`mysqlerr/codes.go`" + `: don't edit.

The errors and warnings that Shunt gives by itself. What a server answers is forwarded with the server's own code and SQLSTATE.
Where to read on is told beside errors, and not in them, since clients compare their texts: EXPLAIN ROUTE of the statement (` + "`shunt explain`" + `, the console) ends its error with the
section here (` + "`docs/errors.md#1235`" + `), and behind a refusal (1235) SHOW WARNINGS has it as a note, unless ` + "`sql_notes`" + ` is off.
An INSERT ... SELECT whose rows Shunt copies fails with the code that the query's warning has, where the session's SQL mode is strict.

| code | SQLSTATE | name | when | what to do |
| --- | --- | --- | --- | --- |
`

// givers are the functions whose first argument, or second behind a level or a kind, is the
// code of an error that the client is told.
var givers = []string{"New", "Newf", "NewError", "NewErrorf", "refuse", "warn", "note", "condition"}

// given are the names in mysqlerr of what the product gives.
func given(t *testing.T) map[string]bool {
	found := map[string]bool{}
	add := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok && p.Name == "mysqlerr" && s.Sel.Name != "Error" {
				found[s.Sel.Name] = true
			}
		}
	}
	eachNode(t, []string{"cmd", "proxy", "planner"}, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := ""
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				name = f.Sel.Name
			case *ast.Ident:
				name = f.Name
			}
			if slices.Contains(givers, name) {
				for _, arg := range n.Args[:min(len(n.Args), 2)] {
					add(arg)
				}
			}
		case *ast.AssignStmt:
			for _, e := range n.Rhs {
				add(e)
			}
		}
		return true
	})
	return found
}

// TestErrorsDocument: docs/errors.md is made of the table of codes, which says of each error that
// is given when that is, and of no other one. -rewrite writes it.
func TestErrorsDocument(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "mysqlerr/codes.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	left := given(t)
	var b strings.Builder
	b.WriteString(errorsIntro)
	last := 0
	for _, spec := range file.Decls[0].(*ast.GenDecl).Specs {
		v := spec.(*ast.ValueSpec)
		name := v.Names[0].Name
		code, err := strconv.Atoi(v.Values[0].(*ast.BasicLit).Value)
		if err != nil || code <= last {
			t.Errorf("%s: codes stand in their order: %v", name, err)
		}
		last = code
		if told := v.Doc != nil; told != left[name] {
			t.Errorf("%s is given: %v; has a comment that says when: %v", name, left[name], told)
		}
		delete(left, name)
		if v.Doc == nil {
			continue
		}
		when, do, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(v.Doc.Text()), "\n", " "), " Do: ")
		fmt.Fprintf(&b, "| <a id=\"%d\"></a>%d | %s | %s | %s | %s |\n", code, code, mysqlerr.State(uint16(code)), strings.TrimSpace(v.Comment.Text()), when, do)
	}
	for name := range maps.Keys(left) {
		t.Errorf("%s isn't in the table", name)
	}
	holdDocument(t, errorsFile, "ErrorsDocument", b.String())
}
