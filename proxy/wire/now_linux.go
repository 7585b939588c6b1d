//go:build linux && !race

package wire

import (
	"syscall"
	"unsafe"
)

// readNow and writeNow are read and write on a socket that never waits, again after
// a signal. The Go scheduler isn't told of them: what it does around a call that may
// take long, and its giving the processor to another thread when one does, cost a
// sixth of a point select's time.

func readNow(fd int, p []byte) (n int, errno syscall.Errno) { return now(syscall.SYS_READ, fd, p) }

func writeNow(fd int, p []byte) (n int, errno syscall.Errno) { return now(syscall.SYS_WRITE, fd, p) }

func now(call uintptr, fd int, p []byte) (n int, errno syscall.Errno) {
	if len(p) == 0 {
		return 0, 0
	}
	for {
		r, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case syscall.EINTR:
		case 0:
			return int(r), 0
		default:
			return 0, errno
		}
	}
}
