package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// reading is how one statement is read from replicas: of each shard's from one that
// is not too far behind, and from the primary where there is none. What it goes by
// is bound without virtual indexes (planner.Bind).
type reading struct {
	// since is when the schema was last seen to change: a replica that hasn't come
	// as far may not have the tables that the statement was planned for.
	since time.Time
	// used are connections that are not given back yet.
	used []replicaConn
	// avoid are replicas that failed this statement; lost, the last one whose
	// connection broke.
	avoid []*replica.Replica
	lost  *replica.Replica
	// primaries: replicas are given up.
	primaries bool
	// Some of it was read from replicas, some from primaries.
	fromReplica, fromPrimary bool
}

type replicaConn struct {
	conn    *shard.Conn
	replica *replica.Replica
}

// wantsReplicas reports whether the session reads from replicas: by what it has
// SET, else as its user is configured.
func (s *session) wantsReplicas() bool {
	switch s.settings.own.readFrom {
	case readFromPrimary:
		return false
	case readFromReplica:
		return true
	}
	return s.rights().ReadFromReplicas
}

// readingFor is how a statement may be read from replicas; nil: not at all. Only
// what a client has sent itself may be: what Shunt asks for a statement's sake may
// decide what is written.
//
// In a transaction, behind locks by name and with temporary tables the session
// reads where it writes, and so does what asks for the connection's own state.
// What reads no table of the schemas costs a primary nothing, and may ask for the
// server itself (@@read_only).
func (s *session) readingFor(r *request) *reading {
	if !r.sent || r.plan.Kind != plan.Select || r.plan.Lock != nil || len(r.plan.Tables) == 0 || len(r.plan.Assigns) > 0 || !s.wantsReplicas() ||
		s.tx != nil || !s.settings.autocommit || s.settings.once != (characteristics{}) || s.temporary != nil || s.namedLocks != nil || s.tableLocks != nil ||
		s.settings.own.limit.on || r.plan.AsksConnection {
		return nil
	}
	return &reading{since: s.proxy.opts.Directory.Changed()}
}

// lookups are what to bind a plan with.
func (s *session) lookups(ctx context.Context) plan.Indexes {
	switch {
	case s.reading != nil, s.seesLate():
		return nil
	case s.tx != nil && s.tx.showsPast():
		return s.lookupsOf(ctx, s.tx.open)
	}
	return s.lookupsOf(ctx, s.proxy.opts.Index)
}

// lookupsOf are an index's for one statement.
func (s *session) lookupsOf(ctx context.Context, ix plan.Indexes) plan.Indexes {
	if !s.proxy.remote {
		return ix
	}
	return planner.Remote(func(questions []plan.Question) error {
		if err := s.added(); err != nil {
			return err
		}
		return ix.(Asked).Ask(ctx, questions)
	})
}

// onReplicas reports whether a bound statement may be read from replicas, and one
// at least has some of it.
func (s *session) onReplicas(b *plan.Bound) bool {
	if b.Refuse != nil || b.Gather != nil || b.System != nil || len(b.Adds) > 0 || len(b.Marks) > 0 || b.Access == "hint" {
		return false
	}
	for id := range route(b).Union(b.Alternatives).All {
		if s.pickReplica(id) != nil {
			return true
		}
	}
	return false
}

func (s *session) pickReplica(id catalog.ShardID) *replica.Replica {
	rd := s.reading
	if rd == nil || rd.primaries {
		return nil
	}
	return s.proxy.opts.Replicas.Pick(id, rd.since, func(r *replica.Replica) bool { return slices.Contains(rd.avoid, r) })
}

// borrowReplica takes a connection of a shard's replica; nil where none can be
// used.
func (s *session) borrowReplica(ctx context.Context, id catalog.ShardID) *shard.Conn {
	rd := s.reading
	for {
		r := s.pickReplica(id)
		if r == nil {
			rd.fromPrimary = true
			return nil
		}
		conn, err := s.borrowOf(ctx, r.Pool)
		if err != nil {
			s.log.Debug("replica is avoided", "addr", r.Addr(), "error", err)
			rd.avoid = append(rd.avoid, r)
			continue
		}
		r.Read()
		rd.fromReplica = true
		rd.used = append(rd.used, replicaConn{conn, r})
		return conn
	}
}

