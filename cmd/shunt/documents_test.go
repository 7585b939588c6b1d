package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

var (
	fenced   = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	topLevel = regexp.MustCompile(`(?m)^([a-z_]+):`)
	variable = regexp.MustCompile(`\$\{([A-Z_]+)\}`)
	// redirected is what has a shell write, or read, elsewhere.
	redirected = regexp.MustCompile(`\s([<>] *[^ ]+|\| .*)`)
	target     = regexp.MustCompile(`(?m)^([a-z0-9-]+):.* ## `)
)

// TestDocumentedCommands: what the documents say to write into a file or to type is understood: configurations, commands of
// Shunt's, targets of make. e2e runs the statements (TestDocumentedStatements) and the tutorials.
func TestDocumentedCommands(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile := read(t, "../../Makefile")
	var targets []string
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, m[1])
	}
	found := map[string]int{}
	for _, path := range append(documents, "../../README.md") {
		for _, m := range fenced.FindAllStringSubmatch(read(t, path), -1) {
			language, text := m[1], m[2]
			switch {
			case strings.Contains(text, "scrape_configs:"): // Prometheus', which deploy has, too
			case language == "yaml":
				for one := range strings.SplitSeq(text, "; or:\n") {
					found["yaml"]++
					understood(t, path, one)
				}
			case language == "sql":
			default:
				for line := range strings.Lines(text) {
					words := strings.Fields(line)
					switch {
					case len(words) > 0 && words[0] == "shunt", len(words) > 1 && words[1] == "shunt" && strings.HasPrefix(line, "SHUNT_"):
						found["shunt"]++
						parsed(t, path, line)
					case len(words) > 1 && words[0] == "make":
						found["make"]++
						if !slices.Contains(targets, words[1]) {
							t.Errorf("%s: the Makefile has no %s", path, words[1])
						}
					}
				}
			}
		}
	}
	for kind, least := range map[string]int{"yaml": 8, "shunt": 15, "make": 3} {
		if found[kind] < least {
			t.Errorf("%d blocks or lines of %s, expected at least %d", found[kind], kind, least)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// understood loads a part of a configuration, with what it leaves out.
func understood(t *testing.T, path, text string) {
	t.Helper()
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		t.Setenv(m[1], "a value")
	}
	var has []string
	for _, m := range topLevel.FindAllStringSubmatch(text, -1) {
		has = append(has, m[1])
	}
	for key, needed := range map[string]string{
		"users": "users: [{name: app, password: x}]\n", "shards": "shards: [{name: s0, addr: '10.0.0.1:3306', user: shunt, password: x}]\n", "data_dir": "data_dir: data\n",
	} {
		if !slices.Contains(has, key) {
			text += "\n" + needed
		}
	}
	file := filepath.Join(t.TempDir(), "shunt.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file); err != nil {
		t.Errorf("%s: %v\n%s", path, err, text)
	}
}

// parsed has a shell take a line's words apart, and the command line parse them.
func parsed(t *testing.T, path, line string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-c", `shunt() { printf '%s\0' "$@"; }; `+redirected.ReplaceAllString(line, ""))
	words, err := shell.Output()
	if err != nil || len(words) == 0 {
		t.Errorf("%s: %s: %v", path, line, err)
		return
	}
	parser, err := newParser(&cli{}, streams{&bytes.Buffer{}, &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
	if name, _, set := strings.Cut(line, "="); set && strings.HasPrefix(name, "SHUNT_") {
		t.Setenv(name, "x")
	}
	if _, err := parser.Parse(slices.DeleteFunc(args, func(w string) bool { return w == "[DIR]" })); err != nil {
		t.Errorf("%s: %s: %v", path, line, err)
	}
}
