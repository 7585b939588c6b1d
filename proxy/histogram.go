package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// histograms count whole numbers, nanoseconds or shards, by the value of a label. Each statement is
// counted in two, and prometheus.Histogram takes two hundred instructions for one.
type histograms struct {
	desc *prometheus.Desc
	// unit is what a whole number is of what is shown: 1e-9 for nanoseconds that are shown as seconds.
	unit   float64
	bounds []float64 // upper ones of all buckets but the last, as shown
	mu     sync.Mutex
	of     map[string]*histogram // by the label's value, "" where there is none
}

// histogram is one of histograms. Most numbers fall into its first buckets.
type histogram struct {
	bounds []int64
	counts []atomic.Uint64
	sum    atomic.Int64
}

func newHistograms(name, help string, unit float64, bounds []float64, labels ...string) *histograms {
	return &histograms{desc: prometheus.NewDesc(name, help, labels, nil), unit: unit, bounds: bounds, of: map[string]*histogram{}}
}

// with is the histogram of a label's value.
func (hs *histograms) with(label string) *histogram {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.of[label]
	if h == nil {
		h = &histogram{counts: make([]atomic.Uint64, len(hs.bounds)+1)}
		for _, b := range hs.bounds {
			h.bounds = append(h.bounds, int64(b/hs.unit+0.5))
		}
		hs.of[label] = h
	}
	return h
}

func (h *histogram) observe(n int64) {
	i := 0
	for i < len(h.bounds) && n > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(n)
}

// Describe implements prometheus.Collector.
func (hs *histograms) Describe(ch chan<- *prometheus.Desc) { ch <- hs.desc }

// Collect implements prometheus.Collector.
func (hs *histograms) Collect(ch chan<- prometheus.Metric) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for label, h := range hs.of {
		count, buckets := uint64(0), make(map[float64]uint64, len(hs.bounds))
		for i := range h.counts {
			count += h.counts[i].Load()
			if i < len(hs.bounds) {
				buckets[hs.bounds[i]] = count
			}
		}
		var labels []string
		if label != "" {
			labels = []string{label}
		}
		ch <- prometheus.MustNewConstHistogram(hs.desc, count, float64(h.sum.Load())*hs.unit, buckets, labels...)
	}
}
