package home

import (
	"context"
	"database/sql"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// keysTogether are lookups of keys.
type keysTogether struct {
	mu sync.Mutex
	of map[catalog.IndexID]*indexKeys
}

// indexKeys are those of one index.
type indexKeys struct {
	together[*askedKeys]
	// standing are the marks and floors of a version, nil if none were read yet.
	standing atomic.Pointer[headRow]
}

// noShard stands for the shard of a key that has no entry.
const noShard = 256

// askedKeys is one call of Lookup.
type askedKeys struct {
	questions []Question
	found     []Found
}

// ofKeys: the questions are keys of one index, and few enough for one statement.
func ofKeys(questions []Question) bool {
	for _, q := range questions {
		if q.Range || q.Index != questions[0].Index {
			return false
		}
	}
	return len(questions) <= pieceKeys
}

func (h *Home) lookUpTogether(ctx context.Context, questions []Question) ([]Found, error) {
	asked := &askedKeys{questions: questions}
	id := questions[0].Index
	if err := h.keysOf(id).do(ctx, asked); err != nil {
		return nil, err
	}
	if asked.found[0].NoIndex {
		h.keys.mu.Lock()
		delete(h.keys.of, id)
		h.keys.mu.Unlock()
	}
	return asked.found, nil
}

func (h *Home) keysOf(id catalog.IndexID) *indexKeys {
	h.keys.mu.Lock()
	defer h.keys.mu.Unlock()
	k := h.keys.of[id]
	if k == nil {
		k = &indexKeys{}
		k.together = together[*askedKeys]{
			room: h.piece, size: func(of *askedKeys) int { return len(of.questions) },
			send: func(ctx context.Context, all []*askedKeys) error { return h.lookUpKeys(ctx, k, id, all) },
		}
		h.keys.of[id] = k
	}
	return k
}

// lookUpKeys reads entries and the head's version. Where marks and floors are no longer those of that
// version, all is read anew, as of one moment.
func (h *Home) lookUpKeys(ctx context.Context, k *indexKeys, id catalog.IndexID, all []*askedKeys) error {
	var questions []Question
	for _, of := range all {
		questions = append(questions, of.questions...)
	}
	for i := range questions {
		questions[i].Floors = true
	}
	args := make([]any, 0, 2*len(questions)+1)
	for i, q := range questions {
		args = append(args, i, bytesOf(Kept(q.Key)))
	}
	sets := make([]catalog.ShardSet, len(questions))
	var is version
	var n int
	var shard uint16
	into := []any{&n, &shard, &is.readable, &is.life, &is.removals, &is.marked}
	err := h.each(ctx, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if shard != noShard {
			sets[n].Add(catalog.ShardID(shard))
		}
		return nil
	}, `SELECT v.n, COALESCE(e.shard, `+strconv.Itoa(noShard)+`), h.readable, h.life, h.removals, h.marked
		FROM `+h.flavour.table(len(questions), "n", "k")+` v STRAIGHT_JOIN heads h FORCE INDEX (PRIMARY)
		LEFT JOIN entries e FORCE INDEX (PRIMARY) ON e.idx = h.idx AND e.generation = h.readable AND e.k = v.k WHERE h.idx = ?`+h.flavour.cluster.reads(), append(args, id)...)
	if err != nil {
		return err
	}
	found := make([]Found, 0, len(questions))
	head := k.standing.Load()
	switch {
	case is.readable == 0:
		head = &headRow{}
	case head == nil || head.version != is:
		l := h.newLookup(questions)
		if err := h.read(ctx, l); err != nil {
			return err
		}
		k.standing.Store(l.heads[id])
		found = l.found()
	}
	if len(found) == 0 {
		for i, q := range questions {
			found = append(found, head.found(q, sets[i], 0))
		}
	}
	for _, of := range all {
		n := len(of.questions)
		of.found, found = found[:n:n], found[n:]
	}
	return nil
}
