package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
)

// comparison is of two configurations, each with shards and a Shunt of its own. The second is compared with the first.
type comparison struct {
	// prefix is what its cases' names begin with.
	prefix, title, about string
	// loads are the names of its cases; nil: all of comparedCases that have nothing beside them.
	loads []string
	sides []side
}

type side struct {
	name string
	configured
	servers []string // their further arguments
}

// collector stands for the address of one, which takes traces and throws them away.
const collector = "COLLECTOR"

var (
	usual      = configured{store: "local", follow: followAuto}
	followable = []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-row-metadata=FULL"}
	pointRead  = []string{"by_key"}
	// followLoads are reads beside writes, and each of these alone.
	followLoads = []string{"by_key_beside_writes", "by_index_beside_writes", "by_index", "update_unindexed", "update_new", "insert"}

	storesCompared = comparison{
		"stores/", "The store of several Shunts", "Four shards, one Shunt, and its store in `data_dir` or on the shards", nil,
		[]side{{"store: local", usual, nil}, {"store: {shards: true}", configured{store: "{shards: true}", follow: followAuto}, nil}},
	}
	followCompared = comparison{
		"follow/", "Following the binary logs", fmt.Sprintf("Four shards whose logs are followed, or not (`maintenance.follow`). Beside the reads of beside_writes are %d writes a second: update_unindexed, update_new and insert, a third each", writesBeside), followLoads,
		[]side{{"follow: scan", configured{store: "local", follow: "scan"}, followable}, {"follow: auto", usual, followable}},
	}
	insightsCompared = comparison{
		"insights/", "Statistics of statements", "Four shards; statements are counted by shape, or not (`statement_shapes`)", pointRead,
		[]side{{"statement_shapes: 0", configured{store: "local", follow: followAuto, more: "statement_shapes: 0\n"}, nil}, {"statement_shapes: 10000", usual, nil}},
	}
	tracingCompared = comparison{
		"tracing/", "Traces", "Four shards; one of a hundred statements is traced, or none (`tracing`)", pointRead,
		[]side{{"no tracing", usual, nil}, {"tracing: {sample: 0.01}", configured{store: "local", follow: followAuto, more: "tracing: {endpoint: 'http://" + collector + "', sample: 0.01}\n"}, nil}},
	}
	compared = []comparison{storesCompared, followCompared, insightsCompared, tracingCompared}
)

// comparedCase is a load through both.
type comparedCase struct {
	name    string
	query   bool
	workers int
	// batch is how many statements a transaction has; 0: autocommit.
	batch int
	next  func(*sharded) source
	// beside, if not nil, makes writes that are sent beside, at an even rate.
	beside func(*sharded) source
}

// knownValues are those that update_known sets.
const knownValues = 64

func comparedCases() []comparedCase {
	// of is one of the loads over four shards.
	of := func(name string) func(*sharded) source {
		return func(s *sharded) source {
			for _, c := range s.cases() {
				if c.name == "four/"+name {
					return c.source[ours]
				}
			}
			panic("no load " + name)
		}
	}
	known := func(s *sharded) source {
		return func(random *rand.Rand) (statement, error) {
			id, shard := s.id(random)
			return statement{"UPDATE indexed SET email = ?, note = ? WHERE id = ?", []any{fmt.Sprintf("k%d", random.IntN(knownValues)), s.unique.Add(1), id}, shard, 1}, nil
		}
	}
	writes := func(s *sharded) source {
		kinds := []source{of("update_unindexed")(s), of("update_literal")(s), of("insert_1")(s)}
		return func(random *rand.Rand) (statement, error) { return kinds[random.IntN(len(kinds))](random) }
	}
	return []comparedCase{
		{"by_key", true, loadConnections, 0, of("by_key"), nil},
		{"by_index", true, loadConnections, 0, of("by_index"), nil},
		{"by_index_alone", true, 1, 0, of("by_index"), nil},
		{"update_unindexed", false, loadConnections, 0, of("update_unindexed"), nil},
		{"update_new", false, loadConnections, 0, of("update_literal"), nil},
		{"update_known", false, loadConnections, 0, known, nil},
		{"insert", false, loadConnections, 0, of("insert_1"), nil},
		{"insert_ten", false, loadConnections, 10, of("insert_1"), nil},
		{"delete", false, loadConnections, 0, of("delete"), nil},
		{"by_key_beside_writes", true, loadConnections, 0, of("by_key"), writes},
		{"by_index_beside_writes", true, loadConnections, 0, of("by_index"), writes},
	}
}

