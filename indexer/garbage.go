package indexer

import (
	"context"
	"fmt"

	"github.com/shunt-sql/shunt/storage"
)

var dropIndex = kind{typ: storage.DropIndexJob, alone: func(x *Indexer, ctx context.Context, _ *storage.Job) error { return x.collect(ctx) }}

func (x *Indexer) enqueueGarbage(schema, table string) error {
	_, err := x.store.Enqueue(storage.Job{Type: storage.DropIndexJob, Schema: schema, Table: table, NotBefore: x.clock.Now()})
	if err != nil {
		return fmt.Errorf("enqueue deletion of old entries: %w", err)
	}
	return nil
}

// collect deletes the generations of dropped and rebuilt indexes.
func (x *Indexer) collect(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = x.store.DeleteGarbage(ctx, 5000); err != nil {
			return fmt.Errorf("delete old entries: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
