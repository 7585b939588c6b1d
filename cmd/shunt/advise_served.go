package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
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
	stats, err := s.tableStats(ctx, cat)
	if err != nil {
		return nil, err
	}
	src := &advise.Source{Stats: stats, Shapes: work.Shapes()}
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

// tableStats are by the shards' statistics.
func (s *service) tableStats(ctx context.Context, cat *catalog.Catalog) (map[catalog.TableName]advise.Stats, error) {
	stats := map[catalog.TableName]advise.Stats{}
	for _, sh := range cat.Shards {
		q, done, err := s.placed.open(ctx, sh.ID)
		if err != nil {
			return nil, err
		}
		err = addStats(ctx, q, stats)
		done()
		if err != nil {
			return nil, fmt.Errorf("read the statistics of shard %s: %w", sh.Name, err)
		}
	}
	for _, of := range stats {
		for column, n := range of.Distinct {
			of.Distinct[column] = distinct(len(cat.Shards), of.Rows, float64(n)/float64(len(cat.Shards)))
		}
	}
	return stats, nil
}

// addStats adds a shard's. The values of a column are counted once for each shard.
func addStats(ctx context.Context, q querier, stats map[catalog.TableName]advise.Stats) error {
	number := func(raw []byte) uint64 {
		n, _ := strconv.ParseUint(string(raw), 10, 64)
		return n
	}
	rows, err := q.Rows(ctx, tableSizes)
	if err != nil {
		return err
	}
	for _, r := range rows {
		n := catalog.TableName{Schema: string(r[0]), Name: string(r[1])}
		of := stats[n]
		if of.Distinct == nil {
			of.Distinct = map[string]uint64{}
		}
		of.Rows, of.Bytes = of.Rows+number(r[2]), of.Bytes+number(r[3])
		stats[n] = of
	}
	rows, err = q.Rows(ctx, columnValues)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if of, ok := stats[catalog.TableName{Schema: string(r[0]), Name: string(r[1])}]; ok {
			of.Distinct[string(r[2])] += number(r[3])
		}
	}
	return nil
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
