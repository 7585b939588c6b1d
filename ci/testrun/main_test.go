package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-exec" { // as run has go test call it
		os.Exit(measured(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// runOf runs the tests of a source in a package of their own.
func runOf(t *testing.T, source string) (passed bool, out string) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":    "module example.com/m/x\n\ngo 1.26\n",
		"x_test.go": "package x\n\nimport (\"os\"; \"testing\"; \"syscall\")\n\nvar _, _ = os.Exit, syscall.Getrusage\n\n" + source + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	passed, err := run(&b, dir, []string{"-vet=off", "./..."})
	if err != nil {
		t.Error(err)
	}
	return passed, b.String()
}

// TestProcessorTime: a package's processor time is in the table, and the tests whose processes use most are listed.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	passed, out := runOf(t, "func TestX(t *testing.T) { for { var r syscall.Rusage; syscall.Getrusage(0, &r); if r.Utime.Nano()+r.Stime.Nano() > 5e8 { return } } }\n"+
		"func TestY(t *testing.T) { t.Run(`a`, func(t *testing.T) { t.Log(`"+suite.UsedBy+"1.5 s`) }); t.Log(`"+suite.UsedBy+"3.0 s`) }")
	row := regexp.MustCompile(`m/x +3 +\d+\.\d +(\d+\.\d)`).FindStringSubmatch(out)
	if !passed || row == nil {
		t.Fatal(out)
	}
	if !regexp.MustCompile(`dearest.*\n +4\.5 s  x\.TestY\n`).MatchString(out) || !strings.Contains(out, "slowest:") {
		t.Error(out)
	}
	if seconds, err := strconv.ParseFloat(row[1], 64); err != nil || seconds < 0.5 {
		t.Errorf("%s s in:\n%s", row[1], out)
	}
}

// TestRun: a failure is looked at twice, where that says anything.
func TestRun(t *testing.T) {
	t.Parallel()
	const once = `if _, err := os.Stat("been"); err != nil { os.WriteFile("been", nil, 0o600); t.Fatal("this time") }`
	promise := fmt.Sprintf("t.Log(%q); ", suite.OfPromise)
	for what, c := range map[string]struct {
		source string // of tests in a package of their own
		passes bool
		prints []string
	}{
		"one that passes": {
			"func TestX(t *testing.T) { t.Log(`said`) }",
			true,
			[]string{"1 passed, 0 failed, 0 skipped"},
		},
		"one that fails once": {
			"func TestX(t *testing.T) { " + once + " }\nfunc TestY(t *testing.T) {}",
			true,
			[]string{"--- FAIL: x.TestX", "this time", "\nflaky: x.TestX\n", "2 passed, 0 failed, 0 skipped"},
		},
		"a subtest that fails once": {
			"func TestX(t *testing.T) { t.Run(`a (b)`, func(t *testing.T) { " + once + " }); t.Run(`c`, func(t *testing.T) {}) }",
			true,
			[]string{"\nflaky: x.TestX/a_(b)\n", "3 passed, 0 failed, 0 skipped"},
		},
		"one whose turn it is by chance": {
			"func TestX(t *testing.T) { now := os.Getenv(`" + suite.TurnSeed + "`); b, err := os.ReadFile(`turn`); if err != nil { os.WriteFile(`turn`, []byte(now), 0o600) }; if now == `` || string(b) != now { t.Fatal(`this time`) } }",
			true,
			[]string{"this time", "\nflaky: x.TestX\n"},
		},
		"one that fails always": {
			"func TestX(t *testing.T) { t.Error(`always`) }",
			false,
			[]string{"=== x.TestX", "always", "\nfailed: x.TestX\n", "0 passed, 1 failed, 0 skipped"},
		},
		"one that fails once beside one that fails always": {
			"func TestX(t *testing.T) { " + once + " }\nfunc TestY(t *testing.T) { t.Error(`always`) }",
			false,
			[]string{"\nflaky: x.TestX\n", "\nfailed: x.TestY\n", "1 passed, 1 failed, 0 skipped"},
		},
		"a promise that fails once": {
			"func TestX(t *testing.T) { " + promise + once + " }",
			false,
			[]string{"this time", "\nfailed: x.TestX\n"},
		},
		"a promise whose subtest fails once": {
			"func TestX(t *testing.T) { " + promise + "t.Run(`a`, func(t *testing.T) { " + once + " }) }",
			false,
			[]string{"\nfailed: x.TestX/a\n"},
		},
		"many that fail once": {
			"func TestX(t *testing.T) { for _, c := range `abcdef` { t.Run(string(c), func(t *testing.T) { if _, err := os.Stat(t.Name()[6:]); err != nil { os.WriteFile(t.Name()[6:], nil, 0o600); t.Fatal() } }) } }",
			false,
			[]string{"\nfailed: x.TestX/f\n"},
		},
		"one that ends the process": {
			"func TestX(t *testing.T) { t.Cleanup(func() { os.Exit(3) }) }",
			false,
			[]string{"\nfailed: x"},
		},
		"one that panics once": {
			"func TestX(t *testing.T) { if _, err := os.Stat(`been`); err != nil { os.WriteFile(`been`, nil, 0o600); panic(`at the disco`) } }\nfunc TestY(t *testing.T) {}",
			false,
			[]string{"at the disco", "failed: x"},
		},
		"one that doesn't build": {
			"func TestX(t *testing.T) { undefined() }",
			false,
			[]string{"undefined: undefined", "failed: x"},
		},
		"one that is skipped": {
			"func TestX(t *testing.T) { t.Skip() }",
			true,
			[]string{"0 passed, 0 failed, 1 skipped"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			passed, out := runOf(t, c.source)
			if passed != c.passes {
				t.Errorf("passed %t\n%s", passed, out)
			}
			for _, want := range c.prints {
				if !strings.Contains(out, want) {
					t.Errorf("%q isn't in:\n%s", want, out)
				}
			}
			if strings.Contains(out, "said") {
				t.Errorf("it prints what one that passed says:\n%s", out)
			}
		})
	}
}

// TestExcerpt: of long outputs both ends are kept.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	var x excerpt
	for i := range 1000 {
		x.add(fmt.Sprintf("line %d\n", i))
	}
	got := x.text()
	if n := strings.Count(got, "\n"); n != 2*kept+1 || !strings.HasPrefix(got, "line 0\n") || !strings.HasSuffix(got, "line 999\n") ||
		!strings.Contains(got, "line 49\n    [900 lines]\nline 950\n") {
		t.Errorf("%d lines:\n%s", n, got)
	}
}
