//go:build unix && (!linux || race)

package wire

import "syscall"

// The race detector takes a read from a socket to come after the write to it,
// but knows of package syscall's alone.

func readNow(fd int, p []byte) (n int, errno syscall.Errno) { return done(syscall.Read(fd, p)) }

func writeNow(fd int, p []byte) (n int, errno syscall.Errno) { return done(syscall.Write(fd, p)) }

func done(n int, err error) (int, syscall.Errno) {
	errno, _ := err.(syscall.Errno) //nolint:errorlint // what a system call returns wraps nothing
	return max(n, 0), errno
}
