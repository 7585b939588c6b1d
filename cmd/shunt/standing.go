package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// standing is proxy.Options': a member that is on no shard serves nobody, while others may. What all of
// them lack takes none of them out of service.
func (s *service) standing(why bool) (unready string, degraded []string) {
	if s.member == nil {
		return "", nil
	}
	off := 0
	all := s.member.cluster.Standing()
	for _, st := range all {
		if !st.Joined {
			off++
			degraded = append(degraded, "this member isn't on shard "+s.shardName(st.Shard)+" yet: it was fenced there, or the shard didn't answer; it joins by itself")
		}
	}
	if off == len(all) {
		unready = "this member is on no shard: it was fenced, or none answered; it joins by itself"
	}
	away := s.member.store.Standing()
	for _, name := range slices.Sorted(maps.Keys(away)) {
		switch err := away[name]; {
		case err == nil:
		case why:
			degraded = append(degraded, fmt.Sprintf("a server of the store is away, reads by its virtual indexes go to all shards: %v", err))
		default:
			degraded = append(degraded, "a server of the store is away: reads by its virtual indexes go to all shards")
		}
	}
	return unready, degraded
}

// storeCalls counts what statements wait for at the servers of the store.
func storeCalls(reg prometheus.Registerer) func(home, call string, took time.Duration, err error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "shunt_store_call_seconds", Help: "Several Shunts: how long a statement waited for a server of the store, by call (lookup, write).", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	}, []string{"server", "call"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shunt_store_call_errors_total", Help: "Several Shunts: calls to a server of the store that failed."}, []string{"server", "call"})
	reg.MustRegister(seconds, failed)
	return func(home, call string, took time.Duration, err error) {
		seconds.WithLabelValues(home, call).Observe(took.Seconds())
		if err != nil {
			failed.WithLabelValues(home, call).Inc()
		}
	}
}

// memberCollector reads how this process is among the members.
type memberCollector struct {
	member *member
	name   func(catalog.ShardID) string
}

var (
	joinedDesc    = prometheus.NewDesc("shunt_member_joined", "Several Shunts: 1 while this member is on the shard.", []string{"shard"}, nil)
	toldDesc      = prometheus.NewDesc("shunt_member_told_lag", "Several Shunts: how many epochs the oldest open statement or transaction of this member is behind. Stale entries of since then stay.", []string{"shard"}, nil)
	lostDesc      = prometheus.NewDesc("shunt_member_lost_total", "Several Shunts: how often this member was fenced on the shard, and its connections there closed.", []string{"shard"}, nil)
	fencedDesc    = prometheus.NewDesc("shunt_member_fenced_total", "Several Shunts: how often this member has fenced another one on the shard.", []string{"shard"}, nil)
	waitsDesc     = prometheus.NewDesc("shunt_member_waits_total", "Several Shunts: how often this member has waited for others: for the turn of DDL (ddl), of changes of virtual indexes (changes), for all to go by a change (version).", []string{"for"}, nil)
	waitTimeDesc  = prometheus.NewDesc("shunt_member_wait_seconds_total", "Several Shunts: how long this member has waited for others: see shunt_member_waits_total.", []string{"for"}, nil)
	storeUpDesc   = prometheus.NewDesc("shunt_store_up", "Several Shunts: 1 while the server of the store answers.", []string{"server"}, nil)
	memberVersion = prometheus.NewDesc("shunt_member_version", "Several Shunts: the version of what is shared that this member goes by.", nil, nil)
)

// Describe is prometheus.Collector's.
func (c *memberCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{joinedDesc, toldDesc, lostDesc, fencedDesc, waitsDesc, waitTimeDesc, storeUpDesc, memberVersion} {
		ch <- d
	}
}

// Collect is prometheus.Collector's.
func (c *memberCollector) Collect(ch chan<- prometheus.Metric) {
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	yes := map[bool]float64{true: 1}
	for _, st := range c.member.cluster.Standing() {
		shard := c.name(st.Shard)
		tell(joinedDesc, prometheus.GaugeValue, yes[st.Joined], shard)
		tell(toldDesc, prometheus.GaugeValue, float64(st.Now-st.Told), shard)
		tell(lostDesc, prometheus.CounterValue, float64(st.Lost), shard)
		tell(fencedDesc, prometheus.CounterValue, float64(st.Fenced), shard)
	}
	ddl, changes, versions := c.member.cluster.Waited()
	for what, w := range map[string]cluster.Waits{"ddl": ddl, "changes": changes, "version": versions} {
		tell(waitsDesc, prometheus.CounterValue, float64(w.Count), what)
		tell(waitTimeDesc, prometheus.CounterValue, w.Took.Seconds(), what)
	}
	for server, err := range c.member.store.Standing() {
		tell(storeUpDesc, prometheus.GaugeValue, yes[err == nil], server)
	}
	read, _ := c.member.store.Version()
	tell(memberVersion, prometheus.GaugeValue, float64(read))
}
