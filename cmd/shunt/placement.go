package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
)

// placementCheck holds the configuration against the store's records of what
// each table's rows were placed by. A hash table whose shard_key was changed
// would be asked for its rows on shards where they are not, and would answer
// that there are none.
type placementCheck struct {
	store *storage.Store
	open  func(context.Context, catalog.ShardID) (schema.Querier, func(), error)
	log   *slog.Logger
}

// check is the directory's Check. New records are kept before the catalog
// places any row by them.
func (p placementCheck) check(ctx context.Context, c *catalog.Catalog, complete, refuse bool) error {
	records, err := p.store.Placements()
	if err != nil {
		return err
	}
	changes, wrong := comparePlacements(c, complete, records, func(t storage.TableName) error { return p.empty(ctx, c, t) })
	if refuse && len(wrong) > 0 {
		// No record is changed either: the configuration isn't taken over.
		return errors.Join(wrong...)
	}
	for _, err := range wrong {
		p.log.Error("rows may be looked for where they are not", "error", err)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := p.store.SetPlacements(changes); err != nil {
		if refuse {
			return fmt.Errorf("keep what rows are placed by: %w", err)
		}
		// The next refresh tries again.
		p.log.Error("what rows are placed by is not kept", "error", err)
	}
	return nil
}

// comparePlacements returns the changes of records that a catalog asks for, and
// an error for each table whose rows are not where the catalog has them. empty
// returns nil for a table that is known to have no rows on any shard.
func comparePlacements(c *catalog.Catalog, complete bool, records map[storage.TableName]string, empty func(storage.TableName) error) (changes map[storage.TableName]string, wrong []error) {
	changes = map[storage.TableName]string{}
	tables := map[storage.TableName]*catalog.Table{}
	for schemaName, s := range c.Schemas {
		for name, t := range s.Tables {
			k := storage.TableName{Schema: schemaName, Name: name}
			tables[k] = t
			if records[k] == "" && !t.IsView && len(t.Columns) > 0 {
				changes[k] = placementRecord(c, t)
			}
		}
	}
	byName := func(a, b storage.TableName) int {
		return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
	}
	for _, k := range slices.SortedFunc(maps.Keys(records), byName) {
		was, t := records[k], tables[k]
		now := ""
		switch {
		case t != nil && t.IsView:
			changes[k] = ""
			continue
		case t != nil && (len(t.Columns) > 0 || t.Placement == catalog.Single || t.Placement == catalog.Reference):
			now = placementRecord(c, t)
		}
		here := t != nil && len(t.Columns) > 0
		if here && now == was || !here && !complete {
			continue
		}
		if here && placedAlike(c, was, now) {
			changes[k] = now
			continue
		}
		// A table that the catalog doesn't have may be one that it looks for on
		// the wrong shard.
		switch err := empty(k); {
		case err == nil && here:
			changes[k] = now
		case err == nil:
			changes[k] = ""
		case now != "" && now != was:
			wrong = append(wrong, misplaced(k, was, now, err))
		}
	}
	return changes, wrong
}

// placementRecord is what a table's rows are placed by, as the store keeps it.
func placementRecord(c *catalog.Catalog, t *catalog.Table) string {
	of := ""
	switch t.Placement {
	case catalog.Hash:
		of = ":" + strings.ToLower(t.ShardKey.Name)
	case catalog.Single:
		for id := range t.Shards.All {
			of = ":" + c.ShardName(id)
		}
	case catalog.Reference, catalog.Anywhere:
	}
	return t.Placement.String() + of
}

// placedAlike reports whether rows placed by one record are found by another:
// where there is one shard, and where the rows may be on any, each once. Back
// from anywhere they are not: new rows have gone by the primary key.
func placedAlike(c *catalog.Catalog, was, now string) bool {
	if len(c.Shards) == 1 && (!strings.HasPrefix(was, "single:") || was == "single:"+c.Shards[0].Name) {
		return true
	}
	return now == "anywhere" && was != "reference"
}

func misplaced(t storage.TableName, was, now string, rows error) error {
	placed := "as "
	if strings.HasPrefix(was, "hash:") {
		placed = "by "
	}
	way := "put it back, use placement: anywhere with virtual indexes, or empty the table first"
	if was == "reference" || was == "anywhere" {
		way = "put it back, or empty the table first"
	}
	return fmt.Errorf("table %s.%s: its rows were placed %s%s, the configuration says %s; %s (%w)",
		t.Schema, t.Name, placed, inWords(was), inWords(now), way, rows)
}

func inWords(record string) string {
	kind, of, ok := strings.Cut(record, ":")
	switch {
	case ok && kind == "hash":
		return "hash of " + of
	case ok:
		return kind + " on " + of
	}
	return kind
}

// empty returns nil if no shard has a row of the table, nor has one under way.
func (p placementCheck) empty(ctx context.Context, c *catalog.Catalog, t storage.TableName) error {
	for _, s := range c.Shards {
		if err := p.emptyOn(ctx, s.ID, t); err != nil {
			return fmt.Errorf("shard %s: %w", s.Name, err)
		}
	}
	return nil
}

func (p placementCheck) emptyOn(ctx context.Context, id catalog.ShardID, t storage.TableName) error {
	conn, done, err := p.open(ctx, id)
	if err != nil {
		return fmt.Errorf("not known to be empty: %w", err)
	}
	defer done()
	quoted := func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
	find := "SELECT 1 FROM " + quoted(t.Schema) + "." + quoted(t.Name) + " LIMIT 1"
	// The locking read waits for rows that are not committed yet. It comes
	// second: in a table with rows it could wait for nothing of interest.
	for _, sql := range []string{find, find + " LOCK IN SHARE MODE"} {
		rows, err := conn.Rows(ctx, sql)
		if e, ok := errors.AsType[*shard.ServerError](err); ok && (e.Code == 1146 || e.Code == 1049) {
			return nil // no such table, no such database
		}
		if err != nil {
			return fmt.Errorf("not known to be empty: %w", err)
		}
		if len(rows) > 0 {
			return errors.New("it has rows")
		}
	}
	return nil
}
