package console

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// figures are metrics, as /metrics has them, by their names.
type figures map[string]*dto.MetricFamily

func (x *site) figures() figures {
	f := figures{}
	families, _ := x.gather.Gather() // what could be gathered
	for _, m := range families {
		f[m.GetName()] = m
	}
	return f
}

// label is one that a metric has to have.
type label struct{ name, value string }

// sum is a metric's value, over all that have the labels.
func (f figures) sum(name string, labels ...label) (sum float64) {
	for _, m := range f[name].GetMetric() {
		lacks := slices.ContainsFunc(labels, func(want label) bool {
			return !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == want.name && l.GetValue() == want.value })
		})
		if !lacks {
			sum += valueOf(m)
		}
	}
	return sum
}

// valueOf is a counter's or gauge's value, and how many a histogram has counted.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetUntyped().GetValue()
}

// number is a metric's value for people.
func number(v float64) string {
	if v == float64(int64(v)) {
		return count(int64(v))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// table has a row for each value of some metrics.
func (f figures) table(label, empty string, names ...string) table {
	t := table{Label: label, Empty: empty, Columns: []heading{{Label: "Metric"}, {Label: "Of"}, {Label: "Value", Number: true}, {Label: "Meaning"}}}
	for _, name := range names {
		m := f[name]
		var rows [][]cell
		for _, x := range m.GetMetric() {
			var of []string
			for _, l := range x.GetLabel() {
				of = append(of, l.GetValue())
			}
			value := number(valueOf(x))
			if h := x.GetHistogram(); h.GetSampleCount() > 0 {
				value += ", mean " + number(h.GetSampleSum()/float64(h.GetSampleCount()))
			}
			rows = append(rows, []cell{{Text: name, Code: true}, {Text: strings.Join(of, ", ")}, {Text: value, Number: true}, {Text: m.GetHelp(), Class: "wide"}})
		}
		slices.SortFunc(rows, func(a, b []cell) int { return strings.Compare(a[1].Text, b[1].Text) })
		t.Rows = append(t.Rows, rows...)
	}
	return t
}
