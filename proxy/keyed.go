package proxy

import (
	"context"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// keyedWay is how an UPDATE or DELETE is executed by its rows' keys.
var keyedWay = &way{
	at:   refused,
	fits: func(_ *session, r *request) bool { return r.plan.Keyed != nil && r.bound != nil },
	explain: func(s *session, ctx context.Context, r *request) ([][]any, error) {
		var then [][]any
		for _, c := range r.plan.Keyed.Changes(nil) {
			then = append(then, explainRow("shard_key", "the rows that it finds and locks are changed by their keys", c.Head+"(...)"+c.Tail))
		}
		return s.explainBehind(ctx, r.plan.Keyed.Query(nil), then...)
	},
	execute: (*session).writeKeyed,
}

// writeKeyed executes an UPDATE or DELETE over several shards: a query finds and locks the rows,
// statements of their keys change them. r.why is what is told where that can't be.
//
// What a condition warns of in a query is an error in a write of a strict
// session. So a query that warns is as good as none.
func (s *session) writeKeyed(ctx context.Context, r *request) error {
	const safe = "@@sql_safe_updates"
	if s.settings.on(safe) {
		if r.plan.Keyed.Unsafe() {
			return text.NewError(mysqlerr.UpdateWithoutKeyInSafeMode, "You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column")
		}
		// A server with few rows reads all of them, whatever keys are named.
		defer s.temporarily(variable{safe, "SET sql_safe_updates = 0", "0"})()
	}
	restore := s.diag.keepFound()
	all, joined := insertedRows{lastID: setsID(r.sql)}, 0
	err := s.within(ctx, func() error {
		rows, err := s.collect(ctx, r.plan.Keyed.Query(r.values))
		if err != nil {
			return err
		}
		defer rows.drop()
		if rows.warned > 0 || len(rows.warnings) > 0 {
			return r.why
		}
		if s.mariaDB() {
			joined = rows.count
		}
		for _, c := range r.plan.Keyed.Changes(r.values) {
			if err := rows.rewind(); err != nil {
				return err
			}
			rows.from, rows.to = rows.to, rows.to+c.Columns
			if err := all.addRows(ctx, s, rows, c.Head, c.Tail); err != nil {
				return err
			}
		}
		return nil
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
	if r.found.Op == plan.FoundAsked {
		s.diag.setFound(int64(joined)) // MySQL's DELETE from several tables finds none
	} else {
		s.diag.find(ctx, nil, r.found, &shard.Summary{Info: all.ok.Info})
	}
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
