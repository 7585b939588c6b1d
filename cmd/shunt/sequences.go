package main

import (
	"errors"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/storage"
)

// sequences are the store's as the proxy sees them.
type sequences struct {
	store     store
	directory *schema.Directory
}

var _ proxy.Sequences = sequences{}

func (q sequences) Take(t *catalog.Table, take func(next uint64) (end uint64)) (first uint64, release func(), err error) {
	taken, err := q.store.TakeNumbers(sequenceOf(t), take)
	switch {
	case errors.Is(err, storage.ErrUnstarted):
		return 0, nil, proxy.ErrUnstarted
	case err != nil:
		return 0, nil, storeError(err)
	}
	return taken.First, taken.Release, nil
}

func (q sequences) Start(t *catalog.Table, ask func() (from uint64, err error)) error {
	if err := q.store.StartSequence(sequenceOf(t), ask); err != nil {
		return storeError(err)
	}
	return nil
}

func (q sequences) Kept(t *catalog.Table) (bool, error) { return q.store.SequenceKept(sequenceOf(t)) }

func (q sequences) Doubt(t *catalog.Table) { q.store.DoubtSequence(sequenceOf(t)) }

func sequenceOf(t *catalog.Table) catalog.TableName {
	return catalog.TableName{Schema: t.Schema, Name: t.Name}
}

// afterDDL follows what DDL did to counters, or may have done: then they ask
// their tables again. ALTER TABLE may have set one (AUTO_INCREMENT = n).
func (q sequences) afterDDL(d *plan.DDL) error {
	fold := func(name string) string {
		if q.directory.Catalog().LowerCaseNames {
			return strings.ToLower(name)
		}
		return name
	}
	if d.Op == "DROP DATABASE" {
		return q.store.DropSequences(fold(d.Schema))
	}
	var failed error
	for i, t := range d.Tables {
		name := catalog.TableName{Schema: fold(t.Schema), Name: fold(t.Name)}
		switch d.Op {
		case "CREATE TABLE", "TRUNCATE TABLE", "ALTER TABLE":
			q.store.RestartSequence(name)
		case "DROP TABLE":
			failed = errors.Join(failed, q.store.DropSequence(name))
		}
		if i < len(d.Renamed) && d.Renamed[i].Name != "" {
			to := catalog.TableName{Schema: fold(d.Renamed[i].Schema), Name: fold(d.Renamed[i].Name)}
			failed = errors.Join(failed, q.store.RenameSequence(name, to))
		}
	}
	return failed
}
