package proxy

import (
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// forwarded judges how forwarding an answer ended.
func (s *session) forwarded(id catalog.ShardID, sum shard.Summary, err error) error {
	switch {
	case sum.Err != nil:
		s.serverFailed(sum.Err)
	case err == nil && (!sum.ResultSet || sum.Counted):
		s.counts.changed = int64(sum.Affected)
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
	s.failed = true
	s.proxy.metrics.failed(e.Code)
	s.last = lastStatement{insertID: s.last.insertID, failed: e.Code, warnings: [][][]byte{condition("Error", e.Code, e.Message)}}
	switch e.Code {
	case 1054, 1136, 1146, 1049, 1356, 1091, 1364, 1412:
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
		if s.tx != nil {
			s.tx.watch(id, shard.Summary{Err: server})
		}
		return sqlError{server.Code, server.State, server.Message}
	}
	failed := sqlError{codeShardLost, "HY000", fmt.Sprintf("Connection to shard %s was lost: %v", s.catalog().ShardName(id), err)}
	if errors.Is(err, shard.ErrColumns) {
		// In the midst of an ALTER TABLE, most likely: some have it, some not yet.
		s.proxy.opts.Directory.Soon()
		failed = sqlError{codeTableChanged, "HY000", fmt.Sprintf("Table definition has changed, please retry transaction (%v)", err)}
	}
	if s.tx != nil {
		s.tx.lost(id, failed)
	}
	return failed
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

func shardDown(err error) error {
	if errors.Is(err, shard.ErrPoolExhausted) {
		return sqlError{1040, "08004", "Too many connections: " + err.Error()}
	}
	return sqlError{codeShardDown, "HY000", fmt.Sprintf("Unable to connect to %v", err)}
}