// cases are the loads of it.
func (c comparison) cases() []comparedCase {
	return slices.DeleteFunc(comparedCases(), func(x comparedCase) bool {
		return c.loads == nil && x.beside != nil || c.loads != nil && !slices.Contains(c.loads, x.name)
	})
}

// names are the cases' names, by how they are sent.
func (c comparison) names() (names []string) {
	for _, of := range c.cases() {
		for _, prepared := range []bool{false, true} {
			names = append(names, c.prefix+of.name+"/"+mode(prepared))
		}
	}
	return names
}

// text introduces its cases in the report.
func (c comparison) text() string {
	text := fmt.Sprintf("%s; %d connections", c.about, loadConnections)
	if c.loads == nil {
		text += fmt.Sprintf(", in by_index_alone one. update_known sets one of %d values, insert_ten commits ten rows at a time", knownValues)
	}
	return text + "."
}

// ratio is a figure of the second side by the first's.
func (c comparison) ratio(figure func(half) float64) func(*series) float64 {
	return func(s *series) float64 { return s.ratio(c.sides[1].name, c.sides[0].name, figure) }
}

// compare measures one configuration by another, where a case of theirs is wanted.
func (b *bench) compare(ctx context.Context, compared comparison) (results []*series, err error) {
	if !slices.ContainsFunc(compared.names(), b.only.MatchString) {
		return nil, nil
	}
	collects := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collects.Close()
	sides, targets := map[string]*bench{}, []target(nil)
	figures := map[string]*sharded{}
	for _, as := range compared.sides {
		side := *b
		side.configured = as.configured
		side.more = strings.ReplaceAll(as.more, collector, collects.Listener.Addr().String())
		if side.stage, err = side.newStage(ctx, shards, 0, as.servers...); err != nil {
			return nil, err
		}
		defer side.stop()
		if side.shunt, err = side.startShunt(ctx, side.program(), "{bench: "+placements()+"}"); err != nil {
			return nil, err
		}
		if err := side.fill(ctx); err != nil {
			return nil, err
		}
		t := *side.shunt
		t.name = as.name
		targets = append(targets, t)
		sides[as.name], figures[as.name] = &side, &sharded{shardOf: side.shardOf}
		figures[as.name].unique.Store(firstUnique)
	}
	for _, c := range compared.cases() {
		for _, prepared := range []bool{false, true} {
			name := compared.prefix + c.name + "/" + mode(prepared)
			if !b.only.MatchString(name) {
				continue
			}
			next, beside := map[string]source{}, map[string]source{}
			for side, s := range figures {
				if next[side] = c.next(s); c.beside != nil {
					beside[side] = c.beside(s)
				}
			}
			result, err := b.turnsOf(ctx, name, targets[0].name, targets, func(t target) (half, error) {
				if err := sides[t.name].idle(ctx); err != nil {
					return half{}, err
				}
				db, err := openDB(t, "bench", !prepared)
				if err != nil {
					return half{}, err
				}
				defer db.Close()
				l := load{[]*sql.DB{db}, c.workers, prepared, c.query, c.batch, next[t.name], b.seconds, t.cpuTime, beside[t.name]}
				return b.profiled(ctx, name, t, func() (half, error) { return l.run(ctx) })
			})
			if results, err = b.keep(ctx, results, result, err); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}
