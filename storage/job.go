package storage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// mergeKey says which jobs merge; see jobKind.
type mergeKey struct {
	typ, schema, table string
	// shard is -1 where the job is for all its shards.
	shard int16
	index catalog.IndexID
}

// job is a job in the queue. Job.Keys is nil: the keys are in keys.
type job struct {
	Job
	key  mergeKey
	keys []JobKey
	seen map[seenKey]struct{}
	// nextKey numbers the next key's record: one for each of keys. Those from
	// saved on have none yet.
	nextKey uint32
	saved   int
	// unsaved: the job is in queue.unsaved.
	unsaved bool
	// swallows: the job is what became of one with too many keys, so further
	// ones for the (table, shard) add nothing to it.
	swallows bool
}

type seenKey struct {
	index catalog.IndexID
	key   string
}

func keyOf(j *Job, shard catalog.ShardID) mergeKey {
	k, kind := mergeKey{typ: j.Type, schema: j.Schema, table: j.Table, shard: -1}, kindOf(j.Type)
	switch {
	case kind.perShard:
		k.shard = int16(shard)
	case kind.perIndex && len(j.Indexes) > 0:
		k.index = j.Indexes[0]
	}
	return k
}

// exclusive is the key under which only one job may run.
func (k mergeKey) exclusive() mergeKey {
	if as := kindOf(k.typ).runsAs; as != "" {
		k.typ = as
	}
	return k
}

func (j *job) addKey(k JobKey) {
	if j.seen == nil {
		j.seen = map[seenKey]struct{}{}
	}
	sk := seenKey{k.Index, string(k.Key)}
	if _, ok := j.seen[sk]; !ok {
		j.seen[sk] = struct{}{}
		j.keys = append(j.keys, k)
	}
}

// lacking are copies of those keys that j has not.
func (j *job) lacking(keys []JobKey) []JobKey {
	var out []JobKey
	for _, k := range keys {
		if _, ok := j.seen[seenKey{k.Index, string(k.Key)}]; !ok {
			out = append(out, JobKey{k.Index, slices.Clone(k.Key), slices.Clone(k.Values)})
		}
	}
	return out
}

// covers reports whether doing j does all that n asks for. It allocates
// nothing: it is what most UPDATEs find.
func (j *job) covers(n *Job) bool {
	if j.swallows && kindOf(n.Type).overflow != "" {
		for i := range n.Keys {
			if !slices.Contains(j.Indexes, n.Keys[i].Index) {
				return false
			}
		}
		return true
	}
	if !j.inTime(n) || !hasOperations(j.Operation, n.Operation) {
		return false
	}
	for _, id := range n.Indexes {
		if !slices.Contains(j.Indexes, id) {
			return false
		}
	}
	for _, c := range n.UpdatedColumns {
		if !slices.Contains(j.UpdatedColumns, c) {
			return false
		}
	}
	if !kindOf(n.Type).perShard && !j.Shards.Contains(n.Shards) {
		return false
	}
	for i := range n.Keys {
		if _, ok := j.seen[seenKey{n.Keys[i].Index, string(n.Keys[i].Key)}]; !ok {
			return false
		}
	}
	return true
}

// inTime: j will run no later than n asks for. A job that failed keeps its
// backoff whatever comes, or a failing shard would be asked with each UPDATE.
func (j *job) inTime(n *Job) bool {
	return j.Attempts > 0 || !j.NotBefore.After(n.NotBefore)
}

// hasOperations reports whether all of b's operations ("UPDATE+DELETE") are
// among a's.
func hasOperations(a, b string) bool {
	for b != "" {
		var op string
		op, b, _ = strings.Cut(b, "+")
		found := false
		for rest := a; rest != "" && !found; {
			var have string
			have, rest, _ = strings.Cut(rest, "+")
			found = have == op
		}
		if !found {
			return false
		}
	}
	return true
}

func union[T cmp.Ordered](a, b []T) []T {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// with returns j's record merged with n.
func (j *job) with(n *Job) Job {
	m := j.Job
	if !j.inTime(n) {
		m.NotBefore = n.NotBefore
	}
	if !n.CreatedAt.IsZero() && n.CreatedAt.Before(m.CreatedAt) { // zero: now
		m.CreatedAt = n.CreatedAt
	}
	if !hasOperations(m.Operation, n.Operation) {
		ops := union(strings.Split(m.Operation, "+"), strings.Split(n.Operation, "+"))
		m.Operation = strings.TrimPrefix(strings.Join(ops, "+"), "+")
	}
	m.Indexes = union(m.Indexes, n.Indexes)
	m.UpdatedColumns = union(m.UpdatedColumns, n.UpdatedColumns)
	if !kindOf(n.Type).perShard {
		m.Shards = m.Shards.Union(n.Shards)
	}
	return m
}

// setJob writes a job's record; its keys have records of their own.
func setJob(w *changes, j Job) error {
	j.Keys = nil
	return setJSON(w, jobRecordKey(j.ID), j)
}

// setJobKeys writes a job's record and those of keys, numbered from next on.
func setJobKeys(w *changes, rec Job, next uint32, keys []JobKey) error {
	for i, k := range keys {
		if err := setJSON(w, jobKeyKey(rec.ID, next+uint32(i)), k); err != nil {
			return err
		}
	}
	return setJob(w, rec)
}

// export returns a copy for callers.
func (j *job) export(now time.Time) Job {
	c := j.Job
	c.Indexes = slices.Clone(c.Indexes)
	c.UpdatedColumns = slices.Clone(c.UpdatedColumns)
	c.Checkpoint = slices.Clone(c.Checkpoint)
	c.Keys = slices.Clone(j.keys)
	switch {
	case j.claimed(now):
		c.State = Running
	case j.Attempts > 0 && j.NotBefore.After(now):
		c.State = Backoff
	default:
		c.State = Waiting
	}
	return c
}

func (j *job) claimed(now time.Time) bool {
	return j.ClaimedBy != "" && j.ClaimedUntil.After(now)
}
