package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// readyTimeout is how long a process may take until it answers.
const readyTimeout = time.Minute

// process is a program that runs until stop.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    throwaway.Output
	exited chan struct{}
}

// start runs a program, which dies with this one, and waits until ready says
// so. root is a root file system to run it in; "" is this machine's.
func (s *stage) start(ctx context.Context, name, root string, argv []string, ready func(context.Context) bool) (*process, error) {
	p := &process{name: name, exited: make(chan struct{})}
	// Its end is stop, not the context's.
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Setpgid: !s.sessions, Setsid: s.sessions, Pdeathsig: syscall.SIGKILL}
	if root != "" {
		p.cmd.Dir = "/"
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // told by the log
		close(p.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for !ready(ctx) {
		select {
		case <-ctx.Done():
			p.stop()
			return nil, fmt.Errorf("start %s: %w\n%s", name, ctx.Err(), p.log.Tail(20))
		case <-p.exited:
			return nil, fmt.Errorf("start %s: it ended\n%s", name, p.log.Tail(20))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // may have ended
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// listens waits for a TCP server at the address.
func listens(addr string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
}
