//go:build !race

package instructions

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

const (
	exitKill   = 0x100000 // PTRACE_O_EXITKILL
	ofThread   = syscall.WALL | syscall.WNOTHREAD
	breakpoint = 0xCC
	// patience bounds a copy's way to the first breakpoint, stuck what follows: a
	// thread that is stopped may hold a lock of Go's scheduler that the counted one
	// wants.
	patience, stuck = 30 * time.Second, 2 * time.Second
	mostSteps       = 1 << 18
)

// errStrayed: the counted function didn't run by itself from one breakpoint to the
// other.
var errStrayed = errors.New("the process strayed")

// run is the copy's part: f, warm, between two breakpoints.
func run(f func()) {
	debug.SetGCPercent(-1)
	for range 1000 {
		f()
	}
	runtime.Gosched() // its time slice begins anew
	f()
	runtime.Breakpoint()
	f()
	runtime.Breakpoint()
}

// count returns the fewest instructions of several copies: one may have been told
// to let others run, or have found a map with another seed.
func count(t *testing.T) (least int, err error) {
	if testing.CoverMode() != "" {
		return 0, errors.New("coverage counts too")
	}
	for range 3 {
		n, e := countOnce(t)
		switch {
		case e != nil:
			err = e
		case least == 0 || n < least:
			least = n
		}
	}
	if least > 0 {
		err = nil
	}
	return least, err
}

func countOnce(t *testing.T) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // who traces is a thread; it ends with the goroutine
		n, err := trace(t)
		done <- result{n, err}
	}()
	r := <-done
	return r.n, r.err
}

// trace starts a copy that runs t alone, and counts.
func trace(t *testing.T) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.count=1", "-test.timeout="+patience.String())
	cmd.Env = append(os.Environ(), child+"=1", "GODEBUG=asyncpreemptoff=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("trace a copy of this process: %w", err)
	}
	p := &process{id: cmd.Process.Pid, told: map[int]syscall.WaitStatus{}}
	kill := time.AfterFunc(patience, func() { _ = syscall.Kill(p.id, syscall.SIGKILL) })
	defer func() {
		kill.Stop()
		p.end()
		_ = cmd.Process.Release()
	}()
	thread, err := p.toBreakpoint()
	if err != nil {
		return 0, err
	}
	if err := p.stopOthers(thread); err != nil {
		return 0, err
	}
	if err := together(thread); err != nil {
		return 0, err
	}
	n := 0
	by := functions{}
	defer func() { by.print() }()
	for steps, last := 0, uint64(0); ; steps++ {
		if steps == mostSteps { // it has let another goroutine run, which doesn't end
			return 0, errStrayed
		}
		if steps%256 == 0 {
			kill.Reset(stuck)
		}
		at, isBreakpoint, err := next(thread)
		if isBreakpoint || err != nil {
			return n, err
		}
		if at != last { // or it is a turn of one that repeats itself (REP)
			n++
			by.count(thread, at)
		}
		last = at
		if err := syscall.PtraceSingleStep(thread); err != nil {
			return 0, os.NewSyscallError("ptrace", err)
		}
		if s, err := p.wait(thread); err != nil || !s.Stopped() || s.StopSignal() != syscall.SIGTRAP {
			return 0, errors.Join(errStrayed, err)
		}
	}
}

// functions are how many instructions each function took, and how often each other one called
// it: what is printed where byFunction is set in the environment.
type functions map[string]*function

type function struct {
	instructions int
	calls        map[string]int
}

const byFunction = "SHUNT_INSTRUCTIONS_BY_FUNCTION"

// count REQUIRES: the copy's code lies where this process's does.
func (f functions) count(thread int, at uint64) {
	if os.Getenv(byFunction) == "" {
		return
	}
	frame, _ := runtime.CallersFrames([]uintptr{uintptr(at) + 1}).Next()
	of := f[frame.Function]
	if of == nil {
		of = &function{calls: map[string]int{}}
		f[frame.Function] = of
	}
	of.instructions++
	if uint64(frame.Entry) != at {
		return
	}
	var r syscall.PtraceRegs
	var back [8]byte
	if syscall.PtraceGetRegs(thread, &r) == nil {
		if _, err := syscall.PtracePeekText(thread, uintptr(r.Rsp), back[:]); err == nil {
			caller, _ := runtime.CallersFrames([]uintptr{uintptr(binary.LittleEndian.Uint64(back[:]))}).Next()
			of.calls[caller.Function]++
		}
	}
}

