package main

import (
	"strings"
	"testing"
	"time"
)

// What sysbench 1.0.20 prints, shortened: the first report is the warm-up's.
const sysbenchOutput = `
[ 1s ] Checkpoint report:
SQL statistics:
    queries performed:
        total:                           6126
    transactions:                        302    (301.60 per sec.)
    queries:                             6126   (6117.97 per sec.)

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.090 |**************************************** 60
       0.162 |************************                 35
       9.910 |***                                      4
      12.000 |*                                        1
 
SQL statistics:
    queries performed:
        total:                           14054
    transactions:                        707    (351.14 per sec.)
    queries:                             14054  (6980.17 per sec.)
`

func TestReadSysbench(t *testing.T) {
	times := []time.Duration{time.Second, 2 * time.Second}
	h, _, err := readSysbench(strings.NewReader(sysbenchOutput), func() (time.Duration, error) {
		now := times[0]
		times = times[1:]
		return now, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.statements != 6980.17 || h.cpu != time.Second/14054 {
		t.Errorf("got %+v", h)
	}
	// Each is within its bucket.
	for _, p := range []struct {
		got, above, most time.Duration
	}{
		{h.p50, 88 * time.Microsecond, 90 * time.Microsecond},
		{h.p95, 161 * time.Microsecond, 162 * time.Microsecond}, // the bucket's last
		{h.p99, 9900 * time.Microsecond, 9910 * time.Microsecond},
	} {
		if p.got <= p.above || p.got > p.most {
			t.Errorf("got %s, want more than %s and at most %s", p.got, p.above, p.most)
		}
	}
	if _, _, err := readSysbench(strings.NewReader("FATAL: unable to connect"), func() (time.Duration, error) { return 0, nil }); err == nil {
		t.Error("no error for an output without reports")
	}
}
