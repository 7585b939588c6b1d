package main

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

var rewrite = flag.Bool("rewrite", false, "write llms.txt anew")

// links are a page's ids, and what it refers to.
func links(t *testing.T, path string) (ids map[string]bool, to []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root, err := html.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	ids = map[string]bool{}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				ids[a.Val] = true
			case "href", "src":
				to = append(to, a.Val)
			}
		}
	}
	return ids, to
}

// TestSite: every link of every page leads somewhere, and every page is reached from the map and found by the search.
func TestSite(t *testing.T) {
	t.Parallel()
	s, err := read("..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := s.write(out); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(os.DirFS(out), "*.html")
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	ids, to := map[string]map[string]bool{}, map[string][]string{}
	for _, f := range files {
		ids[f], to[f] = links(t, filepath.Join(out, f))
	}
	mapped := map[string]bool{"index.html": true}
	for _, k := range s.kinds {
		for _, e := range k.Entries {
			mapped[e.Link] = true
		}
	}
	for _, f := range files {
		if !mapped[f] {
			t.Errorf("docs/README.md has no line for %s", f)
		}
		for _, link := range to[f] {
			at, anchor, _ := strings.Cut(link, "#")
			if outside, ok := strings.CutPrefix(at, repository); ok {
				if _, err := os.Stat(filepath.Join("../..", outside)); err != nil {
					t.Errorf("%s: %s: %v", f, link, err)
				}
				continue
			}
			if strings.Contains(link, "://") {
				continue
			}
			if at == "" {
				at = f
			}
			if _, err := os.Stat(filepath.Join(out, at)); err != nil {
				t.Errorf("%s: %s: %v", f, link, err)
			} else if anchor != "" && !ids[at][anchor] {
				t.Errorf("%s: %s has no such anchor", f, link)
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(out, "search.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sections []section
	if err := json.Unmarshal(b, &sections); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, x := range sections {
		found[x.Page] = true
		if !ids[x.Page][x.Anchor] {
			t.Errorf("the search leads to %s#%s, which isn't there", x.Page, x.Anchor)
		}
	}
	for _, f := range files {
		if !found[f] {
			t.Errorf("the search doesn't find %s", f)
		}
	}
}

// TestLLMs: llms.txt is the map of the documents.
func TestLLMs(t *testing.T) {
	t.Parallel()
	const path = "../../llms.txt"
	s, err := read("..")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(s.llms(repository+"docs/"), ".html", ".md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // everybody may read it
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != want {
		t.Errorf("llms.txt isn't what docs/README.md says (%v): go test ./docs/site -run LLMs -rewrite", err)
	}
}
