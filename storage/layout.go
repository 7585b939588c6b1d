package storage

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// The first byte of every record's key. doc.go has the whole layout.
const (
	kindFormat     = 'f'
	kindCounter    = 'c'
	kindShard      = 's'
	kindSlots      = 't'
	kindApart      = 'a'
	kindUnlike     = 'u'
	kindPlacement  = 'r'
	kindSequence   = 'q'
	kindIndex      = 'x'
	kindEntry      = 'e'
	kindGarbage    = 'g'
	kindMark       = 'm'
	kindIntent     = 'p'
	kindJob        = 'j'
	kindJobKey     = 'k'
	kindCounts     = 'n'
	kindThread     = 'h'
	kindUnfinished = 'd'
	kindPosition   = 'l'
	formatVersion  = 1
	entryPrefixLen = 1 + 4 + 2

	// MaxKey bounds the length in bytes of an index key.
	MaxKey = 60000
	// maxValue bounds a record's value.
	maxValue = 1<<20 - 1
)

// Names of counters.
const (
	counterEpoch      = "epoch"
	counterIndex      = "index"
	counterGeneration = "generation"
	counterSerial     = "serial"
	counterIdentity   = "identity"
)

var errCorrupt = errors.New("record is corrupt")

func counterKey(name string) []byte { return append([]byte{kindCounter}, name...) }
func shardKey(name string) []byte   { return append([]byte{kindShard}, name...) }
func apartKey(name string) []byte   { return append([]byte{kindApart}, name...) }

func indexKey(id catalog.IndexID) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindIndex}, uint32(id))
}

func garbageKey(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindGarbage}, generation)
}

func jobRecordKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kindJob}, id)
}

func jobKeyKey(id uint64, seq uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{kindJobKey}, id), seq)
}

func markKey(id catalog.IndexID, shard catalog.ShardID) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kindMark}, uint32(id)), byte(shard))
}

// generationPrefix begins the keys of all entries of a generation.
func generationPrefix(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindEntry}, generation)
}

// appendEntryPrefix begins the keys of all entries of one partition.
func appendEntryPrefix(dst []byte, generation uint32, partition uint16) []byte {
	dst = append(dst, kindEntry)
	dst = binary.BigEndian.AppendUint32(dst, generation)
	return binary.BigEndian.AppendUint16(dst, partition)
}

// intentKey ends the names with a zero byte, which no MySQL name contains.
func intentKey(p Pair) []byte {
	k := append([]byte{kindIntent}, p.Schema...)
	k = append(k, 0)
	k = append(k, p.Table...)
	return append(k, 0, byte(p.Shard))
}

func threadKey(shard catalog.ShardID, id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindThread, byte(shard)}, id)
}

func positionKey(shard catalog.ShardID) []byte { return []byte{kindPosition, byte(shard)} }

func unfinishedKey(key string) []byte { return append([]byte{kindUnfinished}, key...) }

// tableKey is a table's record of a kind. It separates the names with a zero byte, too.
func tableKey(kind byte, t catalog.TableName) []byte {
	k := append([]byte{kind}, t.Schema...)
	k = append(k, 0)
	return append(k, t.Name...)
}

func parseIntentKey(k []byte) (Pair, error) {
	if len(k) < 4 || k[0] != kindIntent || k[len(k)-2] != 0 {
		return Pair{}, errCorrupt
	}
	names := k[1 : len(k)-2]
	for i, b := range names {
		if b == 0 {
			return Pair{Schema: string(names[:i]), Table: string(names[i+1:]), Shard: catalog.ShardID(k[len(k)-1])}, nil
		}
	}
	return Pair{}, errCorrupt
}

// partitionOf is FNV-1a 32 of the key modulo the number of partitions.
func partitionOf(key []byte, partitions int) int {
	if partitions == 1 {
		return 0
	}
	h := uint32(2166136261)
	for _, b := range key {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % uint32(partitions))
}

// appendPairs encodes a key's pairs: (shard uvarint, epoch uvarint)*, shards
// rising.
func appendPairs(dst []byte, pairs []ShardEpoch) []byte {
	for _, p := range pairs {
		dst = binary.AppendUvarint(dst, uint64(p.Shard))
		dst = binary.AppendUvarint(dst, uint64(p.Epoch))
	}
	return dst
}

// nextPair decodes the first pair of val. ok is false at the end of val and
// where val is corrupt (then rest is not empty).
func nextPair(val []byte) (p ShardEpoch, rest []byte, ok bool) {
	shard, n := binary.Uvarint(val)
	if n <= 0 || shard >= catalog.MaxShards {
		return p, val, false
	}
	epoch, m := binary.Uvarint(val[n:])
	if m <= 0 {
		return p, val, false
	}
	return ShardEpoch{catalog.ShardID(shard), Epoch(epoch)}, val[n+m:], true
}

// decodePairs appends the pairs of val to dst.
func decodePairs(dst []ShardEpoch, val []byte) ([]ShardEpoch, error) {
	for {
		p, rest, ok := nextPair(val)
		if !ok {
			if len(rest) > 0 {
				return dst, errCorrupt
			}
			return dst, nil
		}
		dst, val = append(dst, p), rest
	}
}

// appendMarks encodes the marks of one (index, shard):
//
//	(epoch uvarint, components uvarint, (length+1 uvarint, bytes)*)*
//
// where components is 0 for a mark that knows nothing, and a length+1 of 0
// stands for an unknown component. One at the end says that the mark is logged.
func appendMarks(dst []byte, marks []Mark) []byte {
	for _, m := range marks {
		dst = binary.AppendUvarint(dst, uint64(m.Epoch))
		known := m.Known
		if m.Logged {
			known = append(slices.Clone(known), nil)
		}
		dst = binary.AppendUvarint(dst, uint64(len(known)))
		for _, c := range known {
			if c == nil {
				dst = append(dst, 0)
				continue
			}
			dst = binary.AppendUvarint(dst, uint64(len(c))+1)
			dst = append(dst, c...)
		}
	}
	return dst
}

func decodeMarks(index catalog.IndexID, shard catalog.ShardID, val []byte) ([]Mark, error) {
	var marks []Mark
	bad := false
	next := func() uint64 {
		n, l := binary.Uvarint(val)
		if l <= 0 {
			bad, val = true, nil
			return 0
		}
		val = val[l:]
		return n
	}
	for len(val) > 0 {
		m := Mark{Index: index, Shard: shard, Epoch: Epoch(next())}
		n := next()
		if n > uint64(len(val)) {
			return nil, errCorrupt
		}
		for range n {
			switch l := next(); {
			case bad || l > uint64(len(val))+1:
				return nil, errCorrupt
			case l == 0:
				m.Known = append(m.Known, nil)
			default:
				m.Known = append(m.Known, append([]byte{}, val[:l-1]...))
				val = val[l-1:]
			}
		}
		if bad {
			return nil, errCorrupt
		}
		if n > 0 && m.Known[n-1] == nil {
			m.Logged, m.Known = true, normal(m.Known)
		}
		marks = append(marks, m)
	}
	return marks, nil
}
