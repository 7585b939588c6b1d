package proxy

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// errLate is what servers answer for a statement that takes too long.
func (s *session) errLate() mysqlerr.Error {
	if s.mariaDB() {
		return mysqlerr.New(mysqlerr.StatementTimeout, "Query execution was interrupted (max_statement_time exceeded)")
	}
	return mysqlerr.New(mysqlerr.QueryTimeout, "Query execution was interrupted, maximum statement execution time exceeded")
}

// lateAgain is the pause between two tries to end what a statement runs on the
// shards: it may just have been between two steps.
const lateAgain = 50 * time.Millisecond

// readInTime is readSurely, and ends the statement when it takes longer than it
// may. One shard keeps the session's max_execution_time or max_statement_time by
// itself, since it has been SET there. Over several, and where rows are copied
// first, each would count anew what is one statement to the client. A statement is killed
// there, and its 1317 becomes 3024 or 1969. A gather is cancelled, and in a transaction takes
// that with it.
func (s *session) readInTime(ctx context.Context, r *request) error {
	b := r.bound
	limit := s.proxy.timeouts.Load().Query
	if b.Gather != nil || len(b.Statements) > 1 {
		if own := s.maxTime(r.sql); own > 0 && (limit == 0 || own < limit) {
			limit = own
		}
	}
	if limit == 0 {
		return s.readSurely(ctx, r)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := s.errLate()
	var fired atomic.Bool
	done, ended := make(chan struct{}), make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		defer close(ended)
		fired.Store(true)
		s.proxy.metrics.late.Inc()
		if b.Gather != nil {
			cancel(late) // it cleans up by itself
			return
		}
		for {
			if err := s.interruptAs(ctx, (*shard.ServerError)(&late)); err != nil {
				s.log.Info("end a statement that takes too long", "error", err)
			}
			select {
			case <-done:
				return
			case <-time.After(lateAgain):
			}
		}
	})
	err := s.readSurely(ctx, r)
	close(done)
	if !timer.Stop() {
		<-ended
	}
	if err == nil || !fired.Load() || errors.Is(err, shard.ErrClient) || errors.Is(err, errHalfAnswered) {
		return err
	}
	return late
}

// maxTime is how long the session lets a statement run; 0: for ever.
func (s *session) maxTime(sql string) time.Duration {
	if s.setStatement != nil && s.setStatement.MaxTime != "" {
		return statementTime(s.setStatement.MaxTime)
	}
	if v, ok := s.settings.value("@@max_statement_time"); ok {
		if d := statementTime(v); d > 0 {
			return d
		}
	}
	text, _ := s.settings.value("@@max_execution_time")
	if !s.mariaDB() && strings.Contains(sql, "/*+") {
		if hint := maxExecutionTime.FindStringSubmatch(sql); hint != nil {
			text = hint[1]
		}
	}
	if ms, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return 0
}

// maxExecutionTime finds the hint where it counts: right behind the first SELECT.
var maxExecutionTime = regexp.MustCompile(`(?is)^[\s(]*SELECT\s*/\*\+(?:[^*]|\*[^/])*?\bMAX_EXECUTION_TIME\s*\(\s*(\d+)\s*\)`)
