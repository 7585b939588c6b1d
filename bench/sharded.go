package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// shardAware is the yardstick of the loads over four shards: the same load
// straight to the shard that has the row, which it is told.
const shardAware = "shard-aware"

// What is compared within Shunt.
const (
	scatter      = "scatter"
	byIndex      = "by index"
	noIndex      = "no index"
	twoIndexes   = "two indexes"
	threeIndexes = "three indexes"
)

// loadConnections of the loads over four shards.
const loadConnections = 16

// twin is the schema of the shard-aware client's tables. It has the same rows on
// the same shards, and Shunt doesn't write to it.
const twin = "twin"

// loadCase is a load whose targets are compared.
type loadCase struct {
	name  string
	query bool // it answers with rows
	// sources are the statements of each target; the first target is what the
	// others are compared with.
	targets []string
	source  map[string]source
}

// both is a load that Shunt and the shard-aware client send alike, over rows
// of their own.
func both(name string, query bool, make func() source) loadCase {
	return loadCase{name, query, []string{shardAware, ours}, map[string]source{shardAware: make(), ours: make()}}
}

// sharded has the figures that the statements of loads are made of.
type sharded struct {
	// shardOf has each row's shard, by id.
	shardOf []uint8
	// unique makes values, and keys of inserted rows, that no row has.
	unique atomic.Int64
}

func (s *sharded) id(random *rand.Rand) (id, shard int) {
	id = random.IntN(len(s.shardOf))
	return id, int(s.shardOf[id])
}

// firstUnique is beyond all rows that are loaded.
const firstUnique = 1_000_000_000

// insideLonger is how many times longer a round of Shunt beside itself takes: a few
// percent are the question there, and the maintenance that follows writes in bursts
// has its share of each.
const insideLonger = 4

// rangeRows is what a range asks for.
const rangeRows = 100

func (s *sharded) cases() []loadCase {
	byKey := func(text string, values ...func(id int) any) func() source {
		return func() source {
			return func(random *rand.Rand) (statement, error) {
				id, shard := s.id(random)
				st := statement{text: text, shard: shard, rows: 1}
				for _, v := range values {
					st.args = append(st.args, v(id))
				}
				return st, nil
			}
		}
	}
	everywhere := func(inner func() source) func() source {
		return func() source {
			next := inner()
			return func(random *rand.Rand) (statement, error) {
				st, err := next(random)
				st.shard = everyShard
				return st, err
			}
		}
	}
	id := func(id int) any { return id }
	code := func(id int) any { return fmt.Sprintf("c%d", id) }
	email := func(int) any { return fmt.Sprintf("u%d@example.com", s.unique.Add(1)) }
	between := func() source {
		return func(random *rand.Rand) (statement, error) {
			from := random.IntN(len(s.shardOf) - rangeRows)
			return statement{"SELECT id, code FROM plain WHERE id BETWEEN ? AND ? ORDER BY id", []any{from, from + rangeRows - 1}, everyShard, rangeRows}, nil
		}
	}
	insert := func(table string) func() source {
		return func() source {
			return func(random *rand.Rand) (statement, error) {
				n := int(s.unique.Add(1))
				return statement{
					"INSERT INTO " + table + " (id, a, b, c) VALUES (?, ?, ?, ?)",
					[]any{n, fmt.Sprintf("a%d@example.com", n), fmt.Sprintf("b%d", n), fmt.Sprintf("c%d", n)},
					n % shards, 1,
				}, nil
			}
		}
	}
	// No two deletes take the same row.
	remove := func() source {
		var next atomic.Int64
		return func(*rand.Rand) (statement, error) {
			id := int(next.Add(1)) - 1
			if id >= len(s.shardOf) {
				return statement{}, errNoMore
			}
			return statement{"DELETE FROM gone WHERE id = ?", []any{id}, int(s.shardOf[id]), 1}, nil
		}
	}
	literal := func(table string) func() source {
		return byKey("UPDATE "+table+" SET email = ? WHERE id = ?", email, id)
	}
	scatters := byKey("SELECT id FROM plain WHERE code = ?", code)
	indexed := byKey("SELECT id FROM indexed WHERE code = ?", code)
	return []loadCase{
		both("four/by_key", true, byKey("SELECT note FROM indexed WHERE id = ?", id)),
		both("four/by_index", true, indexed),
		both("four/scatter", true, everywhere(scatters)),
		both("four/range", true, between),
		{"inside/index_for_scatter", true, []string{scatter, byIndex}, map[string]source{scatter: scatters(), byIndex: indexed()}},
		both("four/update_unindexed", false, byKey("UPDATE indexed SET note = ? WHERE id = ?", email, id)),
		both("four/update_literal", false, literal("indexed")),
		both("four/update_expression", false, byKey("UPDATE indexed SET email = CONCAT('e', id, ?) WHERE id = ?", email, id)),
		both("four/insert_1", false, insert("one_index")),
		both("four/insert_3", false, insert("three_indexes")),
		both("four/delete", false, remove),
		{"inside/update_literal", false, []string{noIndex, twoIndexes}, map[string]source{noIndex: literal("plain")(), twoIndexes: literal("indexed")()}},
		{"inside/insert", false, []string{noIndex, threeIndexes}, map[string]source{noIndex: insert("no_index")(), threeIndexes: insert("three_indexes")()}},
	}
}

// mode is how a case is named and sent.
func (c loadCase) mode(prepared bool) string { return c.name + "/" + mode(prepared) }

// loads measures the cases that -only leaves.
func (b *bench) loads(ctx context.Context) (results []*series, err error) {
	s := &sharded{shardOf: b.shardOf}
	s.unique.Store(firstUnique)
	for _, c := range s.cases() {
		for _, prepared := range []bool{false, true} {
			if !b.only.MatchString(c.mode(prepared)) {
				continue
			}
			result, err := b.loadCase(ctx, c, prepared)
			if results, err = b.keep(ctx, results, result, err); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (b *bench) loadCase(ctx context.Context, c loadCase, prepared bool) (*series, error) {
	var targets []target
	dbs := map[string][]*sql.DB{}
	for _, name := range c.targets {
		t := *b.shunt
		ends, schema := []target{t}, "bench"
		if name == shardAware {
			t, ends, schema = target{}, nil, twin
			for _, server := range b.servers {
				ends = append(ends, straight(server))
			}
		}
		t.name = name
		targets = append(targets, t)
		for _, end := range ends {
			db, err := openDB(end, schema, !prepared)
			if err != nil {
				return nil, err
			}
			defer db.Close()
			dbs[name] = append(dbs[name], db)
		}
	}
	return b.turnsOf(ctx, c.mode(prepared), c.targets[0], targets, func(t target) (half, error) {
		// What the half before left to the indexer would count for this one.
		if err := b.idle(ctx); err != nil {
			return half{}, err
		}
		seconds := b.seconds
		if strings.HasPrefix(c.name, "inside/") {
			seconds *= insideLonger
		}
		l := load{dbs[t.name], loadConnections, prepared, c.query, 0, c.source[t.name], seconds, t.cpuTime, nil}
		return b.profiled(ctx, c.mode(prepared), t, func() (half, error) { return l.run(ctx) })
	})
}
