package storage

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// hot is a bounded cache of entry records in front of Pebble: the value of a
// record key, empty where there is no record. It never lacks one that lookups must
// find; doc.go says why ("Hot records").
//
// It is cut into stripes by the key's hash. Each has two halves: new records go
// into the young one; when that is full, the old one's are forgotten and the
// two change places. A record that is found in the old half is copied into the
// young one, so what is asked for again stays. Halves hold no pointers, so the
// garbage collector has nothing to walk, and keys are compared in full: there is
// no hash to trust.
type hot struct {
	seed    maphash.Seed
	stripes [hotStripes]hotStripe
	// limit is the bytes of records in one half, slots its slots; 0: nothing is
	// cached.
	limit, slots int
}

const (
	hotStripes = 64
	// defaultHotBytes bounds the cache: see "Hot records" in doc.go.
	defaultHotBytes = 32 << 20
	// hotSlotBytes: a half has one slot for so many bytes. A record of a text key
	// takes 60 to 100 bytes, one of a number 30.
	hotSlotBytes = 32
	// hotHeader begins a record: hash(8), lengths of the key and the value(2 each).
	hotHeader = 12
	// hotLongest bounds a record's key, so that a few long ones don't take a
	// half.
	hotLongest = 1024
	// hotValue bounds a record's value: a key on more than some 50 shards is no
	// case for an index.
	hotValue = 256
)

type hotStripe struct {
	mu sync.Mutex
	// version counts the changes begun, changing those under way: between them
	// a value that was read from Pebble may be of before or after the change,
	// and is not kept.
	version    uint64
	changing   int
	young, old hotHalf
	// full: a record has had to go for another one.
	full bool

	hits, misses uint64
	_            [64]byte // of its own cache line
}

// hotHalf is an open hash table of positions in data.
type hotHalf struct {
	// slots are positions plus 1, 0 for a free one. Linear probing; nothing is
	// ever taken out (a record that is forgotten stays, dead).
	slots []uint32
	data  []byte
	n     int
}

// hotDead is the length of the value of a record that was forgotten.
const hotDead = 1<<16 - 1

// ticket lets who found nothing keep what it then reads from Pebble.
type ticket struct {
	hash, version uint64
	// ok is false while the stripe is being changed.
	ok bool
}

func newHot(size int) *hot {
	h := &hot{seed: maphash.MakeSeed()}
	if size > 0 {
		half := min(max(size/hotStripes/2, 1<<10), 1<<31) // positions have 32 bits
		for h.slots = 1; 2*h.slots*hotSlotBytes <= half; {
			h.slots *= 2
		}
		h.limit = half - 4*h.slots
	}
	return h
}

func (h *hot) stripe(hash uint64) *hotStripe { return &h.stripes[hash%hotStripes] }

// get adds a record's shards to set if it has the record: those of the published
// snapshot at a moment during the call. If not, the ticket is for put.
func (h *hot) get(set *catalog.ShardSet, key []byte) (t ticket, ok bool, err error) {
	if h.limit == 0 {
		return ticket{}, false, nil
	}
	hash := maphash.Bytes(h.seed, key)
	s := h.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.find(h, hash, key)
	if rec == nil {
		s.misses++
		return ticket{hash, s.version, s.changing == 0}, false, nil
	}
	s.hits++
	return ticket{}, true, addShards(set, rec[hotHeader+len(key):])
}

