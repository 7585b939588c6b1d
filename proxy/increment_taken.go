package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Of several processes each has taken values of AUTO_INCREMENT columns ahead, in memory. A client of
// another one may insert such a value by itself:
//
//	one   has taken 101 to 200, and gives 101
//	two   INSERT INTO t (id, a) VALUES (102, 'x')
//	one   INSERT INTO t (a) VALUES ('y') gets 102
//
// On one server that can't be: its counter is over all values that are there. So a statement
// whose values are met (1062) gets others, over all that the table has, and is done again (errTaken).
// One that meets them without an error (IGNORE, ON DUPLICATE KEY UPDATE, REPLACE) has its values
// looked for before it is sent. A value that is inserted behind the look is so, too, on one server
// that had just given it.

// errTaken: rows with values that the statement was given are there already; bind it anew.
var errTaken = fmt.Errorf("%w: other AUTO_INCREMENT values are taken", errStale)

// maxTaken bounds how often a statement gets other values.
const maxTaken = 5

// mayBeTaken reports that others may have inserted rows with the values that a statement was given.
func (s *session) mayBeTaken(r *request) bool {
	g := r.bound.Generated
	return s.proxy.opts.Several && g != nil && g.First > 0 && r.taken < maxTaken
}

// meetsQuietly: a row that is there already is no error.
func meetsQuietly(r *request) bool {
	return r.plan.Kind == plan.Replace || r.bound.Generated.Uncertain != nil || planner.Ignores(r.plan)
}

// takenBefore is errTaken where a statement that may meet rows quietly would meet some by values that it
// was given.
func (s *session) takenBefore(ctx context.Context, r *request) error {
	if !s.mayBeTaken(r) || !meetsQuietly(r) {
		return nil
	}
	return s.takenAnew(ctx, r)
}

// takenBehind is errTaken in place of the error that a statement has met a row, by a value that it was
// given. Nothing of it was done, or told to the client.
func (s *session) takenBehind(ctx context.Context, r *request, err error) error {
	if e, ok := errors.AsType[mysqlerr.Error](err); !ok || e.Code != mysqlerr.DupEntry || !s.mayBeTaken(r) || s.tx != nil && (s.tx.failed != nil || s.tx.victim != nil) {
		return err
	}
	if r.bound.Generated.Rows > 1 && !s.rollsBack(ctx, r.bound.Generated.Table) {
		return err
	}
	if again := s.takenAnew(ctx, r); again != nil {
		s.diag.untold()
		return again
	}
	return err
}

// rollsBack reports a table of which a statement that fails leaves no rows.
func (s *session) rollsBack(ctx context.Context, t *catalog.Table) (does bool) {
	for id := range t.Shards.All {
		err := s.besideOn(ctx, id, func(conn *shard.Conn) error {
			res, err := conn.Query(ctx, "SHOW CREATE TABLE "+catalog.QuoteTable(t.Schema, t.Name))
			does = false
			if err == nil && len(res.Rows) == 1 && len(res.Rows[0]) > 1 {
				m := shownCounter.FindSubmatch(res.Rows[0][1])
				does = m != nil && bytes.HasSuffix(m[1], []byte("=InnoDB"))
			}
			return err
		})
		if err != nil || !does {
			return false
		}
	}
	return true
}

// takenAnew is errTaken where a value is there; then the statement gets others as it is bound again.
func (s *session) takenAnew(ctx context.Context, r *request) error {
	g := r.bound.Generated
	there, err := s.isThere(ctx, g)
	if err != nil || !there {
		return err
	}
	s.proxy.opts.Sequences.Doubt(g.Table)
	r.ids.release()
	r.taken++
	return errTaken
}

// isThere reports that a shard has a row with a value that was generated. The lock waits for one that
// isn't committed yet.
func (s *session) isThere(ctx context.Context, g *plan.Generated) (there bool, err error) {
	sql := fmt.Sprintf("SELECT 1 FROM %s WHERE %s %s LIMIT 1 LOCK IN SHARE MODE", catalog.QuoteTable(g.Table.Schema, g.Table.Name), catalog.QuoteName(g.Column.Name), given(g))
	for id := range g.Table.Shards.All {
		err := s.besideOn(ctx, id, func(conn *shard.Conn) error {
			res, err := conn.Query(ctx, sql)
			there = there || err == nil && len(res.Rows) > 0
			return err
		})
		if err != nil || there {
			return there, err
		}
	}
	return false, nil
}
