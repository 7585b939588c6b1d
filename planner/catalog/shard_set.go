package catalog

import "math/bits"

// ShardID is the persistent number of a shard: the store assigns one to each
// shard name and never gives it to another.
type ShardID uint8

// MaxShards bounds ShardID and with it the size of a ShardSet.
const MaxShards = 256

// ShardSet is a set of shards, as a value: comparing and copying it costs no
// allocation.
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

// Len counts the shards in the set.
func (s ShardSet) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Union returns the shards that are in s or in o.
func (s ShardSet) Union(o ShardSet) ShardSet {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Intersect returns the shards that are in both.
func (s ShardSet) Intersect(o ShardSet) ShardSet {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// Minus returns the shards of s that are not in o.
func (s ShardSet) Minus(o ShardSet) ShardSet {
	for i := range s {
		s[i] &^= o[i]
	}
	return s
}

// Contains reports whether every shard of o is in s.
func (s ShardSet) Contains(o ShardSet) bool { return o.Minus(s).Empty() }

// All yields the shards of the set in ascending order.
func (s ShardSet) All(yield func(ShardID) bool) {
	for i, w := range s {
		for w != 0 {
			b := bits.TrailingZeros64(w)
			w &^= 1 << b
			if !yield(ShardID(i*64 + b)) {
				return
			}
		}
	}
}

// First returns the lowest shard of the set. REQUIRES: the set is not empty.
func (s ShardSet) First() ShardID {
	for i, w := range s {
		if w != 0 {
			return ShardID(i*64 + bits.TrailingZeros64(w))
		}
	}
	panic("catalog: First of an empty ShardSet")
}
