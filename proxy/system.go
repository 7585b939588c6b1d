package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// systemWay is how a statement about the servers and their schemas is executed.
var systemWay = &way{
	at:   bound,
	fits: func(_ *session, r *request) bool { return r.bound.System != nil },
	execute: func(s *session, ctx context.Context, r *request) error {
		s.reading = nil
		counted := r.found.Op == plan.FoundCounted
		s.cutsShown = counted && s.limits(r)
		err := s.system(ctx, r)
		if err == nil && counted {
			s.diag.findAnswered()
		}
		return err
	},
}

// system answers a statement about the servers and their schemas.
func (s *session) system(ctx context.Context, r *request) error {
	b := r.bound
	if b.System.Temporary && s.temporary != nil {
		s.temporary.needed = true
	}
	switch {
	case b.System.Route != nil:
		return s.explained(ctx, r)
	case b.System.Any:
		return s.askAny(ctx, b)
	case len(b.System.Sources) > 0:
		return s.gatherSystem(ctx, r)
	}
	if b.System.Everywhere {
		if err := s.commitBefore(ctx, r.sql); err != nil {
			return err
		}
	}
	return s.everywhere(ctx, b)
}

// said is what one shard answered.
type said struct {
	shard catalog.ShardID
	res   *shard.QueryResult
	err   error
}

// ask sends statements to their shards and waits for all answers.
func (s *session) ask(ctx context.Context, statements []plan.ShardStatement) ([]said, error) {
	out := make([]said, len(statements))
	conns := make([]*shard.Conn, len(statements))
	defer func() {
		for i, conn := range conns {
			if conn != nil {
				s.giveBack(statements[i].Shard, conn)
			}
		}
	}()
	for i, st := range statements {
		conn, err := s.borrow(ctx, st.Shard)
		if err != nil {
			return nil, err
		}
		conns[i] = conn
		s.activity.sent(st.Shard, conn)
	}
	var wg sync.WaitGroup
	for i, st := range statements {
		wg.Go(func() {
			res, err := conns[i].Query(ctx, st.SQL)
			out[i] = said{st.Shard, res, err}
		})
	}
	wg.Wait()
	s.diag.clear()
	for i := range out {
		if out[i].err == nil && out[i].res.Summary.Warnings > 0 {
			if w, err := conns[i].Query(ctx, "SHOW WARNINGS"); err == nil {
				s.diag.add(w.Rows...)
			}
		}
		if out[i].err != nil {
			out[i].err = s.shardError(out[i].shard, out[i].err)
		}
	}
	return out, nil
}

// askOne is ask for one shard's answer, or error.
func (s *session) askOne(ctx context.Context, st plan.ShardStatement) (*shard.QueryResult, error) {
	answers, err := s.ask(ctx, []plan.ShardStatement{st})
	if err != nil {
		return nil, err
	}
	return answers[0].res, answers[0].err
}

// everywhere answers with what all shards say, joined.
func (s *session) everywhere(ctx context.Context, b *plan.Bound) error {
	answers, err := s.ask(ctx, b.Statements)
	if err != nil {
		return err
	}
	var failed, done []string
	var first error
	for _, a := range answers {
		name := s.catalog().ShardName(a.shard)
		if a.err != nil {
			if first == nil {
				first = a.err
			}
			failed = append(failed, fmt.Sprintf("%s: %v", name, a.err))
			continue
		}
		done = append(done, name)
	}
	switch {
	case first != nil && b.System.Everywhere && len(done) > 0:
		e := coded(first)
		e.Message = fmt.Sprintf("done on %s, and failed on %s", strings.Join(done, ", "), strings.Join(failed, "; "))
		return e
	case first != nil:
		return first
	}
	if !answers[0].res.Summary.ResultSet {
		ok := wire.OK{}
		for _, a := range answers {
			ok.Affected, ok.Warnings = ok.Affected+a.res.Summary.Affected, ok.Warnings+a.res.Summary.Warnings
		}
		return s.answerOK(ok)
	}
	t := b.System.Rows
	if t == nil {
		t = &plan.SystemTable{Each: true}
	}
	rows, err := s.join(t, answers)
	if err != nil {
		return err
	}
	return s.answerTexts(answers[0].res.Definitions, rows)
}

// answerTexts answers with rows as shards gave them.
func (s *session) answerTexts(cols []wire.Column, rows [][][]byte) error {
	if n := s.settings.own.limit.rows; s.cutsShown && uint64(len(rows)) > n {
		rows = rows[:n]
	}
	return s.answerRows(cols, texts(rows))
}

// texts are rows of ours whose values are as a shard has given them.
func texts(rows [][][]byte) [][]any {
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = make([]any, len(row))
		for j, v := range row {
			if v != nil {
				out[i][j] = string(v)
			}
		}
	}
	return out
}

// askAny asks one shard after the other until one knows the answer.
func (s *session) askAny(ctx context.Context, b *plan.Bound) error {
	var first error
	for _, st := range b.Statements {
		res, err := s.askOne(ctx, st)
		if err == nil {
			return s.answerTexts(res.Definitions, res.Rows)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// explained answers an EXPLAIN with the route: as a last row, a first line, or a first
// member, whatever the format has. Programs ask the first row how many rows there are and
// by which key they are read.
//
// Counter-example: pt-online-schema-change, mydumper. Without a number they copy a table of
// any size at once.
func (s *session) explained(ctx context.Context, r *request) error {
	b := r.bound
	st := b.Statements[0]
	if len(r.params) > 0 {
		// With parameters the rows come in the binary protocol, as they are.
		_, err := s.readOne(ctx, r, st)
		return err
	}
	res, err := s.askOne(ctx, st)
	if err != nil {
		return err
	}
	if !res.Summary.ResultSet || len(res.Columns) == 0 {
		return s.answerOK(wire.OK{Warnings: res.Summary.Warnings})
	}
	route := b.System.Route
	shards := strings.Join(route.Shards, ",")
	last := make([][]byte, len(res.Columns))
	if len(res.Columns) > 1 {
		for i, c := range res.Columns {
			switch strings.ToLower(c) {
			case "select_type":
				last[i] = []byte("ROUTE")
			case "table":
				last[i] = []byte(shards)
			case "type":
				last[i] = []byte(route.Plan)
			case "key":
				last[i] = []byte(route.Access)
			case "extra":
				last[i] = []byte(route.Reason)
			}
		}
		return s.answerTexts(res.Definitions, append(res.Rows, last))
	}
	if len(res.Rows) > 0 {
		res.Rows[0][0] = onTop(res.Rows[0][0], route, shards)
	}
	return s.answerTexts(res.Definitions, res.Rows)
}

// onTop puts the route into an explanation that is one text.
func onTop(text []byte, route *plan.Route, shards string) []byte {
	if rest, isJSON := bytes.CutPrefix(bytes.TrimSpace(text), []byte("{")); isJSON {
		member, err := json.Marshal(map[string]any{"plan": route.Plan, "shards": route.Shards, "access": route.Access, "reason": route.Reason})
		if err == nil {
			return fmt.Appendf(nil, "{\n  \"route\": %s,%s", member, rest)
		}
	}
	return fmt.Appendf(nil, "-> Route: %s to %s by %s (%s)\n%s", route.Plan, shards, route.Access, route.Reason, text)
}
