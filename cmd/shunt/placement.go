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
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/proxy/schema"
)

// placementCheck holds the configuration against the store's records of what
// each table's rows were placed by. A hash table whose shard_key was changed
// would be asked for its rows on shards where they are not, and would answer
// that there are none.
type placementCheck struct {
	store store
	open  opener
	log   *slog.Logger

	mu sync.Mutex
	// keepOut keeps clients' writes out until what it returns is called: see keepingOut.
	keepOut func(context.Context) (letIn func(), err error)
	// letIn is what keepOut has returned, nil while nobody needs it.
	letIn func()
	// unrecorded are the new tables whose rows lay elsewhere, or couldn't be looked
	// at, when the configuration was last taken over.
	unrecorded map[catalog.TableName]error
}

// byDefault ends the record of a table in a schema that the configuration doesn't name.
const byDefault = " by default"

// check is the directory's Check. New records are kept before the catalog
// places any row by them.
func (p *placementCheck) check(ctx context.Context, c *catalog.Catalog, configured schema.Placements, only []catalog.TableName, complete, refuse bool) (changed bool, err error) {
	records, tables, err := p.records(c, only)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if refuse {
		p.unrecorded = p.strays(ctx, c, configured, records)
	}
	fits := func(k catalog.TableName) error { return p.empty(ctx, c, k) }
	if refuse {
		fits = func(k catalog.TableName) error { return p.inPlace(ctx, c, k, tables[k]) }
	}
	changes, scattered, wrong := comparePlacements(c, tables, configured, complete, records, p.unrecorded, fits)
	if refuse && len(wrong) > 0 {
		// No record is changed either: the configuration isn't taken over.
		return false, errors.Join(wrong...)
	}
	for _, err := range wrong {
		p.log.Error("rows may be looked for where they are not", "error", err)
	}
	for _, err := range scattered {
		p.log.Warn("rows are looked for on all shards from now on", "error", err)
	}
	if len(changes) == 0 {
		return false, nil
	}
	if err := p.store.SetPlacements(changes); err != nil {
		if refuse {
			return false, fmt.Errorf("keep what rows are placed by: %w", err)
		}
		// The next refresh tries again.
		p.log.Error("what rows are placed by is not kept", "error", err)
		return false, nil
	}
	return len(scattered) > 0, nil
}

// records are what the rows of some tables were placed by, and what these are now; of all tables
// if only is nil.
func (p *placementCheck) records(c *catalog.Catalog, only []catalog.TableName) (records map[catalog.TableName]string, tables map[catalog.TableName]*catalog.Table, err error) {
	if only == nil {
		records, err = p.store.Placements()
		return records, tablesOf(c), err
	}
	records, tables = map[catalog.TableName]string{}, map[catalog.TableName]*catalog.Table{}
	for _, name := range only {
		k := name
		record, err := p.store.Placement(k)
		if err != nil {
			return nil, nil, err
		}
		if record != "" {
			records[k] = record
		}
		if t := c.Table(name.Schema, name.Name); t != nil {
			tables[k] = t
		}
	}
	return records, tables, nil
}

// kept is the directory's Kept.
func (p *placementCheck) kept(schemaName, table string) (placed schema.TablePlacement, ok bool, err error) {
	record, err := p.store.Placement(catalog.TableName{Schema: schemaName, Name: table})
	if err != nil || record == "" {
		return placed, false, err
	}
	if _, column, ok := hashOf(rule(record)); ok {
		return schema.TablePlacement{ShardKey: column}, true, nil
	}
	kind, of, _ := strings.Cut(rule(record), ":")
	switch kind {
	case catalog.Single.String():
		placed = schema.TablePlacement{Placement: catalog.Single, Shard: of}
	case catalog.Reference.String():
		placed.Placement = catalog.Reference
	case catalog.Anywhere.String():
		placed.Placement = catalog.Anywhere
	}
	return placed, true, nil
}

