//go:build unix

package wire

import (
	"net"
	"syscall"
)

// Gone reports whether the peer of a socket has closed it, by peeking without
// waiting. Unread bytes hide a close that follows them. False where nc isn't a
// socket.
func Gone(nc net.Conn) bool {
	state, _ := peek(nc)
	return state == peerGone
}

// Quiet reports whether the socket is open and has nothing to read: how a
// connection must be whose peer owes no answer.
func Quiet(nc net.Conn) bool {
	state, ok := peek(nc)
	return !ok || state == peerQuiet
}

// pending reports that there is something to read.
func pending(nc net.Conn) bool {
	state, ok := peek(nc)
	return ok && state == peerSent
}

type peerState uint8

const (
	peerQuiet peerState = iota
	peerSent
	peerGone
)

func peek(nc net.Conn) (state peerState, ok bool) {
	if t, is := nc.(interface{ NetConn() net.Conn }); is {
		nc = t.NetConn()
	}
	if p, ok := nc.(interface{ peek() peerState }); ok {
		return p.peek(), true
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return peerQuiet, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return peerGone, true
	}
	if err := raw.Control(func(fd uintptr) { state = peekAt(int(fd)) }); err != nil {
		return peerGone, true
	}
	return state, true
}

func peekAt(fd int) peerState {
	var b [1]byte
	for {
		n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return peerQuiet
		case err != nil || n == 0:
			return peerGone
		default:
			return peerSent
		}
	}
}
