// Package wire speaks the MySQL client/server protocol (41) towards clients:
// Shunt is the server. It knows packets, not SQL.
//
//	Accept        handshake and authentication of a new connection
//	Conn          one client: ReadCommand, then Write... the answer
//	Reader/Writer framing, shared with proxy/shard
//	Patience      what to do when a read takes long
//	DecodeExecute, EncodeExecute   parameters of prepared statements
//
// # Life of a connection
//
//	c, err := wire.Accept(ctx, nc, options)  // authenticated, not told so yet
//	...does the schema c.Schema exist?       // else c.WriteError(mysqlerr.New(mysqlerr.BadDB, ...)), c.Close()
//	c.WriteOK(wire.OK{Status: autocommit})
//	c.Begin()                                // compression begins here
//	for {
//	    cmd, payload, err := c.ReadCommand() // flushes what is buffered first
//	    ...answer with Write... or shard.Conn.Forward
//	}
//
// # Invariants
//
//   - A Conn belongs to one goroutine. Only Close, SetDeadline,
//     SetReadDeadline and Gone may be called from another one.
//   - What is written is buffered; it is sent when the buffer is full, on
//     Flush, and by the next ReadCommand. So no answer is ever forgotten in the
//     buffer, and a small answer costs one system call.
//   - A payload is valid until the next read of the same Reader.
//   - Memory grows only with bytes that have really arrived, never with a
//     length that a peer merely claims.
//   - After the first failed write every write of that Writer fails, and
//     Writer.Err tells so. That is how a forwarder tells a client's failure
//     from a shard's.
//
// # What is advertised
//
// See serverCapabilities. Query attributes are read and left out.
//
// What changes answers' packets (AnswerCapabilities) is each client's own, and off
// on shard connections: rows are the same bytes either way and are forwarded
// without being decoded; the few packets around them (WriteCount,
// WriteColumnsEnd, WriteEnd, WriteOK) are written anew for the client anyway,
// since their status flags are the session's.
//
// # Non-goals
//
// The pre-4.1 protocol.
package wire
