package shunt_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/shunt-sql/shunt"

// importRules says which of our own packages each tree of packages may depend
// on, directly or through others. Trees that aren't named here are refused, so
// that a new one states its place. The longest matching tree counts.
var importRules = map[string]struct {
	allowed []string
	why     string
}{
	"storage":         {nil, "storage keeps bytes: it knows nothing of SQL or of shards"},
	"planner/catalog": {nil, "the catalog is plain data"},
	"planner/keys":    {nil, "keys are a function of values and types alone"},
	"planner":         {[]string{"planner/catalog", "planner/keys"}, "the planner is a pure function"},
	"indexer":         {[]string{"storage", "planner/catalog", "planner/keys"}, "the indexer declares what it needs of the shards"},
	"proxy/wire":      {nil, "wire knows packets, no SQL"},
	"proxy/shard":     {[]string{"proxy/wire"}, "a shard connection knows packets, no plans"},
	"proxy/merge":     {[]string{"planner", "proxy/wire"}, "a merge is rows in, rows out"},
	"proxy":           {[]string{"proxy", "planner"}, "the proxy declares the interfaces that it needs of the index"},
	"cmd":             {[]string{"cmd", "proxy", "planner", "indexer", "storage", "e2e/throwaway"}, "cmd wires everything"},
	"e2e":             {[]string{"e2e"}, "the end-to-end tests run the binary"},
	"bench":           {[]string{"bench", "e2e/throwaway", "e2e/tpch"}, "the benchmarks run the binary"},
}

func within(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

// TestImports holds the layout of ARCHITECTURE.md.
func TestImports(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-pgo=off", "-e", "-json=ImportPath,Deps,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	type pkg struct {
		ImportPath                      string
		Deps, TestImports, XTestImports []string
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		path, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			continue
		}
		tree := ""
		for name := range importRules {
			if within(path, name) && len(name) > len(tree) {
				tree = name
			}
		}
		if tree == "" {
			t.Errorf("%s has no import rule: add one", path)
			continue
		}
		rule := importRules[tree]
		imports := p.Deps
		if tree == "e2e" {
			// Black-box tests stay black boxes.
			imports = slices.Concat(p.Deps, p.TestImports, p.XTestImports)
		}
		for _, dep := range imports {
			dep, ours := strings.CutPrefix(dep, module+"/")
			if !ours || within(dep, path) {
				continue
			}
			if !slices.ContainsFunc(rule.allowed, func(a string) bool { return within(dep, a) }) {
				t.Errorf("%s imports %s, but %s", path, dep, rule.why)
			}
		}
	}
}

// TestPlannerIsPure: no clock, randomness, network or context in the planner.
func TestPlannerIsPure(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-pgo=off", "-e", "-f", "{{.ImportPath}} {{.Imports}}", "./planner/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		for i := range strings.FieldsSeq(strings.Trim(imports, "[]")) {
			if slices.Contains([]string{"context", "net", "os", "math/rand", "math/rand/v2", "database/sql"}, i) {
				t.Errorf("%s imports %s", name, i)
			}
		}
	}
}
