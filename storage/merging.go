package storage

import (
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// What follows is for queues that lie elsewhere (package home), so that jobs merge there as here.

// Parts are the jobs that the queue makes of j: one for each of its shards, where its type is for
// one shard.
func (j *Job) Parts() ([]Job, error) {
	part := *j
	part.Indexes, part.UpdatedColumns = union(j.Indexes, nil), union(j.UpdatedColumns, nil)
	part.Keys = (&job{}).lacking(j.Keys)
	if !kindOf(j.Type).perShard {
		return []Job{part}, nil
	}
	var parts []Job
	for shard := range j.Shards.All {
		part.Shards = catalog.Only(shard)
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("enqueue %s: no shards given", j.Type)
	}
	return parts, nil
}

func (j *Job) mergeKey() mergeKey {
	var shard catalog.ShardID // of a job for all shards: 0
	for shard = range j.Shards.All {
		break
	}
	return keyOf(j, shard)
}

// Work is the same for jobs that merge while they wait.
func (j *Job) Work() string { return j.mergeKey().String() }

// Alone is the same for jobs of which one runs at a time.
func (j *Job) Alone() string { return j.mergeKey().exclusive().String() }

// String is of the same length at most as its names, and some 50 bytes.
func (k mergeKey) String() string {
	return fmt.Sprintf("%s\x00%s\x00%s\x00%d\x00%d", k.typ, k.schema, k.table, k.shard, k.index)
}

// waiting is j as the queue holds it. swallows: it has come of Swallowing.
func (j *Job) waiting(swallows bool) *job {
	w := &job{Job: *j, swallows: swallows}
	w.Keys = nil
	for _, k := range j.Keys {
		w.addKey(k)
	}
	return w
}

// Covers reports whether doing j, which waits, does all that n, of the same Work, asks for. Where j
// swallows n is of the type that has become j's.
func (j *Job) Covers(n *Job, swallows bool) bool { return j.waiting(swallows).covers(n) }

// Merged is j, which waits, with what n, of the same Work, asks for.
func (j *Job) Merged(n *Job) Job {
	w := j.waiting(false)
	m := w.with(n)
	for _, k := range w.lacking(n.Keys) {
		w.addKey(k)
	}
	m.Keys = w.keys
	return m
}

// Swallowing is the job that does the work of j (nil: of none) and n, of the same Work, if their keys
// are too many for one job. It goes in j's place, and covers what is like n from then on. nil: they
// are not.
func (j *Job) Swallowing(n *Job) *Job {
	var keys []JobKey
	if j != nil {
		keys = j.Keys
	}
	if kindOf(n.Type).overflow == "" || len(keys)+len(n.Keys) <= maxJobKeys {
		return nil
	}
	scan := n.scanning(keys)
	if j != nil {
		scan.CreatedAt = j.CreatedAt
	}
	return &scan
}

// SwallowedBy is the Work of what Swallowing returns; "" where there is no such job.
func (j *Job) SwallowedBy() string {
	k := j.mergeKey()
	if k.typ = kindOf(j.Type).overflow; k.typ == "" {
		return ""
	}
	return k.String()
}
