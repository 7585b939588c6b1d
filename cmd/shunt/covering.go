package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
)

// kept are the answers of covering indexes for the proxy.
type kept struct{ *cover.Answers }

// keptAnswers are nil where none are kept.
func keptAnswers(a *cover.Answers) proxy.Answers {
	if a == nil {
		return nil
	}
	return kept{a}
}

// Get implements proxy.Answers.
func (k kept) Get(key []byte, fast bool) (value any, ok bool) {
	value, of := k.Answers.Get(key, fast)
	return value, of == cover.Answered
}

// Begin implements proxy.Answers.
func (k kept) Begin(indexes []*catalog.Index) proxy.Fill {
	if f := k.Answers.Begin(indexes); f != nil {
		return f
	}
	return nil
}

// keptMetrics tell of them.
func keptMetrics(reg prometheus.Registerer, a *cover.Answers) {
	for _, o := range cover.Outcomes() {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shunt_covered_reads_total", ConstLabels: prometheus.Labels{"outcome": o.String()},
			Help: "Reads that a covering index may answer, by outcome: answered by Shunt; sent to the shards, for no answer was kept (absent), what it is of has changed since (changed), or a write of its table is under way (written).",
		}, func() float64 { return float64(a.Reads[o].Load()) }))
	}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_kept_answers", Help: "Answers that are kept for covering indexes."}, func() float64 { return float64(a.Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_kept_answers_bytes", Help: "Memory that they take (kept_answers bounds it)."}, func() float64 { return float64(a.Bytes()) }),
	)
}
