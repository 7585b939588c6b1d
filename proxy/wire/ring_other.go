//go:build !linux

package wire

import (
	"errors"
	"net"
)

// Ring is Linux's.
type Ring struct{}

// NewRing fails.
func NewRing() (*Ring, error) { return nil, errors.New("io_uring is Linux's") }

// Adopt returns nc.
func (*Ring) Adopt(nc net.Conn, _ bool) net.Conn { return nc }

// Use does nothing.
func (*Ring) Use(bool) {}

// Close does nothing.
func (*Ring) Close() {}
