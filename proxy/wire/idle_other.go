//go:build !unix

package wire

import "net"

type idleWait struct{}

func newIdleWait(net.Conn) *idleWait { return nil }

func (*idleWait) read(*Reader) error { return nil }
