package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// folder starts a command in a folder of its own (scripts/with-folder), which prints the folder and the process that it
// has left in the background.
func folder(t *testing.T) (cmd *exec.Cmd, dir string, behind int) {
	t.Helper()
	cmd = exec.Command("../../scripts/with-folder", "bash", "-c", `touch $TMPDIR/made; sleep 1000 & echo $TMPDIR $!; wait`)
	for _, v := range os.Environ() { // this test may have a folder itself
		if !strings.HasPrefix(v, "SHUNT_RUN=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var said []byte
	for buf := make([]byte, 100); !bytes.HasSuffix(said, []byte("\n")); {
		n, err := out.Read(buf)
		if said = append(said, buf[:n]...); err != nil {
			t.Fatalf("%q, %v", said, err)
		}
	}
	dir, pid, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	if behind, err = strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	return cmd, dir, behind
}

func gone(t *testing.T, dir string, pid int) {
	t.Helper()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
	for began := time.Now(); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err != nil || strings.Contains(string(state), ") Z ") {
			return // nobody waits for it here
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("process %d is left", pid)
		}
	}
}

// TestFolder: folder and processes go with a run, and those of one that was killed when the next one begins; those of a
// run that goes on stay.
func TestFolder(t *testing.T) {
	t.Parallel()
	running, stays, _ := folder(t)
	killed, dir, pid := folder(t)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if _, err := os.Stat(dir + "/made"); err != nil {
		t.Fatal(err)
	}
	ended, own, ownPID := folder(t)
	gone(t, dir, pid)
	if _, err := os.Stat(stays + "/made"); err != nil {
		t.Errorf("of a run that goes on: %v", err)
	}
	for _, c := range []struct {
		cmd *exec.Cmd
		dir string
		pid int
	}{{ended, own, ownPID}, {running, stays, 0}} {
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.cmd.Wait(); c.cmd.ProcessState.ExitCode() != 143 {
			t.Errorf("a run that is told to end: %v", err)
		}
		if c.pid != 0 {
			gone(t, c.dir, c.pid)
		}
	}
	cmd := exec.Command("../../scripts/with-folder", "bash", "-c", "exit 7")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit status 7 is %v", err)
	}
}
