package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
)

// The stores that are compared, each with shards and a Shunt of its own.
const (
	local   = "store: local"
	several = "store: {shards: true}"
)

// storesCases begin so.
const storesCases = "stores/"

// storesCase is a load through one Shunt over its own store and one over the store of several.
type storesCase struct {
	name    string
	query   bool
	workers int
	// batch is how many statements a transaction has; 0: autocommit.
	batch int
	next  func(*sharded) source
}

// knownValues are those that update_known sets.
const knownValues = 64

func allStoresCases() []storesCase {
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
	return []storesCase{
		{"by_key", true, loadConnections, 0, of("by_key")},
		{"by_index", true, loadConnections, 0, of("by_index")},
		{"by_index_alone", true, 1, 0, of("by_index")},
		{"update_unindexed", false, loadConnections, 0, of("update_unindexed")},
		{"update_new", false, loadConnections, 0, of("update_literal")},
		{"update_known", false, loadConnections, 0, known},
		{"insert", false, loadConnections, 0, of("insert_1")},
		{"insert_ten", false, loadConnections, 10, of("insert_1")},
		{"delete", false, loadConnections, 0, of("delete")},
	}
}

// storesNames are the cases' names, by how they are sent.
func storesNames() (names []string) {
	for _, c := range allStoresCases() {
		for _, prepared := range []bool{false, true} {
			names = append(names, storesCases+c.name+"/"+mode(prepared))
		}
	}
	return names
}

// stores compares the store of one Shunt with that of several, of which one serves.
func (b *bench) stores(ctx context.Context) (results []*series, err error) {
	sides, targets := map[string]*bench{}, []target(nil)
	figures := map[string]*sharded{}
	for _, name := range []string{local, several} {
		side := *b
		side.store = strings.TrimPrefix(name, "store: ")
		if side.stage, err = side.newStage(ctx, shards, 0); err != nil {
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
		t.name = name
		targets = append(targets, t)
		sides[name], figures[name] = &side, &sharded{shardOf: side.shardOf}
		figures[name].unique.Store(firstUnique)
	}
	for _, c := range allStoresCases() {
		for _, prepared := range []bool{false, true} {
			name := storesCases + c.name + "/" + mode(prepared)
			if !b.only.MatchString(name) {
				continue
			}
			next := map[string]source{}
			for side, s := range figures {
				next[side] = c.next(s)
			}
			result, err := b.turnsOf(ctx, name, local, targets, func(t target) (half, error) {
				if err := sides[t.name].idle(ctx); err != nil {
					return half{}, err
				}
				db, err := openDB(t, "bench", !prepared)
				if err != nil {
					return half{}, err
				}
				defer db.Close()
				l := load{[]*sql.DB{db}, c.workers, prepared, c.query, c.batch, next[t.name], b.seconds, t.cpuTime}
				return b.profiled(ctx, name, t, func() (half, error) { return l.run(ctx) })
			})
			if results, err = b.keep(ctx, results, result, err); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}
