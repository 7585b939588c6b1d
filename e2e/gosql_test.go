package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// goDriverExceptions are tests of go-sql-driver/mysql that a plain server passes
// and Shunt can't: each with the reason.
var goDriverExceptions = map[string]string{
	"TestLoadData": "reads without ORDER BY and wants the rows in the order of the file; here they lie on several shards",
}

// goDriverSkipped needs no server, but a network that loses what is sent to an
// address on the internet.
const goDriverSkipped = "^TestConnectorReturnsTimeout$"

// goDriverBound: at most this share of its tests may be excepted.
const goDriverBound = 0.03

// resultLine is what a test binary prints of each test, and of no subtest.
var resultLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)

// TestGoDriver runs the tests of the driver that most Go programs use, on a plain
// server and on Shunt: what passes there passes here.
func TestGoDriver(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		program := buildGoDriver(t)
		m := startMatrix(t, f, "gosql")
		results := map[string]map[string]string{}
		output := map[string]string{}
		var mu sync.Mutex
		var sides sync.WaitGroup
		for _, side := range []string{"nowhere", "plain", "shunt"} {
			sides.Go(func() {
				began := time.Now()
				out, of := m.runGoDriver(t, program, side)
				t.Logf("%s: %s", side, time.Since(began).Round(time.Millisecond))
				mu.Lock()
				defer mu.Unlock()
				output[side], results[side] = out, of
			})
		}
		sides.Wait()
		if t.Failed() {
			return
		}
		// Those that need a server are skipped without one.
		tests := 0
		for name, result := range results["nowhere"] {
			if result == "SKIP" && results["plain"][name] == "PASS" {
				tests++
			}
		}
		if tests < 60 {
			t.Errorf("only %d tests ran on the plain server: %v", tests, results["plain"])
		}
		if excepted := len(goDriverExceptions); float64(excepted) > goDriverBound*float64(tests) {
			t.Errorf("%d of %d tests are excepted", excepted, tests)
		}
		for _, name := range slices.Sorted(maps.Keys(results["plain"])) {
			plain, shunt := results["plain"][name], results["shunt"][name]
			reason, excepted := goDriverExceptions[name]
			switch {
			case excepted && plain != "PASS":
				t.Errorf("%s is excepted, and doesn't pass on the plain server either", name)
			case excepted && shunt == "PASS" && !m.failsSometimes(t, program, name):
				t.Errorf("%s is excepted, and passes: %s", name, reason)
			case !excepted && plain == "PASS" && shunt != "PASS":
				t.Errorf("%s: %s\n%.3000s", name, shunt, around(output["shunt"], name))
			}
		}
		for name := range goDriverExceptions {
			if _, ran := results["plain"][name]; !ran {
				t.Errorf("%s is excepted, and there is no such test", name)
			}
		}
		t.Logf("%d tests with a server, %d excepted", tests, len(goDriverExceptions))
	})
}

// buildGoDriver compiles the driver's tests out of the module cache, which is
// read-only.
func buildGoDriver(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mysql")
	where, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/go-sql-driver/mysql").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(where)))); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "driver.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the driver's tests: %v\n%s", err, out)
	}
	return program
}

// runGoDriver runs them all on one side; "nowhere" has no server.
func (m *matrix) runGoDriver(t *testing.T, program, side string, more ...string) (output string, results map[string]string) {
	t.Helper()
	addr := m.shunt.addr
	switch side {
	case "plain":
		addr = m.plain.Addr()
	case "nowhere":
		addr = "127.0.0.1:1" // refuses
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-test.v", "-test.short", "-test.skip=" + goDriverSkipped, "-test.timeout=5m"}, more...)...)
	cmd.Dir = filepath.Dir(program)
	cmd.Env = append(os.Environ(), "MYSQL_TEST_USER="+driverUser, "MYSQL_TEST_PASS="+driverPassword, "MYSQL_TEST_PROT=tcp",
		"MYSQL_TEST_ADDR="+addr, "MYSQL_TEST_DBNAME="+m.schema("gosql"))
	out, err := cmd.CombinedOutput() // failing is no error of this test
	results = map[string]string{}
	for _, found := range resultLine.FindAllStringSubmatch(string(out), -1) {
		if results[found[2]] != "FAIL" { // of several runs
			results[found[2]] = found[1]
		}
	}
	if len(results) == 0 || strings.Contains(string(out), "panic: ") {
		t.Errorf("%s: the tests broke off: %v\n%s", side, err, out[max(0, len(out)-5000):])
	}
	return string(out), results
}

// failsSometimes runs one test a few times: what depends on the order in which
// shards answer may turn out well.
func (m *matrix) failsSometimes(t *testing.T, program, name string) bool {
	t.Helper()
	_, results := m.runGoDriver(t, program, "shunt", fmt.Sprintf("-test.run=^%s$", name), "-test.count=5")
	return results[name] == "FAIL"
}

// around is the output of one test.
func around(output, name string) string {
	var b strings.Builder
	mine := false
	for line := range strings.Lines(output) {
		switch {
		case strings.HasPrefix(line, "=== "), strings.HasPrefix(line, "--- "):
			mine = slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '/' || r == '\n' }), name)
		case strings.HasPrefix(line, "panic: "):
			mine = true
		}
		if mine {
			b.WriteString(line)
		}
	}
	return b.String()
}
