package proxy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/plan"
)

// idleNotes are what servers note of each name, where IF EXISTS or IF NOT EXISTS has a statement change nothing.
var idleNotes = map[string][]uint16{
	"CREATE DATABASE":  {mysqlerr.DBCreateExists},
	"DROP DATABASE":    {mysqlerr.DBDropExists},
	"CREATE TABLE":     {mysqlerr.TableExists},
	"DROP TABLE":       {mysqlerr.BadTable},
	"DROP VIEW":        {mysqlerr.BadTable, mysqlerr.UnknownView},
	"CREATE TRIGGER":   {mysqlerr.TriggerAlreadyExists},
	"DROP TRIGGER":     {mysqlerr.TriggerDoesNotExist},
	"CREATE PROCEDURE": {mysqlerr.SPAlreadyExists},
	"DROP PROCEDURE":   {mysqlerr.SPDoesNotExist},
	"CREATE FUNCTION":  {mysqlerr.SPAlreadyExists},
	"DROP FUNCTION":    {mysqlerr.SPDoesNotExist},
	"CREATE EVENT":     {mysqlerr.EventAlreadyExists},
	"DROP EVENT":       {mysqlerr.SPDoesNotExist, mysqlerr.EventDoesNotExist},
}

// wasIdle reports that by a server's warnings a statement has changed nothing there.
func wasIdle(d *plan.DDL, warnings [][][]byte) bool {
	names := 0
	for _, w := range warnings {
		if !slices.Contains(idleNotes[d.Op], codeOf(w)) {
			return false
		}
		names += 1 + bytes.Count(w[2], []byte(",")) // one in a name says that there are more than there are
	}
	return names > 0 && names == max(len(d.Tables), 1)
}

// idleDDL executes DDL that by the catalog changes nothing, as each dump has it for each table: one shard is asked for
// what a server says of it. It waits for no turn, and nothing is read again.
//
// done is false where that shard has done something, since the catalog is behind: the statement is to be executed as
// any then, and finds on that shard what it would have left there.
func (s *session) idleDDL(ctx context.Context, d *plan.DDL, sql string) (done bool, err error) {
	if d.Idle.Empty() || s.tableLocks != nil {
		return false, nil
	}
	if err := s.commitBefore(ctx, sql); err != nil {
		return false, err
	}
	if s.settings.readOnly() {
		return false, s.readOnlyTransaction()
	}
	id := d.Idle.First()
	if s.proxy.stalls.why(id) != "" {
		return false, nil
	}
	s.diag.clear()
	var told [][][]byte
	sum, err := s.sendDDLTo(ctx, id, d, sql, time.Now(), false, true, &told)
	if e, ok := errors.AsType[mysqlerr.Error](err); ok && e.Code == mysqlerr.ShardLost {
		return false, nil // another may do
	}
	if err != nil {
		s.diag.above(told)
		return true, err
	}
	if !wasIdle(d, told) {
		return false, nil
	}
	if s.wantsNotes() {
		s.diag.add(told...)
	} else {
		sum.Warnings = 0 // all are notes
	}
	return true, s.answerDDL(defined{plan: d, before: s.catalog(), sum: sum})
}
