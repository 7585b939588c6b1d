package indexer

import (
	"context"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/storage"
)

// lostEvery is how often it is looked whether servers of indexes have been away for long.
const lostEvery = time.Second

// giveUpLost gives up what servers have that are away, so that writes go on which add to it, until ctx
// ends.
func (x *Indexer) giveUpLost(ctx context.Context) {
	told := ""
	for x.sleep(ctx, lostEvery) {
		for _, def := range x.store.Indexes() {
			inVain := def.Forsaken && slices.ContainsFunc(x.store.Jobs(), isBuildOf(def.ID))
			if !inVain && len(x.store.Away(def.ID)) == 0 {
				continue
			}
			if err := x.giveUp(ctx, def); err != nil && ctx.Err() == nil && err.Error() != told {
				told = err.Error()
				x.log.Warn("writes to a virtual index whose server is away are refused until it is given up; trying again", "index", def.Name, "error", err)
			}
		}
	}
}

// giveUp has an index not be added to where it is lost:
//
//	where it is read          first nobody reads by it; when the server is back it is built anew
//	where it was read         nobody reads it there any more
//	where it is being built   the build begins anew where it is read
//
// One that is given up in some partitions is read nowhere, and given up in more as their servers are lost.
//
// The build of one that is nowhere any more (storage/shared, rule unread) ends with it.
func (x *Indexer) giveUp(ctx context.Context, def storage.IndexRecord) error {
	if err := x.cluster.LockChanges(ctx); err != nil {
		return err
	}
	defer x.cluster.UnlockChanges()
	def, known := x.store.Index(def.ID)
	lost := x.store.Away(def.ID)
	if !known || len(lost) == 0 && !def.Forsaken {
		return nil // others were faster
	}
	if err := x.dismiss(ctx, def.ID); err != nil || len(lost) == 0 {
		return err
	}
	x.log.Warn("a virtual index is given up where its server is away", "index", def.Name, "schema", def.Schema, "table", def.Table, "servers", lost)
	switch {
	case def.Forsaken:
		return x.store.Forsake(def.ID)
	case anyOf(lost, def.Home):
		if err := x.unread(ctx, def); err != nil {
			return err
		}
		return x.store.Forsake(def.ID)
	case anyOf(lost, def.Former):
		return x.endMove(ctx, def.ID)
	}
	if err := x.store.Move(def.ID, def.Home, false); err != nil {
		return err
	}
	return x.enqueueBuild(def, "LOST")
}

// anyOf reports that one of the servers is in a list of storage.JoinNames.
func anyOf(servers []string, list string) bool {
	return slices.ContainsFunc(storage.SplitNames(list), func(name string) bool { return slices.Contains(servers, name) })
}
