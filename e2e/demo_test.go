package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDemo runs a small demo to its end, and looks at what it leaves.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary(t), "demo", "--check", "--users", "3000", "--orders", "6000")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	b, err := cmd.CombinedOutput()
	out, code := string(b), cmd.ProcessState.ExitCode()
	if err != nil || code != 0 || !strings.Contains(out, "All checks passed.") {
		t.Errorf("status %d\n%s", code, out)
	}
	for _, s := range []string{"SHOW VIRTUAL INDEXES;", "EXPLAIN ROUTE", "1 of 4", "4 of 4"} {
		if !strings.Contains(out, s) {
			t.Errorf("%q is not in\n%s", s, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v %v", left, err)
	}
}
