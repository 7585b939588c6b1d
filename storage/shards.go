package storage

import "math/bits"

// Epoch counts the openings of scans. Epochs never repeat, also after a power
// loss. 0 is before every epoch that the store hands out.
type Epoch uint64

// IndexID names a virtual index for good: an ID is never used again.
type IndexID uint32

// ShardID numbers a shard for good; see Store.ShardID.
type ShardID uint8

// MaxShards bounds ShardID.
const MaxShards = 256

// ShardSet is a set of shards, as a value. It has the layout of the planner
// catalog's ShardSet, so that converting is free.
type ShardSet [MaxShards / 64]uint64

// Only returns the set that holds just id.
func Only(id ShardID) ShardSet {
	var s ShardSet
	s.Add(id)
	return s
}

// Add puts id into the set.
func (s *ShardSet) Add(id ShardID) { s[id/64] |= 1 << (id % 64) }

// Has reports whether id is in the set.
func (s ShardSet) Has(id ShardID) bool { return s[id/64]&(1<<(id%64)) != 0 }

// Empty reports whether no shard is in the set.
func (s ShardSet) Empty() bool { return s == ShardSet{} }

// Union returns the shards that are in s or in o.
func (s ShardSet) Union(o ShardSet) ShardSet {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Contains reports whether every shard of o is in s.
func (s ShardSet) Contains(o ShardSet) bool { return s.Union(o) == s }

// All yields the shards of the set in rising order.
func (s ShardSet) All(yield func(ShardID) bool) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			if !yield(ShardID(i*64 + bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

// First returns the lowest shard of the set, 0 where it is empty.
func (s ShardSet) First() ShardID {
	for id := range s.All {
		return id
	}
	return 0
}
