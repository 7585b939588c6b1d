package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

const (
	// samplesTime bounds all samples of an advice, questionTime one question to a shard that serves, and oneSampleTime the
	// questions of one sample.
	samplesTime   = adviceTime / 3
	oneSampleTime = 3 * time.Second
	questionTime  = time.Second
	// samplesKept: the console asks for advice again and again.
	samplesKept = 5 * time.Minute
)

// samples are those of a Shunt that serves, as long as they are kept. Shards are asked on connections of their own: a
// sample must not take one from a query.
type samples struct {
	mu    sync.Mutex // held while one is taken
	taken map[string]taken
}

// taken is a sample, under a version of the catalog.
type taken struct {
	values  []advise.Value
	err     error
	at      time.Time
	version uint64
}

// sampling is the samples of one advice.
type sampling struct {
	*samples
	cat   *catalog.Catalog
	dial  map[catalog.ShardID]shard.Config
	each  map[catalog.ShardID]tableStats
	conns map[catalog.ShardID]querier
	until time.Time
}

// begin is for one advice, which ends with end.
func (s *samples) begin(cat *catalog.Catalog, dial map[catalog.ShardID]shard.Config, each map[catalog.ShardID]tableStats) *sampling {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.taken == nil {
		s.taken = map[string]taken{}
	}
	maps.DeleteFunc(s.taken, func(_ string, x taken) bool { return x.version != cat.Version || now.Sub(x.at) > samplesKept })
	return &sampling{samples: s, cat: cat, dial: dial, each: each, conns: map[catalog.ShardID]querier{}, until: now.Add(samplesTime)}
}

func (s *sampling) end() {
	for _, q := range s.conns {
		_ = q.conn.Close() // it has only read
	}
}

// of is advise.Source's Sample.
func (s *sampling) of(ctx context.Context, t *catalog.Table, columns []*catalog.Column, _ string) ([]advise.Value, error) {
	name := catalog.QuoteTable(t.Schema, t.Name) + " " + strings.ToLower(catalog.QuoteColumns(columns))
	s.mu.Lock()
	defer s.mu.Unlock()
	if x, ok := s.taken[name]; ok && x.version == s.cat.Version {
		return x.values, x.err
	}
	if time.Now().After(s.until) {
		return nil, errors.New("the time for samples is up")
	}
	within, cancel := context.WithTimeout(ctx, oneSampleTime)
	defer cancel()
	values, err := s.take(within, t, columns)
	if ctx.Err() == nil {
		s.taken[name] = taken{values, err, time.Now(), s.cat.Version}
	}
	return values, err
}

// take draws rows of all shards, of each as many as it has of all, and asks all for their values.
func (s *sampling) take(ctx context.Context, t *catalog.Table, columns []*catalog.Column) ([]advise.Value, error) {
	var shards []catalog.ShardID
	rows := map[catalog.ShardID]uint64{}
	all := uint64(0)
	for id := range t.Shards.All {
		shards = append(shards, id)
		rows[id] = 1 + s.each[id][catalog.TableName{Schema: t.Schema, Name: t.Name}].Rows
		all += rows[id]
	}
	keys, drawn := make([]string, len(shards)), make([][][][]byte, len(shards))
	err := s.ask(ctx, shards, func(ctx context.Context, i int, of sampler) (err error) {
		if keys[i], err = of.keyOf(ctx, t, columns); err != nil || keys[i] == "" {
			return cmp.Or(err, errNoKey)
		}
		n := (sampledValues*rows[shards[i]] + all - 1) / all
		drawn[i], err = of.draw(ctx, t, columns, int(n))
		return err
	})
	if errors.Is(err, errNoKey) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var values [][][]byte
	for _, of := range drawn {
		values = append(values, of...)
	}
	if len(values) == 0 {
		return nil, nil
	}
	counts := make([][]uint64, len(shards))
	err = s.ask(ctx, shards, func(ctx context.Context, i int, of sampler) (err error) {
		counts[i], err = of.count(ctx, t, columns, keys[i], values)
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []advise.Value
	for k, value := range values {
		var v advise.Value
		for i, id := range shards {
			if n := counts[i][k]; n > 0 && value[0] != nil {
				v.Rows += n
				v.Shards.Add(id)
			}
		}
		if v.Rows > 0 || value[0] == nil { // else its rows are gone
			out = append(out, v)
		}
	}
	return out, nil
}

// errNoKey: on some shard only a look at all rows would find those of a value.
var errNoKey = errors.New("no key")

// ask asks shards beside each other.
func (s *sampling) ask(ctx context.Context, shards []catalog.ShardID, ask func(ctx context.Context, i int, of sampler) error) error {
	for _, id := range shards {
		if q, ok := s.conns[id]; ok && !q.conn.Broken {
			continue
		} else if ok {
			_ = q.conn.Close()
			delete(s.conns, id)
		}
		conn, err := shard.Dial(ctx, s.dial[id], false)
		if err == nil {
			s.conns[id] = querier{conn}
			for _, set := range advising(conn.MariaDB, questionTime) {
				if _, err = conn.Exec(ctx, set); err != nil {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("shard %s: %w", s.cat.ShardName(id), err)
		}
	}
	var g errgroup.Group // one's error ends no other's question, with which its connection would go
	for i, id := range shards {
		g.Go(func() error { return ask(ctx, i, sampler{s.conns[id]}) })
	}
	return g.Wait()
}
