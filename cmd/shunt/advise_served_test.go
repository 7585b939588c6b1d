package main

import "testing"

// TestDistinct: how many values there are over all shards is told by those of each.
func TestDistinct(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shards      int
		rows, least uint64
		onOne       float64
		most        uint64
	}{
		{4, 1000, 999, 250, 1000},          // unique
		{4, 1000, 5, 5, 5},                 // each is on all
		{4, 2000, 950, 437.5, 1050},        // two rows each
		{1, 1000, 100, 100, 100},           // one shard
		{4, 0, 0, 0, 0},                    // no rows
		{16, 1_000_000, 9900, 9984, 10100}, // a hundred each
	} {
		if got := distinct(c.shards, c.rows, c.onOne); got < c.least || got > c.most {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}
