//go:build !unix

package wire

import "net"

// Gone can't be known here without reading.
func Gone(net.Conn) bool { return false }

// Quiet can't be known here without reading.
func Quiet(net.Conn) bool { return true }

// pending can't be known here without reading.
func pending(net.Conn) bool { return false }
