// Package instructions counts what a function costs in instructions, which, unlike
// time, is the same on a busy machine: tests guard it.
//
// Machines in clouds rarely show their processors' counters, so a copy of the test's
// process is run step by step (ptrace): some 3 µs an instruction.
package instructions

import (
	"os"
	"testing"
)

// child is the variable by which the copy knows what it is.
const child = "SHUNT_COUNT_INSTRUCTIONS"

// Check fails the test if f, once warm, takes more than most instructions, and skips
// where nobody can count. See Count.
func Check(t *testing.T, most int, f func()) {
	t.Helper()
	n, err := Count(t, f)
	for try := 0; err == nil && n > most && try < 3; try++ { // on a busy machine more is handed from goroutine to goroutine
		n, err = Count(t, f)
	}
	if err != nil {
		t.Skip(err)
	}
	t.Logf("%d instructions", n)
	if n > most {
		t.Errorf("%d instructions, at most %d were expected", n, most)
	}
}

// Count returns how many instructions f takes once it is warm, of amd64. What t does
// before is done again in a copy of the process: let t be a test for this alone.
func Count(t *testing.T, f func()) (int, error) {
	if os.Getenv(child) != "" {
		run(f)
	}
	return count(t)
}
