package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage/shared"
)

// followed counts what was dealt with of the shards' binary logs.
func followed(reg prometheus.Registerer, d *schema.Directory) func(catalog.ShardID, time.Duration) {
	behind := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "shunt_follow_seconds", Help: "How long after a transaction's commit its changes were in the virtual indexes, where binary logs are followed (MariaDB: in whole seconds, from its first statement on).",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	}, []string{"shard"})
	reg.MustRegister(behind)
	return func(id catalog.ShardID, took time.Duration) {
		behind.WithLabelValues(d.Catalog().ShardName(id)).Observe(took.Seconds())
	}
}

// followCollector tells how late what comes by the shards' binary logs is.
type followCollector struct {
	logs      *binlogs
	directory *schema.Directory
}

var lagDesc = prometheus.NewDesc("shunt_follow_lag_seconds", "How late what comes by a shard's binary log is at most, where this process follows it (while much is written: MariaDB's times are whole seconds).", []string{"shard"}, nil)

func (c *followCollector) Describe(ch chan<- *prometheus.Desc) { ch <- lagDesc }

func (c *followCollector) Collect(ch chan<- prometheus.Metric) {
	cat := c.directory.Catalog()
	for id := range cat.All.All {
		if lag := c.logs.Lag(id); lag >= 0 {
			ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag.Seconds(), cat.ShardName(id))
		}
	}
}

// indexerMetrics counts what the indexer does.
func indexerMetrics(reg prometheus.Registerer, d *schema.Directory) indexer.Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	rows := counter("shunt_scan_rows_total", "Rows read by index scans.", "shard")
	reading := counter("shunt_scan_read_seconds_total", "Time in which index scans read rows.", "shard")
	changes := counter("shunt_index_changes_total", "Entries that maintenance added (missing) or removed (stale), and marks it cleared.", "change")
	jobs := counter("shunt_jobs_done_total", "Jobs by type and outcome: ok; failed; again, where they were given back for what went on beside them, as DDL or an open transaction.", "type", "outcome")
	for _, typ := range indexer.JobTypes() {
		jobs.WithLabelValues(typ, "failed").Add(0) // a series that begins with its first failure lacks that one in an increase
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "shunt_job_seconds", Help: "Run time of jobs.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 12)}, []string{"type"})
	reg.MustRegister(seconds)
	held := counter("shunt_removals_held_back_total", "Scans and builds to be done again when a transaction that was open has ended.", "shard")
	enqueue := counter("shunt_job_enqueue_errors_total", "Jobs that could not be put into the store.")
	audits := counter("shunt_audits_total", "Index-routed reads that were also asked of the skipped shards, by outcome (ok, miss). A miss is a row that was written behind Shunt's back, or a bug.", "outcome")
	// A series that begins with its first miss has no increase to alert on.
	audits.WithLabelValues("ok").Add(0)
	audits.WithLabelValues("miss").Add(0)
	dropped := counter("shunt_background_dropped_total", "Audits and repairs left out because their queue was full.", "what")
	return indexer.Metrics{
		ScanRows: func(id catalog.ShardID, n int, took time.Duration) {
			rows.WithLabelValues(d.Catalog().ShardName(id)).Add(float64(n))
			reading.WithLabelValues(d.Catalog().ShardName(id)).Add(took.Seconds())
		},
		Added:   func(n int) { changes.WithLabelValues("added").Add(float64(n)) },
		Removed: func(n int) { changes.WithLabelValues("removed").Add(float64(n)) },
		Cleared: func(n int) { changes.WithLabelValues("marks_cleared").Add(float64(n)) },
		JobDone: func(typ, outcome string, took time.Duration) {
			jobs.WithLabelValues(typ, outcome).Inc()
			seconds.WithLabelValues(typ).Observe(took.Seconds())
		},
		HeldBack:   func(id catalog.ShardID) { held.WithLabelValues(d.Catalog().ShardName(id)).Inc() },
		AfterError: func(error) { enqueue.WithLabelValues().Inc() },
		Audited: func(_ *catalog.Index, miss bool) {
			outcome := "ok"
			if miss {
				outcome = "miss"
			}
			audits.WithLabelValues(outcome).Inc()
		},
		Dropped: func(what string) { dropped.WithLabelValues(what).Inc() },
	}
}

