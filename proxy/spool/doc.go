// Package spool keeps answers as they would go to a client, in memory and beyond some size in files,
// to be read again: for cursors, and for statements of the proxy's own that go on with their rows.
//
// Answers bounds what all of them take. An Answer is an io.Writer that never fails: what has no
// room is dropped, and Full says so.
package spool
