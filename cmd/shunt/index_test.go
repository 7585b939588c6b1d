package main

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/indexer"
)

// TestLeadsEverywhere: an index is said to save nothing where nearly all shards have rows of each value.
func TestLeadsEverywhere(t *testing.T) {
	for _, x := range []struct {
		is     indexer.Fanout
		shards int
		said   string
	}{
		{indexer.Fanout{Reads: 999, Shards: 4 * 999}, 4, ""}, // too few to say
		{indexer.Fanout{Reads: 1000, Shards: 4000}, 4, "of 4 shards 4.0 have rows"},
		{indexer.Fanout{Reads: 1000, Shards: 3700}, 4, "of 4 shards 3.7 have rows"},
		{indexer.Fanout{Reads: 1000, Shards: 4000, Vain: 3000}, 4, ""}, // marks, or stale entries
		{indexer.Fanout{Reads: 1000, Shards: 3500}, 4, ""},
		{indexer.Fanout{Reads: 1000, Shards: 1000}, 1, ""},
	} {
		if said := leadsEverywhere(x.is, x.shards); (said == "") != (x.said == "") || !strings.Contains(said, x.said) {
			t.Errorf("%+v over %d shards: %q", x.is, x.shards, said)
		}
	}
}
