package indexer

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// checkpoint is how far a build has come.
type checkpoint struct {
	// Began are epochs that began when every new plan added to the building
	// generation. What was registered earlier may not have.
	Began map[catalog.ShardID]storage.Epoch `json:"began,omitempty"`
	// Done are the shards that were scanned; After their bounds.
	Done  catalog.ShardSet                  `json:"done"`
	After map[catalog.ShardID]storage.Epoch `json:"after,omitempty"`
	// Shard is being scanned; Key is the primary key up to which it is done.
	Shard catalog.ShardID `json:"shard,omitempty"`
	Key   [][]byte        `json:"key,omitempty"`
	Rows  int             `json:"rows,omitempty"`
	// Definition is what all of this was done under, Generation what it has filled;
	// zero where they aren't known.
	Definition string `json:"definition,omitempty"`
	Generation uint32 `json:"generation,omitempty"`
}

// building is one run of a build job.
type building struct {
	x  *Indexer
	ix *catalog.Index
	ck checkpoint
	// save makes the checkpoint durable.
	save func(checkpoint) error
	// note says what the build waits for; "" for nothing.
	note func(string)
	// scanning is entered for each shard; the function returned leaves it.
	scanning func(ctx context.Context, id catalog.ShardID) (func(), error)
}

// waiting is what Status tells of a build that something open holds up.
const waiting = "waiting for open transactions"

