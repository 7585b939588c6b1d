package proxy

import (
	"context"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// limitWay is how an UPDATE or DELETE with LIMIT is executed whose rows are on several shards.
var limitWay = &way{
	at:   refused,
	fits: func(_ *session, r *request) bool { return r.plan.Limited != nil && r.bound != nil },
	explain: func(s *session, ctx context.Context, r *request) ([][]any, error) {
		head, tail := r.plan.Limited.Texts(nil)
		return s.explainBehind(ctx, r.plan.Limited.Query(nil), explainRow("shard_key", "the rows that it finds and locks are changed by their keys", head+"(...)"+tail))
	},
	execute: (*session).writeLimited,
}

// writeLimited executes an UPDATE or DELETE with LIMIT over several shards: a
// query finds and locks the rows, statements of their keys change them. refusal
// is what is told where that can't be.
//
// What a condition warns of in a query is an error in a write of a strict
// session. So a query that warns is as good as none.
func (s *session) writeLimited(ctx context.Context, r *request) error {
	l, restore := r.plan.Limited, s.diag.keepFound()
	head, tail := l.Texts(r.values)
	all := insertedRows{lastID: setsID(r.sql)}
	err := s.within(ctx, func() error {
		rows, err := s.collect(ctx, l.Query(r.values))
		if err != nil {
			return err
		}
		defer rows.drop()
		if rows.warned > 0 || len(rows.warnings) > 0 {
			return r.why
		}
		return all.addRows(ctx, s, rows, head, tail)
	})
	if err != nil {
		return err
	}
	if all.id != 0 {
		s.diag.give(all.id)
	}
	s.diag.replace(all.warnings...)
	if all.ok.Info = joinInfo(all.infos); len(all.infos) == 0 && r.plan.Kind == plan.Update {
		all.ok.Info = "Rows matched: 0  Changed: 0  Warnings: 0"
	}
	restore() // not that of the query
	s.diag.find(ctx, nil, r.found, shard.Summary{Info: all.ok.Info})
	return s.answerOK(all.ok)
}

// appendRows appends as many of the rows that are left as one statement should have, and
// no more than most.
func (c *collected) appendRows(text []byte, most int) ([]byte, error) {
	for n := 0; c.left > 0 && n < most && len(text) < loadBytes; n++ {
		if n > 0 {
			text = append(text, ',')
		}
		row, err := c.next()
		if err == nil {
			text, err = c.appendRow(text, row)
		}
		if err != nil {
			return text, err
		}
	}
	return text, nil
}
