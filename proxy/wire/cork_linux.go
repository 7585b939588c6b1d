package wire

import (
	"net"
	"syscall"
)

// cork holds a socket's last bytes back until its end goes out with them.
func cork(nc net.Conn) {
	for {
		t, is := nc.(interface{ NetConn() net.Conn })
		if !is {
			break
		}
		nc = t.NetConn()
	}
	sc, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1)
	})
}
