// Command testrun runs `go test` with the arguments that it is given, and tells what failed:
//
//	go run ./ci/testrun -short -timeout 60m ./...
//
// What failed is run once more by itself, if it is little. What passes then is told as `flaky: NAME`, and the run
// passes. It stays a fault of the test, or of Shunt, to be mended with the next change. Not run again is what
// suite.Promise marks, what raced, and a package that ended before its tests did.
//
// Of tests that passed nothing is printed. The last lines are a table of packages, with the processor time of their
// tests and of the servers that these ran; the slowest and the dearest tests; and what was flaky. The exit status is 1 if
// anything failed, 2 if go test couldn't be run.
package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

func main() {
	args := os.Args[1:]
	if len(args) > 1 && args[0] == "-exec" {
		os.Exit(measured(args[1], args[2:]))
	}
	dir, err := os.Getwd()
	if err == nil {
		var passed bool
		if passed, err = run(os.Stdout, dir, args); passed {
			return
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(2)
	}
	os.Exit(1)
}

// most is how many failed tests are run again: more of them have one cause.
const most = 5

// run runs go test in dir, prints to out, and reports whether all passed.
func run(out io.Writer, dir string, args []string) (passed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	args = append([]string{"-exec", self + " -exec"}, args...) // see measured
	env := os.Environ()
	if os.Getenv(suite.TurnSeed) == "" {
		env = append(env, fmt.Sprintf("%s=%d", suite.TurnSeed, rand.Uint64()))
	}
	r := newReport(out)
	if err := goTest(dir, env, args, r.add); err != nil {
		return false, err
	}
	r.breakOff()
	if failed := r.doubtful(); len(failed) > 0 {
		for _, t := range failed {
			again := newReport(io.Discard)
			if err := goTest(dir, env, againArgs(args, t), again.add); err != nil {
				return false, err
			}
			again.breakOff()
			if again.passed(t) {
				r.forgive(t)
			}
		}
	}
	r.print()
	return !r.failed(), nil
}

// goTest has each event of a run of go test be told.
func goTest(dir string, env, args []string, tell func(event)) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = read(events, tell)
	failed := cmd.Wait()
	if _, exited := failed.(*exec.ExitError); exited { //nolint:errorlint // Wait gives no other
		return err // the events tell what failed
	}
	if err == nil {
		err = failed
	}
	return err
}

// measured runs a test binary as go test -exec has it, and tells the processor time of it and of all that it ran.
func measured(program string, args []string) (status int) {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT) // go test ends one that hangs
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for s := range told {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) == nil {
		fmt.Printf("%s%.1f\n", processor, time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
	}
	if err != nil {
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}

// againArgs are args for one test, alone.
func againArgs(args []string, t name) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case strings.HasPrefix(a, "-run="), strings.HasPrefix(a, "-count="), strings.HasPrefix(a, "./"), a == ".":
		case a == "-run", a == "-count":
			i++
		default:
			kept = append(kept, a)
		}
	}
	return append(kept, "-count=1", "-run", t.pattern(), t.Package)
}
