package shard

import (
	"encoding/binary"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// executeTries is how often one execution prepares its statement anew, as often
// as servers do themselves.
const executeTries = 3

// keptPayload bounds what a connection keeps for its next execution.
const keptPayload = 16 << 10

// execution is a prepared statement's, whose answer is due.
type execution struct {
	st      *Stmt
	sql     string
	payload []byte
	tries   int
}

// Execute sends COM_STMT_EXECUTE of st, which Prepare gave for sql. Where the server answers that it has dropped the
// statement, or that it must be prepared anew, Forward and Rows do so and execute it
// again: nothing has happened then.
func (c *Conn) Execute(st *Stmt, sql string, params []wire.Param) error {
	payload := wire.AppendExecute(c.payload[:0], st.ID, 0, params)
	if c.payload = payload; cap(payload) > keptPayload {
		c.payload = nil
	}
	if err := c.Send(mysql.COM_STMT_EXECUTE, payload); err != nil {
		return err
	}
	c.executing = execution{st: st, sql: sql, payload: payload}
	return nil
}

// executeAgain looks at the error with which an answer begins. again: the
// statement has been executed once more, and its answer is due. Else the error
// that it returns is what the client is to be told.
func (f *forwarder) executeAgain(p []byte) (_ []byte, again bool, err error) {
	c := f.c
	x := &c.executing
	if x.st == nil || x.tries >= executeTries {
		return p, false, nil
	}
	e, err := wire.ParseError(p)
	if err != nil {
		return p, false, err
	}
	switch e.Code {
	case mysqlerr.UnknownStmtHandler:
	case mysqlerr.NeedReprepare:
		if err := c.closeStatement(x.st); err != nil {
			return p, false, err
		}
	default:
		return p, false, nil
	}
	x.tries++
	if err := c.ask(mysql.COM_STMT_PREPARE, []byte(x.sql)); err != nil {
		return p, false, err
	}
	var anew Stmt
	refused, err := c.readPrepared(&anew)
	if err != nil {
		return p, false, err
	}
	if refused != nil { // a table is gone, say
		c.stmts.drop(x.st)
		return (*wire.Error)(refused).Append(nil), false, nil //nolint:nilerr // the server's refusal is the answer
	}
	// In place: whoever has the statement has the new one.
	*x.st = anew
	binary.LittleEndian.PutUint32(x.payload, anew.ID)
	return p, true, c.ask(mysql.COM_STMT_EXECUTE, x.payload)
}

// ask sends a command in the middle of the reading of an answer.
func (c *Conn) ask(cmd byte, payload []byte) error {
	if err := c.w.WriteCommand(cmd, payload); err != nil {
		return err
	}
	c.r.SetSequence(c.w.Sequence())
	return c.w.Flush()
}