// borrowOf takes a connection of a pool that has the session's settings.
func (s *session) borrowOf(ctx context.Context, pool *shard.Pool) (*shard.Conn, error) {
	conn, err := pool.GetFor(ctx, s.holder(), s.countsFound(), s.settings.fingerprint)
	for again := false; err == nil; again = true {
		if err = s.settings.applyTo(ctx, conn); err == nil {
			return conn, nil
		}
		pool.Put(conn)
		if again || !errors.Is(err, shard.ErrShard) {
			break
		}
		conn, err = pool.GetNew(ctx, s.holder(), s.countsFound()) // it was dead already
	}
	return nil, err
}

// has reports a connection of a replica.
func (rd *reading) has(conn *shard.Conn) bool {
	return rd != nil && slices.ContainsFunc(rd.used, func(u replicaConn) bool { return u.conn == conn })
}

// putBack gives a replica's connection back; false: it is none.
func (rd *reading) putBack(conn *shard.Conn) bool {
	if rd == nil {
		return false
	}
	i := slices.IndexFunc(rd.used, func(u replicaConn) bool { return u.conn == conn })
	if i < 0 {
		return false
	}
	r := rd.used[i].replica
	if conn.Broken {
		rd.avoid, rd.lost = append(rd.avoid, r), r
	}
	rd.used = slices.Delete(rd.used, i, i+1)
	r.Pool.Put(conn)
	return true
}

// forward forwards a shard's answer. An error that a replica answers is returned:
// another server may know better.
func (s *session) forward(id catalog.ShardID, conn *shard.Conn, o shard.ForwardOptions) (shard.Summary, error) {
	o.HoldErr = s.reading.has(conn)
	sum, err := conn.Forward(s.client, shard.Result, o)
	if err := s.forwarded(id, &sum, err); err != nil {
		return sum, err
	}
	if o.HoldErr && sum.Err != nil {
		return sum, mysqlerr.Error(*sum.Err)
	}
	return sum, nil
}

// readPart is readOne from a replica.
func (s *session) readPart(ctx context.Context, r *request, st plan.ShardStatement) (empty catalog.ShardSet, err error) {
	conn, err := s.borrow(ctx, st.Shard)
	if err != nil {
		return empty, err
	}
	x := sent{st.Shard, conn}
	defer func() { s.giveBack(x.shard, x.conn) }()
	conn.Await = true
	if err := s.send(ctx, conn, r, st); err != nil {
		return empty, err
	}
	o := s.forwardOptions()
	o.Columns = &shard.Columns{Binary: s.binary}
	sum, err := s.forwardPart(ctx, r, st, &x, o)
	if err != nil {
		return empty, err
	}
	s.diag.keep(ctx, x.conn, &sum)
	s.diag.find(ctx, x.conn, r.found, &sum)
	return empty, nil
}

// forwardPart is forward for one shard's part of an answer. Where a replica is lost
// before the client has got any row of its part, x becomes another's connection:
// what others have answered stays, since parts are never of one snapshot.
func (s *session) forwardPart(ctx context.Context, r *request, st plan.ShardStatement, x *sent, o shard.ForwardOptions) (shard.Summary, error) {
	before, columns := s.client.Writer().Total(), *o.Columns
	sum, err := s.forward(x.shard, x.conn, o)
	for err != nil && s.reading != nil {
		s.giveBack(x.shard, x.conn) // which tells what was lost
		x.conn = nil
		if !o.SkipHeader && sum.Headed && sum.Rows == 0 && (sum.Err != nil || sum.Clean) {
			// The client has the definitions, and waits for the first row.
			o.SkipHeader, before = true, s.client.Writer().Total()
		}
		if !s.elsewhere(ctx, r, err, before) {
			break
		}
		if !o.SkipHeader {
			*o.Columns = columns
		}
		sum = shard.Summary{}
		if x.conn, err = s.borrow(ctx, x.shard); err != nil {
			continue
		}
		s.watch([]sent{*x})
		if err = s.send(ctx, x.conn, r, st); err == nil {
			sum, err = s.forward(x.shard, x.conn, o)
		}
	}
	return sum, err
}

