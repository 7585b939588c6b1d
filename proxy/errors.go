package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// What sessions answer themselves. Where MySQL has an error for the same situation,
// it is that one.
var (
	errNoDatabase  = mysqlerr.New(mysqlerr.NoDB, "No database selected")
	errUnknownStmt = func(id uint32, command string) error {
		return mysqlerr.Newf(mysqlerr.UnknownStmtHandler, "Unknown prepared statement handler (%d) given to %s", id, command)
	}
	errNotPrepared = mysqlerr.New(mysqlerr.UnsupportedPS, "This command is not supported in the prepared statement protocol yet")
	errEmptyQuery  = mysqlerr.New(mysqlerr.EmptyQuery, "Query was empty")
	errInterrupted = mysqlerr.New(mysqlerr.QueryInterrupted, "Query execution was interrupted")
	errShutdown    = mysqlerr.New(mysqlerr.ServerShutdown, "Server shutdown in progress")
	errBlocked     = mysqlerr.New(mysqlerr.HostIsBlocked, "Host is blocked because of many failed log-ins; try again in a while")
	errTooMany     = mysqlerr.New(mysqlerr.TooManyConnections, "Too many connections")
	// errStale: the catalog changed while the statement was planned; plan again.
	errStale = errors.New("catalog changed")
	// errLiterals: the plan of the statement's shape won't do for it.
	errLiterals = fmt.Errorf("%w: plan with literals", errStale)
	// errRetyped is errStale after answers of other types than were planned for.
	errRetyped = fmt.Errorf("%w: types differ", errStale)
)

// refuse is error 1235: what is missing, and the way out.
func refuse(format string, args ...any) error {
	return mysqlerr.Newf(mysqlerr.NotSupportedYet, format, args...)
}

// sectioned names in an error of Shunt's own where it is described.
func sectioned(err error) error {
	if _, planned := errors.AsType[*text.Error](err); !planned {
		if _, own := errors.AsType[mysqlerr.Error](err); !own {
			return err
		}
	}
	e := coded(err)
	e.Message += " (" + mysqlerr.Section(e.Code) + ")"
	return e
}

// noteSection has SHOW WARNINGS name it below a refusal. The statement's own error stays as it is, since clients compare
// texts, and so does what SHOW WARNINGS has of errors that a server gives too.
func (s *session) noteSection(e mysqlerr.Error) {
	if e.Code == mysqlerr.NotSupportedYet && s.diag.failed != e.Code && s.wantsNotes() {
		s.diag.below(condition("Note", e.Code, "See "+mysqlerr.Section(e.Code)+" of Shunt"))
	}
}

// aborted is the answer to statements in a transaction that a shard has ended.
func aborted(cause error) error {
	return mysqlerr.Newf(mysqlerr.ErrorDuringCommit, "The transaction can't go on, since it was rolled back on a shard (%v); send ROLLBACK and try again", cause)
}

// unreachable reports that a shard can't be connected to, or was lost.
func unreachable(err error) bool {
	code := coded(err).Code
	return code == mysqlerr.ShardDown || code == mysqlerr.ShardLost
}

// coded maps an error to what the client is told. It is the one place that
// knows both sides.
func coded(err error) mysqlerr.Error {
	var own mysqlerr.Error
	var planned *text.Error
	var told *wire.Error
	var server *shard.ServerError
	var lost StoreLost
	var busy StoreBusy
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &planned):
		return mysqlerr.Error{Code: planned.Code, State: planned.State, Message: planned.Message}
	case errors.As(err, &told):
		return mysqlerr.Error(*told)
	case errors.As(err, &server):
		return mysqlerr.Error(*server)
	case errors.Is(err, ErrIndexFull):
		return mysqlerr.New(mysqlerr.DiskFull, err.Error()+"; nothing was changed. Free disk space under data_dir, or drop the table's virtual indexes")
	case errors.Is(err, ErrIndexReadOnly):
		return mysqlerr.New(mysqlerr.OptionPreventsStatement, err.Error()+"; nothing was changed. See the log for the cause, mend it and restart Shunt")
	case errors.Is(err, context.Canceled):
		return errShutdown
	case errors.As(err, &lost):
		return mysqlerr.New(mysqlerr.ShardLost, err.Error())
	case errors.As(err, &busy):
		return mysqlerr.New(mysqlerr.LockWaitTimeout, err.Error())
	// Of what is asked of shards besides the statement itself, as before one that writes.
	case errors.Is(err, shard.ErrPoolExhausted):
		return shard.Down(err)
	case errors.Is(err, shard.ErrShard):
		return mysqlerr.New(mysqlerr.ShardLost, err.Error())
	}
	return mysqlerr.New(mysqlerr.UnknownError, err.Error())
}

// refusal is why a statement can't be executed as it is, nil if it can. err is what binding it gave.
func (r *request) refusal(err error) *text.Error {
	if err == nil {
		return r.bound.Refuse
	}
	if e, ok := errors.AsType[*text.Error](err); ok && e.Code == mysqlerr.NotSupportedYet {
		return e
	}
	return nil
}