// storeCollector reads the store's figures when they are asked for.
type storeCollector struct {
	store     store
	directory *schema.Directory
	fanout    func(catalog.IndexID) indexer.Fanout
}

var (
	entriesDesc  = prometheus.NewDesc("shunt_index_entries", "Entries of a virtual index.", []string{"schema", "table", "index"}, nil)
	marksDesc    = prometheus.NewDesc("shunt_index_unknown_shards", "Shards with an unknown mark.", []string{"schema", "table", "index"}, nil)
	sinceDesc    = prometheus.NewDesc("shunt_index_unknown_since_seconds", "Unix time since which there has been an unknown mark, 0 where there is none.", []string{"schema", "table", "index"}, nil)
	bytesDesc    = prometheus.NewDesc("shunt_index_bytes", "What a virtual index's entries take of the store's tables, about; 0 where servers have the store.", []string{"schema", "table", "index"}, nil)
	readsDesc    = prometheus.NewDesc("shunt_index_reads_total", "Reads by a virtual index, but for those in transactions.", []string{"schema", "table", "index"}, nil)
	askedDesc    = prometheus.NewDesc("shunt_index_read_shards_total", "Shards that a virtual index named for reads, by whether they had a row (found, vain): all of them by shunt_index_reads_total are the mean fan-out, those found the ideal one.", []string{"schema", "table", "index", "outcome"}, nil)
	statusDesc   = prometheus.NewDesc("shunt_index_status", "1 for the state that the index is in.", []string{"schema", "table", "index", "status"}, nil)
	jobsDesc     = prometheus.NewDesc("shunt_jobs", "Jobs by type and state.", []string{"type", "state"}, nil)
	jobAgeDesc   = prometheus.NewDesc("shunt_job_age_seconds", "Age of the oldest job by type and state.", []string{"type", "state"}, nil)
	diskDesc     = prometheus.NewDesc("shunt_store_bytes", "Size of the index store on disk. Not of one on servers.", nil, nil)
	freeDesc     = prometheus.NewDesc("shunt_store_free_bytes", "Free space on the index store's disk. Not of one on servers.", nil, nil)
	lookupsDesc  = prometheus.NewDesc("shunt_lookups_total", "Lookups of a key in a virtual index, by whether it was among the hot records.", []string{"cache"}, nil)
	hotDesc      = prometheus.NewDesc("shunt_lookup_cache_bytes", "Memory of the virtual indexes' hot records.", nil, nil)
	unlikeDesc   = prometheus.NewDesc("shunt_reference_tables_unlike", "Reference tables whose copies differ.", nil, nil)
	intentsDesc  = prometheus.NewDesc("shunt_store_write_intents", "Tables, by shard, that are being written to: what a power loss would have scanned anew.", nil, nil)
	writableDesc = prometheus.NewDesc("shunt_store_writable", "1 while the index store takes writes.", nil, nil)
)

func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{entriesDesc, bytesDesc, readsDesc, askedDesc, marksDesc, sinceDesc, statusDesc, jobsDesc, jobAgeDesc, diskDesc, freeDesc, lookupsDesc, hotDesc, intentsDesc, writableDesc, unlikeDesc} {
		ch <- d
	}
}