func (f functions) print() {
	names := slices.SortedFunc(maps.Keys(f), func(a, b string) int {
		return cmp.Or(f[b].instructions-f[a].instructions, strings.Compare(a, b))
	})
	for _, name := range names {
		fmt.Printf("%7d %s %v\n", f[name].instructions, name, f[name].calls)
	}
}

// together has a thread run on the same processor as this one: each step wakes the one and
// then the other, which takes ten times as long between processors that are idle.
func together(thread int) error {
	var set [16]uint64 // a bit a processor
	affinity := func(call uintptr, id int) error {
		_, _, errno := syscall.Syscall(call, uintptr(id), unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
		if errno != 0 {
			return os.NewSyscallError("sched_affinity", errno)
		}
		return nil
	}
	if err := affinity(syscall.SYS_SCHED_GETAFFINITY, 0); err != nil {
		return err
	}
	i := slices.IndexFunc(set[:], func(word uint64) bool { return word != 0 })
	first := set[i] & -set[i]
	set = [len(set)]uint64{}
	set[i] = first
	return errors.Join(affinity(syscall.SYS_SCHED_SETAFFINITY, 0), affinity(syscall.SYS_SCHED_SETAFFINITY, thread))
}

// process is a copy that is traced, all its threads. told is what they told while another was
// waited for.
type process struct {
	id   int
	told map[int]syscall.WaitStatus
}

// toBreakpoint lets it run until a thread comes to a breakpoint.
func (p *process) toBreakpoint() (thread int, err error) {
	if _, err := p.wait(p.id); err != nil { // for it to be what was started
		return 0, err
	}
	if err := syscall.PtraceSetOptions(p.id, syscall.PTRACE_O_TRACECLONE|exitKill); err != nil {
		return 0, os.NewSyscallError("ptrace", err)
	}
	for thread, signal := p.id, 0; ; {
		if err := syscall.PtraceCont(thread, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, os.NewSyscallError("ptrace", err)
		}
		for {
			var s syscall.WaitStatus
			thread, err = syscall.Wait4(-1, &s, ofThread, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || thread == p.id && !s.Stopped() {
				return 0, errors.Join(errStrayed, err)
			}
			if !s.Stopped() {
				continue // a thread has ended
			}
			signal = 0
			if s.StopSignal() == syscall.SIGTRAP && s.TrapCause() == 0 {
				return thread, nil
			}
			if s.StopSignal() != syscall.SIGTRAP && s.StopSignal() != syscall.SIGSTOP { // these are our own
				signal = int(s.StopSignal())
			}
			break
		}
	}
}

// stopOthers stops all threads but one, or Go's monitor would have that one let
// others run.
func (p *process) stopOthers(thread int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.id))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		if id == thread {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_TGKILL, uintptr(p.id), uintptr(id), uintptr(syscall.SIGSTOP)); errno != 0 {
			return os.NewSyscallError("tgkill", errno)
		}
		if s, err := p.wait(id); err != nil || !s.Stopped() {
			return errors.Join(errStrayed, err)
		}
	}
	return nil
}

// end kills it and waits until it is gone.
func (p *process) end() {
	_ = syscall.Kill(p.id, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-1, nil, ofThread, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// wait waits for a thread to stop or to end. It takes what others tell meanwhile: of a process
// that is killed the first thread's end is told only when that of all others was.
func (p *process) wait(thread int) (syscall.WaitStatus, error) {
	for {
		if s, ok := p.told[thread]; ok {
			delete(p.told, thread)
			return s, nil
		}
		var s syscall.WaitStatus
		switch id, err := syscall.Wait4(-1, &s, ofThread, nil); {
		case err == nil:
			p.told[id] = s
		case !errors.Is(err, syscall.EINTR):
			return 0, os.NewSyscallError("wait4", err)
		}
	}
}

// next says where the thread's next instruction is, and whether that is a breakpoint.
func next(thread int) (at uint64, isBreakpoint bool, err error) {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &r); err != nil {
		return 0, false, os.NewSyscallError("ptrace", err)
	}
	var code [1]byte
	if _, err := syscall.PtracePeekText(thread, uintptr(r.Rip), code[:]); err != nil {
		return 0, false, os.NewSyscallError("ptrace", err)
	}
	return r.Rip, code[0] == breakpoint, nil
}