// put keeps what a published snapshot held, unless the record may have changed
// since get gave the ticket.
//
// REQUIRES: the snapshot was acquired after that get.
func (h *hot) put(t ticket, key, val []byte) {
	if !t.ok || !h.keeps(key, val) {
		return
	}
	var buf hotRecord
	rec := buf.of(t.hash, key, val)
	s := h.stripe(t.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != t.version {
		return // a change has begun since; one that was under way gave no ticket
	}
	// Two may have missed at once.
	if s.young.find(t.hash, key) == nil && s.old.find(t.hash, key) == nil {
		s.keep(h, rec)
	}
}

// keeps reports whether a record is of those that are kept.
func (h *hot) keeps(key, val []byte) bool {
	return len(key) <= hotLongest && len(val) <= hotValue && hotHeader+len(key)+len(val) <= h.limit
}

// hotRecord is room for one.
type hotRecord [hotHeader + hotLongest + hotValue]byte

func (buf *hotRecord) of(hash uint64, key, val []byte) []byte {
	binary.LittleEndian.PutUint64(buf[:], hash)
	binary.LittleEndian.PutUint16(buf[8:], uint16(len(key)))
	binary.LittleEndian.PutUint16(buf[10:], uint16(len(val)))
	return append(append(buf[:hotHeader], key...), val...)
}

// change is called before a record's change is committed, and changed, with the hash that it
// returns, after it was published, or has failed: in between the record is not here.
func (h *hot) change(key []byte) (hash uint64) {
	if h.limit == 0 {
		return 0
	}
	hash = maphash.Bytes(h.seed, key)
	s := h.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changing++
	s.version++
	for _, half := range []*hotHalf{&s.young, &s.old} {
		if rec := half.find(hash, key); rec != nil {
			binary.LittleEndian.PutUint16(rec[10:], hotDead)
		}
	}
	return hash
}

// changed ends a change. With keep val is what the record is now, which is kept where nothing
// has to go for it; without, nobody knows, or it is not the last change of the commit.
//
// REQUIRES: the published snapshot has it, and who may change it is the caller.
func (h *hot) changed(hash uint64, key, val []byte, keep bool) {
	if h.limit == 0 {
		return
	}
	s := h.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changing--
	if invariants && s.changing < 0 {
		panic("storage: a change of a hot record ended twice")
	}
	if !keep || s.full || !h.keeps(key, val) {
		return
	}
	var buf hotRecord
	if rec := buf.of(hash, key, val); s.old.n == 0 || s.young.fits(h, rec) {
		s.keep(h, rec)
	}
}

// find returns a record, nil if there is none, and lets it stay. It is valid until
// the stripe is unlocked.
func (s *hotStripe) find(h *hot, hash uint64, key []byte) []byte {
	if rec := s.young.find(hash, key); rec != nil {
		return rec
	}
	if rec := s.old.find(hash, key); rec != nil {
		s.keep(h, rec)
		return s.young.find(hash, key)
	}
	return nil
}

// keep puts a record into the young half. rec may be in the old one.
func (s *hotStripe) keep(h *hot, rec []byte) {
	if !s.young.fits(h, rec) {
		// rec may lie in the array that is now overwritten from its begin on:
		// append copies as copy does.
		s.young, s.old = s.old, s.young
		s.full = s.full || s.young.n > 0
		s.young.clear()
	}
	s.young.put(h, rec)
}

func (half *hotHalf) fits(h *hot, rec []byte) bool {
	return len(half.data)+len(rec) <= h.limit && half.n < h.slots*3/4
}

func (half *hotHalf) clear() {
	clear(half.slots)
	half.data, half.n = half.data[:0], 0
}

func (half *hotHalf) put(h *hot, rec []byte) {
	if half.slots == nil {
		half.slots = make([]uint32, h.slots)
	}
	if need := len(half.data) + len(rec); need > cap(half.data) {
		data := make([]byte, len(half.data), min(max(2*need, 4<<10), h.limit))
		copy(data, half.data)
		half.data = data
	}
	mask := uint64(len(half.slots) - 1)
	i := binary.LittleEndian.Uint64(rec) >> 8 & mask
	for half.slots[i] != 0 {
		i = (i + 1) & mask
	}
	half.slots[i] = uint32(len(half.data) + 1)
	half.data = append(half.data, rec...)
	half.n++
}

// find returns the record of a key, nil if there is none.
func (half *hotHalf) find(hash uint64, key []byte) []byte {
	if half.n == 0 {
		return nil
	}
	mask := uint64(len(half.slots) - 1)
	for i := hash >> 8 & mask; half.slots[i] != 0; i = (i + 1) & mask {
		rec := half.data[half.slots[i]-1:]
		n, val := int(binary.LittleEndian.Uint16(rec[8:])), int(binary.LittleEndian.Uint16(rec[10:]))
		if binary.LittleEndian.Uint64(rec) == hash && val != hotDead && n == len(key) &&
			bytes.Equal(rec[hotHeader:hotHeader+n], key) {
			return rec[:hotHeader+n+val]
		}
	}
	return nil
}

// stats adds up what the stripes have counted.
func (h *hot) stats() (hits, misses uint64, size int64) {
	for i := range h.stripes {
		s := &h.stripes[i]
		s.mu.Lock()
		hits += s.hits
		misses += s.misses
		size += int64(cap(s.young.data) + cap(s.old.data) + 4*(len(s.young.slots)+len(s.old.slots)))
		s.mu.Unlock()
	}
	return hits, misses, size
}
