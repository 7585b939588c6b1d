// Package mysqlerr names the errors of MySQL and MariaDB, and is the one place that knows their
// numbers and SQLSTATEs.
//
// codes.go is the table. Names say what an error means to Shunt, the comments at the end of lines
// have the servers' own. Above what Shunt gives itself stands when it does, and behind "Do:" what
// helps. docs/errors.md is made of that, and a test holds that no other error has such a comment.
//
// Three types have an error's code, state and message, and are told apart: an Error is Shunt's, a
// shard.ServerError a server's, and a text.Error carries what the planner knows besides.
package mysqlerr
