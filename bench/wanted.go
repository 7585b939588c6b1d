package main

import (
	"fmt"
	"strings"
)

// want is a figure that Shunt should show.
type want struct {
	what string
	// case that has it, and what it is.
	series string
	of     func(*series) float64
	least  bool // else at most
	limit  float64
	unit   string
}

// through is Shunt's figure by another target's.
func through(other string, figure func(half) float64) func(*series) float64 {
	return func(s *series) float64 { return s.ratio(ours, other, figure) }
}

// own is Shunt's figure itself, in milliseconds.
func own(figure func(half) float64) func(*series) float64 {
	return func(s *series) float64 { return s.typical(ours, figure) / 1e6 }
}

func wants() (all []want) {
	for _, mode := range []string{"text", "prepared"} {
		for _, n := range []string{"8", "32"} {
			at := "point_select/" + mode + "/" + n
			all = append(all,
				want{at + ": CPU by haproxy's", "one/" + at, through(haproxy, cpu), false, 1.05, ""},
				want{at + ": CPU by Router's", "one/" + at, through(router, cpu), false, 0.75, ""},
				want{at + ": throughput by haproxy's", "one/" + at, through(haproxy, throughput), true, 1, ""},
			)
		}
		for _, n := range []string{"8", "32"} {
			at := "read_write/" + mode + "/" + n
			all = append(all, want{at + ": throughput by haproxy's", "one/" + at, through(haproxy, throughput), true, 1.05, ""})
		}
		one, many := "point_select/"+mode+"/1", "point_select/"+mode+"/256"
		all = append(all,
			want{one + ": p50 by haproxy's", "one/" + one, through(haproxy, p50), false, 1.15, ""},
			want{many + ": p99 by haproxy's", "one/" + many, through(haproxy, p99), false, 1.5, ""},
		)
	}
	all = append(all, want{streamCase + ": throughput by direct", "one/" + streamCase, through(direct, throughput), true, 0.9, ""})
	for _, mode := range []string{"text", "prepared"} {
		for _, c := range []struct {
			name  string
			limit float64
		}{
			{"by_key", 0.60}, {"by_index", 0.52}, {"update_unindexed", 0.80}, {"update_literal", 0.75}, {"insert_1", 0.75}, {"delete", 0.75},
		} {
			at := c.name + "/" + mode
			all = append(all, want{at + ": throughput by the shard-aware client's", "four/" + at, through(shardAware, throughput), true, c.limit, ""})
		}
		all = append(all,
			want{"by_key/" + mode + ": CPU a statement", "four/by_key/" + mode, own(cpu), false, 0.028, " ms"},
			want{"by_index/" + mode + ": CPU a statement", "four/by_index/" + mode, own(cpu), false, 0.035, " ms"},
		)
		by := func(c comparison, name string, limit float64) {
			at := c.prefix + name + "/" + mode
			all = append(all, want{at + ": throughput, " + c.sides[1].name + " by " + c.sides[0].name, at, c.ratio(throughput), true, limit, ""})
		}
		stores := func(name string, limit float64) { by(storesCompared, name, limit) }
		stores("by_key", 0.98)
		stores("by_index", 0.60)
		stores("update_unindexed", 0.98)
		stores("update_new", 0.50)
		stores("update_known", 0.95)
		stores("insert", 0.50)
		stores("insert_ten", 0.75)
		stores("delete", 0.95)
		alone := storesCompared.prefix + "by_index_alone/" + mode
		all = append(all, want{alone + ": p50 by the local store's", alone, storesCompared.ratio(p50), false, 1.8, ""})
		for _, c := range followCompared.cases() {
			if c.beside != nil {
				by(followCompared, c.name, 0.97)
			}
		}
		for _, c := range []comparison{insightsCompared, tracingCompared} {
			at := c.prefix + pointRead[0] + "/" + mode
			all = append(all, want{at + ": CPU, " + c.sides[1].name + " by " + c.sides[0].name, at, c.ratio(cpu), false, 1.01, ""})
		}
		inside := func(name, target, base string, limit float64) {
			all = append(all, want{
				name + "/" + mode + ": throughput, " + target + " by " + base, "inside/" + name + "/" + mode,
				func(s *series) float64 { return s.ratio(target, base, throughput) }, true, limit, "",
			})
		}
		inside("index_for_scatter", byIndex, scatter, 3)
		inside("update_literal", twoIndexes, noIndex, 0.95)
		inside("insert", threeIndexes, noIndex, 0.85)
	}
	return all
}

// writeWanted sets what is wanted beside what was measured.
func (r *report) writeWanted(w *strings.Builder) {
	first := true
	for _, want := range wants() {
		for _, s := range r.results {
			if s.name != want.series {
				continue
			}
			got := want.of(s)
			if got == 0 {
				continue // a peer that isn't on this machine
			}
			if first {
				fmt.Fprintf(w, "\n## Wanted and measured\n\n| what | wanted | measured | |\n| --- | --- | --- | --- |\n")
				first = false
			}
			bound, met := "at most", got <= want.limit
			if want.least {
				bound, met = "at least", got >= want.limit
			}
			verdict := "missed"
			if met {
				verdict = "met"
			}
			fmt.Fprintf(w, "| %s | %s %.4g%s | %.3f%s | %s |\n", want.what, bound, want.limit, want.unit, got, want.unit, verdict)
		}
	}
}
