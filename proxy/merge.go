package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/merge"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// mergeWay is how a query of several shards is executed whose answers are merged.
var mergeWay = &way{
	at:   bound,
	fits: func(_ *session, r *request) bool { return r.bound.Merge != nil },
	execute: func(s *session, ctx context.Context, r *request) error {
		empty, err := s.merge(ctx, r)
		return s.observe(r, empty, err)
	},
}

// merge streams the answers of several shards through a merge to the client.
// Nothing is kept but a row of each shard: a client that doesn't read makes
// the shards wait.
func (s *session) merge(ctx context.Context, r *request) (empty catalog.ShardSet, err error) {
	b := r.bound
	joined := 0
	if s.tx != nil {
		joined = len(s.tx.order)
	}
	shards, err := s.sendAll(ctx, r)
	m := &merging{s: s, arrivals: arrivals{s: s, shards: shards}, answers: make([]answer, len(shards)), before: s.client.Writer().Total()}
	defer m.close()
	if err != nil {
		return empty, err
	}
	for n := range shards {
		if n > 0 && s.mayBegin(b.Merge) && m.arrivals.isLate() {
			break
		}
		if _, err = m.arrive(); err != nil {
			break
		}
	}
	if err == nil {
		err = m.stream(b.Merge)
	}
	if errors.Is(err, errUnmerged) {
		// Nothing has been answered yet. What the shards are at is dropped.
		m.close()
		return empty, s.mergeOtherwise(ctx, r, err)
	}
	if err != nil {
		return empty, err
	}
	if b.Merge.Skips && s.tx != nil {
		if err := m.leave(ctx, joined); err != nil {
			return empty, err
		}
	}
	if !r.sent { // what is written from the rows may fail by what they warn of, that of all of them
		if err := s.readAll(m.answers); err != nil {
			return empty, err
		}
	}
	if empty, err = s.merged(ctx, b, m.answers); err == nil {
		m.dropLate()
	}
	return empty, err
}

// mergeOtherwise answers where the shards' columns are not the same or not of the
// types that were planned for: because of an ALTER TABLE that the catalog doesn't
// know of yet, or since some have computed an expression in a wider type, as a
// server does for the sake of its plan.
func (s *session) mergeOtherwise(ctx context.Context, r *request, cause error) error {
	b := r.bound
	switch {
	case b.Merge.Likely:
		inTurn, merge := *b, *b.Merge
		merge.Order, merge.Likely = nil, false
		inTurn.Merge = &merge
		return s.readAs(ctx, r, &inTurn)
	case r.shape != nil:
		return errLiterals
	case r.retyped: // the catalog is new, so it is the server's plan
	case s.tx == nil:
		if err := s.proxy.opts.Directory.Refresh(ctx); err != nil {
			return err
		}
		if r.plan.Catalog.Version != s.catalog().Version {
			return errRetyped
		}
	default:
		s.proxy.opts.Directory.Soon()
	}
	if instead, err := s.proxy.planner.BindGathered(r.plan, r.values, s.lookups(ctx)); err == nil {
		return s.readAs(ctx, r, instead)
	}
	if cause != errUnmerged { //nolint:errorlint // itself: the columns differ
		return cause
	}
	return s.shardError(b.Statements[0].Shard, shard.ErrColumns)
}

// readAs is read as if the statement were bound otherwise.
func (s *session) readAs(ctx context.Context, r *request, b *plan.Bound) error {
	before := r.bound
	r.bound = b
	defer func() { r.bound = before }()
	return s.read(ctx, r)
}

// errUnmerged: nothing was answered, since a type can't be compared here.
var errUnmerged = errors.New("not merged")

// answer is one shard's part.
type answer struct {
	sent
	// rows is nil until the answer has begun.
	rows *shard.Rows
	// err is why Next failed.
	err error
}

// Next implements merge.Source.
func (a *answer) Next() ([]byte, error) {
	p, err := a.rows.Next()
	if err == nil && a.rows.Summary.Err != nil {
		err = a.rows.Summary.Err
	}
	a.err = err
	return p, err
}

// done reports that the answer was read to its end.
func (a *answer) done() bool { return a.rows != nil && a.rows.Done() }

// answerFailed judges an error of reading a shard's answer, or the one that the
// shard answered.
func (s *session) answerFailed(a *answer, err error) error {
	if told := a.rows.Summary.Err; told != nil {
		err = told
	}
	if err == nil {
		return nil
	}
	return s.shardError(a.shard, err)
}

func sameColumns(x, y *shard.Rows, binary bool) bool {
	if len(x.Columns) != len(y.Columns) {
		return false
	}
	for i := range x.Columns {
		if shard.Layout(x.Columns[i].Type, binary) != shard.Layout(y.Columns[i].Type, binary) || (x.Columns[i].Flags^y.Columns[i].Flags)&unsignedFlag != 0 {
			return false
		}
	}
	return true
}

const unsignedFlag = 1 << 5

