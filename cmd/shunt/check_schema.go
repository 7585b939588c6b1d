package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// schemaTimeout bounds how long `shunt check` reads the schemas of all shards: many tables
// take their time.
const schemaTimeout = time.Minute

// checkSchemas holds the configuration's placements and indexes against the tables of the
// shards that were reached. Failures are what `shunt serve` wouldn't start with.
func checkSchemas(ctx context.Context, cfg *config.Config, reached []reachedShard) (notes []string, failures []error) {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	src := schema.Sources{
		Placements: placements(cfg), First: true,
		Kept: func(_, _ string) (p schema.TablePlacement, ok bool, err error) { return p, false, nil },
	}
	var asked []catalog.Shard
	for i, sh := range cfg.Shards {
		s := catalog.Shard{ID: catalog.ShardID(i), Name: sh.Name}
		src.Shards = append(src.Shards, s)
		if reached[i].err == nil {
			asked = append(asked, s)
		}
	}
	var errs map[catalog.ShardID]error
	src.Facts, errs = schema.ReadAll(ctx, asked, func(ctx context.Context, id catalog.ShardID) (schema.Querier, func(), error) {
		conn, err := shard.Dial(ctx, shardConfig(cfg.Shards[id]), false)
		if err != nil {
			return nil, nil, err
		}
		return querier{conn}, func() { _ = conn.Close() }, nil
	}, nil, nil)
	for _, s := range asked {
		if err := errs[s.ID]; err != nil {
			failures = append(failures, fmt.Errorf("read the schema: %w", err))
		}
	}
	src.First = len(src.Facts) == len(cfg.Shards)
	if len(src.Facts) == 0 {
		return nil, failures
	}
	c, err := schema.Build(src)
	if err != nil {
		return nil, append(failures, err)
	}
	for _, ix := range cfg.Indexes {
		if t := c.Table(ix.Schema, ix.Table); t != nil && (len(t.Columns) > 0 || t.IsView) {
			if err := indexer.Indexable(t, ix.Columns, c.MariaDB); err != nil {
				failures = append(failures, fmt.Errorf("indexes: %s: %w", ix.Name, err))
			}
		}
	}
	if missing := notYet(cfg, c, src.Facts); src.First && len(missing) > 0 {
		notes = append(notes, "on no shard yet, or mistyped: "+strings.Join(missing, ", "))
	}
	return notes, failures
}

// notYet are the schemas and tables that the configuration names and no shard has.
func notYet(cfg *config.Config, c *catalog.Catalog, facts map[catalog.ShardID]*schema.Facts) (missing []string) {
	known := func(name string) bool {
		for _, f := range facts {
			if slices.ContainsFunc(f.Schemas, func(have string) bool {
				return have == name || c.LowerCaseNames && strings.EqualFold(have, name)
			}) {
				return true
			}
		}
		return false
	}
	note := func(what string) {
		if !slices.Contains(missing, what) {
			missing = append(missing, what)
		}
	}
	table := func(in, name string) {
		if !known(in) {
			note("schema " + in)
		} else if t := c.Table(in, name); t == nil || len(t.Columns) == 0 && !t.IsView {
			note("table " + in + "." + name)
		}
	}
	for _, s := range cfg.Schemas {
		if !known(s.Name) {
			note("schema " + s.Name)
			continue
		}
		for _, t := range s.Tables {
			table(s.Name, t.Name)
		}
	}
	for _, ix := range cfg.Indexes {
		table(ix.Schema, ix.Table)
	}
	return missing
}
