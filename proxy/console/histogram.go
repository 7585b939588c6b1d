package console

import (
	"fmt"
	"math"
	"time"

	"github.com/shunt-sql/shunt/proxy/insights"
)

// histogram is one that is drawn.
type histogram struct {
	Label         string
	Width, Height float64
	// Floor is where bars stand, Legend the line of texts below.
	Floor, Legend float64
	Bars          []bar
	Ticks, Marks  []mark
}

type bar struct {
	X, Y, W, H float64
	Title      string
}

// mark is a line at a time.
type mark struct {
	Time time.Duration
	X    float64
	Text string
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// bars are of buckets, between two times, on a logarithmic scale.
func bars(buckets []insights.Bucket, from, to time.Duration, x0, width, floor, height, gap float64) (out []bar) {
	var most, all uint64
	for _, b := range buckets {
		most, all = max(most, b.Count), all+b.Count
	}
	at := scale(from, to, x0, width)
	for i, b := range buckets {
		begin := max(from, b.Below*4/5) // it is a quarter of an octave
		if i > 0 {
			begin = buckets[i-1].Below
		}
		if b.Count == 0 {
			continue
		}
		h := max(1, height*float64(b.Count)/float64(most))
		left, right := at(begin), at(b.Below)
		title := fmt.Sprintf("%s to %s: %s (%.1f %%)", spoken(begin), spoken(b.Below), count(b.Count), 100*float64(b.Count)/float64(all))
		out = append(out, bar{round(left), round(floor - h), round(max(1, right-left-gap)), round(h), title})
	}
	return out
}

func scale(from, to time.Duration, x0, width float64) func(time.Duration) float64 {
	low, high := math.Log(float64(from)), math.Log(float64(to))
	return func(d time.Duration) float64 {
		return x0 + width*(math.Log(float64(max(d, 1)))-low)/(high-low)
	}
}

// extent is from where to where buckets go: at least over a decade, so that few look as such.
func extent(buckets ...[]insights.Bucket) (from, to time.Duration) {
	for _, b := range buckets {
		if len(b) == 0 {
			continue
		}
		if first := b[0].Below * 4 / 5; from == 0 || first < from {
			from = first
		}
		to = max(to, b[len(b)-1].Below)
	}
	if to < 10*from {
		middle := math.Sqrt(float64(from) * float64(to))
		from, to = time.Duration(middle/math.Sqrt(10)), time.Duration(middle*math.Sqrt(10))
	}
	return from, to
}

// spark is a small one.
func spark(label string, buckets []insights.Bucket) *histogram {
	if len(buckets) == 0 {
		return nil
	}
	h := &histogram{Label: label, Width: 110, Height: 24}
	from, to := extent(buckets)
	h.Bars = bars(buckets, from, to, 0, h.Width, h.Height, h.Height, 0.5)
	return h
}

// drawHistogram is one with times below it, and marks, in ascending order.
func drawHistogram(label string, buckets []insights.Bucket, from, to time.Duration, marks ...mark) *histogram {
	if len(buckets) == 0 {
		return nil
	}
	const left, width = 24, 672
	h := &histogram{Label: label, Width: left + width + 24, Height: 170, Floor: 146, Legend: 162, Marks: marks}
	h.Bars = bars(buckets, from, to, left, width, h.Floor, 124, 1)
	at := scale(from, to, left, width)
	for decade := time.Microsecond; decade < 1000*time.Hour; decade *= 10 {
		for _, n := range []int{1, 2, 5} {
			if d := time.Duration(n) * decade; d >= from && d <= to && (n == 1 || to < 1000*from) {
				h.Ticks = append(h.Ticks, mark{Time: d, X: round(at(d)), Text: spoken(d)})
			}
		}
	}
	last := -100.0
	for i := range h.Marks {
		x := min(max(at(h.Marks[i].Time), left), left+width)
		if h.Marks[i].X = round(x); x-last < 30 { // two texts would be one over the other
			h.Marks[i].Text = ""
		} else {
			last = x
		}
	}
	return h
}

// spoken is a time by its unit: 340 µs, 1.2 ms, 3 s.
func spoken(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= unit.of || unit.of == time.Microsecond {
			n := float64(d) / float64(unit.of)
			switch {
			case n >= 100 || n == math.Trunc(n):
				return fmt.Sprintf("%.0f %s", n, unit.name)
			case n >= 10:
				return fmt.Sprintf("%.1f %s", n, unit.name)
			}
			return fmt.Sprintf("%.2f %s", n, unit.name)
		}
	}
	return d.String()
}
