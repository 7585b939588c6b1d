package storage

import (
	"bufio"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
)

// TestDiskThreadEnds: who wanted to die with the process (`shunt demo` has its servers do so) lives on when
// a store is closed.
func TestDiskThreadEnds(t *testing.T) {
	for range 20 { // the thread may be the process's first, which doesn't end
		diskThreadEnds(t)
	}
}

func diskThreadEnds(t *testing.T) {
	t.Helper()
	d := startDiskThread()
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	d.stop()
	lines := bufio.NewReader(out)
	for i := range 1000 {
		fmt.Fprintln(in, i)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("the child is gone: %v", err)
		}
	}
}
