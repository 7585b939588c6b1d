package text

// Error is a refusal or a syntax error with its MySQL code.
type Error struct {
	Code    uint16
	State   string
	Message string
	// Unread: Shunt can't read the statement, of which a server may say more.
	Unread bool
	// Own: it is about a statement or hint of Shunt's own, which no server knows.
	Own bool
	// Commits: a server commits before it says so, as before all DDL.
	Commits bool
	// View: it is about a view that is written through.
	View bool
	// Unstored: what a column would hold for a value isn't known, but a shard can say it.
	Unstored bool
	// Only is the level of the warning that it is, and no error: IF EXISTS. "": it is one.
	Only string
	// Differs: the shards disagreed about a table when they were asked last.
	Differs bool
}

// Error is the message alone, as the client gets it.
func (e *Error) Error() string { return e.Message }
