package main

import (
	"testing"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/planner/catalog"
)

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

// TestTogether: rows are those of all shards, and a value that each of them has is counted once.
func TestTogether(t *testing.T) {
	t.Parallel()
	users, empty := catalog.TableName{Schema: "app", Name: "users"}, catalog.TableName{Schema: "app", Name: "empty"}
	each := map[catalog.ShardID]tableStats{
		0: {users: advise.Stats{Rows: 600, Bytes: 10, Distinct: map[string]uint64{"id": 600, "city": 5}}},
		1: {users: advise.Stats{Rows: 400, Bytes: 20, Distinct: map[string]uint64{"id": 400, "city": 5}}, empty: advise.Stats{}},
	}
	all := together(each)
	if got := all[users]; got.Rows != 1000 || got.Bytes != 30 || got.Distinct["city"] != 5 || got.Distinct["id"] < 999 {
		t.Errorf("%+v", got)
	}
	if _, ok := all[empty]; !ok || len(all) != 2 {
		t.Errorf("%+v", all)
	}
	if n := each[0][users].Distinct["city"]; n != 5 || each[0][users].Distinct["id"] != 600 {
		t.Error("a shard's own were changed")
	}
}
