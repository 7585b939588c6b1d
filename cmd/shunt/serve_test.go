package main

import (
	"context"
	"errors"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestDown: a shard that was taken out of the configuration has left jobs in the store.
func TestDown(t *testing.T) {
	claim := func(context.Context, *shard.Conn) error { return nil }
	s := &service{dial: map[catalog.ShardID]shard.Config{
		0: {Health: shard.NewHealth(shard.Config{}, shard.HealthOptions{})},
		1: {Health: shard.NewHealth(shard.Config{}, shard.HealthOptions{Claim: claim, Unreached: errors.New("no answer")})},
	}}
	for id, want := range map[catalog.ShardID]bool{0: false, 1: true, 2: false} {
		if s.down(id) != want {
			t.Errorf("shard %d: down %v", id, !want)
		}
	}
}
