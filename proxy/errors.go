package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// sqlError is an error that already has its MySQL code.
type sqlError struct {
	code  uint16
	state string
	msg   string
}

func (e sqlError) Error() string { return e.msg }

func (e sqlError) packet() *wire.Error {
	return &wire.Error{Code: e.code, State: e.state, Message: e.msg}
}

// Codes of what sessions answer themselves. Where MySQL has a code for the
// same situation, it is that one.
var (
	errNoDatabase  = sqlError{1046, "3D000", "No database selected"}
	errUnknownStmt = func(id uint32, command string) error {
		return sqlError{1243, "HY000", fmt.Sprintf("Unknown prepared statement handler (%d) given to %s", id, command)}
	}
	errNotPrepared = sqlError{1295, "HY000", "This command is not supported in the prepared statement protocol yet"}
	errEmptyQuery  = sqlError{1065, "42000", "Query was empty"}
	errInterrupted = sqlError{1317, "70100", "Query execution was interrupted"}
	errShutdown    = sqlError{1053, "08S01", "Server shutdown in progress"}
	errBlocked     = sqlError{1129, "HY000", "Host is blocked because of many failed log-ins; try again in a while"}
	errTooMany     = sqlError{1040, "08004", "Too many connections"}
	// errStale: the catalog changed while the statement was planned; plan again.
	errStale = errors.New("catalog changed")
	// errLiterals: the plan of the statement's shape won't do for it.
	errLiterals = fmt.Errorf("%w: plan with literals", errStale)
	// errRetyped is errStale after answers of other types than were planned for.
	errRetyped = fmt.Errorf("%w: types differ", errStale)
)

const (
	codeSyntax         = 1064 // ER_PARSE_ERROR
	codeUnknown        = 1105 // ER_UNKNOWN_ERROR
	codeNotSupported   = 1235 // ER_NOT_SUPPORTED_YET
	codeShardDown      = 1429 // ER_CONNECT_TO_FOREIGN_DATA_SOURCE
	codeShardLost      = 1430 // ER_QUERY_ON_FOREIGN_DATA_SOURCE
	codeTableFull      = 1114 // ER_RECORD_FILE_FULL
	codeDiskFull       = 1021 // ER_DISK_FULL
	codeReadOnly       = 1290 // ER_OPTION_PREVENTS_STATEMENT
	codeLockWait       = 1205 // ER_LOCK_WAIT_TIMEOUT
	codeDeadlock       = 1213 // ER_LOCK_DEADLOCK
	codeRecordChanged  = 1020 // ER_CHECKREAD
	codeLocksFull      = 1206 // ER_LOCK_TABLE_FULL
	codeNoColumn       = 1054 // ER_BAD_FIELD_ERROR
	codeNoTable        = 1146 // ER_NO_SUCH_TABLE
	codeBadTable       = 1051 // ER_BAD_TABLE_ERROR: what DROP TABLE says of one that isn't there
	codeNoView         = 4092 // MariaDB's ER_UNKNOWN_VIEW
	codeNoSchema       = 1049 // ER_BAD_DB_ERROR
	codeTableChanged   = 1412 // ER_TABLE_DEF_CHANGED
	codeUnknownCommand = 1047 // ER_UNKNOWN_COM_ERROR
)

// refuse is error 1235: what is missing, and the way out.
func refuse(format string, args ...any) error {
	return sqlError{codeNotSupported, "42000", fmt.Sprintf(format, args...)}
}

// aborted is the answer to statements in a transaction that a shard has ended.
func aborted(cause error) error {
	return sqlError{1180, "HY000", fmt.Sprintf("The transaction can't go on, since it was rolled back on a shard (%v); send ROLLBACK and try again", cause)}
}

// unreachable reports that a shard can't be connected to, or was lost.
func unreachable(err error) bool {
	code := coded(err).code
	return code == codeShardDown || code == codeShardLost
}

// coded maps an error to what the client is told. It is the one place that
// knows both sides.
func coded(err error) sqlError {
	var own sqlError
	var planned *planner.Error
	var told *wire.Error
	var server *shard.ServerError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &planned):
		return sqlError{planned.Code, planned.State, planned.Message}
	case errors.As(err, &told):
		return sqlError{told.Code, told.State, told.Message}
	case errors.As(err, &server):
		return sqlError{server.Code, server.State, server.Message}
	case errors.Is(err, ErrIndexFull):
		return sqlError{codeDiskFull, "HY000", err.Error() + "; nothing was changed. Free disk space under data_dir, or drop the table's virtual indexes"}
	case errors.Is(err, ErrIndexReadOnly):
		return sqlError{codeReadOnly, "HY000", err.Error() + "; nothing was changed. See the log for the cause, mend it and restart Shunt"}
	case errors.Is(err, context.Canceled):
		return errShutdown
	}
	return sqlError{codeUnknown, "HY000", err.Error()}
}

// refused reports that a plan can't be executed as it is.
func refused(b *planner.Bound, err error) bool { return refusal(b, err) != nil }

// refusal is why a plan can't be executed as it is, nil if it can.
func refusal(b *planner.Bound, err error) *planner.Error {
	if err == nil && b != nil {
		return b.Refuse
	}
	if e, ok := errors.AsType[*planner.Error](err); ok && e.Code == codeNotSupported {
		return e
	}
	return nil
}
