package throwaway

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// pullTimeout bounds the download of an image.
const pullTimeout = 10 * time.Minute

// image is the container image of MySQL to use.
func image() string {
	if name := os.Getenv(imageVariable); name != "" {
		return name
	}
	return DefaultImage
}

// docker prepares a Docker command that a Ctrl-C in the terminal doesn't reach.
func docker(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// pull gets the image if it isn't there.
func pull(ctx context.Context, image string, out io.Writer) error {
	if docker(ctx, "image", "inspect", image).Run() == nil {
		return nil
	}
	if out != nil {
		fmt.Fprintf(out, "Pulling image %s.\n", image)
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if said, err := docker(ctx, "pull", "--quiet", image).CombinedOutput(); err != nil {
		return fmt.Errorf("pull image %s: %w\n%s", image, err, excerpt(string(said)))
	}
	return nil
}

// label is what the containers of the set are found by.
func (s *Set) label() string { return "shunt-throwaway=" + filepath.Base(s.dir) }

// keeper is a process that removes the containers of a set when its input ends.
// So they go on every way that this process can end: containers, unlike
// children, do not die with it.
type keeper struct {
	cmd *exec.Cmd
	// in is closed by the system at the latest.
	in io.WriteCloser
}

// A container that was being made while this process was killed shows up a
// moment later; after an orderly stop there is none.
const keeperScript = `
trap '' HUP INT TERM
remove() {
	found=$(docker ps --all --quiet --no-trunc --filter "label=$1")
	[ -z "$found" ] || docker rm --force --volumes $found
}
read -r orderly
remove "$1"
[ -n "$orderly" ] && exit
sleep 3
remove "$1"
`

func (s *Set) keep() error {
	cmd := exec.CommandContext(context.Background(), "sh", "-c", keeperScript, "sh", s.label())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("watch over containers: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watch over containers: %w", err)
	}
	s.keeper = &keeper{cmd, in}
	return nil
}

// remove removes the containers, and returns when they are gone.
func (k *keeper) remove() {
	// It may have been killed; then there is nobody to tell.
	_, _ = io.WriteString(k.in, "orderly\n")
	_ = k.in.Close()
	_ = k.cmd.Wait()
}

// startContainer initialises and runs a server inside a container, whatever
// the image's own entry point would do: it needs sh and mysqld on the image's
// PATH. A stopped container keeps its data. The client stays attached, so that
// its end is the container's.
func (s *Server) startContainer() error {
	var args []string
	if s.container != "" {
		args = []string{"start", "--attach", s.container}
	} else {
		s.container = filepath.Base(s.set.dir) + "-" + s.name + "-" + strconv.Itoa(s.port)
		const grants = `CREATE USER 'root'@'%%' IDENTIFIED BY '%s';
GRANT ALL ON *.* TO 'root'@'%%' WITH GRANT OPTION;`
		script := fmt.Sprintf(`set -e
if [ ! -d /shunt/%[1]s ]; then
	mkdir -p /shunt
	echo "$GRANTS" > /shunt/init.sql
	mysqld --no-defaults --user=root --initialize-insecure --datadir=/shunt/%[1]s --init-file=/shunt/init.sql
fi
exec mysqld "$@" --user=root --bind-address=0.0.0.0`, s.name)
		args = append([]string{
			"run", "--name", s.container, "--label", s.set.label(), "--user", "0:0",
			"--publish", fmt.Sprintf("127.0.0.1:%d:%d", s.port, s.port),
			"--env", "GRANTS=" + fmt.Sprintf(grants, s.Password),
			"--entrypoint", "sh", s.set.Source.Image, "-c", script, "sh",
		}, s.arguments("/shunt")...)
	}
	// The server outlives the context that it was started under: Stop ends it.
	return s.run(docker(context.Background(), args...))
}

// signalContainer does what a signal does to a process. The client may still
// be about to start the container, so a refusal isn't the end.
func (s *Server) signalContainer(verb string, ends bool) {
	for range 100 {
		err := docker(context.Background(), verb, s.container).Run()
		if !ends {
			return
		}
		if err == nil {
			<-s.exited
			return
		}
		select {
		case <-s.exited:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	// The engine doesn't answer.
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// forget removes a container that could not be started, so that the next one
// can have another port.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.container != "" {
		_ = docker(context.Background(), "rm", "--force", "--volumes", s.container).Run()
		s.container = ""
	}
}
