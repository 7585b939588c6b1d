package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/shared"
)

// apart are the shards that don't serve, as the store keeps them: see proxy/join.go for what is
// done with them.
type apart struct {
	store store
	cfg   *config.Config
}

var _ proxy.Apart = apart{}

const (
	// unseen: nothing is known of what the shard has.
	unseen = "new"
	// ours: its tables are Shunt's own making, or were once; it has no rows but copies.
	ours = "ours"
)

func (a apart) Ours(name string) (bool, error) {
	all, err := a.store.Apart()
	return all[name] == ours, err
}

func (a apart) Take(name string) error { return a.store.SetApart(name, ours) }

// Begin is at once: this process is alone.
func (apart) Begin(ctx context.Context, _ catalog.Shard) (held context.Context, end func(), err error) {
	return ctx, func() {}, nil
}

// Note has nobody to tell.
func (apart) Note(context.Context) error { return nil }

// Hold has nobody to wait for.
func (a apart) Hold(_ context.Context, name string) (proxy.Adding, error) {
	return addingAlone{a, name}, nil
}

type addingAlone struct {
	apart apart
	name  string
}

func (a addingAlone) Joined(before, after *catalog.Catalog) error {
	return a.apart.Joined(a.name, before, after)
}
func (a addingAlone) Back() error          { return a.apart.Take(a.name) }
func (addingAlone) Written() proxy.Written { return proxy.Written{} }
func (addingAlone) End()                   {}

// Joined notes that a shard serves.
func (a apart) Joined(name string, before, after *catalog.Catalog) error {
	if before == nil { // it has rows, and so values of AUTO_INCREMENT
		return errors.Join(a.store.DoubtSequences(), a.store.SetApart(name, ""))
	}
	return errors.Join(a.store.SetApart(name, ""), a.Leaves(before, after))
}

// Leaves notes that the indexes' keys, which are of the rows of all of before's shards, are of those
// of after's.
func (a apart) Leaves(before, after *catalog.Catalog) error {
	for id, keyed := range keyedAnew(before, after) {
		err := a.store.UpdateIndex(id, func(d *storage.IndexRecord) {
			if d.Keyed == keyed.Was {
				d.Keyed = keyed.Is
			}
		})
		if err != nil {
			return fmt.Errorf("note the shards of index %d: %w", id, err)
		}
	}
	return nil
}

// keyedAnew is how the keys are made of the indexes that two catalogs have.
func keyedAnew(before, after *catalog.Catalog) map[catalog.IndexID]shared.Keyed {
	out := map[catalog.IndexID]shared.Keyed{}
	for t := range before.Tables() {
		for _, was := range t.Indexes {
			if now := after.Table(t.Schema, t.Name); now != nil && now.Index(was.Name) != nil {
				out[was.ID] = shared.Keyed{Is: now.Index(was.Name).Definition(after.MariaDB), Was: was.Definition(before.MariaDB)}
			}
		}
	}
	return out
}

// mendable ends the record of a table whose other copies may be overwritten.
const mendable = " mend"

func (a apart) Unlike(schemaName, table string) (*proxy.Unlike, error) {
	all, err := a.store.Unlike()
	home, ok := all[catalog.TableName{Schema: schemaName, Name: table}]
	if err != nil || !ok {
		return nil, err
	}
	name, mend := strings.CutSuffix(home, mendable)
	return &proxy.Unlike{Home: name, Mend: mend}, nil
}

func (a apart) SetUnlike(schemaName, table string, how *proxy.Unlike) error {
	text := ""
	if how != nil {
		if text = how.Home; how.Mend {
			text += mendable
		}
	} else if err := a.store.DoubtSequences(); err != nil { // its server has counted meanwhile
		return err
	}
	return a.store.SetUnlike(catalog.TableName{Schema: schemaName, Name: table}, text)
}

// unlike is the directory's Unlike.
func (a apart) unlike() (map[catalog.TableName]string, error) {
	all, err := a.store.Unlike()
	out := map[catalog.TableName]string{}
	for t, home := range all {
		out[t] = strings.TrimSuffix(home, mendable)
	}
	return out, err
}

// replaced is called for a shard that has another server than before.
func (a apart) replaced(name string) error {
	all, err := a.store.Apart()
	if err != nil || all[name] == "" {
		return err
	}
	return a.store.SetApart(name, unseen)
}

// leave puts the shards apart that the configuration lacks, and refuses where one has rows, or
// may have.
//
// Counter-example: s2 was added, and an application has put rows of a table placed anywhere there by
// hints. Without s2 in the configuration these would be gone, and nothing would tell.
func (a apart) leave() error {
	missing, may, err := a.missing(a.cfg)
	if err != nil {
		return err
	}
	for _, name := range missing {
		if len(may) > 0 {
			return fmt.Errorf("the configuration lacks shard %s, which may have rows%s, whose placement is anywhere; put it back, and take it out by a SIGHUP, which looks whether it has any", name, ofTables(may))
		}
		if err := a.Take(name); err != nil {
			return err
		}
	}
	return nil
}

