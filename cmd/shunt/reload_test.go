package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// TestNeedRestart: what a reload doesn't take over is named as in the file.
func TestNeedRestart(t *testing.T) {
	started := config.Default()
	started.Shards = []config.Shard{{Name: "s0", Addr: "a:1", User: "u", Password: "p"}, {Name: "s1", Addr: "b:1", User: "u"}}
	next := *started
	next.Shards = slices.Clone(started.Shards)
	next.Shards[0].Password, next.Shards[1].Addr = "other", "c:1"
	started.Store.Servers = []config.Shard{{Name: "h", Addr: "h:1"}}
	next.Store.Servers = []config.Shard{{Name: "h", Addr: "i:1", Password: "p", Nodes: []string{"j:1"}}}
	next.Shards[0].Replicas = []config.Shard{{Name: "s0", Addr: "r:1"}}
	next.MaxReplicaLag = time.Minute
	next.Users = []config.User{{Name: "new"}}
	next.Timeouts.Wait = time.Minute
	next.MaxConnections = 7
	if got := needRestart(started, &next); len(got) > 0 {
		t.Errorf("%v", got)
	}
	next.HTTPToken, next.MinFreeDisk, next.GatherMaxRows, next.Listen = "secret", 1, 2, "x:1"
	next.Shards[1].Name, next.Store.Servers[0].Name = "s9", "g"
	next.Maintenance.Workers = 9
	got := needRestart(started, &next)
	slices.Sort(got)
	if s := strings.Join(got, " "); s != "gather_max_rows http_token listen maintenance min_free_disk shards.s1 store.servers.h" {
		t.Error(s)
	}
	next.Shards = next.Shards[:1]
	if got := needRestart(started, &next); !slices.Contains(got, "shards (2, now 1)") {
		t.Errorf("%v", got)
	}
}

// TestKeys: every field has the key that it is read from.
func TestKeys(t *testing.T) {
	takenOver := config.TakenOver()
	for f := range reflect.TypeFor[config.Config]().Fields() {
		if _, known := takenOver[keyOf(f.Name)]; !known && f.Name != "File" && f.Name != "Timeouts" {
			t.Errorf("there is no key %s", keyOf(f.Name))
		}
	}
}

// TestHotKeysAreObeyed: what the file may change by SIGHUP is read by what a reload calls.
func TestHotKeysAreObeyed(t *testing.T) {
	read := readBy(t, "reload")
	for f := range reflect.TypeFor[config.Config]().Fields() {
		if config.TakenOver()[keyOf(f.Name)] && !read[f.Name] {
			t.Errorf("%s is hot, but nothing that reload calls reads Config.%s", keyOf(f.Name), f.Name)
		}
	}
	for _, cold := range []string{"GatherMaxRows", "MinFreeDisk"} {
		if read[cold] {
			t.Errorf("Config.%s is read by what reload calls, though it isn't hot: the test would miss others like it", cold)
		}
	}
}

// readBy are the fields and methods named in a function of this package, and in those it calls that are given a configuration.
func readBy(t *testing.T, function string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string][]ast.Node{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && slices.ContainsFunc(fn.Type.Params.List, isConfig) {
				bodies[fn.Name.Name] = append(bodies[fn.Name.Name], fn.Body)
			}
		}
	}
	read := map[string]bool{}
	for names := []string{function}; len(names) > 0; names = names[1:] {
		reached := bodies[names[0]]
		delete(bodies, names[0])
		for _, body := range reached {
			ast.Inspect(body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					read[n.Sel.Name] = true
				case *ast.Ident:
					names = append(names, n.Name)
				}
				return true
			})
		}
	}
	return read
}

func isConfig(f *ast.Field) bool {
	star, ok := f.Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := star.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Config" && of.X.(*ast.Ident).Name == "config"
}
