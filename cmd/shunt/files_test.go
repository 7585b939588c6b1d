package main

import "testing"

func TestClientsWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ files, shards, want int }{
		{1 << 20, 512, 1<<20 - 256 - 512},
		{4096, 512, 4096 - 256 - 512},
		{1024, 512, 384},
		{256, 512, 64},
		{1, 512, 1},
	} {
		if got := clientsWithin(c.files, c.shards); got != c.want {
			t.Errorf("%d files, %d shard connections: %d clients, want %d", c.files, c.shards, got, c.want)
		}
	}
}
