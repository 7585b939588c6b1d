package proxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// VirtualColumns keeps the values of virtual columns.
type VirtualColumns interface {
	// Create makes one, with an ID, which is built in the background.
	Create(context.Context, *catalog.VirtualColumn) error
	Drop(ctx context.Context, id uint32) error
	Rebuild(ctx context.Context, id uint32) error
	Consolidate(ctx context.Context, id uint32) error
	// Check compares values with the rows.
	Check(ctx context.Context, id uint32) (checked, wrong int, err error)
	// Fresh returns when the durable values, with what it answers for each read, have all that was visible when it was
	// called. Where it fails, only the columns' queries have that.
	Fresh(ctx context.Context, reads ...catalog.VirtualRead) ([]catalog.VirtualHot, error)
	// Guess answers what is kept in memory, and if it is to be exact what tells whether that has all that was visible when
	// Guess was called; nil where not all is kept.
	Guess(exact bool, reads ...catalog.VirtualRead) (values []catalog.VirtualHot, current func(context.Context) bool)
	Rows() []VirtualColumnRow
}

// VirtualColumnRow is one of SHOW VIRTUAL COLUMNS.
type VirtualColumnRow struct {
	*catalog.VirtualColumn
	Progress     int           // percent
	Hot          int           // values that aren't durable yet
	Kept         int           // whole values in memory
	HitRate      float64       // part of the reads of one key's value that had it kept; negative: there were none
	Consolidated time.Time     // zero: not yet
	Lag          time.Duration // how late a fast read is at most; negative: not known
}

// freshPatience is how long an exact read waits for the durable values of virtual columns. Then it runs their queries.
const freshPatience = time.Second

// virtually executes a statement that names virtual columns, with these put in. t is nil where s.shape is its. done: it
// was one.
func (s *session) virtually(ctx context.Context, sql string, t *spoken.Text) (done bool, err error) {
	cat := s.catalog()
	if s.settings.planning.Virtual || cat.Virtual == nil {
		return false, nil
	}
	var shape *planner.VirtualShape
	if t == nil && s.temporary == nil {
		var plain bool
		if shape, plain = s.proxy.planner.FindVirtual(&s.shape, cat); plain {
			return false, nil
		}
	}
	if shape != nil && s.mayReadKept() {
		sql = s.shape.Keep()
		if done, err := s.virtuallyKept(ctx, sql, shape); done {
			return true, err
		}
		s.readShape(sql)
	}
	if !spoken.MayNameVirtual(sql, cat) {
		return false, nil
	}
	if t == nil {
		t = s.textOf(strings.Clone(sql))
	}
	put := s.putVirtual(ctx, t, nil, true)
	if put == t.SQL {
		return false, nil
	}
	s.activity.doing("Query", s.settings.schema, t.SQL, time.Now())
	defer s.withVirtual()()
	return true, s.statement(ctx, put, s.readShape(put))
}

// errNotCurrent: values of virtual columns have changed since they were put into a statement.
var errNotCurrent = errors.New("values of virtual columns have changed")

// virtuallyKept sends a statement of a shape with values that are kept in memory, while it is found out whether these are
// current, and answers it if they are. done: it was; else s.shape is another's.
func (s *session) virtuallyKept(ctx context.Context, sql string, shape *planner.VirtualShape) (done bool, _ error) {
	reads, ok := shape.Reads(&s.shape)
	if !ok {
		return false, nil
	}
	values, current := s.proxy.opts.Virtual.Guess(!s.fastVirtual(), reads...)
	if values == nil {
		return false, nil
	}
	defer s.withVirtual()()
	if !shape.Put(&s.shape, values, &s.settings.planning) {
		return false, nil
	}
	p := s.planned()
	if p == nil || !p.Repeatable {
		return false, nil
	}
	s.activity.doing("Query", s.settings.schema, sql, time.Now())
	s.diag.spliced = 0
	s.begun()
	r := s.clientRequest(s.shape.Text(), s.start())
	r.shape, r.values, r.current = &s.shape, s.shape.Values(), inTime(current)
	err := s.run(ctx, p, r)
	if errors.Is(err, errNotCurrent) {
		return false, nil
	}
	s.proxy.metrics.virtualReads[fromMemory].Inc()
	return true, err
}

// keptStatement is a prepared statement with parameters for kept values as well.
type keptStatement struct {
	shape   *planner.VirtualShape // nil: it has none
	version uint64                // of the catalog
	preparedStatement
}

// executeKept is virtuallyKept for a prepared statement.
func (s *session) executeKept(ctx context.Context, st *preparedStatement, params []wire.Param, flags byte) (done bool, _ error) {
	if s.catalog().Virtual == nil || st.passing || flags&mysql.CURSOR_TYPE_READ_ONLY != 0 || !s.mayReadKept() {
		return false, nil
	}
	if st.kept == nil || st.kept.version != s.catalog().Version {
		st.kept = &keptStatement{shape: s.proxy.planner.VirtualPrepared(s.textOf(st.source), s.settings.planning, len(params)), version: s.catalog().Version}
		if st.kept.shape != nil {
			st.kept.preparedStatement = preparedStatement{sql: st.kept.shape.Text(), prepared: s.settings.planning, own: st.own + " kept"}
		}
	}
	k := st.kept
	if k.shape == nil {
		return false, nil
	}
	reads, ok := k.shape.ReadsOf(s.paramValues(params, nil), &s.settings.planning)
	if !ok {
		return false, nil
	}
	values, current := s.proxy.opts.Virtual.Guess(!s.fastVirtual(), reads...)
	if values == nil {
		return false, nil
	}
	defer s.withVirtual()()
	if err := s.replan(ctx, &k.preparedStatement, nil); err != nil {
		return false, nil
	}
	p, ok := k.plan.(*plan.Rows)
	if !ok || !p.Repeatable {
		return false, nil
	}
	with := make([]wire.Param, 0, len(params)+len(values))
	k.shape.Params(values, func(n int) { with = append(with, params[n]) }, func(literal string) { with = append(with, literalParam(literal)) })
	err := s.inBinary(st, &k.preparedStatement, with, s.paramValues(with, p), func(r *request) error {
		r.current = inTime(current)
		return s.run(ctx, p, r)
	})
	if errors.Is(err, errNotCurrent) {
		return false, nil
	}
	s.proxy.metrics.virtualReads[fromMemory].Inc()
	return true, err
}

