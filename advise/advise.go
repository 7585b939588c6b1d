package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// fewRows are what tables of a developer's server have.
const fewRows = 10_000

// Report is the advice.
type Report struct {
	Shards int `json:"shards"`
	// Executions are those of the statements that were read, of that many shapes.
	Executions uint64            `json:"executions"`
	Shapes     int               `json:"shapes"`
	Tables     []TableAdvice     `json:"tables"`
	Indexes    []IndexAdvice     `json:"indexes"`
	Shares     map[Route]float64 `json:"shares"`
	// Reached is to how many shards a statement goes, on average.
	Reached    float64           `json:"reached"`
	Statements []StatementAdvice `json:"statements"`
	Broken     []Broken          `json:"broken"`
	Notes      []string          `json:"notes,omitempty"`
}

// TableAdvice places a table.
type TableAdvice struct {
	Schema    string `json:"schema"`
	Table     string `json:"table"`
	Placement string `json:"placement"`
	ShardKey  string `json:"shard_key,omitempty"`
	Rows      uint64 `json:"rows"`
	Bytes     uint64 `json:"bytes"`
	// Executions name the table, of which OneShard, a share, go to one shard.
	Executions uint64  `json:"executions"`
	OneShard   float64 `json:"one_shard"`
	// Beside are tables whose joins with it stay on a shard.
	Beside []string `json:"beside,omitempty"`
}

// IndexAdvice is a virtual index to make.
type IndexAdvice struct {
	Name    string   `json:"name"`
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	// FanOut is to how many shards a key leads, by Basis: unique, sample or statistics.
	FanOut float64 `json:"fan_out"`
	Basis  string  `json:"basis"`
	// Executions would be routed by it; Writes keep it.
	Executions uint64 `json:"executions"`
	Writes     uint64 `json:"writes"`
	Create     string `json:"create"`
}

// StatementAdvice is what would become of a shape.
type StatementAdvice struct {
	Schema     string  `json:"schema"`
	Digest     string  `json:"digest"`
	Executions uint64  `json:"executions"`
	Seconds    float64 `json:"seconds"`
	Route      Route   `json:"route"`
	Shards     float64 `json:"shards"`
	Access     string  `json:"access,omitempty"`
	Reason     string  `json:"reason,omitempty"`
}

// Broken is a key that the shards would look after no longer, each by itself.
type Broken struct {
	Kind    string   `json:"kind"` // unique key, foreign key
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Why     string   `json:"why"`
}

// Advise makes the report, and the design that it is about. When ctx's time is up, it is by what was
// tried until then.
func Advise(ctx context.Context, src *Source) (*Report, *Design, error) {
	base, err := src.Build(Design{})
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema: %w", err)
	}
	j := &judge{planner: planner.New(), shards: len(base.Shards), trials: trialsToChoose}
	s := newSearch(ctx, src, base, j)
	j.fan = s.usualFan
	s.run()
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return nil, nil, err
	}
	at, err := src.Build(s.design)
	if err != nil {
		return nil, nil, fmt.Errorf("place the tables: %w", err)
	}
	chosen := s.indexes(ctx, at)
	fans := map[string]float64{}
	for _, x := range chosen {
		s.design.Indexes = append(s.design.Indexes, Index{Table: nameOf(x.of.Table), Name: x.Name, Columns: columnNames(x.Columns)})
		fans[indexKey(x.of, x.Columns)] = x.fan
	}
	if at, err = src.Build(s.design); err != nil {
		return nil, nil, fmt.Errorf("build the virtual indexes: %w", err)
	}
	j.fan = func(ix *catalog.Index) float64 { return fans[indexKey(s.tables[nameOf(ix.Table)], ix.Columns)] }
	j.trials = trialsToReport
	return s.report(at, chosen), &s.design, nil
}

func columnNames(columns []*catalog.Column) (out []string) {
	for _, c := range columns {
		out = append(out, c.Name)
	}
	return out
}

