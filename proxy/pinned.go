package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// resetTimeout bounds how long a connection's reset may take; else it is closed.
const resetTimeout = 5 * time.Second

// pinReason is why a session keeps a shard connection to itself. Cursors are none:
// their rows are set aside when they are opened (package spool).
type pinReason uint8

const (
	pinnedByTransaction pinReason = iota
	pinnedByTables
	pinnedByLocks
	pinnedByTableLocks
	pinReasons
)

var pinReasonNames = [pinReasons]string{"transaction", "temporary table", "lock", "lock tables"}

// pins count the connections that sessions keep: by shard and reason. One that is
// kept for a transaction may be kept for another reason too, and counts for both.
type pins map[catalog.ShardID]*[pinReasons]atomic.Int64

func newPins(pools map[catalog.ShardID]*shard.Pool) pins {
	p := pins{}
	for id := range pools {
		p[id] = &[pinReasons]atomic.Int64{}
	}
	return p
}

func (p pins) add(id catalog.ShardID, why pinReason, n int64) {
	if counts := p[id]; counts != nil {
		counts[why].Add(n)
	}
}

// text is what SHOW SHARDS tells of a shard: "transaction: 2, temporary table: 1".
func (p pins) text(id catalog.ShardID) string {
	var parts []string
	for why, name := range pinReasonNames {
		if counts := p[id]; counts != nil && counts[why].Load() > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", name, counts[why].Load()))
		}
	}
	return strings.Join(parts, ", ")
}

// pinsCollector tells pins to /metrics.
type pinsCollector struct {
	pins  pins
	pools map[catalog.ShardID]*shard.Pool
}

var pinsDesc = prometheus.NewDesc("shunt_pinned_connections", "Shard connections that sessions keep to themselves, by shard and reason. One may be kept for several.", []string{"shard", "reason"}, nil)

// Describe implements prometheus.Collector.
func (c *pinsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- pinsDesc }

// Collect implements prometheus.Collector.
func (c *pinsCollector) Collect(ch chan<- prometheus.Metric) {
	for id, counts := range c.pins {
		for why, name := range pinReasonNames {
			ch <- prometheus.MustNewConstMetric(pinsDesc, prometheus.GaugeValue, float64(counts[why].Load()), c.pools[id].Name(), name)
		}
	}
}

// pinned notes, before it is borrowed, a connection that the session will keep for
// what a server keeps with a connection. A transaction's needs no leave: it ends.
func (s *session) pinned(id catalog.ShardID, why pinReason) error {
	if err := s.proxy.pool(id).Pin(s.holder()); err != nil {
		return mysqlerr.Newf(mysqlerr.TooManyConnections, "Too many connections: %v; these drop their temporary tables or release their locks, or shard_connections is raised", err)
	}
	s.proxy.metrics.pinned.WithLabelValues(pinReasonNames[why]).Inc()
	s.proxy.pins.add(id, why, 1)
	return nil
}

// unpinned takes pinned back.
func (s *session) unpinned(id catalog.ShardID, why pinReason) {
	s.proxy.pool(id).Unpin(s.holder())
	s.proxy.metrics.pinned.WithLabelValues(pinReasonNames[why]).Dec()
	s.proxy.pins.add(id, why, -1)
}

// relabel: a connection that is kept already is kept for something else, too.
func (s *session) relabel(id catalog.ShardID, from, to pinReason) {
	s.proxy.metrics.pinned.WithLabelValues(pinReasonNames[from]).Dec()
	s.proxy.metrics.pinned.WithLabelValues(pinReasonNames[to]).Inc()
	s.proxy.pins.add(id, from, -1)
	s.proxy.pins.add(id, to, 1)
}

// letGo gives a kept connection back, and all that it keeps on the server up.
func (s *session) letGo(id catalog.ShardID, conn *shard.Conn, why pinReason) {
	pool := s.proxy.pool(id)
	ctx, cancel := context.WithTimeout(context.Background(), resetTimeout)
	defer cancel()
	if conn.Broken || conn.Busy() || conn.Reset(ctx) != nil {
		// A statement may still wait there, GET_LOCK() for one, for nobody.
		_ = pool.Kill(ctx, conn.ThreadID, false) // its end is noticed sooner or later
		pool.Discard(conn)
	} else {
		pool.Put(conn)
	}
	s.unpinned(id, why)
}
