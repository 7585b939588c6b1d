package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/storage"
)

// configuredIndexes makes the virtual indexes of the configuration that are
// missing: at start, at a reload, and, where the table isn't there yet or DDL has dropped the
// index with it, once it is. What an operator drops later by DROP VIRTUAL INDEX stays dropped
// until the next start or reload.
type configuredIndexes struct {
	directory *schema.Directory
	index     virtualIndexes
	log       *slog.Logger

	mu  sync.Mutex
	all []config.Index
	// awaited had no table when they were to be made, or one that differs between shards.
	awaited []*awaitedIndex
}

type awaitedIndex struct {
	config.Index
	// failed is why it could not be made, and was logged.
	failed string
}

// make makes what can be made. One that can't doesn't keep the others from it.
func (c *configuredIndexes) make(ctx context.Context, cfg *config.Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.awaited = cfg.Indexes, nil
	var failed []error
	for _, ix := range cfg.Indexes {
		t := c.table(ix)
		if t == nil {
			c.log.Info("virtual index will be made once its table exists", "index", ix.Name, "table", ix.Schema+"."+ix.Table)
			c.awaited = append(c.awaited, &awaitedIndex{Index: ix})
			continue
		}
		err := c.makeOne(ctx, t, ix)
		switch {
		case err != nil && t.Differs != "": // DDL isn't finished: that mustn't keep Shunt from starting
			c.log.Error("virtual index of the configuration not made; trying again", "error", err)
			c.awaited = append(c.awaited, &awaitedIndex{Index: ix, failed: err.Error()})
		case err != nil:
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// dropped has those made anew that DDL has dropped, or taken along to another table's name.
//
// Counter-example: a dump that is restored, DROP TABLE and CREATE TABLE.
func (c *configuredIndexes) dropped(before, after []storage.IndexRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ix := range c.all {
		had := func(defs []storage.IndexRecord) bool {
			return slices.ContainsFunc(defs, func(d storage.IndexRecord) bool {
				same := func(a, b string) bool {
					return a == b || c.directory.Catalog().LowerCaseNames && strings.EqualFold(a, b)
				}
				return same(d.Schema, ix.Schema) && same(d.Table, ix.Table) && strings.EqualFold(d.Name, ix.Name)
			})
		}
		if had(before) && !had(after) {
			c.log.Info("virtual index of the configuration will be made anew once its table is there", "index", ix.Name, "table", ix.Schema+"."+ix.Table)
			c.awaited = append(c.awaited, &awaitedIndex{Index: ix})
		}
	}
}

func (c *configuredIndexes) table(ix config.Index) *catalog.Table {
	if t := c.directory.Catalog().Table(ix.Schema, ix.Table); t != nil && len(t.Columns) > 0 {
		return t
	}
	return nil
}

func (c *configuredIndexes) makeOne(ctx context.Context, t *catalog.Table, ix config.Index) error {
	made := t.Index(ix.Name)
	if made == nil {
		err := c.index.CreateIndex(ctx, t, plan.VirtualIndex{Name: ix.Name, Columns: ix.Columns, Include: ix.Include, Partitions: ix.Partitions}, nil)
		if err != nil && !errors.Is(err, storage.ErrIndexExists) {
			return fmt.Errorf("indexes: %s: %w", ix.Name, err)
		}
		if err == nil {
			return nil
		}
		// Another member, with the same configuration, has made it meanwhile.
		if err := c.directory.Rebuild(); err != nil {
			return err
		}
		if t = c.table(ix); t == nil || t.Index(ix.Name) == nil {
			return nil // and it is gone again, by somebody's statement
		}
		made = t.Index(ix.Name)
	}
	var on, include []string
	for _, col := range made.Columns {
		on = append(on, col.Name)
	}
	for _, col := range made.Include {
		include = append(include, col.Name)
	}
	if !slices.EqualFunc(on, ix.Columns, strings.EqualFold) || len(ix.Include) > 0 && !slices.EqualFunc(include, ix.Include, strings.EqualFold) {
		c.log.Warn("virtual index is on other columns than the configuration says; after DROP VIRTUAL INDEX, SIGHUP or the next start makes it anew", "index", ix.Name, "table", ix.Schema+"."+ix.Table, "columns", append(on, include...), "configured", append(slices.Clone(ix.Columns), ix.Include...))
	}
	return nil
}

// awaitEvery is how often run looks for tables; each look is some lookups in the catalog.
const awaitEvery = time.Second

// run makes awaited indexes until ctx ends.
func (c *configuredIndexes) run(ctx context.Context) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.look(ctx)
		}
	}
}

func (c *configuredIndexes) look(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = slices.DeleteFunc(c.awaited, func(ix *awaitedIndex) bool {
		t := c.table(ix.Index)
		if t == nil {
			return false
		}
		err := c.makeOne(ctx, t, ix.Index)
		// The table may be on some shards only, while its DDL is under way.
		if err != nil && err.Error() != ix.failed {
			ix.failed = err.Error()
			c.log.Error("virtual index of the configuration not made; trying again", "error", err)
		}
		return err == nil
	})
}
