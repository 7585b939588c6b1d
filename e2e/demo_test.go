package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDemo runs small demos to their ends, of one Shunt and of several, and looks at what they leave.
func TestDemo(t *testing.T) {
	t.Parallel()
	t.Run("one", func(t *testing.T) { runDemo(t, "EXPLAIN ROUTE") })
	t.Run("several", func(t *testing.T) {
		runDemo(t, "SHOW MEMBERS;", "--shards", "2", "--members", "3")
	})
}

// runDemo has it print a text.
func runDemo(t *testing.T, prints string, args ...string) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary(t), append([]string{"demo", "--check", "--users", "3000", "--orders", "6000"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	b, err := cmd.CombinedOutput()
	out, code := string(b), cmd.ProcessState.ExitCode()
	if err != nil || code != 0 || !strings.Contains(out, "All checks passed.") {
		t.Errorf("status %d\n%s", code, out)
	}
	for _, s := range []string{"SHOW VIRTUAL INDEXES;", prints, "1 of "} {
		if !strings.Contains(out, s) {
			t.Errorf("%q is not in\n%s", s, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v %v", left, err)
	}
}
