package throwaway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Options for Start.
type Options struct {
	// Servers is how many to start; 0 for a Base.
	Servers int
	// Base, if set, is a set of the same source and password, whose data directory as it
	// was initialised the servers start from. It must not be stopped meanwhile.
	Base *Set
	// Password of the account root, which may connect by TCP from anywhere
	// that reaches the loopback. REQUIRES: no quote or backslash.
	Password string
	// Args are further options for every server, e.g. --max-connections=500, and Each those of one by its number.
	Args []string
	Each [][]string
	// Port of the first server; 0: a free one, as the others have.
	Port int
	// Sessions starts each server in a session (setsid) of its own, as a service is.
	Sessions bool
	// TempDir is where the set's directory is made; "" means the system's. In
	// a root file system it is always /tmp.
	TempDir string
	// Out, if set, is told about what takes long: pulling an image.
	Out io.Writer
}

// Set is some servers that share a temporary directory.
type Set struct {
	Source  Source
	Servers []*Server
	opts    Options
	keeper  *keeper // of containers
	// dir is the set's directory on this machine, inner the same as the
	// servers see it (inside Root).
	dir, inner string
	// template is the data directory that the servers' are copies of; "" in containers.
	template string
}

// Start starts the servers and returns when all of them answer. On an error
// everything is removed.
func Start(ctx context.Context, src Source, o Options) (_ *Set, err error) {
	s := &Set{Source: src, opts: o}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	tmp := o.TempDir
	if src.Root != "" {
		tmp = filepath.Join(src.Root, "tmp")
	}
	if s.dir, err = os.MkdirTemp(tmp, "shunt-"); err != nil {
		return nil, fmt.Errorf("make servers' directory: %w", err)
	}
	s.inner = s.dir
	if src.Root != "" {
		s.inner = filepath.Join("/tmp", filepath.Base(s.dir))
	}
	switch {
	case src.Image != "":
		if err = pull(ctx, src.Image, o.Out); err == nil {
			err = s.keep()
		}
	case o.Base != nil:
		s.template = o.Base.template
	default:
		s.template = filepath.Join(s.dir, "template")
		err = s.initialise(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, s.grow(ctx, o.Servers)
}

// Add starts one more server.
func (s *Set) Add(ctx context.Context) (*Server, error) {
	if err := s.grow(ctx, 1); err != nil {
		return nil, err
	}
	return s.Servers[len(s.Servers)-1], nil
}

func (s *Set) grow(ctx context.Context, n int) error {
	first := len(s.Servers)
	for i := range n {
		s.Servers = append(s.Servers, &Server{
			set: s, name: fmt.Sprintf("s%d", first+i),
			User: "root", Password: s.opts.Password,
		})
		if first+i == 0 {
			s.Servers[0].port = s.opts.Port
		}
		if first+i < len(s.opts.Each) {
			s.Servers[first+i].args = s.opts.Each[first+i]
		}
	}
	failures := make([]error, n)
	var wg sync.WaitGroup
	for i, srv := range s.Servers[first:] {
		wg.Go(func() {
			if s.Source.Image == "" {
				if failures[i] = os.CopyFS(filepath.Join(s.dir, srv.name), skipping{os.DirFS(s.template)}); failures[i] != nil {
					return
				}
			}
			failures[i] = srv.Start(ctx)
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// skipping leaves a server's own identity out of the copies of its directory.
type skipping struct{ fs.FS }

func (s skipping) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	kept := entries[:0]
	for _, e := range entries {
		if e.Name() != "auto.cnf" && e.Type()&fs.ModeSocket == 0 {
			kept = append(kept, e)
		}
	}
	return kept, err
}

// initialise makes the data directory that the servers start from. Its redo log is
// small, since it is copied for each.
func (s *Set) initialise(ctx context.Context) error {
	grants := fmt.Sprintf("FLUSH PRIVILEGES;\nCREATE USER IF NOT EXISTS 'root'@'%%' IDENTIFIED BY '%[1]s';\n"+
		"GRANT ALL ON *.* TO 'root'@'%%' WITH GRANT OPTION;\n"+
		// The accounts that an initialisation makes would match first.
		"ALTER USER IF EXISTS 'root'@'localhost' IDENTIFIED BY '%[1]s';\n"+
		"ALTER USER IF EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '%[1]s';\n", s.opts.Password)
	if err := os.WriteFile(filepath.Join(s.dir, "init.sql"), []byte(grants), 0o644); err != nil {
		return fmt.Errorf("write grants: %w", err)
	}
	data := filepath.Join(s.inner, "template")
	var (
		cmd *exec.Cmd
		err error
	)
	if s.Source.Flavour == MariaDB {
		args := []string{
			"--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal",
			"--force", // even if nothing resolves the host's name
			"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M", nativeAIO, "--extra-file=" + filepath.Join(s.inner, "init.sql"),
		}
		if os.Geteuid() == 0 {
			args = append(args, "--user=root")
		}
		if cmd, err = s.command(ctx, "template", s.Source.InstallDB, args...); err != nil {
			return err
		}
		// Servers elsewhere than /usr find their own files.
		if base := filepath.Dir(filepath.Dir(s.Source.Program)); base != "/usr" {
			cmd.Args = append(cmd.Args, "--basedir="+base)
		}
	} else {
		args := []string{"--no-defaults", "--initialize-insecure", "--datadir=" + data, "--innodb-redo-log-capacity=8M", "--innodb-doublewrite=OFF", nativeAIO, "--init-file=" + filepath.Join(s.inner, "init.sql")}
		if os.Geteuid() == 0 {
			args = append(args, "--user=root")
		}
		if cmd, err = s.command(ctx, "template", s.Source.Program, args...); err != nil {
			return err
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("initialise a data directory with %s: %w\n%s", cmd.Path, err, excerpt(string(out)))
	}
	return nil
}

// command prepares a program of the source, which dies with this process. Each
// name has a directory for temporary files of its own: a MariaDB that starts
// removes every #sql* in there as left behind by a crash, and so the temporary
// tables of the servers and initialisations beside it ("Unknown table
// 'mysql.tmp_user_sys'"). By the environment, as an option of
// mariadb-install-db could not hold a space.
func (s *Set) command(ctx context.Context, name, program string, args ...string) (*exec.Cmd, error) {
	name += ".tmp"
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
		return nil, fmt.Errorf("make directory for temporary files: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(s.inner, name))
	if s.Source.Root == "" { // programs that a server runs, as sstNothing
		cmd.Env = append(cmd.Env, "PATH="+s.inner+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	cmd.SysProcAttr = chroot(s.Source.Root)
	if s.opts.Sessions {
		cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Setsid = false, true
	}
	// mariadb-install-db is a script: what it runs has to end with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// Go changes the directory after the root.
	cmd.Dir = s.inner
	return cmd, nil
}

// chroot is what a child needs: the root file system (if any), its own process
// group so that a Ctrl-C in the terminal does not reach it before its owner,
// and death with its parent.
func chroot(root string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: root, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Stop ends all servers and removes everything.
func (s *Set) Stop() {
	var wg sync.WaitGroup
	for _, srv := range s.Servers {
		wg.Go(srv.Kill)
	}
	wg.Wait()
	if s.keeper != nil {
		s.keeper.remove()
		s.keeper = nil
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// Dir is the set's temporary directory.
func (s *Set) Dir() string { return s.dir }

// excerpt is what of a program's output says why it failed: all of it if it is
// short, else its beginning, the lines that speak of errors, and its end.
func excerpt(output string) string {
	const short, head, errs, tail = 8 << 10, 10, 40, 30
	output = strings.TrimSpace(output)
	if len(output) <= short {
		return output
	}
	lines := strings.Split(output, "\n")
	var kept []string
	left, omitted := errs, 0
	for i, line := range lines {
		low := strings.ToLower(line)
		telling := left > 0 && (strings.Contains(low, "error") || strings.Contains(low, "fatal"))
		if i >= head && i < len(lines)-tail && !telling {
			omitted++
			continue
		}
		if telling {
			left--
		}
		if omitted > 0 {
			kept = append(kept, fmt.Sprintf("[%d lines left out]", omitted))
			omitted = 0
		}
		kept = append(kept, line[:min(len(line), 500)])
	}
	return strings.Join(kept, "\n")
}
