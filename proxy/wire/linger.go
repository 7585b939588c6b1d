package wire

import (
	"io"
	"net"
	"time"
)

// lingerTime bounds how long a refused client is listened to.
const lingerTime = time.Second

// linger half-closes nc and discards up to limit bytes, so that the last error
// packet arrives at a client that is still sending.
func linger(nc net.Conn, limit int64, wait time.Duration) {
	if h, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
	_ = nc.SetReadDeadline(time.Now().Add(wait))
	_, _ = io.CopyN(io.Discard, nc, limit)
}
