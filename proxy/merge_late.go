package proxy

import (
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/merge"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// merging is a merge under way.
type merging struct {
	s        *session
	arrivals arrivals
	// answers are the shards', in their order.
	answers []answer
	// first is the one that has begun first, whose columns all others must have.
	first *answer
	// given reports which answers had a row that was answered.
	given func(n int) bool
	// before is what had been written for the client before the statement.
	before int64
}

// mayBegin reports that rows may be answered before all shards have begun to answer:
// any rows will do, as many as LIMIT says. In a transaction a shard that is not
// needed must be heard all the same, before the client is told that all went well.
func (s *session) mayBegin(m *plan.Merge) bool {
	return len(m.Order) == 0 && len(m.Sort) == 0 && !m.Unite && !m.CountAll && s.tx == nil && s.tableLocks == nil
}

// arrive reads the next shard's answer up to its rows. The error is errUnmerged where
// its columns are not the others', and nothing has been answered.
func (x *merging) arrive() (*answer, error) {
	i, err := x.arrivals.next()
	if err != nil {
		return nil, err
	}
	of := x.arrivals.shards[i]
	rows, err := of.conn.Rows()
	a := &x.answers[i]
	a.sent, a.rows = of, rows
	if err := x.s.answerFailed(a, err); err != nil {
		return nil, err
	}
	if x.first == nil {
		x.first = a
	}
	switch {
	case sameColumns(x.first.rows, rows, x.s.binary):
		return a, nil
	case x.s.client.Writer().Total() == x.before:
		return nil, errUnmerged
	}
	return nil, x.s.shardError(of.shard, shard.ErrColumns)
}

// sources are what to merge: the shards' rows in their order, then those of the shards
// that have not begun. first is what the client gets the definitions of.
func (x *merging) sources() (first *shard.Rows, sources []merge.Source) {
	sources = make([]merge.Source, 0, len(x.answers))
	for i := range x.answers {
		a := &x.answers[i]
		if a.rows == nil {
			continue
		}
		if sources = append(sources, a); first == nil {
			first = a.rows
		}
	}
	for len(sources) < len(x.answers) {
		sources = append(sources, &lateAnswer{x: x})
	}
	return first, sources
}

// lateAnswer is the answer of the shard that begins next.
type lateAnswer struct {
	x *merging
	*answer
}

// Next implements merge.Source.
func (l *lateAnswer) Next() ([]byte, error) {
	if l.answer == nil {
		var err error
		if l.answer, err = l.x.arrive(); err != nil {
			return nil, err
		}
	}
	return l.answer.Next()
}

// dropLate waits for the shards that were not needed for what the client has been
// answered. It would be quicker to leave them alone; but a client that asks on and on
// would then have a slow shard work on ever more statements.
func (x *merging) dropLate() {
	for len(x.arrivals.left) > 0 {
		i, err := x.arrivals.next()
		if err != nil {
			return // of the client; the connections are closed
		}
		of := x.arrivals.shards[i]
		if rows, err := of.conn.Rows(); err == nil {
			x.answers[i] = answer{sent: of, rows: rows}
		}
	}
}
