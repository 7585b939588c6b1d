// Package shard connects to the backend servers. It knows packets, not SQL.
//
//	Dial     a connection: go-mysql's client does connect, TLS, authentication
//	Conn     Send a command, Forward its answer; or Query, Exec, Stream, Prepare
//	Pool     the connections to one shard
//
// After the handshake go-mysql is not used any more: the socket is read and
// written by wire.Reader and wire.Writer, so that an answer is copied from
// buffer to buffer with only its sequence numbers rewritten. Shard connections
// have EOF packets, no session tracking and no query attributes; what a client
// has instead is written by wire.Conn.
//
// # A command
//
//	c, err := pool.Get(ctx, foundRows)
//	defer pool.Put(c)                       // closes it when it is Broken
//	err = c.Send(mysql.COM_QUERY, sql)
//	sum, err := c.Forward(client, shard.Result, shard.ForwardOptions{})
//
// # Failures
//
// A server's error is an answer like another: Forward gives it as Summary.Err,
// the others as a *ServerError. Everything else is a failure of a connection
// and is ErrShard or ErrClient (errors.Is). After either the answer is not
// read to its end: the Conn is Broken and is closed by Put. After ErrShard the
// client may have got a part of an answer: Summary.Clean tells whether an ERR
// packet can end it, or the client must be closed; after ErrClient it is closed
// anyway.
//
// # Invariants
//
//   - A Conn belongs to one goroutine at a time. Only Interrupt and Close may
//     be called from another one.
//   - Between Send and the end of its answer a Conn is Busy. Closing a Busy
//     Conn leaves a statement that may still run on the server: the pool tells
//     so by OnEnd.
//   - Memory is bounded whatever an answer's size; a slow client stops the
//     reading from the shard.
package shard
