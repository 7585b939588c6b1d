package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/command-line.md")

const commandLineFile = "../../docs/command-line.md"

// allCommands are those of the command line.
func allCommands(t *testing.T) []command {
	t.Helper()
	parser, err := newParser(&cli{}, streams{&bytes.Buffer{}, &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	return commandsOf(parser.Model.Node, "")
}

// TestCommandLine: docs/command-line.md says what --help does.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	want := commandLine(allCommands(t))
	if *rewrite {
		if err := os.WriteFile(commandLineFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(commandLineFile); err != nil || string(old) != want {
		t.Errorf("%s isn't what the code says (%v): go test ./cmd/shunt -run CommandLine -rewrite", commandLineFile, err)
	}
}

var quotedWord = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// TestExamples: each command has examples, which are of it and are command lines that Shunt takes.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, c := range allCommands(t)[1:] {
		examples := 0
		for line := range strings.Lines(c.detail) {
			line, example := strings.CutPrefix(line, "  ")
			_, line, ours := strings.Cut(line, "shunt ")
			if !example || !ours || !strings.HasPrefix(line, c.path) && len(c.subs) == 0 {
				continue
			}
			var args []string
			for _, word := range quotedWord.FindAllString(line, -1) {
				if quote := word[:1]; quote == "'" || quote == `"` {
					word = strings.Trim(word, quote)
				} else if strings.ContainsAny(word, "<>|#") {
					break // what follows is the shell's
				}
				args = append(args, strings.TrimSuffix(word, ")")) // of <(shunt ...)
			}
			parser, err := newParser(&cli{}, streams{&bytes.Buffer{}, &bytes.Buffer{}})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.detail, "_DSN=") && !strings.Contains(line, "@") {
				args = append(args, "app@tcp(127.0.0.1)/") // else from the environment
			}
			if k, err := parser.Parse(args); err != nil || !strings.HasPrefix(k.Command(), c.path) {
				t.Errorf("shunt %s: %v", line, err)
			}
			examples++
		}
		if examples == 0 && c.path != "store" {
			t.Errorf("shunt %s --help has no example", c.path)
		}
	}
}

// TestManual: man(1) takes the manual without a warning, and shows what there is of each command.
func TestManual(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"man"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tascii", "-ww", "-z")
	cmd.Stdin = bytes.NewReader(out.Bytes())
	if told, err := cmd.CombinedOutput(); err != nil || len(told) > 0 {
		t.Errorf("%v\n%s", err, told)
	}
	cmd = exec.CommandContext(t.Context(), groff, "-man", "-Tascii", "-P-c", "-rLL=300n")
	cmd.Stdin = bytes.NewReader(out.Bytes())
	shown, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.Join(strings.Fields(regexp.MustCompile(".\b").ReplaceAllString(string(shown), "")), " ")
	for _, c := range allCommands(t)[1:] {
		for _, want := range append(strings.Split(c.detail, "\n"), c.help) {
			if want = strings.Join(strings.Fields(want), " "); !strings.Contains(plain, want) {
				t.Errorf("shunt %s: the manual lacks %q", c.path, want)
			}
		}
	}
}

// TestHelpSaysExitStatus: of the program, which holds for all commands.
func TestHelpSaysExitStatus(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out, &out); err != nil || !strings.Contains(out.String(), "2  the command line is wrong") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