// report is of the catalog that a Shunt would have under the design.
func (s *search) report(at *catalog.Catalog, chosen []*candidate) *Report {
	r := &Report{Shards: s.shards, Shapes: len(s.src.Shapes), Shares: map[Route]float64{}, Notes: s.notes}
	verdicts := map[*Shape]Verdict{}
	reads := map[string]uint64{}
	counted, reached := 0.0, 0.0
	for _, shape := range s.src.Shapes {
		v := s.judge.of(shape, at)
		verdicts[shape] = v
		r.Executions += shape.Calls
		r.Shares[v.Route] += float64(shape.Calls)
		for _, ix := range uniq(v.indexes) {
			reads[indexKey(s.tables[nameOf(ix.Table)], ix.Columns)] += shape.Calls
		}
		switch v.Route {
		case One, Few, All, Copied:
			counted += float64(shape.Calls)
			reached += v.Shards * float64(shape.Calls)
		case Refused, Session, DDL, Unread:
		}
		r.Statements = append(r.Statements, StatementAdvice{
			Schema: shape.Schema, Digest: shape.Digest, Executions: shape.Calls, Seconds: shape.Seconds,
			Route: v.Route, Shards: v.Shards, Access: v.Access, Reason: v.Reason,
		})
	}
	for route := range r.Shares {
		r.Shares[route] /= max(1, float64(r.Executions))
	}
	r.Reached = reached / max(1, counted)
	slices.SortStableFunc(r.Statements, func(a, b StatementAdvice) int {
		return cmp.Or(cmp.Compare(weight[b.Route], weight[a.Route]), cmp.Compare(b.Executions, a.Executions))
	})
	for _, n := range s.names {
		r.Tables = append(r.Tables, s.tableAdvice(n, verdicts))
		r.Broken = append(r.Broken, s.broken(n)...)
	}
	for _, x := range chosen {
		a := x.advice()
		a.Executions = reads[indexKey(x.of, x.Columns)]
		r.Indexes = append(r.Indexes, a)
	}
	largest := uint64(0)
	for _, t := range s.tables {
		largest = max(largest, t.stats.Rows)
	}
	if largest < fewRows {
		r.Notes = append(r.Notes, fmt.Sprintf("no table has more than %d rows, and what is small is advised to be on every shard: ask a server that has the application's real data", largest))
	}
	if s.left <= 0 {
		r.Notes = append(r.Notes, "not all placements were tried: name one schema in the DSN, or take a log of fewer statements")
	}
	return r
}

func (x *candidate) advice() IndexAdvice {
	a := IndexAdvice{
		Name: x.Name, Schema: x.of.Schema, Table: x.of.Name, Columns: columnNames(x.Columns), FanOut: x.fan, Basis: x.basis,
		Create: fmt.Sprintf("CREATE VIRTUAL INDEX %s ON %s (%s)", x.Name, catalog.QuoteTable(x.of.Schema, x.of.Name), catalog.QuoteColumns(x.Columns)),
	}
	for _, shape := range x.of.shapes {
		if touches(shape, x) {
			a.Writes += shape.Calls
		}
	}
	return a
}

func uniq(indexes []*catalog.Index) []*catalog.Index {
	var out []*catalog.Index
	for _, ix := range indexes {
		if !slices.Contains(out, ix) {
			out = append(out, ix)
		}
	}
	return out
}

func (s *search) tableAdvice(n catalog.TableName, verdicts map[*Shape]Verdict) TableAdvice {
	t, p := s.tables[n], s.design.Placements[n]
	a := TableAdvice{Schema: n.Schema, Table: n.Name, Placement: p.Placement.String(), ShardKey: p.Key, Rows: t.stats.Rows, Bytes: t.stats.Bytes}
	one := 0.0
	beside := map[string]bool{}
	for _, shape := range t.shapes {
		v := verdicts[shape.Shape]
		a.Executions += shape.Calls
		if v.Route != One {
			continue
		}
		one += float64(shape.Calls)
		for _, m := range shape.names {
			if m != n && s.design.Placements[m].Placement == catalog.Hash && p.Placement == catalog.Hash {
				beside[m.Name] = true
			}
		}
	}
	for _, fk := range s.src.ForeignKeys {
		if p.Placement == catalog.Hash && fk.Table == n && fk.Parent != n && s.design.Placements[fk.Parent].Placement == catalog.Hash && holds(s.base, s.design, fk) {
			beside[fk.Parent.Name] = true
		}
	}
	for m := range beside {
		a.Beside = append(a.Beside, m)
	}
	slices.Sort(a.Beside)
	a.OneShard = one / max(1, float64(a.Executions))
	return a
}

// broken are a table's keys that hold on each shard only.
func (s *search) broken(n catalog.TableName) (out []Broken) {
	t, p := s.tables[n], s.design.Placements[n]
	if p.Placement == catalog.Hash {
		for _, u := range t.Unique {
			if !slices.Contains(u, t.Column(p.Key)) && !countedKey(u) {
				out = append(out, Broken{"unique key", n.Schema, n.Name, columnNames(u), "it lacks the shard key " + p.Key + ": it holds on each shard, not over all"})
			}
		}
		if len(t.OtherUnique) > 0 {
			out = append(out, Broken{"unique key", n.Schema, n.Name, nil, "one of prefixes or expressions holds on each shard, not over all"})
		}
	}
	for _, fk := range s.src.ForeignKeys {
		if fk.Table == n && !holds(s.base, s.design, fk) {
			out = append(out, Broken{"foreign key", n.Schema, n.Name, fk.Columns, fmt.Sprintf(
				"rows of %s may be on another shard than those of %s(%s) that they refer to: such rows are refused (1452), so drop %s",
				n.Name, fk.Parent.Name, strings.Join(fk.Refers, ", "), fk.Name)})
		}
	}
	return out
}
