//go:build unix && (!linux || race)

package wire

import "syscall"

// The race detector takes a read from a socket to come after the write to it,
// but knows of package syscall's alone.

func readNow(fd int, p []byte) (n int, errno syscall.Errno) { return now(syscall.Read, fd, p) }

func writeNow(fd int, p []byte) (n int, errno syscall.Errno) { return now(syscall.Write, fd, p) }

func now(call func(int, []byte) (int, error), fd int, p []byte) (n int, errno syscall.Errno) {
	for {
		n, err := call(fd, p)
		errno, _ := err.(syscall.Errno) //nolint:errorlint // what a system call returns wraps nothing
		if errno != syscall.EINTR {
			return max(n, 0), errno
		}
	}
}
