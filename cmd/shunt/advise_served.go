package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/insights"
)

const (
	// advisedShapes are the shapes, those that took longest, that SHOW INDEX ADVICE goes by.
	advisedShapes = 500
	adviceTime    = 30 * time.Second
	// fewReads say little of how many shards a key leads to.
	fewReads = 100
)

// indexAdvice is proxy.Options'.
func (s *service) indexAdvice(ctx context.Context, shapes []insights.Row) ([]proxy.AdviceRow, error) {
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	cat := s.directory.Load().Catalog()
	slices.SortFunc(shapes, func(a, b insights.Row) int { return cmp.Compare(b.Whole.Total, a.Whole.Total) })
	var work advise.Workload
	for _, r := range shapes[:min(len(shapes), advisedShapes)] {
		if r.ID != 0 { // else they are several
			work.Add(r.Schema, r.Text, "", r.Calls-min(r.Calls, r.Errors), r.Whole.Total.Seconds())
		}
	}
	each, err := s.statsOfShards(ctx, cat)
	if err != nil {
		return nil, err
	}
	samples := s.samples.begin(cat, s.dial, each)
	defer samples.end()
	src := &advise.Source{Stats: together(each), Shapes: work.Shapes(), Sample: samples.of}
	for _, schema := range cat.Schemas {
		src.Schemas = append(src.Schemas, schema.Name)
	}
	x := s.indexer.Load()
	var rows []proxy.AdviceRow
	for _, a := range advise.Served(ctx, src, cat, func(ix *catalog.Index) float64 {
		if f := x.Fanout(ix.ID); f.Reads >= fewReads {
			return float64(f.Shards) / float64(f.Reads)
		}
		return 0
	}) {
		rows = append(rows, proxy.AdviceRow{
			Schema: a.Schema, Table: a.Table, Columns: a.Columns, Executions: a.Executions, Writes: a.Writes, Time: time.Duration(a.Seconds * float64(time.Second)),
			Shards: a.Shards, FanOut: a.FanOut, Basis: a.Basis, Entries: a.Entries, Do: a.Do,
		})
	}
	return rows, ctx.Err()
}

// statsOfShards are each shard's statistics.
func (s *service) statsOfShards(ctx context.Context, cat *catalog.Catalog) (map[catalog.ShardID]tableStats, error) {
	each := map[catalog.ShardID]tableStats{}
	for _, sh := range cat.Shards {
		q, done, err := s.placed.open(ctx, sh.ID)
		if err != nil {
			return nil, err
		}
		each[sh.ID], err = readStats(ctx, q)
		done()
		if err != nil {
			return nil, fmt.Errorf("read the statistics of shard %s: %w", sh.Name, err)
		}
	}
	return each, nil
}

// together are the statistics of all shards.
func together(each map[catalog.ShardID]tableStats) tableStats {
	all := tableStats{}
	for _, stats := range each {
		for n, s := range stats {
			sum, ok := all[n]
			if !ok {
				sum.Distinct = map[string]uint64{}
			}
			sum.Rows, sum.Bytes = sum.Rows+s.Rows, sum.Bytes+s.Bytes
			for column, values := range s.Distinct {
				sum.Distinct[column] += values
			}
			all[n] = sum
		}
	}
	for _, s := range all {
		for column, values := range s.Distinct {
			s.Distinct[column] = distinct(len(each), s.Rows, float64(values)/float64(len(each)))
		}
	}
	return all
}

// distinct is how many values rows have over all shards, where a shard has so many of them on average: with each row on any
// shard, a value of r rows is on a shard with the likelihood 1-(1-1/shards)^r.
func distinct(shards int, rows uint64, onOne float64) uint64 {
	n := float64(shards)
	least, most := onOne, n*onOne
	for range 50 {
		d := (least + most) / 2
		if d*(1-math.Pow(1-1/n, float64(rows)/d)) < onOne {
			least = d
		} else {
			most = d
		}
	}
	return uint64(math.Round(least))
}
