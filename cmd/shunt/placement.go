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
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
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

	mu sync.Mutex
	// unrecorded are the new tables whose rows lay elsewhere, or couldn't be looked
	// at, when the configuration was last taken over.
	unrecorded map[storage.TableName]error
}

// byDefault ends the record of a table in a schema that the configuration doesn't name.
const byDefault = " by default"

// check is the directory's Check. New records are kept before the catalog
// places any row by them.
func (p *placementCheck) check(ctx context.Context, c *catalog.Catalog, configured schema.Placements, complete, refuse bool) (changed bool, err error) {
	records, err := p.store.Placements()
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if refuse {
		p.unrecorded = p.strays(ctx, c, configured, records)
	}
	changes, scattered, wrong := comparePlacements(c, configured, complete, records, p.unrecorded, func(t storage.TableName) error { return p.empty(ctx, c, t) })
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

// kept is the directory's Kept.
func (p *placementCheck) kept(schemaName, table string) (placed schema.TablePlacement, ok bool, err error) {
	record, err := p.store.Placement(storage.TableName{Schema: schemaName, Name: table})
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

// comparePlacements returns the changes of records that a catalog asks for, and
// an error for each table whose rows are not where the catalog has them: of those
// without a record strays has it. It is among scattered where the record changes to
// one by which the rows are found. empty returns nil for a table that is known to have
// no rows on any shard.
func comparePlacements(c *catalog.Catalog, configured schema.Placements, complete bool, records map[storage.TableName]string, strays map[storage.TableName]error, empty func(storage.TableName) error) (changes map[storage.TableName]string, scattered, wrong []error) {
	changes = map[storage.TableName]string{}
	tables := tablesOf(c)
	record := func(k storage.TableName) string {
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
		switch err := empty(k); {
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

func tablesOf(c *catalog.Catalog) map[storage.TableName]*catalog.Table {
	tables := map[storage.TableName]*catalog.Table{}
	for schemaName, s := range c.Schemas {
		for name, t := range s.Tables {
			tables[storage.TableName{Schema: schemaName, Name: name}] = t
		}
	}
	return tables
}

func sorted[V any](tables map[storage.TableName]V) []storage.TableName {
	return slices.SortedFunc(maps.Keys(tables), func(a, b storage.TableName) int {
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
// from anywhere they are not: new rows have gone by the primary key.
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

func misplaced(t storage.TableName, was, now string, rows error) error {
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

// sample is how many rows of a table are looked at on each shard. Where another rule
// has placed them, most lie on another shard than Shunt's would have it.
const sample = 100

// errNotAsked: a shard couldn't be asked. The next start or SIGHUP asks again.
var errNotAsked = errors.New("not asked")

// strays looks at some rows of each table that has no record: one that Shunt sees
// for the first time may have rows that something else has placed, or an earlier life
// whose store is lost, with the shards in another order. In schemas that aren't
// configured it only warns: not everything on the servers is meant for Shunt.
func (p *placementCheck) strays(ctx context.Context, c *catalog.Catalog, configured schema.Placements, records map[storage.TableName]string) map[storage.TableName]error {
	found := map[storage.TableName]error{}
	if len(c.Shards) == 1 {
		return found
	}
	tables := tablesOf(c)
	maps.DeleteFunc(tables, func(k storage.TableName, t *catalog.Table) bool { return records[k] != "" || !hasRecord(t) })
	if len(tables) == 0 {
		return found
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, s := range c.Shards {
		asked.Go(func() {
			conn, done, err := p.open(ctx, s.ID)
			if err == nil {
				defer done()
			}
			for _, k := range sorted(tables) {
				stray := errNotAsked
				if err == nil {
					stray = strayOn(ctx, conn, c, s, k, tables[k])
				}
				mu.Lock()
				if found[k] == nil || errors.Is(found[k], errNotAsked) && stray != nil {
					found[k] = stray
				}
				mu.Unlock()
			}
		})
	}
	asked.Wait()
	maps.DeleteFunc(found, func(_ storage.TableName, err error) bool { return err == nil })
	for _, k := range sorted(found) {
		if !named(c, configured, k.Schema) && !errors.Is(found[k], errNotAsked) {
			p.log.Warn("statements for this table would miss rows", "error", found[k])
			found[k] = errNotAsked
		}
	}
	return found
}

// strayOn returns an error if a shard has a row of a table that belongs elsewhere.
func strayOn(ctx context.Context, conn schema.Querier, c *catalog.Catalog, s catalog.Shard, k storage.TableName, t *catalog.Table) error {
	// Somebody may have locked the table.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var stray string
	var err error
	switch {
	case t.Placement == catalog.Single && !t.Shards.Has(s.ID):
		var rows [][][]byte
		if rows, err = rowsOf(ctx, conn, k, "1", "LIMIT 1"); len(rows) > 0 {
			stray = "rows, and it is to be on another shard alone"
		}
	case t.Placement == catalog.Hash && t.ShardKey != nil:
		stray, err = strayKey(ctx, conn, c, s.ID, k, t.ShardKey)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errNotAsked, err)
	case stray != "":
		return fmt.Errorf("table %s.%s: its rows are not where Shunt looks for them: shard %s has %s; "+
			"say in the configuration how they are placed (placement: anywhere fits all rows but those of a reference table), or put the shards in the order of the first start", k.Schema, k.Name, s.Name, stray)
	}
	return nil
}

// strayKey tells of a row whose shard key belongs to another shard, "" for none.
func strayKey(ctx context.Context, conn schema.Querier, c *catalog.Catalog, id catalog.ShardID, k storage.TableName, by *catalog.Column) (string, error) {
	codec, err := keys.For(by.Type, by.Charset, by.Collation, c.MariaDB)
	if err != nil {
		return "", nil //nolint:nilerr // nor is any row looked for by such a key
	}
	rows, err := rowsOf(ctx, conn, k, catalog.QuoteName(by.Name), fmt.Sprintf("LIMIT %d", sample))
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		if key, ok := codec.Scanned(nil, row[0]); ok && c.ShardOf(key) != id {
			return fmt.Sprintf("one with %s = %.50q, which hash of %s places on %s", by.Name, row[0], by.Name, c.ShardName(c.ShardOf(key))), nil
		}
	}
	return "", nil
}

// rowsOf selects from a table. One that the shard doesn't have has no rows.
func rowsOf(ctx context.Context, conn schema.Querier, t storage.TableName, what, limit string) ([][][]byte, error) {
	rows, err := conn.Rows(ctx, fmt.Sprintf("SELECT %s FROM %s.%s %s", what, catalog.QuoteName(t.Schema), catalog.QuoteName(t.Name), limit))
	if e, ok := errors.AsType[*shard.ServerError](err); ok && (e.Code == 1146 || e.Code == 1049) {
		return nil, nil // no such table, no such database
	}
	return rows, err
}

// empty returns nil if no shard has a row of the table, nor has one under way.
func (p *placementCheck) empty(ctx context.Context, c *catalog.Catalog, t storage.TableName) error {
	for _, s := range c.Shards {
		if err := p.emptyOn(ctx, s.ID, t); err != nil {
			return fmt.Errorf("shard %s: %w", s.Name, err)
		}
	}
	return nil
}

func (p *placementCheck) emptyOn(ctx context.Context, id catalog.ShardID, t storage.TableName) error {
	conn, done, err := p.open(ctx, id)
	if err != nil {
		return fmt.Errorf("not known to be empty: %w", err)
	}
	defer done()
	// The locking read waits for rows that are not committed yet. It comes
	// second: in a table with rows it could wait for nothing of interest.
	for _, limit := range []string{"LIMIT 1", "LIMIT 1 LOCK IN SHARE MODE"} {
		rows, err := rowsOf(ctx, conn, t, "1", limit)
		if err != nil {
			return fmt.Errorf("not known to be empty: %w", err)
		}
		if len(rows) > 0 {
			return errors.New("it has rows")
		}
	}
	return nil
}