// literalParam is a parameter with a known value: NULL, or the text of a number or date, which CAST reads.
func literalParam(literal string) wire.Param {
	if literal == "NULL" {
		return wire.Param{Type: mysql.MYSQL_TYPE_VAR_STRING, Null: true}
	}
	if _, quoted, ok := strings.Cut(literal, "'"); ok {
		literal = strings.TrimSuffix(quoted, "'")
	}
	return wire.Param{Type: mysql.MYSQL_TYPE_VAR_STRING, Data: []byte(literal)}
}

// inTime bounds what tells whether values are current.
func inTime(current func(context.Context) bool) func(context.Context) bool {
	if current == nil {
		return nil
	}
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, freshPatience)
		defer cancel()
		return current(ctx)
	}
}

// withVirtual has texts name the schema of virtual columns until undo is called.
func (s *session) withVirtual() (undo func()) {
	s.settings.planning.Virtual = true
	return func() { s.settings.planning.Virtual = false }
}

// putVirtual puts the virtual columns that a statement names into it: by their durable values where these have all that
// a read is to see, else by their queries. params are its parameters' values, if they are known. reads: it is executed,
// not prepared alone.
func (s *session) putVirtual(ctx context.Context, t *spoken.Text, params []keys.Value, reads bool) string {
	v := s.proxy.planner.Virtual(t, params)
	if v == nil {
		return t.SQL
	}
	// Rule stable texts: what is prepared is prepared at shards by its text, so values aren't written into that.
	for i := range v.Reads {
		v.Reads[i].Part = params != nil
	}
	return s.putInto(ctx, v, reads)
}

// mayReadDurable reports that the session may read durable values.
//
// Rule primaries' values: a replica's durable values lack batches that what is hot is added to.
func (s *session) mayReadDurable() bool {
	return s.tx == nil && s.tableLocks == nil && !s.wantsReplicas() && s.proxy.opts.Virtual != nil
}

// mayReadKept reports that the session may read values that are kept in memory.
//
// Rule own changes: not in a transaction that has written: they aren't in its log yet. Nor may an exact read, which may be
// in vain, be sent in one. A fast one may have what the transaction's snapshot lacks.
//
// Durable values are not read there. Counter-examples: SERIALIZABLE locks them, and nothing is consolidated; a snapshot of
// before REBUILD can't read the new table (1412).
func (s *session) mayReadKept() bool {
	if !s.fastVirtual() || s.tx == nil {
		return s.mayReadDurable() && s.mayBeInVain()
	}
	return !s.tx.writes && s.temporary == nil && s.tableLocks == nil && !s.wantsReplicas() && s.proxy.opts.Virtual != nil
}

// putInto is putVirtual for what was read.
func (s *session) putInto(ctx context.Context, v *planner.VirtualText, reads bool) string {
	hot := map[int]catalog.VirtualHot{}
	if s.mayReadDurable() {
		for i, r := range v.Reads {
			if r.Column.Status == catalog.Ready {
				hot[i] = catalog.VirtualHot{}
			}
		}
	}
	if !reads || len(v.Reads) == 0 {
		return v.Put(hot)
	}
	if len(hot) > 0 && !s.fastVirtual() {
		hot = s.freshVirtual(ctx, v.Reads, hot)
	}
	s.proxy.metrics.virtualReads[sourceOf(hot)].Inc()
	return v.Put(hot)
}

// virtualSource is what a statement's virtual columns were read from: the slowest one.
type virtualSource string

const (
	fromMemory  virtualSource = "memory"
	fromDurable virtualSource = "durable"
	fromQuery   virtualSource = "query"
)

func sourceOf(values map[int]catalog.VirtualHot) virtualSource {
	from := fromMemory
	for _, v := range values {
		if !v.Known {
			from = fromDurable
		}
	}
	if len(values) == 0 {
		return fromQuery
	}
	return from
}

// freshVirtual adds what durable values lack; none where that can't be had.
func (s *session) freshVirtual(ctx context.Context, reads []catalog.VirtualRead, durable map[int]catalog.VirtualHot) map[int]catalog.VirtualHot {
	ctx, cancel := context.WithTimeout(ctx, freshPatience)
	defer cancel()
	at := slices.Sorted(maps.Keys(durable))
	some := make([]catalog.VirtualRead, len(at))
	for i, n := range at {
		some[i] = reads[n]
	}
	hot, err := s.proxy.opts.Virtual.Fresh(ctx, some...)
	if err != nil {
		return nil
	}
	for i, n := range at {
		durable[n] = hot[i]
	}
	return durable
}
