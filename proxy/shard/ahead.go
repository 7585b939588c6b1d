package shard

// AheadError is the failure of what was sent ahead of a command (SendAhead).
type AheadError struct{ Err error }

func (e *AheadError) Error() string { return e.Err.Error() }
func (e *AheadError) Unwrap() error { return e.Err }

// SendAhead has a statement go ahead of the next command, in one write, and its answer be read
// before that command's: a round trip less. It must be answered by OK. The command is
// executed even if the statement fails, which is then an AheadError of whatever sends the
// command or reads its answer; the connection is Broken.
func (c *Conn) SendAhead(sql string) { c.ahead = sql }

// Ahead reports whether SendAhead's statement hasn't been sent yet.
func (c *Conn) Ahead() bool { return c.ahead != "" }

// readAhead reads the answer of what went ahead of the command, if anything did. Behind one that
// was refused it reads the command's own, which is of a kind, for nobody.
func (c *Conn) readAhead(kind ResponseKind) error {
	if !c.aheadDue {
		return nil
	}
	c.aheadDue = false
	executing := c.executing // it hasn't been answered yet
	f := forwarder{c: c}
	if _, err := f.result(); err != nil {
		return &AheadError{c.fail(err)}
	}
	c.executing = executing
	c.r.SetSequence(c.w.Sequence())
	if f.sum.Err == nil {
		return nil
	}
	if !c.Broken {
		rest := forwarder{c: c}
		_ = rest.run(kind)
		c.Broken = true
	}
	return &AheadError{f.sum.Err}
}
