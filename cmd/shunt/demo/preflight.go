package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// minFree is the disk space that the demo needs: four data directories of
// about 150 MB, the sample data, and the room that the store wants to keep.
const minFree = 2 << 30

// Addresses that the demo listens on unless told otherwise.
const (
	DefaultListen = "127.0.0.1:4000"
	DefaultHTTP   = "127.0.0.1:4080"
	// anyPort is one that nobody has when it is listened on.
	anyPort = "127.0.0.1:0"
)

// chooseAddresses fills in what the user left open, and reports ports in use
// before anything is started.
func (o *Options) chooseAddresses() error {
	if o.Listen == "" {
		o.Listen = DefaultListen
		if o.Check {
			o.Listen = anyPort
		}
	}
	if err := tryListen(o.Listen); err != nil {
		return fmt.Errorf("%w: another demo or `shunt serve` may be using it; stop that, or choose another port with --listen 127.0.0.1:PORT", err)
	}
	if o.HTTP == "" {
		o.HTTP = DefaultHTTP
		if o.Check || tryListen(o.HTTP) != nil {
			o.HTTP = anyPort
		}
		return nil
	}
	if err := tryListen(o.HTTP); err != nil {
		return fmt.Errorf("%w: choose another port with --http 127.0.0.1:PORT", err)
	}
	return nil
}

func tryListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use", addr)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l.Close()
}

// freeAddress finds a port that nobody has, for a member, which has it over restarts. One that somebody takes first is
// tried again (keepRunning).
func freeAddress() string {
	port, err := throwaway.FreePort()
	if err != nil {
		return DefaultListen
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// makeDir makes the demo's directory where there is room.
func makeDir() (string, error) {
	dir, err := os.MkdirTemp("", "shunt-demo-")
	if err != nil {
		return "", fmt.Errorf("make a temporary directory: %w", err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil {
		if free := fs.Bavail * uint64(fs.Bsize); free < minFree {
			os.Remove(dir)
			return "", fmt.Errorf("%s has %d MiB free and the demo needs %d: free some, or set TMPDIR to a directory with more",
				filepath.Dir(dir), free>>20, minFree>>20)
		}
	}
	return dir, nil
}

// findServer finds a server program, or installs one.
func findServer(ctx context.Context, out io.Writer) (throwaway.Source, error) {
	src, err := throwaway.FindAny(ctx)
	if !errors.Is(err, throwaway.ErrNotFound) {
		return src, err
	}
	fmt.Fprintln(out, "No usable mysqld or mariadbd and no Docker here: installing MariaDB's server package (no service is started).")
	if err := throwaway.Install(ctx, out); err != nil {
		return src, err
	}
	return throwaway.FindAny(ctx)
}
