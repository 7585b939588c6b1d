package indexer

import (
	"encoding/binary"
	"hash/maphash"
)

// ledger remembers keys by a 128-bit hash that is seeded anew for each scan:
// which ones the store had for this shard when the scan began, and which ones
// the scan saw. Up to its limit it is exact (two of a billion keys collide with
// a probability of 1e-21, and the next scan has other seeds). Over the limit it
// turns into a filter of the keys seen, which has no false negatives; then
// nothing is known about the store any more, and every key seen must be added.
type ledger struct {
	seeds [2]maphash.Seed
	slots []slot
	used  int
	limit int
	// stored holds the keys that the store had, each after its length, so that
	// those not seen can be told; nil once they are too many.
	stored []byte
	// bloom is set once the ledger is over its limit.
	bloom *bloom
}

// slot is one key's hash; b has its lowest bit set (so that a free slot is the
// zero value) and the next one if the key was seen. at is the position in
// stored plus 1, 0 for a key that the store didn't have.
type slot struct {
	a, b uint64
	at   uint32
}

const (
	slotUsed = 1
	slotSeen = 2
)

const (
	// maxLedger bounds the keys that a ledger keeps exactly: 96 MiB of slots.
	maxLedger = 3 << 20
	// maxStored bounds the bytes of the keys that the store had, in a ledger of maxLedger keys;
	// minStored in a small one.
	maxStored = 32 << 20
	minStored = 1 << 20
	// ledgerShare of a memory limit are the slots of a ledger, 64 bytes a key while they grow: two
	// scans at once and what is stored have to fit as well.
	ledgerShare = 16
)

// ledgerLimit is how many keys a ledger keeps exactly under a memory limit of the process.
func ledgerLimit(memory int64) int { return int(min(maxLedger, memory/ledgerShare/64)) }

func newLedger(limit int) *ledger {
	return &ledger{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		slots: make([]slot, 64), limit: limit, stored: []byte{},
	}
}

func (l *ledger) hash(key []byte) slot {
	return slot{a: maphash.Bytes(l.seeds[0], key), b: maphash.Bytes(l.seeds[1], key)&^(slotUsed|slotSeen) | slotUsed}
}

func (l *ledger) find(h slot) *slot {
	mask := uint64(len(l.slots) - 1)
	for i := h.a & mask; ; i = (i + 1) & mask {
		s := &l.slots[i]
		if s.b == 0 || s.a == h.a && s.b&^slotSeen == h.b {
			return s
		}
	}
}

// has notes that the store has the key.
func (l *ledger) has(key []byte) {
	if l.bloom != nil {
		return
	}
	h := l.hash(key)
	if l.stored != nil {
		h.at = uint32(len(l.stored) + 1)
		l.stored = append(binary.AppendUvarint(l.stored, uint64(len(key))), key...)
		if len(l.stored) > max(minStored, l.limit*(maxStored/maxLedger)) {
			l.stored = nil
		}
	}
	l.put(h)
}

// unseen calls fn with the keys that the store had and the scan didn't see,
// until it returns false. ok is false where they are not known; fn was not
// called then.
func (l *ledger) unseen(fn func(key []byte) (more bool)) (ok bool) {
	if l.bloom != nil || l.stored == nil {
		return false
	}
	for _, s := range l.slots {
		if s.at == 0 || s.b&slotSeen != 0 {
			continue
		}
		n, size := binary.Uvarint(l.stored[s.at-1:])
		from := int(s.at) - 1 + size
		if !fn(l.stored[from : from+int(n)]) {
			break
		}
	}
	return true
}

// see notes that the scan saw the key. known is true where the store surely
// has it already, or an earlier see of it returned false.
func (l *ledger) see(key []byte) (known bool) {
	h := l.hash(key)
	if l.bloom == nil {
		if s := l.find(h); s.b != 0 {
			s.b |= slotSeen
			return true
		}
		h.b |= slotSeen
		l.put(h)
		return false
	}
	l.bloom.add(h)
	return false
}

// saw reports whether the scan saw the key; it may be wrong only in saying yes.
func (l *ledger) saw(key []byte) bool {
	h := l.hash(key)
	if l.bloom != nil {
		return l.bloom.has(h)
	}
	return l.find(h).b&slotSeen != 0
}

// put stores the hash if it is not there.
func (l *ledger) put(h slot) {
	s := l.find(slot{a: h.a, b: h.b &^ slotSeen})
	if s.b != 0 {
		s.b |= h.b & slotSeen
		return
	}
	*s = h
	if l.used++; l.used >= l.limit {
		l.overflow()
		return
	}
	if l.used*4 > len(l.slots)*3 {
		old := l.slots
		l.slots = make([]slot, 2*len(old))
		for _, h := range old {
			if h.b != 0 {
				*l.find(slot{a: h.a, b: h.b &^ slotSeen}) = h
			}
		}
	}
}

func (l *ledger) overflow() {
	l.bloom = newBloom(2 * l.limit)
	for _, h := range l.slots {
		if h.b&slotSeen != 0 {
			l.bloom.add(slot{a: h.a, b: h.b &^ slotSeen})
		}
	}
	l.slots, l.stored = nil, nil
}

// bloom is a chain of Bloom filters, each twice as large as the one before,
// with a false positive rate of about 1e-5 in all.
type bloom struct {
	bits [][]uint64
	left int // keys that the last one still takes
	next int // capacity of the next one
}

const (
	bloomBits   = 32 // a key
	bloomHashes = 16
)

func newBloom(capacity int) *bloom {
	b := &bloom{next: max(capacity, 1024)}
	b.grow()
	return b
}

func (b *bloom) grow() {
	words := 1
	for words*64 < b.next*bloomBits {
		words *= 2
	}
	b.bits = append(b.bits, make([]uint64, words))
	b.left, b.next = b.next, 2*b.next
}

func (b *bloom) add(h slot) {
	if b.has(h) {
		return
	}
	if b.left == 0 {
		b.grow()
	}
	b.left--
	bits := b.bits[len(b.bits)-1]
	mask := uint64(len(bits)*64 - 1)
	step := h.b | slotUsed
	for i, p := 0, h.a; i < bloomHashes; i, p = i+1, p+step {
		bits[p&mask>>6] |= 1 << (p & 63)
	}
}

func (b *bloom) has(h slot) bool {
	step := h.b | slotUsed
	for _, bits := range b.bits {
		mask := uint64(len(bits)*64 - 1)
		i, p := 0, h.a
		for ; i < bloomHashes && bits[p&mask>>6]&(1<<(p&63)) != 0; i, p = i+1, p+step {
		}
		if i == bloomHashes {
			return true
		}
	}
	return false
}
