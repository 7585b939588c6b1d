//go:build !unix

package wire

import (
	"io"
	"net"
)

func newSocket(nc net.Conn) io.ReadWriter { return nc }
