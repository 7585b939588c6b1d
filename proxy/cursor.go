package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/spool"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// cursor is the rows of an execution that the client fetches piece by piece.
//
// As on a server the whole result is there when the execution is answered. A
// shard's connection that were kept instead could answer nothing else until the
// last row is fetched, which in a transaction would be the client's own
// statements, and of several shards each would be kept.
type cursor struct {
	answer   *spool.Answer
	at, ends int64 // the next row, and the end of all
}

func (st *preparedStatement) closeCursor() {
	if st.cursor != nil {
		st.cursor.answer.Drop()
		st.cursor = nil
	}
}

// openCursor runs an execution with its answer set aside. What is no single
// result set is answered at once, as servers do.
func (s *session) openCursor(ctx context.Context, st *preparedStatement, run func() error) error {
	sp := s.proxy.answers.New("fetch and close others before, or execute the statement without a cursor", func() {
		// The rest would be read for nothing.
		_ = s.interrupt(ctx)
	})
	defer func() {
		if st.cursor == nil || st.cursor.answer != sp {
			sp.Drop()
		}
	}()
	back := s.client.Divert(sp)
	err := run()
	e := back()
	switch {
	case sp.Full() != nil:
		return sp.Full()
	case err != nil:
		// Whatever was written, the client has got nothing of it.
		return coded(err)
	case !sp.OneResult(e):
		from := int64(0)
		if at, failed := sp.Failed(); failed && !e.Ended { // else results of CALL stand before the error
			from = at
		}
		_, _, err := s.client.Replay(sp.Section(from, sp.Size()), -1)
		return s.clientError(err)
	}
	st.cursor = &cursor{sp, e.Rows, e.End}
	if _, _, err := s.client.Replay(sp.Section(0, e.Header), -1); err != nil {
		st.closeCursor()
		return s.clientError(err)
	}
	return s.clientError(s.client.WriteEnd(e.Status|mysql.SERVER_STATUS_CURSOR_EXISTS, e.Warnings))
}

// fetch answers COM_STMT_FETCH. That there are no more rows is found, and told,
// by the fetch that wants one more, as servers do.
func (s *session) fetch(payload []byte) error {
	if len(payload) < 8 {
		return errUnknownStmt(0, "mysqld_stmt_fetch")
	}
	id, n := binary.LittleEndian.Uint32(payload), int(binary.LittleEndian.Uint32(payload[4:]))
	st := s.prepared.find(id)
	if st == nil {
		return errUnknownStmt(id, "mysqld_stmt_fetch")
	}
	if st.cursor == nil {
		return mysqlerr.Newf(mysqlerr.StmtHasNoOpenCursor, "The statement (%d) has no open cursor.", id)
	}
	s.activity.doing("Fetch", s.settings.schema, st.sql, time.Now())
	c := st.cursor
	rows, bytes, err := s.client.Replay(c.answer.Section(c.at, c.ends), n)
	c.at += bytes
	if err != nil {
		st.closeCursor()
		if s.client.Err() == nil && s.client.Writer().Cut() {
			return errHalfAnswered
		}
		if s.client.Err() == nil {
			return fmt.Errorf("read a cursor's rows: %w", err)
		}
		return s.clientError(err)
	}
	status := mysql.SERVER_STATUS_CURSOR_EXISTS
	if rows < n {
		status = mysql.SERVER_STATUS_LAST_ROW_SEND
		st.closeCursor()
	}
	return s.clientError(s.client.WriteEnd(s.status()|status, 0))
}

// setAside runs a query of the client's, or of ours, and keeps its answer, which is one result. The
// caller drops it, unless there is an error.
func (s *session) setAside(ctx context.Context, binary bool, instead string, run func() error) (sp *spool.Answer, e wire.Extent, err error) {
	sp = s.proxy.answers.New(instead, func() { _ = s.interrupt(ctx) })
	was, more, none, undo := s.binary, s.more, s.client.NoMetadata, s.diag.keepAnswered()
	s.binary, s.more, s.client.NoMetadata = binary, 0, false
	back := s.client.Divert(sp)
	err = run()
	e = back()
	s.binary, s.more, s.client.NoMetadata = was, more, none
	undo()
	switch {
	case sp.Full() != nil: // the rest was interrupted
		err = sp.Full()
	case err == nil && !sp.OneResult(e):
		err = sp.Failure()
	}
	if err != nil {
		sp.Drop()
	}
	return sp, e, err
}
