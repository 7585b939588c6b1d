package proxy

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestHistograms: what is counted shows as it would in a prometheus.Histogram.
func TestHistograms(t *testing.T) {
	t.Parallel()
	bounds := prometheus.ExponentialBuckets(0.0001, 3, 12)
	ours := newHistograms("seconds", "Help.", 1e-9, bounds, "plan")
	theirs := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seconds", Help: "Help.", Buckets: bounds}, []string{"plan"})
	for _, d := range []time.Duration{0, 99 * time.Microsecond, 100 * time.Microsecond, 100*time.Microsecond + 1, time.Millisecond, 300 * time.Microsecond, time.Second, time.Hour} {
		ours.with("route").observe(int64(d))
		theirs.WithLabelValues("route").Observe(d.Seconds())
	}
	shown := func(c prometheus.Collector) string {
		reg := prometheus.NewRegistry()
		reg.MustRegister(c)
		all, err := reg.Gather()
		if err != nil || len(all) != 1 {
			t.Fatal(len(all), err)
		}
		h := all[0].GetMetric()[0].GetHistogram()
		h.CreatedTimestamp = nil
		return all[0].String()
	}
	if got, want := shown(ours), shown(theirs); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
