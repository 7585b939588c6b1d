package shunt_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the documents that are made of the code")

// eachNode visits the syntax trees of the product's files below these folders.
func eachNode(t *testing.T, dirs []string, visit func(ast.Node) (deeper bool)) {
	t.Helper()
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			ast.Inspect(file, visit)
		}
		return err
	}
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, walk); err != nil {
			t.Fatal(err)
		}
	}
}

// holdDocument compares a document with what the code says, or writes it. test makes it.
func holdDocument(t *testing.T, path, test, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != want {
		t.Errorf("%s isn't what the code says (%v): go test . -run %s -rewrite", path, err, test)
	}
}

const metricsFile = "docs/metrics.md"

const metricsIntro = `# Metrics

Written by ` + "`go test . -run MetricsDocument -rewrite`" + ` from the metrics' help texts in the code: don't edit.

` + "`GET /metrics`" + ` on the address ` + "`http`" + ` is for Prometheus. [operating.md](operating.md#what-to-alert-on) says what to alert on.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
`

// metric is one that the code makes by a literal name and help text.
type metric struct{ name, kind, labels, help string }

// metrics reads all of the product's files for metrics: Opts{Name: .., Help: ..} and calls
// that begin with a name and a help text, as prometheus.NewDesc.
func metrics(t *testing.T) []metric {
	var found []metric
	eachNode(t, []string{"cmd", "proxy", "indexer", "storage", "planner"}, func(n ast.Node) (deeper bool) {
		if call, ok := n.(*ast.CallExpr); ok {
			if m, ok := ofCall(call); ok {
				found = append(found, m)
				return false
			}
		}
		return true
	})
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return found
}

// ofCall is the metric that a call makes.
func ofCall(call *ast.CallExpr) (m metric, ok bool) {
	maker := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		maker = f.Sel.Name
	case *ast.Ident:
		maker = f.Name
	}
	var labels []string
	options := false
	for _, arg := range call.Args {
		switch a := arg.(type) {
		case *ast.CompositeLit:
			for _, e := range a.Elts {
				if s := text(e); s != "" {
					labels = append(labels, s)
				}
				pair, isPair := e.(*ast.KeyValueExpr)
				if !isPair {
					continue
				}
				switch key, _ := pair.Key.(*ast.Ident); {
				case key == nil:
				case key.Name == "Name":
					m.name, options = text(pair.Value), true
				case key.Name == "Help":
					m.help = text(pair.Value)
				}
			}
		default:
			switch s := text(arg); {
			case s == "":
			case m.name == "":
				m.name = s
			case m.help == "":
				m.help = s
			default:
				labels = append(labels, s)
			}
		}
	}
	m.labels = strings.Join(labels, ", ")
	for _, kind := range []string{"counter", "gauge", "histogram"} {
		if strings.Contains(strings.ToLower(maker), kind) {
			m.kind = kind
		}
	}
	if m.kind == "" { // a description: counters are named so
		m.kind = "gauge"
		if strings.HasSuffix(m.name, "_total") {
			m.kind = "counter"
		}
	}
	return m, strings.HasPrefix(m.name, "shunt_") && (m.help != "" || options) // else it reads one
}

func text(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	return ""
}

// TestMetricsDocument: docs/metrics.md is made of the code. -rewrite writes it.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(metricsIntro)
	for _, m := range metrics(t) {
		if m.help == "" || strings.Contains(m.help, "|") {
			t.Errorf("%s has no help text, or a | in it: %q", m.name, m.help)
		}
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>`%s` | %s | %s | %s |\n", m.name, m.name, m.kind, m.labels, m.help)
	}
	holdDocument(t, metricsFile, "MetricsDocument", b.String())
}
