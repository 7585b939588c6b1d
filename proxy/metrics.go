package proxy

import (
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/plan"
)

// metrics are the figures of the sessions; the pools, the store and the
// indexer are read when they are asked for (see cmd/shunt).
type metrics struct {
	statements *prometheus.CounterVec
	shards     *histogram
	seconds    *histograms
	errors     *prometheus.CounterVec
	sessions   prometheus.Gauge
	refused    prometheus.Counter
	logins     *prometheus.CounterVec
	pinned     *prometheus.GaugeVec
	prepared   prometheus.Gauge
	idle       prometheus.Counter
	late       prometheus.Counter
	deadlocks  prometheus.Counter
	limited    *prometheus.CounterVec
	heldUp     prometheus.Counter
	// replicaReads are statements that might be read from replicas, by what they
	// were read from.
	replicaReads *prometheus.CounterVec
	// guesses are reads that were sent on a guess, by whether it was right.
	guesses map[bool]prometheus.Counter
	// virtualReads are statements with virtual columns, by what these were read from.
	virtualReads map[virtualSource]prometheus.Counter
	// planHits are statements that were executed by the plan of their shape.
	planHits, planMisses prometheus.Counter
	// outcomes are the label values that statements have had, so that counting one
	// doesn't look its labels up.
	outcomes atomic.Pointer[map[outcome]*outcomeMetrics]
}

// outcome is what statements are counted by.
type outcome struct{ plan, access string }

// outcomeMetrics are those of an outcome.
type outcomeMetrics struct {
	outcome
	statements prometheus.Counter
	seconds    *histogram
}

func newMetrics(reg prometheus.Registerer, plans *planner.Planner) *metrics {
	m := &metrics{
		statements: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_statements_total", Help: "Statements by plan (route, merge, gather, load, session, ddl, admin) and by how their shards were found (shard_key, index, scatter, hash, reference, single; empty where none was looked for)."}, []string{"plan", "access"}),
		seconds:    newHistograms("shunt_statement_seconds", "Time from a statement's arrival to its answer's end.", 1e-9, prometheus.ExponentialBuckets(0.0001, 3, 12), "plan"),
		errors:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_errors_total", Help: "Errors given to clients, by MySQL error code."}, []string{"code"}),
		sessions:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "shunt_sessions", Help: "Client connections past the handshake."}),
		refused:    prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_refused_total", Help: "Statements refused with error 1235."}),
		logins:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_logins_total", Help: "Handshakes by outcome (ok, failed, blocked; left: closed by the client before it said anything)."}, []string{"outcome"}),
		pinned:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "shunt_sessions_pinned", Help: "Sessions that keep a shard connection of their own, by reason."}, []string{"reason"}),
	}
	m.prepared = prometheus.NewGauge(prometheus.GaugeOpts{Name: "shunt_prepared_statements", Help: "Statements that clients have prepared and not closed."})
	m.idle = prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_idle_closed_total", Help: "Client connections closed for being idle longer than wait_timeout."})
	m.late = prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_statements_late_total", Help: "Statements that Shunt ended since they took longer than max_execution_time, max_statement_time or query_timeout."})
	m.deadlocks = prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_deadlocks_total", Help: "Transactions that Shunt has rolled back since they waited for each other over several shards."})
	m.limited = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_user_limits_total", Help: "Connections and statements refused with error 1226 for a limit of their user."}, []string{"limit"})
	m.heldUp = prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_logins_held_up_total", Help: "Failed log-ins whose answer had to wait for those before from the same address."})
	m.replicaReads = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_replica_reads_total", Help: "Statements of sessions that read from replicas, by where they were read (replica, primary, both). primary: no replica of theirs could be read from, or the statement can't be."}, []string{"from"})
	virtualReads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_virtual_column_reads_total", Help: "Statements that name virtual columns, by what these were read from: values kept in memory, durable values, or queries of the rows."}, []string{"from"})
	m.virtualReads = map[virtualSource]prometheus.Counter{}
	for _, from := range []virtualSource{fromMemory, fromDurable, fromQuery} {
		m.virtualReads[from] = virtualReads.WithLabelValues(string(from))
	}
	reg.MustRegister(virtualReads)
	guesses := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_index_guesses_total", Help: "Reads that were sent to the shards that virtual indexes had named before, while these were asked on their servers, by outcome: right; wrong, so that they were sent again."}, []string{"outcome"})
	m.guesses = map[bool]prometheus.Counter{true: guesses.WithLabelValues("right"), false: guesses.WithLabelValues("wrong")}
	m.planHits = prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_plan_cache_hits_total", Help: "Statements sent as text that were executed by a cached plan, without being parsed."})
	m.planMisses = prometheus.NewCounter(prometheus.CounterOpts{Name: "shunt_plan_cache_misses_total", Help: "Statements sent as text that were planned by themselves."})
	cached := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_plan_cache_entries", Help: "Shapes of statements that are kept with their plans."}, func() float64 { return float64(plans.CachedPlans()) })
	for _, from := range []string{"replica", "primary", "both"} {
		m.replicaReads.WithLabelValues(from)
	}
	m.limited.WithLabelValues("connections")
	m.limited.WithLabelValues("statements")
	for _, why := range []pinReason{pinnedByTables, pinnedByLocks, pinnedByTableLocks} {
		m.pinned.WithLabelValues(pinReasonNames[why])
	}
	shards := newHistograms("shunt_statement_shards", "Shards that a statement went to.", 1, []float64{1, 2, 3, 4, 8, 16, 32, 64, 128, 256})
	m.shards = shards.with("")
	m.outcomes.Store(&map[outcome]*outcomeMetrics{})
	reg.MustRegister(m.statements, shards, m.seconds, m.errors, m.sessions, m.refused, m.logins, m.pinned, m.prepared, m.idle, m.late, m.deadlocks, m.limited, m.heldUp, m.replicaReads, guesses, m.planHits, m.planMisses, cached)
	return m
}

// routed counts a statement that went to shards.
func (s *session) routed(b *plan.Bound, start time.Time) {
	s.measured.Plan, s.measured.Access = b.Plan, b.Access
	s.ended(outcome{b.Plan, accessLabel(b.Access)}, start)
	s.proxy.metrics.shards.observe(int64(len(b.Statements)))
}

// local counts a statement that has no route.
func (s *session) local(plan string, start time.Time) {
	s.measured.Plan = plan
	s.ended(outcome{plan, ""}, start)
}

func (s *session) ended(o outcome, start time.Time) {
	m := s.proxy.metrics
	if s.metered == nil || s.metered.outcome != o {
		if s.metered = (*m.outcomes.Load())[o]; s.metered == nil {
			s.metered = m.add(o)
		}
	}
	s.answered = time.Now()
	s.metered.statements.Inc()
	s.metered.seconds.observe(int64(s.answered.Sub(start)))
}

// add makes the metrics of an outcome that no statement has had yet: there are few.
func (m *metrics) add(o outcome) *outcomeMetrics {
	x := &outcomeMetrics{o, m.statements.WithLabelValues(o.plan, o.access), m.seconds.with(o.plan)}
	for {
		old := m.outcomes.Load()
		more := maps.Clone(*old)
		more[o] = x
		if m.outcomes.CompareAndSwap(old, &more) {
			return x
		}
	}
}

// accessLabel leaves out the index's name: labels are few.
func accessLabel(access string) string {
	if len(access) > 6 && access[:6] == "index:" {
		return "index"
	}
	return access
}

// failed counts an error that a client was given.
func (m *metrics) failed(code uint16) { m.errors.WithLabelValues(strconv.Itoa(int(code))).Inc() }
