package shard

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// defaultStatements: a pool of 128 connections stays under the server's
// max_prepared_stmt_count (16,382 by default), which all clients share.
const defaultStatements = 64

// Stmt is a statement prepared on one connection.
type Stmt struct {
	ID       uint32
	Warnings uint16
	// Warned is what SHOW WARNINGS had of them, if who prepared it asked.
	Warned [][][]byte
	// Params and Columns are the definitions' payloads as the shard sent them.
	Params, Columns [][]byte
	// ParamTypes are the types that the server expects: what a parameter is
	// compared with or assigned to.
	ParamTypes []byte
}

// statementKey is what a prepared statement depends on: its text, the schema
// that its names were resolved in, the settings that it was parsed under, and
// what the caller wants kept apart.
type statementKey struct {
	schema, state string
	// text is the statement's, or its hash if it is long.
	text, use string
}

// statements are a connection's prepared statements, the least recently used
// one last.
type statements struct {
	max    int
	byKey  map[statementKey]*list.Element
	recent list.List // of *statementEntry
}

type statementEntry struct {
	key  statementKey
	stmt *Stmt
}

func (s *statements) get(k statementKey) *Stmt {
	e := s.recent.Front()
	if e == nil || e.Value.(*statementEntry).key != k { // which saves the hash where one is executed again and again
		if e = s.byKey[k]; e == nil {
			return nil
		}
		s.recent.MoveToFront(e)
	}
	return e.Value.(*statementEntry).stmt
}

// add keeps a statement. REQUIRES: makeRoom came before.
func (s *statements) add(k statementKey, st *Stmt) {
	if s.byKey == nil {
		s.byKey = map[statementKey]*list.Element{}
	}
	s.byKey[k] = s.recent.PushFront(&statementEntry{k, st})
}

// makeRoom returns the statement that must go for another, if any.
func (s *statements) makeRoom() (evicted *Stmt) {
	if s.recent.Len() < s.max {
		return nil
	}
	e := s.recent.Remove(s.recent.Back()).(*statementEntry)
	delete(s.byKey, e.key)
	return e.stmt
}

// drop forgets one that the server has dropped.
func (s *statements) drop(st *Stmt) {
	for e := s.recent.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*statementEntry); x.stmt == st {
			s.recent.Remove(e)
			delete(s.byKey, x.key)
			return
		}
	}
}

// forget drops all: the server has dropped them.
func (s *statements) forget() {
	clear(s.byKey)
	s.recent.Init()
}

const longText = 512

func (c *Conn) statementKey(sql, use string) statementKey {
	if len(sql) > longText {
		h := sha256.Sum256([]byte(sql))
		sql = string(h[:])
	}
	return statementKey{c.Schema, c.State, sql, use}
}

// Prepare prepares a statement, or returns the one that this connection has
// prepared before from the same text, Schema and State. The Stmt is the
// connection's: it is valid until the next Prepare or Reset, and nobody else
// closes it. Execute it by Execute.
func (c *Conn) Prepare(ctx context.Context, sql string) (*Stmt, error) {
	return c.PrepareFor(ctx, sql, "")
}

// PrepareFor is Prepare that shares the statement only with those that name the
// same use. A server's statement remembers: MySQL gives each parameter the type
// that it was first executed with, and makes later values into that.
//
//	SELECT ? executed with 5, then with 'x'    the second answers 0
//
// So what one client has executed must not serve another with other types.
func (c *Conn) PrepareFor(ctx context.Context, sql, use string) (*Stmt, error) {
	key := c.statementKey(sql, use)
	if st := c.stmts.get(key); st != nil {
		return st, nil
	}
	// The oldest is closed first, so that the server never has more than max.
	if old := c.stmts.makeRoom(); old != nil {
		if err := c.closeStatement(old); err != nil {
			return nil, err
		}
	}
	st, err := c.prepare(ctx, sql)
	var full *ServerError
	if errors.As(err, &full) && full.Code == mysqlerr.MaxPreparedStmtCountReached && len(c.stmts.byKey) > 0 {
		// ER_MAX_PREPARED_STMT_COUNT_REACHED: give back what we hold.
		for e := c.stmts.recent.Front(); e != nil; e = e.Next() {
			if err := c.closeStatement(e.Value.(*statementEntry).stmt); err != nil {
				return nil, err
			}
		}
		c.stmts.forget()
		st, err = c.prepare(ctx, sql)
	}
	if err != nil {
		return nil, err
	}
	c.stmts.add(key, st)
	return st, nil
}

func (c *Conn) prepare(ctx context.Context, sql string) (*Stmt, error) {
	st := &Stmt{}
	var refused *ServerError
	err := c.Under(ctx, func() error {
		if err := c.Send(mysql.COM_STMT_PREPARE, []byte(sql)); err != nil {
			return err
		}
		err := c.readAhead(Prepared)
		if err != nil {
			return err
		}
		if refused, err = c.readPrepared(st); err != nil {
			return c.fail(err)
		}
		c.busy = false
		return nil
	})
	if err == nil && refused != nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (c *Conn) readPrepared(st *Stmt) (*ServerError, error) {
	p, err := c.r.ReadPacket(maxControl)
	if err != nil {
		return nil, err
	}
	if len(p) > 0 && p[0] == mysql.ERR_HEADER {
		e, err := wire.ParseError(p)
		return (*ServerError)(e), err
	}
	o, err := wire.ParsePrepareOK(p)
	if err != nil {
		return nil, err
	}
	st.ID, st.Warnings = o.StatementID, o.Warnings
	if st.Params, err = c.readDefinitions(int(o.Params)); err != nil {
		return nil, err
	}
	for _, p := range st.Params {
		col, err := wire.ParseColumn(p)
		if err != nil {
			return nil, err
		}
		st.ParamTypes = append(st.ParamTypes, col.Type)
	}
	st.Columns, err = c.readDefinitions(int(o.Columns))
	return nil, err
}

func (c *Conn) readDefinitions(n int) ([][]byte, error) {
	if n == 0 {
		return nil, nil
	}
	defs := make([][]byte, 0, n)
	for range n {
		p, err := c.r.ReadPacket(maxControl)
		if err != nil {
			return nil, err
		}
		defs = append(defs, slices.Clone(p))
	}
	p, err := c.r.ReadPacket(maxControl)
	if err != nil {
		return nil, err
	}
	e, err := wire.ParseEOF(p)
	if err != nil {
		return nil, err
	}
	c.Status = e.Status
	return defs, nil
}

// closeStatement tells the server with the next command: COM_STMT_CLOSE has no
// answer, so it can wait in the buffer.
func (c *Conn) closeStatement(st *Stmt) error {
	if err := c.w.WriteCommand(mysql.COM_STMT_CLOSE, binary.LittleEndian.AppendUint32(nil, st.ID)); err != nil {
		return c.fail(err)
	}
	return nil
}
