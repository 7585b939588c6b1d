package shunt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	mdLink     = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	pathLike   = regexp.MustCompile(`^\.?[A-Za-z0-9_][A-Za-z0-9_.*-]*(/[A-Za-z0-9_.*-]+)*/?$`)
	codeFence  = regexp.MustCompile("(?ms)^```.*?^```")
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
	for _, doc := range []string{"ARCHITECTURE.md", "README.md", "CHANGELOG.md", "docs/findings.md"} {
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
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
		if doc == "ARCHITECTURE.md" && named == 0 {
			t.Errorf("%s names no path: the pattern no longer finds them", doc)
		}
	}
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
