package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
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

// takeOver has a store have what another one, which served later, has kept, but for entries: where
// rows are, which numbers were handed out, and which indexes there are, which are built anew.
//
// The slot map comes last: a store with it has all, and one that a crash has left without is
// given all again. One that has served before has it already: see behind.
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
	apart, err := replaced(to.Apart, from.Apart)
	if err != nil {
		return err
	}
	for name, how := range apart {
		if err := to.SetApart(name, how); err != nil {
			return err
		}
	}
	placements, err := replaced(to.Placements, from.Placements)
	if err == nil {
		err = to.SetPlacements(placements)
	}
	if err != nil {
		return err
	}
	unlike, err := replaced(to.Unlike, from.Unlike)
	if err != nil {
		return err
	}
	for t, how := range unlike {
		if err := to.SetUnlike(t, how); err != nil {
			return err
		}
	}
	unfinished, err := replaced(to.Unfinished, from.Unfinished)
	if err != nil {
		return err
	}
	for key, u := range unfinished {
		if u.At.IsZero() {
			err = to.ForgetUnfinished(key)
		} else {
			err = to.KeepUnfinished(key, u, true)
		}
		if err != nil {
			return err
		}
	}
	numbers, err := from.Sequences()
	if err != nil {
		return err
	}
	for t, next := range numbers {
		if err := to.RaiseSequence(t, next); err != nil {
			return err
		}
	}
	for _, d := range to.Indexes() {
		if err := to.DropIndex(d.ID); err != nil {
			return err
		}
	}
	for _, d := range from.Indexes() {
		d.Status, d.Error, d.Keyed, d.Home = catalog.Building, "", "", ""
		if _, err := to.CreateIndex(d.IndexDef); err != nil {
			return err
		}
	}
	kept, err := to.KeepSlotMap(slots)
	if err == nil && !bytes.Equal(kept, slots) {
		return errSlots
	}
	return err
}

// replaced is what one store is to be told so that it has what another one has: the zero value where that has nothing.
func replaced[K comparable, V any](to, from func() (map[K]V, error)) (map[K]V, error) {
	had, err := to()
	if err != nil {
		return nil, err
	}
	all, err := from()
	if err != nil {
		return nil, err
	}
	out := maps.Clone(all)
	for k := range had {
		if _, still := all[k]; !still {
			var none V
			out[k] = none
		}
	}
	return out, nil
}

// behind notes in data_dir that several Shunts have served since the store in it did: by the ID of theirs. What they have
// changed of placements and indexes isn't in it until it has taken that over.
//
// Counter-example without it: CREATE VIRTUAL INDEX by a member; back with store: local, on the same
// data_dir, the index isn't there, and one that was dropped meanwhile is.
type behind struct{ keptFile[string] }

const behindFile = "behind.json"

func behindIn(dir string) behind {
	return behind{keptFile[string]{filepath.Join(dir, behindFile), func(sum string) string { return sum }}}
}

// behindElsewhere is told where a store is behind another one that isn't on the shards.
const behindElsewhere = "several Shunts with a store elsewhere have served since data_dir did: which virtual indexes and placements they made isn't known; look whether SHOW VIRTUAL INDEXES has all"

// behindUnknown stands for the ID in a damaged file.
const behindUnknown = "unknown"

// of is the other store's ID, "" if there is none.
func (b behind) of() (id string, err error) {
	of, err := b.read()
	switch {
	case errors.Is(err, errDamaged):
		return behindUnknown, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	}
	return of["store"], err
}

func (b behind) set(id string) error { return b.write(map[string]string{"store": id}) }

