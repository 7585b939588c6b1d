package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// sample is how many rows of a table are looked at on each shard. Where another rule
// has placed them, most lie on another shard than Shunt's would have it.
const sample = 100

// errNotAsked: a shard couldn't be asked. The next start or SIGHUP asks again.
var errNotAsked = errors.New("not asked")

// strays looks at some rows of each table that has no record: one that Shunt sees
// for the first time may have rows that something else has placed, or an earlier life
// whose store is lost, with the shards in another order. In schemas that aren't
// configured it only warns: not everything on the servers is meant for Shunt. Such a table
// has no record, nor has one that couldn't be looked at.
//
// A few wrong rows among many are not seen. Rows that another rule has placed hardly ever
// lie right, and neither do Shunt's own with the shards in another order. Shards are asked at
// start and at SIGHUP alone: a table that a session of Shunt's has locked would else hold up
// every DDL.
func (p *placementCheck) strays(ctx context.Context, c *catalog.Catalog, configured schema.Placements, records map[catalog.TableName]string) map[catalog.TableName]error {
	found := map[catalog.TableName]error{}
	if len(c.Shards) == 1 {
		return found
	}
	tables := tablesOf(c)
	maps.DeleteFunc(tables, func(k catalog.TableName, t *catalog.Table) bool { return records[k] != "" || !hasRecord(t) })
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
	maps.DeleteFunc(found, func(_ catalog.TableName, err error) bool { return err == nil })
	for _, k := range sorted(found) {
		if !named(c, configured, k.Schema) && !errors.Is(found[k], errNotAsked) {
			p.log.Warn("statements for this table would miss rows", "error", found[k])
			found[k] = errNotAsked
		}
	}
	return found
}

// look is a search of a shard's rows.
type look struct {
	what, limit string
	// tell says what is wrong with a row, "" for nothing; nil: no row is wrong.
	tell func(value []byte) string
}

// noRows finds any row.
var noRows = look{what: "1", limit: "LIMIT 1", tell: func([]byte) string { return "it has rows" }}

// astray finds rows that belong to another shard, known: by their shard keys, or the shard, that can be told.
func astray(c *catalog.Catalog, id catalog.ShardID, t *catalog.Table) (l look, known bool) {
	switch {
	case t.Placement == catalog.Single && t.Shards.Has(id):
		return look{}, true
	case t.Placement == catalog.Single:
		return look{what: "1", limit: "LIMIT 1", tell: func([]byte) string { return "rows, and it is to be on another shard alone" }}, true
	case t.Placement == catalog.Hash && t.ShardKey != nil:
		by := t.ShardKey
		codec, err := keys.For(by.Type, by.Charset, by.Collation, c.MariaDB)
		if err != nil {
			break // nor is any row looked for by such a key
		}
		return look{what: catalog.QuoteName(by.Name), tell: func(value []byte) string {
			key, ok := codec.Scanned(nil, value)
			if !ok || c.ShardOf(key) == id {
				return ""
			}
			return fmt.Sprintf("one with %s = %.50q, which hash of %s places on %s", by.Name, value, by.Name, c.ShardName(c.ShardOf(key)))
		}}, true
	}
	return look{}, false
}

// errFound ends the reading of rows.
var errFound = errors.New("found")

// find returns what is wrong with a table's rows, "" for nothing. A table that the shard doesn't have (there) has none.
func (l look) find(ctx context.Context, conn querier, t catalog.TableName, lock string) (found string, there bool, err error) {
	if l.tell == nil {
		return "", true, nil
	}
	query := fmt.Sprintf("SELECT %s FROM %s %s %s", l.what, catalog.QuoteTable(t.Schema, t.Name), l.limit, lock)
	_, err = conn.conn.Stream(ctx, query, func(row [][]byte) error {
		if found == "" {
			found = l.tell(row[0])
		}
		if found != "" && l.limit == "" {
			return errFound // of which the connection ends
		}
		return nil
	})
	if e, ok := errors.AsType[*shard.ServerError](err); ok && (e.Code == mysqlerr.NoSuchTable || e.Code == mysqlerr.BadDB) {
		return "", false, nil
	}
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, true, err
}