// stream writes the definitions and the merged rows. Whole packets only: an error
// can follow any of them.
func (x *merging) stream(m *plan.Merge) error {
	s := x.s
	first, sources := x.sources()
	layout := &merge.Layout{Columns: first.Columns, Hidden: m.Hidden, Binary: s.binary}
	rows, err := merge.New(layout, m, sources)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnmerged, mergeError(err))
	}
	failed := func(err error) error {
		for i := range x.answers {
			if a := &x.answers[i]; a.err != nil {
				return s.answerFailed(a, a.err)
			}
		}
		return mergeError(err)
	}
	next := func() ([]byte, error) {
		p, err := rows.Next()
		if err != nil {
			err = failed(err)
		}
		return p, err
	}
	// Before the definitions: while nothing is written, what fails can be read
	// elsewhere.
	p, err := next()
	if err != nil {
		return err
	}
	if err := s.writeDefinitions(first.Definitions[:layout.Visible()]); err != nil {
		return err
	}
	for ; p != nil; p, err = next() {
		if err := s.client.WritePacket(p); err != nil {
			return s.clientError(err)
		}
		s.measured.Rows++
	}
	if err != nil {
		return err
	}
	x.given = rows.Given
	if err := s.findMerged(m, rows); err != nil {
		return failed(err)
	}
	return nil
}

// leave gives up the row locks of shards none of whose rows was answered: SKIP LOCKED
// with LIMIT, where each shard locks as many rows as LIMIT says. Only a ROLLBACK does
// that, so the transaction leaves those that it has joined for this statement: the
// shards behind the first joined ones.
//
//	worker 1: SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED    id 1; s1 has locked 2, s2 has locked 3
//	worker 2: the same                                                          would find 4, and with three jobs none
func (x *merging) leave(ctx context.Context, joined int) error {
	s := x.s
	if err := s.readAll(x.answers); err != nil {
		return err
	}
	news := slices.Clone(s.tx.order[joined:])
	for i := range x.answers {
		if a := &x.answers[i]; !x.given(i) && a.rows.Summary.Warnings == 0 && slices.Contains(news, a.shard) {
			s.tx.leave(ctx, a.shard)
		}
	}
	return nil
}

// mergeError is what the client is told where answers can't be merged after
// all.
func mergeError(err error) error {
	var unsupported *merge.UnsupportedError
	var order *merge.OrderError
	var many *merge.TooManyError
	switch {
	case errors.As(err, &many):
		return mysqlerr.Newf(mysqlerr.OutOfSortMemory, "Out of sort memory: %v; add a LIMIT, or sort by the columns that are grouped by", many)
	case errors.Is(err, merge.ErrOverflow):
		return mysqlerr.New(mysqlerr.DataOutOfRange, err.Error())
	case errors.As(err, &unsupported):
		return refuse("merging the answers of several shards: %v; sort or group by a plain column, or send the statement to one shard with /* shunt: shard=NAME */", err)
	case errors.As(err, &order):
		return mysqlerr.Newf(mysqlerr.UnknownError, "The answers of the shards can't be merged: %v (servers compare long texts by their first max_sort_length bytes only); "+
			"the rows after this point would be in a wrong order. Sort by a shorter expression, such as LEFT(text, 255), or SET max_sort_length", err)
	}
	return err
}

// merged ends the answer: the rest of what the shards send is dropped, and
// their warnings are joined.
func (s *session) merged(ctx context.Context, b *plan.Bound, answers []answer) (empty catalog.ShardSet, err error) {
	asks := b.Merge.CountAll && !b.Merge.Unite
	if asks {
		if err := s.readAll(answers); err != nil {
			return empty, err
		}
	}
	s.diag.clear()
	warnings := 0
	for i := range answers {
		a := &answers[i]
		if !a.done() {
			continue
		}
		if s.tx != nil {
			s.tx.watch(a.shard, &a.rows.Summary)
		}
		if a.rows.Summary.Rows == 0 && b.Merge.Count > 0 {
			empty.Add(a.shard)
		}
		if n := int(a.rows.Summary.Warnings); n > 0 && !a.conn.Broken {
			warnings += n - s.diag.addShard(ctx, a.conn, i == 0)
		}
	}
	if asks { // which takes the warnings away
		if err := s.findAll(ctx, answers); err != nil {
			return empty, err
		}
	}
	if err := s.client.WriteEnd(s.status()|s.more, warningCount(warnings)); err != nil {
		return empty, s.clientError(err)
	}
	for i := range answers {
		if !answers[i].done() {
			// The client has its answer before the rest is dropped.
			if err := s.client.Flush(); err != nil {
				return empty, s.clientError(err)
			}
			break
		}
	}
	return empty, nil
}

// close gives the connections back. One whose answer is not read to its end is
// broken, and closed by the pool; one of a transaction must be read out to stay usable.
func (x *merging) close() {
	s := x.s
	x.arrivals.close()
	for i, of := range x.arrivals.shards {
		if of.conn.Busy() && !of.conn.Broken {
			r := x.answers[i].rows
			switch {
			case s.keepsBusy(of.shard, of.conn):
				s.readOut(of, r)
			case r != nil:
				drop(of.conn, r) // what is behind LIMIT
			}
		}
		s.giveBack(of.shard, of.conn)
	}
	x.arrivals.shards = nil
}
