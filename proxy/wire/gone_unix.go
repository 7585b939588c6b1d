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
	for {
		if c, is := nc.(ringed); is && c.has() {
			return peerSent, true
		}
		t, is := nc.(interface{ NetConn() net.Conn })
		if !is {
			break
		}
		nc = t.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return peerQuiet, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return peerGone, true
	}
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		for {
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			switch {
			case err == syscall.EINTR:
				continue
			case err == syscall.EAGAIN:
				state = peerQuiet
			case err != nil || n == 0:
				state = peerGone
			default:
				state = peerSent
			}
			return
		}
	})
	if err != nil {
		return peerGone, true
	}
	return state, true
}
