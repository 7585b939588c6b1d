package main

import (
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// layout is the shards' numbers and who owns which slot.
type layout struct {
	// shards are the configured ones, in its order: those that serve, and those that are joining.
	shards, serving, joining []catalog.Shard
	slots                    [catalog.Slots]catalog.ShardID
}

// shardLayout gives shards their persistent numbers, and reads the slot map, or
// makes and keeps one when the store has none. Shards that come later own no slots, and are joining
// until they have their tables. Shards that the configuration lacks may have no rows.
func shardLayout(cfg *config.Config, store store) (layout, error) {
	var l layout
	kept, err := store.SlotMap()
	if err != nil {
		return l, fmt.Errorf("read slot map: %w", err)
	}
	a := apart{store, cfg}
	if kept != nil {
		leave := a.leave
		if cfg.Store.Shared() { // not before it is known that no other has it serve: openMember
			leave = func() error {
				_, _, err := a.missing(cfg)
				return err
			}
		}
		if err := leave(); err != nil {
			return l, err
		}
	}
	known := store.Shards()
	for _, sh := range cfg.Shards {
		if _, ok := known[sh.Name]; !ok && kept != nil {
			// First: a crash between the two must not leave a shard that counts as serving.
			if err := store.SetApart(sh.Name, unseen); err != nil {
				return l, err
			}
		}
		id, err := store.ShardID(sh.Name)
		if err != nil {
			return l, fmt.Errorf("number shard %s: %w", sh.Name, err)
		}
		l.shards = append(l.shards, catalog.Shard{ID: id, Name: sh.Name})
	}
	if kept == nil {
		slots := make([]byte, catalog.Slots)
		for i := range slots {
			slots[i] = byte(l.shards[i*len(l.shards)/catalog.Slots].ID)
		}
		if kept, err = store.KeepSlotMap(slots); err != nil {
			return l, fmt.Errorf("write slot map: %w", err)
		}
	}
	for i, id := range kept {
		l.slots[i] = catalog.ShardID(id)
	}
	aside, err := store.Apart()
	if err != nil {
		return l, err
	}
	for _, sh := range l.shards {
		if aside[sh.Name] != "" {
			l.joining = append(l.joining, sh)
		} else {
			l.serving = append(l.serving, sh)
		}
	}
	// The first is where tables without a primary key are, whatever place one that was added
	// later has in the file.
	slices.SortStableFunc(l.serving, func(a, b catalog.Shard) int {
		switch owns, other := slices.Contains(kept, byte(a.ID)), slices.Contains(kept, byte(b.ID)); {
		case owns == other:
			return 0
		case owns:
			return -1
		}
		return 1
	})
	return l, nil
}
