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

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
	"github.com/shunt-sql/shunt/storage/shared"
)

// takeOver gives a store that has nothing yet what another one has kept, but for entries: where
// rows are, which numbers were handed out, and which indexes there are, which are built anew.
//
// The slot map comes last: a store with it has all, and one that a crash has left without is
// given all again.
func takeOver(to, from store) error {
	slots, err := from.SlotMap()
	if err != nil || slots == nil {
		return err
	}
	shards := from.Shards()
	for _, name := range slices.SortedFunc(maps.Keys(shards), func(a, b string) int { return cmp.Compare(shards[a], shards[b]) }) {
		if id, err := to.ShardID(name); err != nil {
			return err
		} else if id != shards[name] {
			return fmt.Errorf("shard %s has number %d, and had %d", name, id, shards[name])
		}
	}
	apart, err := from.Apart()
	if err != nil {
		return err
	}
	for name, how := range apart {
		if err := to.SetApart(name, how); err != nil {
			return err
		}
	}
	placements, err := from.Placements()
	if err == nil {
		err = to.SetPlacements(placements)
	}
	if err != nil {
		return err
	}
	unlike, err := from.Unlike()
	if err != nil {
		return err
	}
	for t, how := range unlike {
		if err := to.SetUnlike(t, how); err != nil {
			return err
		}
	}
	unfinished, err := from.Unfinished()
	if err != nil {
		return err
	}
	for key, u := range unfinished {
		if err := to.KeepUnfinished(key, u, true); err != nil {
			return err
		}
	}
	numbers, err := from.Sequences()
	if err != nil {
		return err
	}
	for t, next := range numbers {
		if err := to.StartSequence(t, func() (uint64, error) { return next, nil }); err != nil {
			return err
		}
	}
	for _, d := range from.Indexes() {
		d.Status, d.Error, d.Keyed, d.Home = catalog.Building, "", "", ""
		if _, err := to.CreateIndex(d.IndexDef); err != nil && !errors.Is(err, storage.ErrIndexExists) {
			return err
		}
	}
	_, err = to.KeepSlotMap(slots)
	return err
}

// takeOverLocal has a shared store begin with what data_dir has.
func takeOverLocal(cfg *config.Config, to *shared.Store, log *slog.Logger) error {
	if slots, err := to.SlotMap(); err != nil || slots != nil || !storage.Exists(cfg.DataDir) {
		return err
	}
	if storage.InUse(cfg.DataDir) {
		return fmt.Errorf("a Shunt with store: local serves from data_dir %s: stop it first, so that the shared store begins with all that it has", cfg.DataDir)
	}
	local, done, _, err := storeToCheck(cfg)
	if err != nil {
		return err
	}
	defer done()
	if err := takeOver(to, local); err != nil {
		return fmt.Errorf("have the shared store begin with what data_dir %s has: %w", cfg.DataDir, err)
	}
	log.Info("the shared store begins with what data_dir has: placements, numbers, and virtual indexes, which are built anew", "data_dir", cfg.DataDir)
	return nil
}

// takeOverShared has a store of this process alone begin with what a shared store has.
func takeOverShared(ctx context.Context, cfg *config.Config, to *storage.Store, log *slog.Logger) error {
	if slots, err := to.SlotMap(); err != nil || slots != nil {
		return err
	}
	if !sharedThere(ctx, cfg) {
		return storeElsewhere(ctx, cfg, to)
	}
	at := homesOf(cfg)[0]
	h, err := home.Open(ctx, at.Config)
	if err != nil {
		return fmt.Errorf("have data_dir begin with what several Shunts had together: %w", err)
	}
	from, err := shared.Open(ctx, shared.Options{Home: h, Server: at.Name, Logger: log})
	if err != nil {
		return errors.Join(err, h.Close())
	}
	defer from.Close()
	if err := takeOver(to, from); err != nil {
		return fmt.Errorf("have data_dir begin with what several Shunts had together: %w", err)
	}
	log.Info("data_dir begins with what several Shunts had together: placements, numbers, and virtual indexes, which are built anew")
	return nil
}

