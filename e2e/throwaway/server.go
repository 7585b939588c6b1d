package throwaway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// startTimeout is how long a server may take to answer: one in a container first
// initialises its data directory.
const startTimeout = 3 * time.Minute

// Server is one running server. It keeps its address over Kill and Start.
type Server struct {
	User, Password string
	set            *Set
	name           string
	port           int
	log            Output
	args           []string
	used           atomic.Int64
	asking         sync.Mutex // see LockWaits

	mu        sync.Mutex
	cmd       *exec.Cmd
	exited    chan struct{}
	container string
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Socket is the path of its Unix socket; "" where this machine can't reach that.
func (s *Server) Socket() string {
	if s.container != "" {
		return ""
	}
	return filepath.Join(s.set.dir, s.name, "mysqld.sock")
}

// LogsTo has its next start write a binary log into a directory of its own, which it returns and
// the caller makes; not in a container.
func (s *Server) LogsTo() (dir string) {
	s.args = append(s.args, "--log-bin="+filepath.Join(s.set.inner, s.name+".log", "bin"), "--sync-binlog=1")
	return filepath.Join(s.set.dir, s.name+".log")
}

// Port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Used is the processor time of its processes that have ended.
func (s *Server) Used() time.Duration { return time.Duration(s.used.Load()) }

// Log is what the server has written so far.
func (s *Server) Log() string { return s.log.String() }

// Start starts a stopped server and waits until it answers. Its first start
// chooses a free port; somebody else may take that before the server has it,
// so it tries several.
func (s *Server) Start(ctx context.Context) error {
	attempts := 1
	if s.port == 0 {
		attempts = 3
	}
	var err error
	for range attempts {
		if attempts > 1 {
			if s.port, err = FreePort(); err != nil {
				return err
			}
		}
		if err = s.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
		s.Kill()
		if attempts > 1 {
			s.forget()
		}
	}
	if err != nil {
		return fmt.Errorf("start server %s: %w\n%s", s.name, err, excerpt(s.Log()))
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	var err error
	if s.set.Source.Image != "" {
		err = s.startContainer()
	} else {
		err = s.startProcess()
	}
	exited := s.exited
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.await(ctx, exited)
}

// number is the server's place in its set.
func (s *Server) number() int { return slices.Index(s.set.Servers, s) }

// nativeAIO has a server start beside many others: all of a machine share its requests (fs.aio-max-nr, 65,536 by default), and
// who gets none stops at once.
const nativeAIO = "--innodb-use-native-aio=OFF"

// arguments favour a fast start and little memory over durability.
func (s *Server) arguments(dir string) []string {
	args := []string{
		"--no-defaults",
		"--datadir=" + filepath.Join(dir, s.name),
		// Relative to the data directory: a path may have 107 bytes at most.
		"--socket=mysqld.sock",
		"--pid-file=" + filepath.Join(dir, s.name+".pid"),
		"--port=" + strconv.Itoa(s.port),
		"--server-id=" + strconv.Itoa(1+s.number()), // no two in a replication are the same
		"--skip-log-bin",
		"--performance-schema=OFF",
		"--skip-name-resolve",
		"--secure-file-priv=",
		"--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=2",
		"--innodb-flush-method=fsync",
		nativeAIO,
		"--max-connections=600",
		"--max-allowed-packet=64M",
		"--character-set-server=utf8mb4",
	}
	if s.set.Source.Flavour == MariaDB {
		args = append(args, "--aria-pagecache-buffer-size=8M", "--key-buffer-size=1M", "--innodb-log-file-size=32M", "--innodb-doublewrite=0")
	} else {
		args = append(args, "--mysqlx=OFF", "--innodb-redo-log-capacity=64M", "--innodb-doublewrite=OFF")
	}
	return slices.Concat(args, s.set.opts.Args, s.args)
}

func (s *Server) startProcess() error {
	args := append(s.arguments(s.set.inner), "--bind-address=127.0.0.1")
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	// As in a container, it outlives the context that it was started under.
	cmd, err := s.set.command(context.Background(), s.name, s.set.Source.Program, args...)
	if err != nil {
		return err
	}
	return s.run(cmd)
}

// run starts the server's process, or Docker's client that is attached to it.
func (s *Server) run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		s.used.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return nil
}

// await returns when the server sends its greeting.
func (s *Server) await(ctx context.Context, exited chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.greets(ctx) {
			return nil
		}
		select {
		case <-exited:
			return errors.New("it stopped at once")
		case <-ctx.Done():
			return fmt.Errorf("wait for an answer on %s: %w", s.Addr(), ctx.Err())
		case <-tick.C:
		}
	}
}

// greets reports whether the first packet is a handshake rather than an error:
// a server that is starting accepts connections before it serves them.
func (s *Server) greets(ctx context.Context) bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false
	}
	head := make([]byte, 5)
	n, err := c.Read(head)
	return err == nil && n == 5 && head[4] == 10
}

// Kill ends the server as a crash would, and waits for its end.
func (s *Server) Kill() { s.signal(syscall.SIGKILL, "kill") }

// Shutdown ends the server in an orderly way, and waits for its end.
func (s *Server) Shutdown() { s.signal(syscall.SIGTERM, "stop") }

// Pause stops the server from answering, as a hung machine would; Resume lets
// it go on. It waits until all of the server's threads have stopped: on a busy
// machine others go on until one of them has taken the signal.
func (s *Server) Pause() {
	s.signal(syscall.SIGSTOP, "pause")
	if s.container != "" {
		return // docker has waited
	}
	s.mu.Lock()
	cmd := s.cmd
	s.mu.Unlock()
	if cmd != nil {
		AwaitStopped(cmd.Process.Pid)
	}
}

// AwaitStopped returns when a process that was sent SIGSTOP stands still, at the latest after 10 seconds.
func AwaitStopped(pid int) {
	for deadline := time.Now().Add(10 * time.Second); !stopped(pid) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// stopped reports whether none of a process's threads runs, as far as the system tells.
func stopped(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The state comes after the name, which is in parentheses.
		if i := bytes.LastIndexByte(text, ')'); i < 0 || i+2 >= len(text) || bytes.IndexByte([]byte("TtZX"), text[i+2]) < 0 {
			return false
		}
	}
	return true
}

// Running: it was started, and neither killed nor shut down.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}

// Resume undoes Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT, "unpause") }

func (s *Server) signal(sig syscall.Signal, verb string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	ends := sig == syscall.SIGKILL || sig == syscall.SIGTERM
	if s.container != "" {
		s.signalContainer(verb, ends)
	} else {
		_ = s.cmd.Process.Signal(sig) // it may have ended
		if ends {
			<-s.exited
		}
	}
	if ends {
		s.cmd = nil
	}
}
