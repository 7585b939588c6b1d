package catalog

// Slots is the number of slots that shard keys hash into.
const Slots = 1024

// slot is that of a canonical shard key (planner/keys encoding).
func slot(key []byte) int {
	h := uint32(2166136261) // FNV-1a
	for _, b := range key {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % Slots)
}

// ShardOf is the shard that owns a canonical shard key.
func (c *Catalog) ShardOf(key []byte) ShardID { return c.Slots[slot(key)] }