// look asks the shards' servers which serve, before anything is served; l is what the store says.
//
// A server that has no table any more is a new one in an old one's place: it joins again. Where its
// shard is to have rows of its own these are lost, and nothing can be done here: its statements fail
// for the lack of tables.
//
// One that this store has never seen may have served, for a Shunt with another store: a standby takes
// over, or data_dir was lost. It serves on. Counter-example: s2 was added, and has rows of a table that is
// placed anywhere. Until it had joined again, nobody would find them. So it is waited for, too.
func (a apart) look(ctx context.Context, l layout, epochs cluster.Epochs, log *slog.Logger) (layout, error) {
	placed, err := a.store.Placements()
	if err != nil {
		return l, err
	}
	states, err := a.store.Apart()
	if err != nil {
		return l, err
	}
	for _, sh := range l.serving {
		if len(placed) == 0 || slices.Contains(l.slots[:], sh.ID) || len(rowsOn(placed, sh.Name, false)) > 0 {
			continue
		}
		if blank, err := a.answers(ctx, sh, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys', '"+strings.Join(catalog.OwnSchemas, "', '")+"') LIMIT 1", 0); err == nil && blank {
			if err := a.store.SetApart(sh.Name, unseen); err != nil {
				return l, err
			}
		}
	}
	for _, sh := range l.joining {
		if states[sh.Name] != unseen {
			continue
		}
		served, err := a.served(ctx, sh, slices.Contains(slices.Collect(maps.Values(placed)), catalog.Anywhere.String()), log)
		if err != nil {
			return l, err
		}
		if served {
			log.Info("the shard has served before, for a Shunt with another data_dir", "shard", sh.Name)
			if err := errors.Join(indexer.MarkShard(a.store, epochs, sh.ID), a.store.DoubtSequences(), a.store.Sync(), a.store.SetApart(sh.Name, "")); err != nil {
				return l, err
			}
		}
	}
	return shardLayout(a.cfg, a.store)
}

// served reports a server that has served. wait: until it can be asked.
func (a apart) served(ctx context.Context, sh catalog.Shard, wait bool, log *slog.Logger) (bool, error) {
	sql := "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '" + catalog.ScratchSchema + "' AND TABLE_NAME IN ('" + strings.Join(a.markers(), "', '") + "')"
	for told := false; ; told = true {
		served, err := a.answers(ctx, sh, sql, len(a.markers()))
		if err == nil || !wait {
			return served, nil
		}
		if !told {
			log.Warn("waiting for a shard that data_dir doesn't know: it may have rows of tables that are placed anywhere", "shard", sh.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(time.Second):
		}
	}
}

// answers reports whether a shard answers a number of rows.
func (a apart) answers(ctx context.Context, sh catalog.Shard, sql string, rows int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := shard.Dial(ctx, shardConfig(*shardNamed(a.cfg, sh.Name)), false)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	res, err := conn.Query(ctx, sql)
	return err == nil && len(res.Rows) == rows, err
}

// markers are empty tables of a server that say that it has all tables and copies, one for each of
// the locks by name that keep other Shunts away.
func (a apart) markers() (names []string) {
	for _, lock := range lockNames(a.cfg) {
		sum := sha256.Sum256([]byte(lock))
		names = append(names, "joined_"+hex.EncodeToString(sum[:8]))
	}
	return names
}

func (a apart) Mark() []string {
	sql := []string{"CREATE DATABASE IF NOT EXISTS " + catalog.ScratchSchema}
	for _, name := range a.markers() {
		sql = append(sql, "CREATE TABLE IF NOT EXISTS "+catalog.ScratchSchema+"."+name+" (a INT PRIMARY KEY) COMMENT = 'Shunt: the shard has all tables and copies'")
	}
	return sql
}

func (a apart) Unmark() []string {
	return []string{"DROP TABLE IF EXISTS " + catalog.ScratchSchema + "." + strings.Join(a.markers(), ", "+catalog.ScratchSchema+".")}
}

// missing are the shards that have served and that the configuration lacks, and the tables of which
// each may have rows. It refuses where one is known to have some.
func (a apart) missing(cfg *config.Config) (missing, may []string, err error) {
	all, err := a.store.Apart()
	if err != nil {
		return nil, nil, err
	}
	placed, err := a.store.Placements()
	if err != nil {
		return nil, nil, err
	}
	slots, err := a.store.SlotMap()
	if err != nil {
		return nil, nil, err
	}
	known := a.store.Shards()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if all[name] != "" || shardNamed(cfg, name) != nil {
			continue
		}
		missing = append(missing, name)
		owns := slices.Contains(slots, byte(known[name]))
		has := rowsOn(placed, name, owns)
		if owns || len(has) > 0 {
			return nil, nil, fmt.Errorf("the configuration lacks shards that own rows: %s%s; put it back (rows are placed by the slot map in the store, made with these shards)", name, ofTables(has))
		}
	}
	for _, t := range sorted(placed) {
		if rule(placed[t]) == catalog.Anywhere.String() {
			may = append(may, t.Schema+"."+t.Name)
		}
	}
	return missing, may, nil
}

// rowsOn are the tables that have rows on a shard by their placement.
func rowsOn(placed map[catalog.TableName]string, name string, ownsSlots bool) (has []string) {
	for _, t := range sorted(placed) {
		_, _, hash := hashOf(rule(placed[t]))
		if hash && ownsSlots || rule(placed[t]) == catalog.Single.String()+":"+name {
			has = append(has, t.Schema+"."+t.Name)
		}
	}
	return has
}

// ofTables names tables in a message, some of them where there are many.
func ofTables(names []string) string {
	const some = 10
	switch n := len(names); {
	case n == 0:
		return ""
	case n > some:
		return fmt.Sprintf(" of %s and %d more tables", strings.Join(names[:some], ", "), n-some)
	}
	return " of " + strings.Join(names, ", ")
}