// run scans the shards that are not done yet into the building generation and
// makes that the readable one. It returns a *HeldBack, with all that is done in
// its checkpoint, where what is open on a shard stays so.
//
// Marks are left alone. A build that was resumed has read each shard in several
// snapshots, and a row whose primary key changed in between may be in none of
// them; the mark that such an UPDATE sets is cleared only by a scan that reads
// the shard in one snapshot.
func (b *building) run(ctx context.Context) error {
	x, shards := b.x, b.ix.Table.Shards
	if b.ck.Began == nil {
		b.ck.Began = map[catalog.ShardID]storage.Epoch{}
	}
	if def, ok := x.store.Index(b.ix.ID); ok && def.Unbegun {
		x.awaitFollowed(ctx, shards) // what is changed beside the build needs no scan then
		// Rule begun first: all know of it before a row is read. Counter-example: rows are read, then a log is followed
		// from now on. What was written to the shard itself in between is in neither, and no scan is asked for.
		if err := x.store.UpdateIndex(def.ID, func(d *storage.IndexRecord) { d.Unbegun = false }); err != nil {
			return fmt.Errorf("update index: %w", err)
		}
	}
	if len(b.ck.Began) == 0 {
		// Counter-example: who created the index has died before all others knew of it. One of them,
		// which does, makes the job; another one registers a write after Began, and has no key for it.
		// So it is where the generation is another home's, to which that one adds nothing yet.
		if err := x.everyone(ctx); err != nil {
			return err
		}
	}
	for id := range shards.All {
		if _, known := b.ck.Began[id]; known {
			continue
		}
		began, err := x.cluster.Advance(ctx, id)
		if err != nil {
			return err
		}
		b.ck.Began[id] = began
	}
	if b.ck.After == nil {
		b.ck.After = map[catalog.ShardID]storage.Epoch{}
	}
	for id := range shards.All {
		if b.ck.Done.Has(id) {
			continue
		}
		if err := b.shard(ctx, id); err != nil {
			return fmt.Errorf("shard %s: %w", x.shardName(id), err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A transaction that opened its snapshot before a shard's scan did, and
	// after Began, may still see rows that are gone from what was scanned: the
	// floors have it look there.
	if err := x.store.FinishBuild(b.ix.ID, b.ck.Generation, b.ck.After); err != nil && !errors.Is(err, storage.ErrNotBuilding) {
		return fmt.Errorf("finish build: %w", err)
	}
	return nil
}

// wait waits for the end of what was registered before an epoch. It returns a
// *HeldBack where that takes long.
func (b *building) wait(ctx context.Context, id catalog.ShardID, min storage.Epoch) error {
	x := b.x
	if x.cluster.Passed(id, min) {
		return nil
	}
	b.note(waiting)
	defer b.note("")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer x.cancelAfter(x.patience, cancel, errPatience)()
	err := x.cluster.Wait(ctx, id, min)
	if !errors.Is(err, errPatience) {
		return err
	}
	// The next run must not wait for what has begun since.
	if err := b.save(b.ck); err != nil {
		return err
	}
	return &HeldBack{Shard: id, After: min}
}

// errPatience ends a wait that holds a worker up.
var errPatience = errors.New("waited long enough")

func (b *building) shard(ctx context.Context, id catalog.ShardID) error {
	x, t := b.x, b.ix.Table
	// Writes that were planned before the index existed add nothing to it.
	if err := b.wait(ctx, id, b.ck.Began[id]); err != nil {
		return err
	}
	leave, err := b.scanning(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	r, err := x.newReading(b.ix)
	if err != nil {
		return err
	}
	conn, l, err := x.reach(ctx, t, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	bounds := bounds{shard: id}
	if err := bounds.openSnapshot(ctx, x, conn); err != nil {
		return err
	}
	s := x.newScan(conn, t, bounds, []*reading{r})
	defer s.stop()
	if l.ordered(b.ix.Columns) != "" || !resumable(t.PrimaryKey) {
		err = s.read(ctx, l)
	} else {
		err = b.inKeyOrder(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := s.close(ctx); err != nil {
		return err
	}
	if err := s.secure(); err != nil {
		return err
	}
	x.counted(id, s)
	b.ck.Done.Add(id)
	b.ck.After[id] = bounds.after
	b.ck.Shard, b.ck.Key = 0, nil
	b.ck.Rows += s.rows
	return b.save(b.ck)
}

// inKeyOrder reads the table by its primary key, so that a later run can go on
// where this one ended.
func (b *building) inKeyOrder(ctx context.Context, s *scan) error {
	x, t, r := b.x, s.table, s.readings[0]
	columns := union(append([]*catalog.Column(nil), t.PrimaryKey...), r.ix.Columns)
	r.at = positions(r.ix.Columns, columns)
	n := len(t.PrimaryKey)
	sql := "SELECT " + catalog.QuoteColumns(columns) + " FROM " + catalog.QuoteTable(t.Schema, t.Name)
	if b.ck.Shard == s.bounds.shard && len(b.ck.Key) == n {
		sql += " WHERE " + following(t.PrimaryKey, b.ck.Key)
	}
	sql += " ORDER BY " + catalog.QuoteColumns(t.PrimaryKey)
	next := x.checkpointRows
	err := s.conn.Stream(ctx, sql, s.sparing.rows(ctx, func(row [][]byte) error {
		if err := s.row(r, row); err != nil {
			return err
		}
		if s.rows < next {
			return nil
		}
		next = s.rows + x.checkpointRows
		if err := s.secure(); err != nil {
			return err
		}
		b.ck.Shard, b.ck.Key = s.bounds.shard, make([][]byte, n)
		for i := range n {
			b.ck.Key[i] = append([]byte{}, row[i]...)
		}
		return b.save(b.ck)
	}))
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	return s.flush()
}

// resumable reports whether `pk > value` with the text that a shard sent for a
// value goes on exactly behind it. It does not for ENUM and SET (sorted by
// number, compared by name) and for approximate numbers.
func resumable(pk []*catalog.Column) bool {
	for _, c := range pk {
		if kindOf(c.Type) == opaque {
			return false
		}
	}
	return len(pk) > 0
}

type columnKind uint8

const (
	opaque columnKind = iota
	number
	chars
	octets
	moment
)

func kindOf(columnType string) columnKind {
	name := strings.ToLower(columnType)
	if i := strings.IndexAny(name, "( "); i >= 0 {
		name = name[:i]
	}
	switch name {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year":
		return number
	case "char", "varchar":
		return chars
	case "binary", "varbinary":
		return octets
	case "date", "datetime", "timestamp":
		return moment
	}
	return opaque
}

// following is the condition for the rows behind a primary key. It is written
// out because servers don't use an index for (a, b) > (x, y).
func following(pk []*catalog.Column, values [][]byte) string {
	var or []string
	for i := range pk {
		var and []string
		for j := range i {
			and = append(and, catalog.QuoteName(pk[j].Name)+" = "+literal(pk[j], values[j]))
		}
		and = append(and, catalog.QuoteName(pk[i].Name)+" > "+literal(pk[i], values[i]))
		or = append(or, strings.Join(and, " AND "))
	}
	return "(" + strings.Join(or, ") OR (") + ")"
}

// literal writes a value as a shard sent it.
func literal(c *catalog.Column, raw []byte) string {
	switch kindOf(c.Type) {
	case number:
		return string(raw)
	case octets:
		return "x'" + hex.EncodeToString(raw) + "'"
	case chars:
		return "_utf8mb4 x'" + hex.EncodeToString(raw) + "'"
	default:
		return text(string(raw))
	}
}

// restore goes on from a checkpoint; raw is empty for a new build. One that was made
// under another definition, or of another generation, is void.
//
// Counter-examples: the rows up to primary key 500 are done, then ALTER TABLE makes another
// column the primary key. Those behind 500 by that one are other rows. A build is superseded,
// and a power loss takes the removal of its job, but not what opened the next generation.
func (b *building) restore(raw []byte) error {
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &b.ck); err != nil {
			return fmt.Errorf("read checkpoint: %w", err)
		}
	}
	def, _ := b.x.store.Index(b.ix.ID)
	now := checkpoint{Definition: b.definition(), Generation: def.BuildGeneration}
	// Where none is open, an earlier run has finished it.
	if b.ck.Definition != now.Definition || def.HasBuild && b.ck.Generation != now.Generation {
		b.ck = now
	}
	return nil
}

// definition is what the index's keys and the order of the scans depend on.
func (b *building) definition() string {
	t, mariaDB := b.ix.Table, b.x.opts.Catalog().MariaDB
	primary := catalog.Index{Table: t, Columns: t.PrimaryKey}
	return b.ix.Definition(mariaDB) + catalog.QuoteColumns(t.PrimaryKey) + "\n" + primary.Definition(mariaDB)
}

// announce lets reads use an index whose build is finished, unless an operator
// disabled it, and makes jobs for the marks that the build left.
func (x *Indexer) announce(ctx context.Context, ix *catalog.Index) error {
	id := ix.ID
	err := x.store.UpdateIndex(id, func(d *storage.IndexRecord) {
		d.Keyed = ix.Definition(x.opts.Catalog().MariaDB)
		if d.Status != catalog.Disabled {
			d.Status, d.Error = catalog.Ready, ""
		}
		d.LastScan = x.clock.Now()
	})
	if err != nil {
		return fmt.Errorf("update index: %w", err)
	}
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return x.enqueueMarked(id)
}

// enqueueMarked makes a job for each shard on which the index is marked.
func (x *Indexer) enqueueMarked(id catalog.IndexID) error {
	def, ok := x.store.Index(id)
	if !ok {
		return nil
	}
	var shards catalog.ShardSet
	for _, m := range x.store.Marks(id) {
		shards.Add(m.Shard)
	}
	if shards.Empty() {
		return nil
	}
	_, err := x.store.Enqueue(storage.Job{
		Type: storage.MaintainIndex, Schema: def.Schema, Table: def.Table, Operation: "UNKNOWN",
		Shards: shards, Indexes: []catalog.IndexID{id}, NotBefore: x.clock.Now(),
	})
	if err != nil {
		return fmt.Errorf("enqueue job: %w", err)
	}
	return nil
}

// progress is the share of the build that is done: whole shards, and of the one
// being scanned what the number of rows of the others suggests.
func (b *building) progress() float64 {
	all := b.ix.Table.Shards.Len()
	if all == 0 {
		return 1
	}
	return float64(b.ck.Done.Len()) / float64(all)
}

func encode(c checkpoint) ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write checkpoint: %w", err)
	}
	return raw, nil
}

var buildIndex = kind{typ: storage.BuildIndex, again: true, table: (*Indexer).buildJob}

// builds is the index that a job builds, 0 where it does something else.
func builds(j *storage.Job) catalog.IndexID {
	if j.Type != buildIndex.typ || len(j.Indexes) == 0 {
		return 0
	}
	return j.Indexes[0]
}

// isBuildOf finds the job that builds an index.
func isBuildOf(id catalog.IndexID) func(storage.Job) bool {
	return func(j storage.Job) bool { return builds(&j) == id }
}

// buildJob runs or resumes the build of one index.
func (x *Indexer) buildJob(ctx context.Context, t *catalog.Table, j *storage.Job) error {
	if len(j.Indexes) == 0 {
		return nil
	}
	id := j.Indexes[0]
	if def, ok := x.store.Index(id); ok && def.Former != "" && !def.HasBuild && len(j.Checkpoint) == 0 {
		if err := x.endMove(ctx, id); err != nil { // which is all that is left to do
			return err
		}
		return x.enqueueGarbage(j.Schema, j.Table)
	}
	var ix *catalog.Index
	for _, have := range t.Indexes {
		if have.ID == id {
			ix = have
		}
	}
	if ix == nil || len(ix.Columns) == 0 {
		return fmt.Errorf("index %d is not in the catalog", id)
	}
	if _, err := x.newReading(ix); err != nil {
		return x.fail(ctx, id, err)
	}
	b := &building{
		x: x, ix: ix,
		note: func(text string) {
			x.work.mu.Lock()
			defer x.work.mu.Unlock()
			x.work.notes[id] = text
		},
		scanning: func(ctx context.Context, shard catalog.ShardID) (func(), error) {
			if err := x.cluster.Enter(ctx, scanGate(shard)); err != nil {
				return nil, err
			}
			return func() { x.cluster.Leave(scanGate(shard)) }, nil
		},
	}
	b.save = func(c checkpoint) error {
		raw, err := encode(c)
		if err != nil {
			return err
		}
		return x.store.SaveCheckpoint(j.ID, x.work.name, raw, b.progress())
	}
	if err := b.restore(j.Checkpoint); err != nil {
		return err
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	if err := x.announce(ctx, ix); err != nil {
		return err
	}
	if err := x.endMove(ctx, id); err != nil {
		return err
	}
	return x.enqueueGarbage(j.Schema, j.Table)
}

// fail gives an index up: its reads scatter until it is rebuilt or dropped.
func (x *Indexer) fail(ctx context.Context, id catalog.IndexID, why error) error {
	err := x.store.UpdateIndex(id, func(d *storage.IndexRecord) { d.Status, d.Error = catalog.Failed, why.Error() })
	if err != nil {
		return fmt.Errorf("update index: %w", err)
	}
	return x.opts.Publish(ctx)
}