// comparePlacements returns the changes of records that a catalog's tables ask for, and
// an error for each table whose rows are not where the catalog has them: of those
// without a record strays has it. It is among scattered where the record changes to
// one by which the rows are found. fits returns nil for a table that is known to have
// no rows but where the catalog looks for them.
func comparePlacements(c *catalog.Catalog, tables map[catalog.TableName]*catalog.Table, configured schema.Placements, complete bool, records map[catalog.TableName]string, strays map[catalog.TableName]error, fits func(catalog.TableName) error) (changes map[catalog.TableName]string, scattered, wrong []error) {
	changes = map[catalog.TableName]string{}
	record := func(k catalog.TableName) string {
		if named(c, configured, k.Schema) {
			return placementRecord(c, tables[k])
		}
		return placementRecord(c, tables[k]) + byDefault
	}
	for _, k := range sorted(tables) {
		if t := tables[k]; records[k] != "" || !hasRecord(t) {
			continue
		}
		switch err := strays[k]; {
		case err == nil:
			changes[k] = record(k)
		case !errors.Is(err, errNotAsked):
			wrong = append(wrong, err)
		}
	}
	for _, k := range sorted(records) {
		was, t := records[k], tables[k]
		now := ""
		switch {
		case t != nil && t.IsView:
			changes[k] = ""
			continue
		case t != nil && (len(t.Columns) > 0 || t.Placement == catalog.Single || t.Placement == catalog.Reference):
			now = record(k)
		}
		here := t != nil && len(t.Columns) > 0
		if here && now == was || !here && !complete {
			continue
		}
		if here && placedAlike(c, rule(was), rule(now)) {
			changes[k] = now
			continue
		}
		// A table that the catalog doesn't have may be one that it looks for on
		// the wrong shard.
		switch err := fits(k); {
		case err == nil && here:
			changes[k] = now
		case err == nil:
			changes[k] = ""
		case now == "" || rule(now) == rule(was):
		case here && strings.HasSuffix(was, byDefault) && strings.HasSuffix(now, byDefault):
			// Nobody has configured the one nor the other: somebody has changed the table.
			changes[k] = catalog.Anywhere.String() + byDefault
			scattered = append(scattered, misplaced(k, rule(was), rule(now), err))
		default:
			wrong = append(wrong, misplaced(k, rule(was), rule(now), err))
		}
	}
	return changes, scattered, wrong
}

// rule is what a record says but for whether it is by default.
func rule(record string) string { return strings.TrimSuffix(record, byDefault) }

// named reports a schema that the configuration names.
func named(c *catalog.Catalog, configured schema.Placements, schemaName string) bool {
	_, ok := configured[schemaName]
	for name := range configured {
		ok = ok || c.LowerCaseNames && strings.EqualFold(name, schemaName)
	}
	return ok
}

func tablesOf(c *catalog.Catalog) map[catalog.TableName]*catalog.Table {
	tables := map[catalog.TableName]*catalog.Table{}
	for schemaName, s := range c.Schemas {
		for name, t := range s.Tables {
			tables[catalog.TableName{Schema: schemaName, Name: name}] = t
		}
	}
	return tables
}

func sorted[V any](tables map[catalog.TableName]V) []catalog.TableName {
	return slices.SortedFunc(maps.Keys(tables), func(a, b catalog.TableName) int {
		return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
	})
}

// hasRecord reports a table of which a record is kept.
func hasRecord(t *catalog.Table) bool { return !t.IsView && len(t.Columns) > 0 }

// noKeys is the kind of a shard key that can't be keyed: no row was placed by it.
const noKeys = "no keys"

// placementRecord is what a table's rows are placed by, as the store keeps it: hash:id,
// or hash(utf8mb4_bin):name where the key is of another kind than integers.
func placementRecord(c *catalog.Catalog, t *catalog.Table) string {
	of := ""
	if t.Unlike {
		return catalog.Reference.String()
	}
	switch t.Placement {
	case catalog.Hash:
		of = ":" + strings.ToLower(t.ShardKey.Name)
		kind := noKeys
		if codec, err := keys.For(t.ShardKey.Type, t.ShardKey.Charset, t.ShardKey.Collation, c.MariaDB); err == nil {
			kind = codec.Kind()
		}
		if kind != "" {
			of = "(" + kind + ")" + of
		}
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
// from anywhere they needn't be: new rows have gone by the primary key.
func placedAlike(c *catalog.Catalog, was, now string) bool {
	if len(c.Shards) == 1 && (!strings.HasPrefix(was, "single:") || was == "single:"+c.Shards[0].Name) {
		return true
	}
	if kind, column, ok := hashOf(now); ok {
		before, sameColumn, _ := hashOf(was)
		return sameColumn == column && (kind == before || before == "" && keyedBeforeKinds(kind))
	}
	return now == was || now == "anywhere" && was != "reference"
}

// keyedBeforeKinds: versions that kept no kinds had no keys for some columns, and so have placed no
// rows by them.
func keyedBeforeKinds(kind string) bool {
	return !strings.HasPrefix(kind, "uca1400") && kind != "uuid" && kind != "inet4" && kind != "inet6"
}

// hashOf is what a record says of a hash table's key.
func hashOf(record string) (kind, column string, ok bool) {
	how, column, _ := strings.Cut(record, ":")
	how, kind, _ = strings.Cut(how, "(")
	return strings.TrimSuffix(kind, ")"), column, how == catalog.Hash.String()
}

func misplaced(t catalog.TableName, was, now string, rows error) error {
	placed := "as "
	if _, _, ok := hashOf(was); ok {
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
	if kind, column, ok := hashOf(record); ok {
		if kind != "" {
			column += " (" + kind + ")"
		}
		return "hash of " + column
	}
	kind, of, ok := strings.Cut(record, ":")
	if ok {
		return kind + " on " + of
	}
	return kind
}
