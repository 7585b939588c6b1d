package shard

import (
	"errors"
	"fmt"
)

var (
	// ErrShard: the connection to a shard failed, or it sent nonsense.
	ErrShard = errors.New("shard connection failed")
	// ErrClient: the connection to the client failed while an answer was
	// forwarded.
	ErrClient = errors.New("client connection failed")
	// ErrPoolExhausted: no connection became free within Options.WaitTimeout.
	ErrPoolExhausted = errors.New("no free connection")
	// ErrPoolClosed: the pool is closed.
	ErrPoolClosed = errors.New("pool is closed")
	// ErrColumns: the shards of one statement answered different columns.
	ErrColumns = errors.New("shards answered different columns")
)

// ServerError is an error that a server answered.
type ServerError struct {
	Code    uint16
	State   string // SQLSTATE
	Message string
}

func (e *ServerError) Error() string { return fmt.Sprintf("%d (%s): %s", e.Code, e.State, e.Message) }

// connError is a failure of one of the two connections.
type connError struct {
	side  error // ErrShard or ErrClient
	where string
	err   error
}

func (e *connError) Error() string   { return e.where + ": " + e.err.Error() }
func (e *connError) Unwrap() []error { return []error{e.side, e.err} }
