package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
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

// ShareError is ErrPoolExhausted where those in use that a holder waited for are his own.
type ShareError struct {
	User, Where string
	Held, Max   int // his connections, all of the pool
	Within      time.Duration
}

func (e *ShareError) Error() string {
	return fmt.Sprintf("%s: statements of user '%s' hold %d of %d connections, as many as they may, and none became free within %v", e.Where, e.User, e.Held, e.Max, e.Within)
}
func (e *ShareError) Unwrap() error { return ErrPoolExhausted }

// connError is a failure of one of the two connections.
type connError struct {
	side  error // ErrShard or ErrClient
	where string
	err   error
}

func (e *connError) Error() string   { return e.where + ": " + e.err.Error() }
func (e *connError) Unwrap() []error { return []error{e.side, e.err} }

// Code is that of an error which a server answered, 0 for any other.
func Code(err error) uint16 {
	if e, ok := errors.AsType[*ServerError](err); ok {
		return e.Code
	}
	return 0
}

// Down is what a client is told who needs a connection and gets none.
func Down(err error) mysqlerr.Error {
	if share, ok := errors.AsType[*ShareError](err); ok {
		return mysqlerr.Newf(mysqlerr.UserLimitReached, "User '%s' has exceeded the 'max_shard_connections' resource (current value: %d): %v", share.User, share.Held, err)
	}
	if errors.Is(err, ErrPoolExhausted) {
		return mysqlerr.New(mysqlerr.TooManyConnections, "Too many connections: "+err.Error())
	}
	return mysqlerr.Newf(mysqlerr.ShardDown, "Unable to connect to %v", err)
}
