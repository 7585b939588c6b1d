package main

import (
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// layout is the shards' numbers and who owns which slot.
type layout struct {
	shards []catalog.Shard
	slots  [catalog.Slots]catalog.ShardID
}

// shardLayout gives shards their persistent numbers, and reads the slot map, or
// makes and keeps one when the store has none.
func shardLayout(cfg *config.Config, store *storage.Store) (layout, error) {
	var l layout
	names := map[catalog.ShardID]string{}
	for _, sh := range cfg.Shards {
		id, err := store.ShardID(sh.Name)
		if err != nil {
			return l, fmt.Errorf("number shard %s: %w", sh.Name, err)
		}
		l.shards = append(l.shards, catalog.Shard{ID: catalog.ShardID(id), Name: sh.Name})
		names[catalog.ShardID(id)] = sh.Name
	}
	kept, err := store.SlotMap()
	if err != nil {
		return l, fmt.Errorf("read slot map: %w", err)
	}
	if kept == nil {
		kept = make([]byte, catalog.Slots)
		for i := range kept {
			kept[i] = byte(l.shards[i*len(l.shards)/catalog.Slots].ID)
		}
		if err := store.SetSlotMap(kept); err != nil {
			return l, fmt.Errorf("write slot map: %w", err)
		}
	}
	missing := map[byte]bool{}
	for i, id := range kept {
		l.slots[i] = catalog.ShardID(id)
		if names[catalog.ShardID(id)] == "" {
			missing[id] = true
		}
	}
	if len(missing) > 0 {
		var gone []string
		for name, id := range store.Shards() {
			if missing[byte(id)] {
				gone = append(gone, name)
			}
		}
		return l, fmt.Errorf("the configuration lacks shards that own rows: %s; put them back (rows are placed by the slot map in data_dir, made with these shards)", strings.Join(gone, ", "))
	}
	return l, nil
}