// strayOn returns an error if a shard has a row of a table that belongs elsewhere.
func strayOn(ctx context.Context, conn querier, c *catalog.Catalog, s catalog.Shard, k catalog.TableName, t *catalog.Table) error {
	// Somebody may have locked the table.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l, _ := astray(c, s.ID, t)
	l.limit = fmt.Sprint("LIMIT ", sample)
	switch stray, _, err := l.find(ctx, conn, k, ""); {
	case err != nil:
		return fmt.Errorf("%w: %w", errNotAsked, err)
	case stray != "":
		return fmt.Errorf("table %s.%s: its rows are not where Shunt looks for them: shard %s has %s; "+
			"say in the configuration how they are placed (placement: anywhere fits all rows but those of a reference table), or put the shards in the order of the first start", k.Schema, k.Name, s.Name, stray)
	}
	return nil
}

// keepingOut runs fn, which has the catalog checked and published. Where a table's rows are looked through for it,
// keepOut keeps clients' writes out from before the look.
//
// Counter-example: a table goes from placement anywhere to hash. An INSERT that was planned before waits for
// a lock on a shard, and puts its row there behind the look.
func (p *placementCheck) keepingOut(keepOut func(context.Context) (letIn func(), err error), fn func() error) error {
	p.mu.Lock()
	p.keepOut = keepOut
	p.mu.Unlock()
	err := fn()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.letIn != nil {
		p.letIn()
	}
	p.keepOut, p.letIn = nil, nil
	return err
}

// inPlace returns nil if all rows of a table, if there are any, are where t looks for them; t is nil where the
// catalog has no such table. REQUIRES: p.mu is held.
func (p *placementCheck) inPlace(ctx context.Context, c *catalog.Catalog, k catalog.TableName, t *catalog.Table) (err error) {
	wrong := func(s catalog.Shard) look {
		if t != nil {
			if l, known := astray(c, s.ID, t); known {
				return l
			}
		}
		return noRows
	}
	if _, err := p.without(ctx, c, k, wrong, ""); err != nil {
		return err
	}
	if p.keepOut != nil && p.letIn == nil {
		if p.letIn, err = p.keepOut(ctx); err != nil {
			return fmt.Errorf("not known: clients write: %w", err)
		}
	}
	_, err = p.without(ctx, c, k, wrong, lockNow(c))
	return err
}

// lockNow is a locking read's clause, which sees rows that are not committed yet, as an error: their transaction's next
// statement may be one that is kept out.
func lockNow(c *catalog.Catalog) string {
	if c.MariaDB {
		return "LOCK IN SHARE MODE NOWAIT"
	}
	return "FOR SHARE NOWAIT"
}

// empty returns nil if no shard has a row of the table, nor has one under way. A row that is
// inserted between this look and the publishing of the catalog isn't seen.
func (p *placementCheck) empty(ctx context.Context, c *catalog.Catalog, k catalog.TableName) error {
	any := func(catalog.Shard) look { return noRows }
	// The locking read waits for rows that are not committed yet. It comes
	// second: in a table with rows it could wait for nothing of interest. One that was
	// dropped has none.
	if there, err := p.without(ctx, c, k, any, ""); err != nil || !there {
		return err
	}
	_, err := p.without(ctx, c, k, any, "LOCK IN SHARE MODE")
	return err
}

// without returns nil if no shard has a wrong row of the table, which is there on some.
func (p *placementCheck) without(ctx context.Context, c *catalog.Catalog, k catalog.TableName, wrong func(catalog.Shard) look, lock string) (there bool, err error) {
	on, errs := make([]bool, len(c.Shards)), make([]error, len(c.Shards))
	var asked sync.WaitGroup
	for i, s := range c.Shards {
		asked.Go(func() {
			var found string
			conn, done, err := p.open(ctx, s.ID)
			if err == nil {
				found, on[i], err = wrong(s).find(ctx, conn, k, lock)
				done()
			}
			switch {
			case err != nil:
				errs[i] = fmt.Errorf("shard %s: not known: %w", s.Name, err)
			case found != "":
				errs[i] = fmt.Errorf("shard %s: %s", s.Name, found)
			}
		})
	}
	asked.Wait()
	return slices.Contains(on, true), cmp.Or(errs...)
}
