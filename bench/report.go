package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// report is what a run measured; parts that it left out are nil.
type report struct {
	b       *bench
	began   time.Time
	results []*series
	pairs   *pairs
	scans   *scanned
}

func (r *report) text() string {
	var w strings.Builder
	fmt.Fprintf(&w, "# Benchmarks\n\nWritten by `make bench`. Load, proxy and servers share one machine, so ratios say more than absolute figures, and a proxy's\n"+
		"processor time per statement says most. What is compared is measured in turns, in an order that changes; each figure is the median\n"+
		"of %d rounds of %d s (%d s inside Shunt), after a warm-up. The servers write their binary log and are fully durable.\n\n",
		r.b.rounds, r.b.seconds, insideLonger*r.b.seconds)
	fmt.Fprintf(&w, "- %s\n- %s\n", machine(), r.b.source.Name())
	for _, version := range r.b.versions {
		fmt.Fprintf(&w, "- %s\n", version)
	}
	if r.b.sessions {
		fmt.Fprintf(&w, "- each program in a session of its own, as services are\n")
	}
	fmt.Fprintf(&w, "- %d rows in each table, %d in sysbench's; %s\n", r.b.rows, sysbenchRows, time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&w, "- measured in %s; other processes kept the processors %.0f %% busy before\n", time.Since(r.began).Round(time.Second), 100*r.b.busy)
	r.writeWanted(&w)
	r.writeSeries(&w, "one/", "One shard", "sysbench 1.0 against one server: straight, and through each proxy. For Shunt its table is sharded, over this one shard.")
	r.writeSeries(&w, "four/", "Four shards", fmt.Sprintf(
		"go-sql-driver with %d connections. The yardstick is a client that knows where each row is and goes straight to that shard; where\n"+
			"every shard has to be asked, it asks all at once. It works on tables of its own with the same rows.", loadConnections))
	r.writeSeries(&w, "inside/", "Inside Shunt", "The same load through Shunt on both sides: what virtual indexes cost and bring.")
	for _, c := range compared {
		r.writeSeries(&w, c.prefix, c.title, c.text())
	}
	r.writeSeries(&w, "contention/", "Contention over four shards", fmt.Sprintf("%d connections swap two of so many rows, which they find by an index and lock one after the other (FOR UPDATE), through Shunt and on one server. Victims of deadlocks begin again.", swappers))
	r.writeSeries(&w, "ddl/", "DDL over three shards", "One connection through Shunt before three servers, straight to one, and straight to the three, first to one and then to the others at once: each statement beside so many tables of another schema.")
	r.writePairs(&w)
	if len(r.b.failures) > 0 {
		fmt.Fprintf(&w, "\n## Not measured\n\n")
		for _, err := range r.b.failures {
			line, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Fprintf(&w, "- %s\n", line)
		}
	}
	return w.String()
}

// writeSeries is the table of the cases whose names begin so.
func (r *report) writeSeries(w *strings.Builder, prefix, heading, about string) {
	first := true
	for _, s := range r.results {
		if !strings.HasPrefix(s.name, prefix) {
			continue
		}
		if first {
			fmt.Fprintf(w, "\n## %s\n\n%s\n\n", heading, about)
			fmt.Fprintf(w, "| case | through | throughput | lowest to highest | p50 | p95 | p99 | CPU of the proxy |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
			first = false
		}
		name := strings.TrimPrefix(s.name, prefix)
		of := func(target string, figure func(half) float64) string {
			if x := s.typical(target, figure); x > 0 {
				return milliseconds(x) + " ms"
			}
			return ""
		}
		fmt.Fprintf(w, "| %s | %s | %.0f/s | | %s | %s | %s | %s |\n", name, s.base, s.typical(s.base, throughput),
			of(s.base, p50), of(s.base, p95), of(s.base, p99), of(s.base, cpu))
		for _, t := range s.targets {
			if t == s.base {
				continue
			}
			ratio := func(figure func(half) float64) string {
				if x := s.ratio(t, s.base, figure); x > 0 {
					return fmt.Sprintf("%.2f", x)
				}
				return ""
			}
			ratios := s.ratios(t, s.base, throughput)
			fmt.Fprintf(w, "| | %s | %.3f | %.2f to %.2f | %s | %s | %s | %s |\n", t, s.ratio(t, s.base, throughput), slices.Min(ratios), slices.Max(ratios),
				ratio(p50), ratio(p95), ratio(p99), of(t, cpu))
		}
	}
	if !first {
		fmt.Fprintf(w, "\nThe first line of a case has its figures, the others' throughput and latencies are ratios to it, with the rounds' lowest and highest.\n")
	}
}

func (r *report) writePairs(w *strings.Builder) {
	if r.pairs == nil && r.scans == nil {
		return
	}
	fmt.Fprintf(w, "\n## One connection\n\nMedians of %d pairs of %d statements in turns; a ratio is the median of the pairs' ratios.\n\n", r.b.statements().pairs, r.b.statements().perHalf)
	fmt.Fprintf(w, "| what | A | B | A/B | middle half | wanted |\n| --- | --- | --- | --- | --- | --- |\n")
	if p := r.pairs; p != nil {
		row := func(what string, p pairsOf, wanted string) {
			fmt.Fprintf(w, "| %s | %s | %s | %.3f | %s | %s |\n", what, median(p.a).Round(time.Microsecond), median(p.b).Round(time.Microsecond), p.ratio(), p.spread(), wanted)
		}
		row("UPDATE of an indexed column by shard key: A with two virtual indexes, B with none", p.updates, "at most 1.05")
		row("The same of both indexed columns", p.both, "")
		row("SELECT by shard key: A through Shunt, B direct", p.selects, "")
		row("SELECT of one row: A by virtual index, B by shard key", p.byIndex, "")
		row(fmt.Sprintf("Transaction that writes to all %d shards: A through Shunt, B straight to one after the other", shards), p.transactions, "")
		row(fmt.Sprintf("CREATE TABLE and DROP TABLE beside %d tables: A through Shunt, B straight to one shard after the other", otherTables), p.ddl, "")
	}
	if s := r.scans; s != nil {
		fmt.Fprintf(w, "| Rows a second of one column: A a maintenance scan, B %s | %.0f | %.0f | %.3f | | at least 0.7 |\n", s.client, s.reading, s.plain, s.reading/s.plain)
		fmt.Fprintf(w, "| The same over the whole job: A also connects and reads the index of all shards | %.0f | %.0f | %.3f | |  |\n", s.job, s.plain, s.job/s.plain)
		fmt.Fprintf(w, "\nBuilding a virtual index over %d rows: %s, from CREATE VIRTUAL INDEX until it is ready.\n", r.b.rows, s.build.Round(time.Millisecond))
	}
	if p := r.pairs; p != nil {
		fmt.Fprintf(w, "\nCPU of the proxy: %s a SELECT by shard key, %s an UPDATE with no virtual index, %s one with two (maintenance included).\n",
			p.cpu.Round(100*time.Nanosecond), p.plainCPU.Round(100*time.Nanosecond), p.updateCPU.Round(100*time.Nanosecond))
	}
}