// elsewhere reports, after a statement failed, whether it is to be read from other
// replicas or the primaries: a replica was lost, or can't answer it, and the
// client has got nothing.
func (s *session) elsewhere(ctx context.Context, r *request, err error, before int64) bool {
	rd := s.reading
	if rd == nil || s.client.Writer().Total() != before || errors.Is(err, shard.ErrClient) {
		return false
	}
	switch lost := rd.lost; {
	case unreachable(err) && lost != nil:
		rd.lost = nil
		// Who ends a runaway query by ending its connection doesn't want it begun
		// again.
		if time.Since(r.start) >= repeatWithin && lost.Alive(ctx) {
			return false
		}
	case replicaCant(coded(err).Code) && rd.fromReplica && !rd.primaries:
		rd.primaries = true
	default:
		return false
	}
	s.diag.untold()
	return true
}

// replicaCant: errors of which a primary may know nothing.
func replicaCant(code uint16) bool {
	switch code {
	case mysqlerr.BadDB, mysqlerr.BadField, mysqlerr.NoSuchTable, mysqlerr.SPDoesNotExist, mysqlerr.ViewInvalid: // no such schema, column, table, function; a view without one: not yet there
		return true
	case mysqlerr.ServerShutdown,
		mysqlerr.OptionPreventsStatement, // read_only
		mysqlerr.CantExecuteInReadOnlyTransaction,
		mysqlerr.ReadOnlyMode,
		mysqlerr.ConnectionKilled:
		return true
	}
	return false
}

// replicaRead counts what became of a statement that might be read from replicas.
func (m *metrics) replicaRead(rd *reading) {
	from := "primary"
	switch {
	case rd.fromReplica && rd.fromPrimary:
		from = "both"
	case rd.fromReplica:
		from = "replica"
	}
	m.replicaReads.WithLabelValues(from).Inc()
}

// Values of ownVariables.readFrom.
const (
	readFromUser = iota // as the user is configured
	readFromPrimary
	readFromReplica
)

// assignReadFrom is SET shunt_read_from.
func assignReadFrom(next *settings, literal string) error {
	switch strings.ToLower(literal) {
	case "default":
		next.own.readFrom = readFromUser
	case "primary":
		next.own.readFrom = readFromPrimary
	case "replica":
		next.own.readFrom = readFromReplica
	default:
		return mysqlerr.Newf(mysqlerr.WrongValueForVar, "Variable 'shunt_read_from' can't be set to the value of '%s': expected primary, replica or DEFAULT", literal)
	}
	return nil
}

// readFrom is what @@shunt_read_from tells.
func (s *session) readFrom() string {
	if s.wantsReplicas() {
		return "replica"
	}
	return "primary"
}

// replicaRows are a shard's replicas in SHOW SHARDS.
func (p *Proxy) replicaRows(sh catalog.Shard) [][]any {
	var rows [][]any
	for _, r := range p.opts.Replicas.Of(sh.ID) {
		st, use := r.Status(p.opts.Directory.Changed()), r.Pool.Stats()
		var failure, behind any
		if st.Err != nil {
			failure = st.Err.Error()
		}
		if st.Behind >= 0 {
			behind = fmt.Sprintf("%.1f", st.Behind.Seconds())
		}
		rows = append(rows, []any{sh.Name + "/" + r.Addr(), r.Addr(), st.State, r.Pool.Version(), use.InUse, use.Idle, failure, "replica", behind, "", ""})
	}
	return rows
}

// explainReplicas is EXPLAIN ROUTE of a statement that is read from replicas; nil
// for all else.
func (s *session) explainReplicas(ctx context.Context, sql string) [][]any {
	planned, err := s.plan(ctx, sql)
	rows, ok := planned.(*plan.Rows)
	if err != nil || !ok || rows.Params > 0 {
		return nil
	}
	s.needTemporary(rows.Tables)
	if s.reading = s.readingFor(&request{sql: sql, plan: rows, sent: true}); s.reading == nil {
		return nil
	}
	defer func() { s.reading = nil }()
	b, err := s.proxy.planner.Bind(rows, nil, nil)
	if err != nil || !s.onReplicas(b) {
		return nil
	}
	s.stayOn(b)
	var out [][]any
	for _, st := range b.Statements {
		from := "its primary, since no replica can be read from now (SHOW SHARDS)"
		if r := s.pickReplica(st.Shard); r != nil {
			from = "its replica " + r.Addr()
		}
		out = append(out, []any{b.Plan, s.catalog().ShardName(st.Shard), b.Access, b.Reason + "; read from " + from, st.SQL})
	}
	return out
}
