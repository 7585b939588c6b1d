package indexer

import (
	"encoding/json"
	"fmt"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// After enqueues jobs. Call it when the statement's outcome is known and, in a
// transaction, when that has ended: a job that runs before sees the old rows.
// A job that can't be enqueued is logged and counted; the entries that stay are
// stale, and marks get their job at the next start.
func (x *Indexer) After(ms ...plan.Maintenance) {
	w := preparations.Get().(*preparation)
	defer w.release()
	for _, m := range ms {
		if m.Logged {
			// The log tells which keys the statement has left, and its marks are cleared behind it.
			m.Shards = m.Shards.Minus(x.followers.live(m.Shards))
		}
		if m.Shards.Empty() {
			continue
		}
		j := storage.Job{
			Type: storage.MaintainIndex, Schema: m.Table.Schema, Table: m.Table.Name, Operation: m.Operation,
			Shards: m.Shards, UpdatedColumns: m.Columns, NotBefore: x.clock.Now().Add(x.opts.Delay),
		}
		if len(m.Keys) > 0 {
			j.Type = storage.VerifyKeys
			for _, p := range m.Keys {
				k, err := jobKey(p)
				if err != nil {
					x.afterError(err)
					continue
				}
				j.Keys = append(j.Keys, k)
			}
		}
		for _, ix := range m.Indexes {
			w.indexes = append(w.indexes, ix.ID)
		}
		j.Indexes, w.indexes = w.indexes, w.indexes[:0]
		if err := x.store.EnqueueSoon(j); err != nil {
			x.afterError(err)
		}
	}
}

func (x *Indexer) afterError(err error) {
	x.log.Warn("a maintenance job could not be enqueued; stale index entries may stay until the next reconciliation", "error", err)
	if x.opts.Metrics.AfterError != nil {
		x.opts.Metrics.AfterError(err)
	}
}

func jobKey(p plan.Probe) (storage.JobKey, error) {
	values, err := json.Marshal(p.Values)
	if err != nil {
		return storage.JobKey{}, fmt.Errorf("encode values of a key: %w", err)
	}
	return storage.JobKey{Index: p.Index.ID, Key: p.Key, Values: values}, nil
}

// probes turns a job's keys into probes; those of indexes that are gone are
// left out.
func probes(t *catalog.Table, ks []storage.JobKey) []plan.Probe {
	var ps []plan.Probe
	for _, k := range ks {
		for _, ix := range t.Indexes {
			if ix.ID != k.Index {
				continue
			}
			p := plan.Probe{Index: ix, Key: k.Key}
			if json.Unmarshal(k.Values, &p.Values) == nil {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

func (x *Indexer) enqueueBuild(def storage.IndexRecord, operation string) error {
	_, err := x.store.Enqueue(storage.Job{
		Type: storage.BuildIndex, Schema: def.Schema, Table: def.Table, Operation: operation,
		Indexes: []catalog.IndexID{def.ID}, NotBefore: x.clock.Now(),
	})
	if err != nil {
		return fmt.Errorf("enqueue build of index %s: %w", def.Name, err)
	}
	return nil
}