func (b behind) clear() error {
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// takeOverLocal has a shared store have what data_dir has: at its beginning, and where a Shunt with store: local has served from
// that data_dir since.
func takeOverLocal(ctx context.Context, cfg *config.Config, to *shared.Store, id string, log *slog.Logger) error {
	slots, err := to.SlotMap()
	if err != nil {
		return err
	}
	there, b := storage.Exists(cfg.DataDir), behindIn(cfg.DataDir)
	if slots != nil || !there {
		other, err := b.of()
		if err != nil {
			return err
		}
		last, another, err := servedLast(ctx, cfg)
		if another && !last {
			log.Warn(servedElsewhere, "data_dir", cfg.DataDir)
		}
		switch {
		case err != nil || !there || other == id:
			return err
		case !last:
			return b.set(id)
		}
	}
	if storage.InUse(cfg.DataDir) {
		return fmt.Errorf("a Shunt with store: local serves from data_dir %s: stop it first, so that the shared store has all that it has", cfg.DataDir)
	}
	local, done, _, err := storeToCheck(cfg)
	if err != nil {
		return err
	}
	defer done()
	if err := takeOver(to, local); err != nil {
		return fmt.Errorf("have the shared store go on with what data_dir %s has: %w", cfg.DataDir, err)
	}
	log.Info("the shared store goes on with what data_dir has: placements, numbers, and virtual indexes, which are built anew", "data_dir", cfg.DataDir)
	return b.set(id)
}

// servedElsewhere is told where another data_dir has what was defined last.
const servedElsewhere = "a Shunt with store: local and another data_dir was the last to serve these shards: which virtual indexes and placements it made isn't known here; " +
	"stop all members and start the one with that data_dir first, or look whether SHOW VIRTUAL INDEXES has all"

// servedLast reports that a Shunt with store: local was the last to serve the shards that answer, from this data_dir, or from another, and
// that no member is there.
func servedLast(ctx context.Context, cfg *config.Config) (own, another bool, err error) {
	instance, _, err := scratchInstance(cfg.DataDir)
	if err != nil {
		return false, false, err
	}
	records := recordsToRead(layout{}, lockNames(cfg))
	for _, sh := range cfg.Shards {
		found, err := recordOf(ctx, records, sh)
		switch {
		case err != nil: // it is down, and joined later
		case found.several > 0:
			return false, false, nil
		default:
			for key := range *records.locks.Load() {
				for _, life := range found.lives[key] {
					own, another = own || found.instances[life] == instance, another || found.instances[life] != instance
				}
			}
		}
	}
	return own, another, nil
}

func recordOf(ctx context.Context, records *records, sh config.Shard) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := shard.Dial(ctx, shardConfig(sh), false)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return records.read(ctx, conn)
}

// takeOverShared has a store of this process alone have what a shared store has: at its beginning, and where several have served
// since. took: it has, and is no longer behind once it has claimed the shards.
func takeOverShared(ctx context.Context, cfg *config.Config, to *storage.Store, log *slog.Logger) (took bool, err error) {
	slots, err := to.SlotMap()
	if err != nil {
		return false, err
	}
	b := behindIn(cfg.DataDir)
	since, err := b.of()
	if err != nil || slots != nil && since == "" {
		return false, err
	}
	there, err := sharedThere(ctx, cfg)
	switch {
	case err != nil && slots != nil:
		return false, fmt.Errorf("what several Shunts with this data_dir have changed since it served with store: local is on shard %s, which must answer at this start: %w", cfg.Shards[0].Name, err)
	case !there && slots != nil:
		log.Warn(behindElsewhere, "data_dir", cfg.DataDir)
		return false, nil
	case !there:
		return false, storeElsewhere(ctx, cfg, to)
	}
	at := homesOf(cfg)[0]
	h, err := home.Open(ctx, at.Config)
	if err != nil {
		return false, fmt.Errorf("have data_dir go on with what several Shunts had together: %w", err)
	}
	from, err := shared.Open(ctx, shared.Options{Home: h, Server: at.Name, Logger: log})
	if err != nil {
		return false, errors.Join(err, h.Close())
	}
	defer from.Close()
	id, err := from.Cluster("")
	if err != nil {
		return false, err
	}
	if slots != nil && since != id && since != behindUnknown {
		log.Warn(behindElsewhere, "data_dir", cfg.DataDir)
		return false, nil
	}
	if err := b.set(id); err != nil {
		return false, err
	}
	if err := takeOver(to, from); err != nil {
		return false, fmt.Errorf("have data_dir go on with what several Shunts had together: %w", err)
	}
	log.Info("data_dir goes on with what several Shunts had together: placements, numbers, and virtual indexes, which are built anew")
	return true, nil
}

// storeElsewhere is an error where a process would begin a slot map, and several Shunts with a store on another server have served a shard: by
// their slot map, and placements, rows lie there.
//
// Counter-example: they began with s0 and s1, and s2 was added. One with an empty data_dir makes a map
// of three shards, and looks for rows where they are not.
func storeElsewhere(ctx context.Context, cfg *config.Config, own *storage.Store) error {
	if slots, err := own.SlotMap(); err != nil || slots != nil || cfg.Store.Shared() {
		return err
	}
	if there, err := sharedThere(ctx, cfg); there && err == nil {
		return nil
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

// sharedThere reports that there is a shared store. One on a server that is down isn't waited for, and is an error: what
// the shards have of who served them is looked at when they are back.
func sharedThere(ctx context.Context, cfg *config.Config) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	return home.Exists(ctx, homesOf(cfg)[0].Config)
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
