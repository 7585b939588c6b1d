package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

func newReplicas(cfg *config.Config, log *slog.Logger) *replica.Set {
	return replica.New(replica.Options{
		Pool: shard.Options{Max: cfg.ShardConnections, Logger: log}, Timeout: cfg.ShardTimeout, Statements: cfg.ShardPreparedStatements, Logger: log,
	})
}

// changeReplicas makes the configured replicas the ones that are read from.
func changeReplicas(set *replica.Set, cfg *config.Config, l layout, dial map[catalog.ShardID]shard.Config) {
	shards := map[catalog.ShardID]replica.Shard{}
	for _, sh := range l.shards {
		for _, c := range cfg.Shards {
			if c.Name != sh.Name {
				continue
			}
			r := replica.Shard{Primary: dial[sh.ID]}
			for _, x := range c.Replicas {
				to := shardConfig(x)
				to.Ring = r.Primary.Ring
				r.Replicas = append(r.Replicas, to)
			}
			shards[sh.ID] = r
		}
	}
	set.Change(cfg.MaxReplicaLag, shards)
}

// replicaCollector reads the replicas' figures.
type replicaCollector struct {
	set       *replica.Set
	shards    []catalog.Shard
	directory *schema.Directory
}

var (
	replicaUpDesc    = prometheus.NewDesc("shunt_replica_up", "1 while the replica may be read from.", []string{"shard", "replica"}, nil)
	replicaLagDesc   = prometheus.NewDesc("shunt_replica_lag_seconds", "By how much the replica is behind its primary at most.", []string{"shard", "replica"}, nil)
	replicaReadsDesc = prometheus.NewDesc("shunt_replica_statements_total", "Statements that were sent to the replica.", []string{"shard", "replica"}, nil)
	replicaConnsDesc = prometheus.NewDesc("shunt_replica_connections", "Connections to the replica by state (in_use, idle), and sessions waiting for one.", []string{"shard", "replica", "state"}, nil)
)

func (c *replicaCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{replicaUpDesc, replicaLagDesc, replicaReadsDesc, replicaConnsDesc} {
		ch <- d
	}
}

func (c *replicaCollector) Collect(ch chan<- prometheus.Metric) {
	since := c.directory.Changed()
	for _, sh := range c.shards {
		for _, r := range c.set.Of(sh.ID) {
			st, up := r.Status(since), 0.0
			if st.State == replica.Up {
				up = 1
			}
			ch <- prometheus.MustNewConstMetric(replicaUpDesc, prometheus.GaugeValue, up, sh.Name, r.Addr())
			if st.Behind >= 0 {
				ch <- prometheus.MustNewConstMetric(replicaLagDesc, prometheus.GaugeValue, st.Behind.Seconds(), sh.Name, r.Addr())
			}
			ch <- prometheus.MustNewConstMetric(replicaReadsDesc, prometheus.CounterValue, float64(r.Reads()), sh.Name, r.Addr())
			use := r.Pool.Stats()
			for state, n := range map[string]int{"in_use": use.InUse, "idle": use.Idle, "waiting": use.Waiting} {
				ch <- prometheus.MustNewConstMetric(replicaConnsDesc, prometheus.GaugeValue, float64(n), sh.Name, r.Addr(), state)
			}
		}
	}
}
