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

const (
	module = "github.com/shunt-sql/shunt"
	trees  = "github.com/pingcap/tidb/pkg/parser"
)

// importRules says which of our own packages each tree of packages may depend
// on, directly or through others. Trees that aren't named here are refused, so
// that a new one states its place. The longest matching tree counts.
var importRules = map[string]struct {
	allowed []string
	why     string
}{
	"mysqlerr":            {nil, "codes of errors are plain data"},
	"storage":             {[]string{"planner/catalog"}, "storage keeps bytes: of the catalog it knows the numbers of shards and indexes, and names"},
	"storage/home":        {[]string{"storage", "planner/catalog"}, "a home is a store: it knows what storage does"},
	"storage/shared":      {[]string{"storage", "planner/catalog"}, "a store that several have knows nothing of who they are"},
	"cluster":             {[]string{"storage", "planner/catalog"}, "the cluster tells who else runs, and nothing of what they do"},
	"cluster/clustertest": {[]string{"cluster", "storage", "planner/catalog"}, "fakes of what the cluster asks for"},
	"cluster/seat":        {[]string{"cluster", "storage", "planner/catalog"}, "a seat is rows on a server"},
	"advise":              {[]string{"planner", "mysqlerr"}, "advice is a function of a schema and statements: cmd asks the server"},
	"follow":              {[]string{"planner/catalog", "planner/keys", "planner/text", "mysqlerr"}, "the follower reads logs, and knows nothing of who wants their events"},
	"cover":               {[]string{"planner/catalog"}, "whether an answer is current is a matter of gates: what it is, and who asks the logs, is others'"},
	"virtual":             {[]string{"follow", "planner/catalog", "planner/keys", "planner/text", "mysqlerr"}, "virtual columns need logs and SQL on shards, whoever gives them"},
	"planner/catalog":     {nil, "the catalog is plain data"},
	"planner/keys":        {nil, "keys are a function of values and types alone"},
	"planner/plan":        {[]string{"planner/text", "planner/catalog", "planner/keys", "mysqlerr"}, "plans are plain data"},
	"planner/text":        {[]string{"mysqlerr", "planner/catalog", "planner/keys"}, "the text is read before anybody plans"},
	"planner/spoken":      {[]string{"planner/plan", "planner/text", "planner/catalog", "planner/keys", "mysqlerr"}, "what is understood by words needs nothing of the analysis of trees"},
	"planner":             {[]string{"planner/plan", "planner/catalog", "planner/keys", "mysqlerr"}, "the planner is a pure function"},
	"indexer":             {[]string{"cluster", "cover", "storage", "planner/plan", "planner/text", "planner/catalog", "planner/keys", "mysqlerr"}, "the indexer declares what it needs of the shards"},
	"proxy/wire":          {[]string{"mysqlerr"}, "wire knows packets, no SQL"},
	"proxy/shard":         {[]string{"proxy/wire", "mysqlerr"}, "a shard connection knows packets, no plans"},
	"proxy/merge":         {[]string{"planner/plan", "planner/text", "planner/catalog", "planner/keys", "proxy/wire", "mysqlerr"}, "a merge is rows in, rows out"},
	"proxy/deadlock":      {[]string{"proxy/shard", "proxy/wire", "planner/catalog", "mysqlerr"}, "a leaf of the proxy"},
	"proxy/scratch":       {[]string{"proxy/shard", "proxy/wire", "planner/catalog", "mysqlerr"}, "a leaf of the proxy"},
	"proxy/console":       {[]string{"planner/catalog", "proxy/insights"}, "a leaf of the proxy"},
	"proxy/spool":         {[]string{"proxy/wire", "mysqlerr"}, "a leaf of the proxy"},
	"proxy/infile":        {[]string{"planner/plan", "planner/text", "planner/catalog", "planner/keys", "mysqlerr"}, "a leaf of the proxy"},
	"proxy/door":          {nil, "a leaf of the proxy"},
	"proxy/insights":      {nil, "a leaf of the proxy"},
	"proxy/tracing":       {nil, "a leaf of the proxy"},
	"proxy":               {[]string{"proxy", "planner", "mysqlerr"}, "the proxy declares the interfaces that it needs of the index"},
	"cmd":                 {[]string{"cmd", "proxy", "planner", "cluster", "cover", "indexer", "storage", "follow", "virtual", "advise", "mysqlerr", "e2e/throwaway"}, "cmd wires everything"},
	"ci":                  {[]string{"ci"}, "what runs tests knows nothing of them"},
	"docs/site":           {nil, "the site is made of documents alone"},
	"e2e":                 {[]string{"e2e", "ci/suite"}, "the end-to-end tests run the binary"},
	"bench":               {[]string{"bench", "e2e/throwaway", "e2e/tpch"}, "the benchmarks run the binary"},
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
		if slices.Contains(p.Deps, trees) && !slices.Contains([]string{"planner", "proxy", "advise", "cmd"}, tree) {
			t.Errorf("%s links the parser, but syntax trees are the planner's own", path)
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