func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	st := c.store.Stats()
	for _, def := range c.store.Indexes() {
		s := st.Indexes[def.ID]
		gauge(entriesDesc, float64(s.Entries), def.Schema, def.Table, def.Name)
		gauge(marksDesc, float64(s.Unknown.Intersect(c.directory.Catalog().All).Len()), def.Schema, def.Table, def.Name)
		since := 0.0
		if !s.UnknownSince.IsZero() {
			since = float64(s.UnknownSince.Unix())
		}
		gauge(sinceDesc, since, def.Schema, def.Table, def.Name)
		gauge(bytesDesc, float64(s.Bytes), def.Schema, def.Table, def.Name)
		f := c.fanout(def.ID)
		counter(readsDesc, f.Reads, def.Schema, def.Table, def.Name)
		counter(askedDesc, f.Shards-f.Vain, def.Schema, def.Table, def.Name, "found")
		counter(askedDesc, f.Vain, def.Schema, def.Table, def.Name, "vain")
		gauge(statusDesc, 1, def.Schema, def.Table, def.Name, string(def.Status))
	}
	type key struct{ typ, state string }
	count, oldest := map[key]int{}, map[key]time.Time{}
	for _, j := range c.store.Jobs() {
		k := key{j.Type, string(j.State)}
		count[k]++
		if t, ok := oldest[k]; !ok || j.CreatedAt.Before(t) {
			oldest[k] = j.CreatedAt
		}
	}
	for k, n := range count {
		gauge(jobsDesc, float64(n), k.typ, k.state)
		gauge(jobAgeDesc, time.Since(oldest[k]).Seconds(), k.typ, k.state)
	}
	if _, onServers := c.store.(*shared.Store); !onServers { // of whose disks nothing is known: a 0 would be an alert
		gauge(diskDesc, float64(st.DiskBytes))
		gauge(freeDesc, float64(st.FreeBytes))
	}
	gauge(intentsDesc, float64(st.Intents))
	gauge(hotDesc, float64(st.HotBytes))
	counter(lookupsDesc, st.HotHits, "hit")
	counter(lookupsDesc, st.HotMisses, "miss")
	writable := 1.0
	if st.Writable != nil {
		writable = 0
	}
	gauge(writableDesc, writable)
	unlike := 0
	for t := range c.directory.Catalog().Tables() {
		if t.Unlike {
			unlike++
		}
	}
	gauge(unlikeDesc, float64(unlike))
}

// poolCollector reads the pools' figures.
type poolCollector struct {
	pools map[catalog.ShardID]*shard.Pool
}

var (
	connectionsDesc = prometheus.NewDesc("shunt_shard_connections", "Connections to a shard by state (in_use, idle), and sessions waiting for one.", []string{"shard", "state"}, nil)
	holdersDesc     = prometheus.NewDesc("shunt_user_shard_connections", "Connections to a shard that a user's statements hold (in_use), and those that wait for one (waiting).", []string{"user", "shard", "state"}, nil)
	sharesDesc      = prometheus.NewDesc("shunt_user_shard_connections_refused_total", "Statements that got error 1226 since the user's others held as many connections to a shard as they may.", []string{"user", "shard"}, nil)
	shardUpDesc     = prometheus.NewDesc("shunt_shard_up", "1 while the shard answers.", []string{"shard"}, nil)
	shardDeathsDesc = prometheus.NewDesc("shunt_shard_deaths_total", "How often a shard was judged dead, and all that waited for it failed.", []string{"shard"}, nil)
)

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- connectionsDesc
	ch <- holdersDesc
	ch <- sharesDesc
	ch <- shardUpDesc
	ch <- shardDeathsDesc
}

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	for _, p := range c.pools {
		st := p.Stats()
		for state, n := range map[string]int{"in_use": st.InUse, "idle": st.Idle, "waiting": st.Waiting} {
			ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(n), p.Name(), state)
		}
		for _, h := range p.Holders() {
			ch <- prometheus.MustNewConstMetric(holdersDesc, prometheus.GaugeValue, float64(h.InUse), h.Name, p.Name(), "in_use")
			ch <- prometheus.MustNewConstMetric(holdersDesc, prometheus.GaugeValue, float64(h.Waiting), h.Name, p.Name(), "waiting")
			ch <- prometheus.MustNewConstMetric(sharesDesc, prometheus.CounterValue, float64(h.Refused), h.Name, p.Name())
		}
		up := 1.0
		if p.State() == "down" {
			up = 0
		}
		ch <- prometheus.MustNewConstMetric(shardUpDesc, prometheus.GaugeValue, up, p.Name())
		if h := p.Health(); h != nil {
			ch <- prometheus.MustNewConstMetric(shardDeathsDesc, prometheus.CounterValue, float64(h.Deaths()), p.Name())
		}
	}
}
