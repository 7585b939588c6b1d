package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

const repository = "https://github.com/shunt-sql/shunt/blob/main/"

//go:embed page.html style.css search.js
var assets embed.FS

var pageTemplate = template.Must(template.ParseFS(assets, "page.html"))

// site is the documents of a directory.
type site struct {
	dir   string
	kinds []kind
	pages []*page
}

// kind is one of the map's lists.
type kind struct {
	Name    string
	Entries []entry
}

type entry struct{ Title, Link, About string }

// page is a document.
type page struct {
	name     string // with .html
	Title    string
	Body     template.HTML
	sections []section
	images   []string
}

// section is what the search finds.
type section struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Anchor  string `json:"anchor"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

var (
	mapHeading = regexp.MustCompile(`^## (.+)$`)
	mapEntry   = regexp.MustCompile(`^- \[(.+)\]\((.+)\): (.+)$`)
)

// read reads all documents of a directory, whose map is README.md.
func read(dir string) (*site, error) {
	s := &site{dir: dir}
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p, err := render(pageName(filepath.Base(file)), src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.pages = append(s.pages, p)
		if p.name == "index.html" {
			s.kinds = kindsOf(string(src))
		}
	}
	return s, nil
}

// kindsOf reads the map.
func kindsOf(src string) (kinds []kind) {
	for line := range strings.Lines(src) {
		line = strings.TrimSpace(line)
		if m := mapHeading.FindStringSubmatch(line); m != nil {
			kinds = append(kinds, kind{Name: m[1]})
		}
		if m := mapEntry.FindStringSubmatch(line); m != nil && len(kinds) > 0 {
			k := &kinds[len(kinds)-1]
			k.Entries = append(k.Entries, entry{m[1], target(m[2]), m[3]})
		}
	}
	return kinds
}

func pageName(file string) string {
	if file == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(file, ".md") + ".html"
}

// target is where a document's link leads from its page.
func target(link string) string {
	to, anchor, _ := strings.Cut(link, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	switch {
	case to == "" || strings.Contains(to, "://"):
		return link
	case strings.HasPrefix(to, ".."):
		return repository + path.Join("docs", to) + anchor
	case strings.HasSuffix(to, ".md"):
		return pageName(to) + anchor
	}
	return link
}

// markdown is what the documents are written in. Their anchors are HTML.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe()),
)

// anchors are those that GitHub gives headings, as often as there is one.
type anchors map[string]int

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(string(heading)), ""), " ", "-")
	n := a[id]
	if a[id]++; n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (a anchors) Put(id []byte) { a[string(id)]++ }

func render(name string, src []byte) (*page, error) {
	p := &page{name: name}
	root := markdown.Parser().Parse(text.NewReader(src), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	now := section{Page: name}
	var words strings.Builder
	end := func() {
		now.Text = strings.Join(strings.Fields(words.String()), " ")
		if now.Heading != "" {
			p.sections = append(p.sections, now)
		}
		words.Reset()
	}
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(target(string(n.Destination)))
		case *ast.Image:
			p.images = append(p.images, string(n.Destination))
		case *ast.Heading:
			end()
			now.Heading = plainText(n, src)
			if id, ok := n.AttributeString("id"); ok {
				now.Anchor = string(id.([]byte))
			}
			if n.Level == 1 {
				p.Title, now.Title = now.Heading, now.Heading
			}
			return ast.WalkContinue, nil
		case *ast.Text:
			words.Write(n.Segment.Value(src))
			words.WriteByte(' ')
		case *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				words.Write(line.Value(src))
			}
		}
		return ast.WalkContinue, nil
	})
	end()
	if err != nil {
		return nil, err
	}
	if p.Title == "" {
		return nil, fmt.Errorf("it has no title")
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, src, root); err != nil {
		return nil, err
	}
	p.Body = template.HTML(b.String()) //nolint:gosec // it is ours
	return p, nil
}

// plainText is a node's text without its marks.
func plainText(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(src))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// write makes the site in a directory.
func (s *site) write(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	put := func(name string, content []byte) error { return os.WriteFile(filepath.Join(out, name), content, 0o644) } //nolint:gosec // everybody may read it
	sections := []section{}
	for _, p := range s.pages {
		var b bytes.Buffer
		if err := pageTemplate.Execute(&b, map[string]any{"Page": p, "Kinds": s.kinds, "Name": p.name}); err != nil {
			return err
		}
		if err := put(p.name, b.Bytes()); err != nil {
			return err
		}
		for _, image := range p.images {
			content, err := os.ReadFile(filepath.Join(s.dir, image))
			if err == nil {
				err = put(image, content)
			}
			if err != nil {
				return err
			}
		}
		sections = append(sections, p.sections...)
	}
	found, err := json.Marshal(sections)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"search.json": found, "llms.txt": []byte(s.llms(""))} {
		if err := put(name, content); err != nil {
			return err
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		content, err := assets.ReadFile(name)
		if err == nil {
			err = put(name, content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// llms is the map as llmstxt.org has it, with links that begin with a base.
func (s *site) llms(base string) string {
	var b strings.Builder
	b.WriteString("# Shunt\n\n> A MySQL proxy for sharded databases: clients see several MySQL or MariaDB servers as one, and virtual indexes lead a statement to the servers that may have its rows. A read never misses a row.\n")
	for _, k := range s.kinds {
		fmt.Fprintf(&b, "\n## %s\n\n", k.Name)
		for _, e := range k.Entries {
			link := e.Link
			if !strings.Contains(link, "://") {
				link = base + link
			}
			fmt.Fprintf(&b, "- [%s](%s): %s\n", e.Title, link, e.About)
		}
	}
	return b.String()
}