// storeElsewhere is an error where a process would begin a slot map, and several Shunts with a store on another server have served a shard: by
// their slot map, and placements, rows lie there.
//
// Counter-example: they began with s0 and s1, and s2 was added. One with an empty data_dir makes a map
// of three shards, and looks for rows where they are not.
func storeElsewhere(ctx context.Context, cfg *config.Config, own *storage.Store) error {
	if slots, err := own.SlotMap(); err != nil || slots != nil || cfg.Store.Shared() || sharedThere(ctx, cfg) {
		return err
	}
	served := make([]bool, len(cfg.Shards))
	var looking sync.WaitGroup
	for i, sh := range cfg.Shards {
		looking.Go(func() {
			there, err := severalServed(ctx, sh)
			served[i] = err == nil && there
		})
	}
	looking.Wait()
	if i := slices.Index(served, true); i >= 0 {
		sh := cfg.Shards[i]
		return fmt.Errorf("several Shunts with a store on another server (store: servers) have served shard %s at %s, and how its rows are placed is known there: take the data_dir of one "+
			"that served with store: local before them, or give store back; if no shard has rows, drop schema %s on all of them", sh.Name, sh.Addr, catalog.StoreSchema)
	}
	return nil
}

// severalServed reports that members were on a shard. One that is down isn't waited for.
func severalServed(ctx context.Context, sh config.Shard) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	conn, err := shard.Dial(ctx, shardConfig(sh), false)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	res, err := conn.Query(ctx, "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+catalog.StoreSchema+"' AND TABLE_NAME = 'members'")
	return err == nil && len(res.Rows) > 0, err
}

// downTimeout is how long a server that may be down is asked what is looked at again when it is back.
const downTimeout = 2 * time.Second

// sharedThere reports that there is a shared store. One on a server that is down isn't waited for: what
// the shards have of who served them is looked at when they are back.
func sharedThere(ctx context.Context, cfg *config.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	there, err := home.Exists(ctx, homesOf(cfg)[0].Config)
	return err == nil && there
}

// storeServers are those of the shared store.
func storeServers(cfg *config.Config) []config.Shard {
	if len(cfg.Store.Servers) > 0 {
		return cfg.Store.Servers
	}
	return cfg.Shards
}

// homesOf is where the shared store is.
func homesOf(cfg *config.Config) (homes []shared.Server) {
	for _, at := range storeServers(cfg) {
		homes = append(homes, shared.Server{Name: at.Name, Config: home.Config{Addr: at.Addr, Nodes: at.Nodes, User: at.User, Password: at.Password, TLS: at.TLS.Client()}})
	}
	return homes
}

// forgetLocal has the shared store forget what it knows of a shard that a Shunt with a store of
// its own has served since: it has left a record there (see records). Without the record such a
// Shunt, too, knows that somebody else has served. The shard, which is about to be joined, is in epoch e.
//
// Records of other schemas are others'. Counter-example: one that serves these alone is told that somebody
// has served them since, and scans all.
func (m *member) forgetLocal(ctx context.Context, id catalog.ShardID, e storage.Epoch) error {
	sh := *m.shards[id].Load()
	conn, err := shard.Dial(ctx, shardConfig(sh), false)
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := m.records.read(ctx, conn)
	if err != nil {
		return err
	}
	old := m.records.tables(found)
	if len(old) == 0 {
		return nil
	}
	if err := quiet(ctx, conn, sh.Name, m.log); err != nil {
		return err
	}
	// A crash behind it leaves the records, by which it is done again.
	if err := errors.Join(m.store.Doubt(ctx, id, e), m.store.DoubtSequences()); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+strings.Join(old, ", ")); err != nil {
		return err
	}
	m.log.Info("a Shunt with store: local has served the shard: reads by virtual indexes go to it until it has been scanned", "shard", sh.Name)
	return nil
}
