//go:build !unix

package wire

import "net"

// Exchange sends a command and waits for its answer.
type Exchange struct{}

// NewExchange returns nil where that isn't possible.
func NewExchange(net.Conn, *Reader, *Writer) *Exchange { return nil }

// Do isn't called.
func (*Exchange) Do() error { return nil }
