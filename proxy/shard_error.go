package proxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// forwarded judges how forwarding an answer ended.
func (s *session) forwarded(id catalog.ShardID, sum *shard.Summary, err error) error {
	s.measured.Rows += sum.Rows
	switch {
	case sum.Err != nil:
		s.serverFailed(sum.Err)
		s.measured.fails(id, sum.Err.Code)
	case err == nil && (!sum.ResultSet || sum.Counted):
		s.diag.ok(sum.Affected)
	}
	if s.tx != nil && err == nil {
		s.tx.watch(id, sum)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shard.ErrClient):
		return err
	case !sum.Clean:
		return fmt.Errorf("%w: %w", errHalfAnswered, s.shardError(id, err))
	}
	return s.shardError(id, err)
}

// serverFailed looks at an error that a shard answered: some end the
// transaction, some tell that the schema is not what the catalog says.
func (s *session) serverFailed(e *shard.ServerError) {
	s.proxy.metrics.failed(e.Code)
	s.diag.fail(e.Code, e.Message)
	switch e.Code {
	case mysqlerr.BadField, mysqlerr.WrongValueCountOnRow, mysqlerr.NoSuchTable, mysqlerr.BadDB, mysqlerr.ViewInvalid, mysqlerr.CantDropFieldOrKey, mysqlerr.NoDefaultForField, mysqlerr.TableDefChanged:
		// Unknown column, column count, no such table, unknown database, invalid
		// view, ...: DDL may have been done behind Shunt's back.
		s.proxy.opts.Directory.Soon()
	}
}

// shardError names the shard in a failure of its connection, which fails the
// transaction; what the server itself answered stays as it is.
func (s *session) shardError(id catalog.ShardID, err error) error {
	if ahead, ok := errors.AsType[*shard.AheadError](err); ok && s.tx != nil {
		s.tx.drop(id)
		if errors.Is(ahead.Err, shard.ErrShard) {
			return notBegunError{s.notJoined(id, ahead.Err)}
		}
		err = ahead.Err
	}
	if server, ok := errors.AsType[*shard.ServerError](err); ok {
		s.serverFailed(server)
		s.measured.fails(id, server.Code)
		if s.tx != nil {
			s.tx.watch(id, &shard.Summary{Err: server})
		}
		return mysqlerr.Error(*server)
	}
	failed := mysqlerr.Newf(mysqlerr.ShardLost, "Connection to shard %s was lost: %v", s.catalog().ShardName(id), err)
	if why := s.proxy.stalls.why(id); why != "" {
		failed = mysqlerr.Newf(mysqlerr.DiskFull, "Shard %s can't write: %s; the statement may be done yet, when it can", s.catalog().ShardName(id), why)
	}
	if errors.Is(err, shard.ErrColumns) {
		failed = s.columnsDiffer(err)
	}
	if s.tx != nil {
		s.tx.lost(id, failed)
	}
	s.measured.fails(id, coded(failed).Code)
	return failed
}

// columnsDiffer is the error where shards have answered different columns: in the midst of an
// ALTER TABLE, most likely, which some have and some not yet, or behind one that isn't finished.
func (s *session) columnsDiffer(err error) mysqlerr.Error {
	s.proxy.opts.Directory.Soon()
	s.activity.mu.Lock()
	sql := strings.ToLower(s.activity.info)
	s.activity.mu.Unlock()
	for t := range s.catalog().Tables() {
		if t.Differs != "" && s.sees(t.Schema) && strings.Contains(sql, strings.ToLower(t.Name)) {
			return mysqlerr.Newf(mysqlerr.TableDefChanged, "Table definition has changed (%v): the shards disagree about the columns of %s: name those that all have, or make it alike (%s)", err, t.Name, t.Differs)
		}
	}
	return mysqlerr.Newf(mysqlerr.TableDefChanged, "Table definition has changed, please retry transaction (%v)", err)
}

// notJoined is shardError for a shard that the transaction has done nothing on:
// it goes on without.
func (s *session) notJoined(id catalog.ShardID, err error) error {
	tx := s.tx
	s.tx = nil
	defer func() { s.tx = tx }()
	return s.shardError(id, err)
}

// notBegunError: a connection was lost before the transaction had begun on it.
type notBegunError struct{ error }

func (e notBegunError) Unwrap() error { return e.error }

func notBegun(err error) bool {
	_, yes := errors.AsType[notBegunError](err)
	return yes
}
