package main

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestPlaceUnread: a place that can't be read, since it is damaged or another version's, is none: the log is followed from now
// on, behind a scan, in place of being tried again for ever.
func TestPlaceUnread(t *testing.T) {
	t.Parallel()
	b := &binlogs{dial: map[catalog.ShardID]shard.Config{0: {Name: "s0"}}, log: slog.New(slog.DiscardHandler)}
	for _, place := range []string{"server\nnonsense", "server\n3e11fa47-71ca-11e1-9e33-c80aa9429562:x", "server\n0-1-2-3"} {
		err := b.Follow(t.Context(), 0, place, func(indexer.Trail) indexer.Reader {
			t.Fatalf("%q is followed", place)
			return nil
		})
		if !errors.Is(err, indexer.ErrNoPlace) {
			t.Errorf("%q: %v", place, err)
		}
	}
}
