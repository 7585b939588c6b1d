package shunt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inlineCode  = regexp.MustCompile("`([^`\n]+)`")
	mdLink      = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	pathLike    = regexp.MustCompile(`^\.?[A-Za-z0-9_][A-Za-z0-9_.*-]*(/[A-Za-z0-9_.*-]+)*/?$`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
	codeFence   = regexp.MustCompile("(?ms)^```.*?^```")
)

// TestDocumentedPathsExist: every path that the documents name is there. A
// path is in backticks or a link; it has a slash and begins with one of the
// repository's directories, or it is a file name with a known ending.
func TestDocumentedPathsExist(t *testing.T) {
	t.Parallel()
	tops := map[string]bool{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tops[e.Name()] = e.IsDir()
	}
	tops["bin"] = false // what builds make there isn't all there always
	// Files by their base name, for documents that name them without a folder.
	bases := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		bases[d.Name()] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, "ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		plain := codeFence.ReplaceAllString(string(text), "")
		named := 0
		for _, m := range inlineCode.FindAllStringSubmatch(plain, -1) {
			p := strings.TrimSuffix(strings.TrimPrefix(m[1], "./"), "/...")
			if !pathLike.MatchString(p) {
				continue
			}
			top, _, nested := strings.Cut(p, "/")
			switch {
			case nested && tops[top]:
				named++
				if found, err := filepath.Glob(p); err != nil || len(found) == 0 {
					t.Errorf("%s names %s, which does not exist", doc, m[1])
				}
			case !nested && (strings.HasSuffix(p, ".go") || strings.HasSuffix(p, ".md")):
				named++
				if !bases[p] {
					t.Errorf("%s names %s, which does not exist", doc, m[1])
				}
			}
		}
		for _, m := range mdLink.FindAllStringSubmatch(plain, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			named++
			to := doc
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(doc), m[1])
			}
			linked, err := os.ReadFile(to)
			if err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
			if m[2] != "" && !hasAnchor(string(linked), m[2]) {
				t.Errorf("%s links to %s#%s, which has no such heading or anchor", doc, m[1], m[2])
			}
		}
		if doc == "ARCHITECTURE.md" && named == 0 {
			t.Errorf("%s names no path: the pattern no longer finds them", doc)
		}
	}
}

// TestDocumentsAreShort: the two that everybody begins with are read to their end.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	for doc, most := range map[string]int64{"README.md": 8 << 10, "ARCHITECTURE.md": 12 << 10} {
		if st, err := os.Stat(doc); err != nil || st.Size() > most {
			t.Errorf("%s has %d bytes, at most %d were expected (%v): what goes into detail has a place in docs/, or in the file it is about", doc, st.Size(), most, err)
		}
	}
}

// hasAnchor reports a heading that becomes the anchor, or the anchor as it is.
func hasAnchor(text, anchor string) bool {
	if strings.Contains(text, `<a id="`+anchor+`">`) {
		return true
	}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(words, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestImageHasGo: the image is built by the Go that go.mod asks for.
func TestImageHasGo(t *testing.T) {
	t.Parallel()
	version := func(file, pattern string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s names no version of Go", file)
		}
		return string(m[1])
	}
	if image, module := version("Dockerfile", `FROM golang:(\d+\.\d+)`), version("go.mod", `(?m)^go (\d+\.\d+)`); image != module {
		t.Errorf("Dockerfile has Go %s, go.mod %s", image, module)
	}
}

// TestProxyMapIsWhole: the map in proxy/doc.go names each of the package's files, some by how they begin (own_*).
func TestProxyMapIsWhole(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("proxy/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`[a-z]+(_[a-z]+)*(_\*)?`).FindAllString(string(doc), -1)
	files, err := filepath.Glob("proxy/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".go")
		begins, _, _ := strings.Cut(name, "_")
		if name != "doc" && !strings.HasSuffix(name, "_test") && !slices.Contains(named, name) && !slices.Contains(named, begins+"_*") {
			t.Errorf("%s isn't in the map of proxy/doc.go", file)
		}
	}
}
