package proxy

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// measured is what is noted of the client's statement while it is executed, for SHOW STATEMENT
// STATISTICS and the log of statements. What it is made of counts for it: parts of shards, and statements of Shunt's own.
type measured struct {
	insights.Execution
	// sql is its text, "" before there is one, under these settings. It may be a view.
	sql      string
	settings *text.Settings
	start    time.Time
	// hash is of what was read of the text, 0 where finding its shape is left to prepared.
	hash     uint64
	prepared *preparedStatement
	// sent is when its only part was sent, to a shard: that has taken until the statement has ended.
	// 0: each part's end is timed.
	sent time.Duration
	to   catalog.ShardID
	// thread is that shard's number of the connection.
	thread uint32
	// failed is the first of the shards' errors.
	failed failedPart
}

const (
	// maxDigest bounds the bytes of a shape, and of its sample.
	maxDigest = 1 << 10
	// maxHashed bounds those of a text that has no shape in the planner and is found by its hash.
	maxHashed = 4 << 10
	// maxParts bounds the parts that are told apart, of a statement that is made of many.
	maxParts = 256
	// keptParts are those that there is room for between statements.
	keptParts = 16
)

// timed says which of a statement's times are taken on a shard: to look at the clock costs as much as
// all else that is measured.
func (s *session) timed(r *request) shard.Timed {
	switch {
	case s.proxy.insights == nil && s.proxy.statementLog.wanted.Load() == nil && s.proxy.tracer.Load() == nil:
		return shard.NotTimed
	case r.sent && r.bound != nil && len(r.bound.Statements) == 1 && !r.writes:
		return shard.TimedBegin
	}
	return shard.TimedWhole
}

// measuring says what statement is executed. One within another, as EXECUTE has it, is the one that counts.
func (s *session) measuring(sql string, shaped bool, start time.Time) {
	o := &s.measured
	if o.sql == "" {
		o.start = start
	}
	o.sql, o.settings, o.prepared, o.hash = sql, &s.settings.planning, nil, 0
	switch {
	case s.proxy.insights == nil:
	case shaped:
		o.hash = s.shape.Hash()
	case len(sql) <= maxHashed:
		o.hash = xxhash.Sum64String(s.settings.planning.Schema)*31 + xxhash.Sum64String(sql)
	}
}

// measuringPrepared is measuring of a prepared statement.
func (s *session) measuringPrepared(st *preparedStatement, start time.Time) {
	o := &s.measured
	o.start, o.sql, o.settings, o.prepared = start, st.source, &st.prepared, st
}

// measurePart notes that a shard has answered over a connection.
func (s *session) measurePart(id catalog.ShardID, conn *shard.Conn) {
	switch sent := conn.Sent(); {
	case conn.Took > 0:
		s.measured.part(id, conn.ThreadID, conn.Began, conn.Took)
		conn.Took = 0
	case sent > 0:
		s.measured.sent, s.measured.to, s.measured.thread = sent, id, conn.ThreadID
	}
}

// part notes when a shard's part has begun, as shard.At has it, and how long it has taken.
func (o *measured) part(id catalog.ShardID, thread uint32, began, took time.Duration) {
	if len(o.Parts) < maxParts {
		o.Parts = append(o.Parts, insights.Part{Shard: int(id), Thread: thread, Took: took, Began: began})
	}
}

// measure counts the statement, which is answered, or whose error the client is told next, and logs
// it where it is to be.
func (s *session) measure(err error) {
	o := &s.measured
	log, tracer := s.proxy.statementLog.wanted.Load(), s.proxy.tracer.Load()
	if o.sql != "" && (s.proxy.insights != nil || log != nil || tracer != nil) {
		s.ends(o, err)
		s.record(o)
		trace := ""
		if tracer != nil {
			trace = s.trace(tracer, o)
		}
		if log != nil && log.wants(o.Took) {
			s.logStatement(log, o, trace)
		}
	}
	if cap(o.Parts) > keptParts {
		o.Parts = nil
	}
	o.sql, o.settings, o.prepared, o.sent, o.failed = "", nil, nil, 0, failedPart{}
	o.Clear()
}

// ends notes how the statement has ended, and when.
func (s *session) ends(o *measured, err error) {
	switch {
	case s.diag.told:
		o.Code = s.diag.failed
	case err != nil:
		o.Code = coded(err).Code
	case s.diag.changed > 0:
		o.Affected = s.diag.changed
	}
	if o.Ended = s.answered; o.Code != 0 || !o.Ended.After(o.start) {
		o.Ended = time.Now()
	}
	o.Took = o.Ended.Sub(o.start)
	if o.sent > 0 {
		o.part(o.to, o.thread, o.sent, shard.TookUntil(o.Ended, o.sent))
	}
}

// record counts an execution for its shape.
func (s *session) record(o *measured) {
	stats := s.proxy.insights
	switch st := o.prepared; {
	case stats == nil:
	case st == nil:
		x := stats.Find(o.hash)
		if x == nil {
			x = stats.Name(o.hash, o.settings.Schema, o.digest())
		}
		s.sample(x, o)
		stats.Observe(x, &o.Execution)
	default:
		if st.shape == nil {
			st.shape = stats.Name(0, o.settings.Schema, o.digest())
		}
		s.sample(st.shape, o)
		st.shape = stats.Observe(st.shape, &o.Execution)
	}
}

// sample keeps a statement's values, where that is wanted, and it is its shape's longest.
func (s *session) sample(x *insights.Shape, o *measured) {
	if s.proxy.opts.Samples && x.Longest(o.Took) {
		o.Sample = strings.Clone(strings.ToValidUTF8(s.loggedText(o, maxDigest), "?"))
	}
}

// digest is the statement without its literals.
func (o *measured) digest() string { return text.Digest(o.sql, *o.settings, maxDigest) }
