package virtual

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// Shards are the servers that have the rows and the durable values. Errors: what a server said, or that it didn't
// answer.
type Shards interface {
	// Load reads the definitions that a shard has.
	Load(ctx context.Context, on catalog.ShardID) ([]Definition, error)
	// Define keeps a column's definition on a shard, and makes the durable table of its generation, without values. They
	// may be there already.
	Define(ctx context.Context, on catalog.ShardID, d Definition, v *catalog.VirtualColumn) error
	// Forget removes both.
	Forget(ctx context.Context, on catalog.ShardID, v *catalog.VirtualColumn) error
	// State reads how far a shard's durable values are; ok is false where they aren't complete.
	State(ctx context.Context, on catalog.ShardID, v *catalog.VirtualColumn) (s State, ok bool, err error)
	// Tidy removes the durable tables of other generations.
	Tidy(ctx context.Context, on catalog.ShardID, v *catalog.VirtualColumn) error
	// Write writes durable values in one transaction. Where it isn't known whether that was committed, the error is
	// ErrUncertain. With Complete, State is ok from then on.
	Write(ctx context.Context, on catalog.ShardID, v *catalog.VirtualColumn, b Batch) error
	// Measure computes the column of a shard's rows of these keys, as literals; nil: of all.
	Measure(ctx context.Context, on catalog.ShardID, v *catalog.VirtualColumn, keys []string, fn Each) error
	// Durable reads a shard's values of these keys, as literals; nil: of all.
	Durable(ctx context.Context, on catalog.ShardID, v *catalog.VirtualColumn, keys []string, fn Each) error
	// Shown is a position that covers nothing but what any query on the shard sees from now on; Seen covers all that
	// any has seen.
	Shown(ctx context.Context, on catalog.ShardID) (follow.Position, error)
	Seen(ctx context.Context, on catalog.ShardID) (follow.Position, error)
	// Fit says what a shard's log lacks to be followed; nil: nothing.
	Fit(ctx context.Context, on catalog.ShardID) error
	// Follow hands over what a shard's log has behind a position, until ctx ends or something would be missing.
	// begun is called when that goes on for sure.
	Follow(ctx context.Context, on catalog.ShardID, progress *follow.Progress, r LogReader, begun func()) error
}

// Each is handed a key's rows, value, and what the value's row is ordered by, as a server writes them; nil is NULL.
type Each func(key []byte, n int64, value, order []byte) error

// LogReader is handed what a log has, by one goroutine.
type LogReader interface {
	Begin(gtid string)
	Change(on catalog.TableName, before, after Image)
	// Unknown: rows of a table may have changed in a way that the log doesn't tell. Without a name it is any of the
	// schema's, without a schema any.
	Unknown(on catalog.TableName, why string)
	// Gone: tables were dropped, or have other names. Names as Unknown's.
	Gone(on catalog.TableName)
	// Commit says up to where the log was handed over. xa: the changes are those of a part of an XA transaction: prepared
	// and not yet visible, or there were none and others are visible now, or never.
	Commit(gtid string, xa bool)
}

// ErrUncertain: a transaction may have been committed.
var ErrUncertain = errors.New("it isn't known whether the transaction was committed")

// ErrStale: the last batch that a shard has isn't the one that was written last.
var ErrStale = errors.New("the durable values are others than those that were written")

// Definition is a virtual column as it is kept on the shards.
type Definition struct {
	ID                  uint32
	Schema, Table, Name string
	Expression          string
}

// State is how far durable values are.
type State struct {
	// Generation that is complete; of the values that the rest is about.
	Generation uint32
	Batch      uint64 // the last one's number
	Counted    map[catalog.ShardID]string
	Doubtful   [][]byte // keys
}

// Batch is what Write writes.
type Batch struct {
	// Number is greater than that of any batch before, Last that of the last one that the shard must have. 0: it is of
	// a build, before that is complete.
	Number, Last      uint64
	Add, Whole, Doubt []Value
	// Counted are the positions up to which the values count then.
	Counted  map[catalog.ShardID]string
	Complete bool
}

// Value is one of a key's.
type Value struct {
	Key   string // a literal
	N     int64
	Value string // a literal
	Order string // a literal, of Last and First
}

// Options of an Engine.
type Options struct {
	Shards  Shards
	Catalog func() *catalog.Catalog
	// Define reads a definition by the current catalog.
	Define func(Definition) (*catalog.VirtualColumn, error)
	// Publish has the catalog have the columns as Columns tells them.
	Publish func(context.Context) error
	// Own returns when this process, of several, keeps the columns, until held ends, and what to call behind that; nil: it does.
	Own func(context.Context) (held context.Context, release func(), err error)
	// Every is how often all is consolidated, At how many hot values at the latest.
	Every time.Duration
	At    int
	// HoldMost is how many values of a column one transaction may change, or all that isn't written yet: behind more the column is
	// built anew, in bounded memory. At least twice At; default 500,000, of some 250 bytes. A build has room for eight times as many.
	HoldMost int
	// KeepFor is how long a whole value stays in memory without a read of it, KeepMost how many do at most.
	KeepFor  time.Duration
	KeepMost int
	// Spare is how a build spares a shard that is busy: wait is called for each row of those that it measures, done at the end; nil:
	// it doesn't.
	Spare func(context.Context, catalog.ShardID) (wait func() error, done func())
	// Look is how often it is looked for what is due; default 1 s.
	Look time.Duration
	Log  *slog.Logger
}

// Engine keeps virtual columns.
type Engine struct {
	o Options

	mu      sync.Mutex
	columns map[uint32]*column
	streams map[catalog.ShardID]*stream
	// known: the shards' definitions were read; turn: this process is to keep the columns; keeps: it does; watches: another does.
	known, turn, keeps, watches bool
	// replaced are shards that have had another server since before this process kept the columns.
	replaced  catalog.ShardSet
	ctx       context.Context // while it does
	wg        sync.WaitGroup
	streaming sync.WaitGroup
	// defined counts what this process has defined and dropped.
	defined atomic.Uint64
	// streamed counts the streams that have begun and ended.
	streamed int
	// wake has it looked for what is due, want for wanted values.
	wake, want chan struct{}
	began      time.Time
}

// New returns an Engine; Run has it work.
func New(o Options) *Engine {
	if o.Every <= 0 {
		o.Every = 5 * time.Minute
	}
	if o.Look <= 0 {
		o.Look = time.Second
	}
	if o.At <= 0 {
		o.At = 10000
	}
	if o.HoldMost <= 0 {
		o.HoldMost = 500_000
	}
	o.HoldMost = max(o.HoldMost, 2*o.At)
	if o.Spare == nil {
		o.Spare = func(context.Context, catalog.ShardID) (func() error, func()) {
			return func() error { return nil }, func() {}
		}
	}
	return &Engine{o: o, columns: map[uint32]*column{}, streams: map[catalog.ShardID]*stream{}, wake: make(chan struct{}, 1), want: make(chan struct{}, 1), began: time.Now()}
}

// Columns are all columns for a catalog.
func (e *Engine) Columns() (out []*catalog.VirtualColumn) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range sortedIDs(e.columns) {
		c := e.columns[id]
		v := *c.def
		switch {
		case c.failed != "":
			v.Status, v.Error = catalog.Failed, c.failed
		case c.ready && c.anew == "":
			v.Status = catalog.Ready
		default:
			v.Status, v.Error, v.Watched = catalog.Building, c.anew, e.watches
		}
		out = append(out, &v)
	}
	return out
}

// Row is one of SHOW VIRTUAL COLUMNS.
type Row struct {
	*catalog.VirtualColumn
	Progress     int           // percent
	Hot          int           // values that aren't durable yet
	Kept         int           // whole values in memory
	HitRate      float64       // part of the reads of one key's value that had it kept; negative: there were none
	Consolidated time.Time     // zero: not yet
	Lag          time.Duration // how late a fast read is at most; negative: not known
}

// Rows are those of SHOW VIRTUAL COLUMNS.
func (e *Engine) Rows() (out []Row) {
	for _, v := range e.Columns() {
		e.mu.Lock()
		r := Row{VirtualColumn: v, Progress: 100, HitRate: -1, Lag: -1}
		if c := e.columns[v.ID]; c != nil {
			r.Hot, r.Consolidated, r.Kept = c.size(), c.consolidated, len(c.kept)
			if c.reads > 0 {
				r.HitRate = float64(c.hits) / float64(c.reads)
			}
			if v.Status == catalog.Ready || c.watched {
				r.Lag = e.lag(c)
			}
			if n := c.child.Len(); v.Status == catalog.Building && n > 0 {
				r.Progress = 100 * c.done / (n + 1)
			}
		}
		e.mu.Unlock()
		out = append(out, r)
	}
	return out
}

// Run reads what the shards have, and keeps it until ctx ends.
func (e *Engine) Run(ctx context.Context) {
	defer e.wg.Wait()
	if e.o.Own != nil {
		e.wg.Go(func() {
			for ctx.Err() == nil {
				watching, end := context.WithCancel(ctx)
				var ends sync.WaitGroup
				ends.Go(func() { e.watch(watching) })
				held, release, err := e.o.Own(ctx)
				end()
				ends.Wait()
				if err != nil {
					return
				}
				e.keep(held)
				if ctx.Err() == nil {
					e.leave(ctx)
				}
				release()
			}
		})
	} else {
		e.wg.Go(func() { e.keep(ctx) })
	}
	all, told := false, ""
	every(ctx, definitionsEvery, nil, func() {
		if all && e.o.Own == nil {
			return // nobody else defines any
		}
		err := e.learn(ctx)
		all = err == nil
		e.tell(ctx, &told, "not all shards tell their virtual columns", err)
	})
}

// definitionsEvery is how long a process needs at most to know what another one has defined.
const definitionsEvery = 3 * time.Second

// keep has this process keep the columns until ctx ends.
func (e *Engine) keep(ctx context.Context) {
	e.mu.Lock()
	e.ctx, e.turn = ctx, true
	e.mu.Unlock()
	defer e.streaming.Wait()
	told := ""
	var wanted sync.WaitGroup
	defer wanted.Wait()
	wanted.Go(func() {
		told, forgot := "", time.Now()
		every(ctx, time.Minute, e.want, func() {
			if rest := min(time.Minute, e.o.KeepFor); time.Since(forgot) >= rest {
				e.forgetUnused(e.o.KeepFor)
				forgot = time.Now()
			}
			e.tell(ctx, &told, "values of virtual columns can't be kept in memory", e.keepWanted(ctx))
		})
	})
	every(ctx, e.o.Look, e.wake, func() { e.tell(ctx, &told, "virtual columns aren't looked after", e.look(ctx)) })
}

// keptElsewhere is why a process doesn't have a column.
const keptElsewhere = "another Shunt keeps it, or will"

// errElsewhere is the answer to what only the process that keeps the columns can do.
var errElsewhere = errors.New("another Shunt keeps the virtual columns, the one whose SHOW VIRTUAL COLUMNS doesn't say so: send the statement to that one")

func (e *Engine) isTurn() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turn || e.o.Own == nil
}

// leave forgets what was kept: another process keeps the columns. What is hot here is in the logs.
func (e *Engine) leave(ctx context.Context) {
	e.o.Log.Warn("another Shunt keeps the virtual columns: this one was taken for gone; reads run their queries here")
	e.mu.Lock()
	clear(e.streams)
	e.streamed++
	e.turn, e.keeps = false, false
	for _, c := range e.columns {
		c.ready, c.anew = false, keptElsewhere
	}
	e.mu.Unlock()
	for _, c := range e.all() {
		c.work.Lock() // somebody may be writing
		e.mu.Lock()
		c.clear()
		e.mu.Unlock()
		c.work.Unlock()
	}
	told := ""
	e.tell(ctx, &told, "virtual columns that another Shunt keeps can't be told", e.o.Publish(ctx))
}

// tell logs an error, once where it is the same as the last time.
func (e *Engine) tell(ctx context.Context, told *string, what string, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		*told = ""
	case err.Error() != *told:
		*told = err.Error()
		e.o.Log.Warn(what, "error", err)
	}
}

// every calls do at once and from time to time, and when it is woken, until ctx ends.
func every(ctx context.Context, rest time.Duration, wake <-chan struct{}, do func()) {
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for {
		do()
		select {
		case <-tick.C:
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// look does what is due.
func (e *Engine) look(ctx context.Context) error {
	if !e.keeps {
		if err := e.load(ctx); err != nil {
			return err
		}
	}
	for _, c := range e.all() {
		if err := e.tend(ctx, c); err != nil && ctx.Err() == nil {
			e.mu.Lock()
			changed := c.failed != err.Error()
			c.failed = err.Error()
			c.rest = min(max(2*c.rest, e.o.Look), failedRest)
			c.again = time.Now().Add(c.rest)
			e.mu.Unlock()
			if changed {
				e.o.Log.Warn("a virtual column isn't kept; reads run its query", "table", c.def.Of.Schema+"."+c.def.Of.Name, "column", c.def.Name, "error", err)
				if err := e.o.Publish(ctx); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tidyAfter is how long durable tables stay that were replaced: reads are under way that were told of them.
const tidyAfter = time.Minute

// failedRest bounds how long a column rests that couldn't be kept.
const failedRest = 30 * time.Second

func (e *Engine) all() (out []*column) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range sortedIDs(e.columns) {
		out = append(out, e.columns[id])
	}
	return out
}

// learn reads the definitions that the shards have, which another process may have changed.
func (e *Engine) learn(ctx context.Context) error {
	began := e.defined.Load()
	found := map[uint32]Definition{}
	var errs []error
	told := 0
	for _, s := range e.o.Catalog().Shards {
		defs, err := e.o.Shards.Load(ctx, s.ID)
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %s: %w", s.Name, err))
			continue
		}
		told++
		for _, d := range defs {
			found[d.ID] = d
		}
	}
	changed := false
	e.mu.Lock()
	if e.defined.Load() != began {
		e.mu.Unlock()
		return nil // by this one; next time
	}
	e.known = e.known || told > 0
	for id, d := range found {
		if e.columns[id] == nil {
			c := newColumn(&catalog.VirtualColumn{ID: id, Of: catalog.TableName{Schema: d.Schema, Name: d.Table}, Name: d.Name, Expression: d.Expression})
			c.anew = keptElsewhere
			e.columns[id], changed = c, true
		}
	}
	for id, c := range e.columns {
		if _, still := found[id]; !still && errs == nil {
			c.dropped, changed = true, true
			delete(e.columns, id)
		}
	}
	e.mu.Unlock()
	for _, c := range e.all() {
		if c.work.TryLock() {
			if c.def.Key == "" {
				if err := e.define(c); err == nil {
					changed = true
				}
			}
			c.work.Unlock()
		}
	}
	if changed {
		errs = append(errs, e.o.Publish(ctx))
	}
	return errors.Join(errs...)
}

// Start reads what virtual columns there are, as far as shards tell at once.
func (e *Engine) Start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := e.learn(ctx); err != nil {
		e.o.Log.Warn("not all shards have told their virtual columns yet", "error", err)
	}
}

// startPatience is how long a start waits for that.
const startPatience = 3 * time.Second

// load goes on with the durable values that are complete.
func (e *Engine) load(ctx context.Context) error {
	if err := e.learn(ctx); err != nil {
		return err
	}
	least := positions{}
	var resumed []*column
	for _, c := range e.all() {
		c.work.Lock()
		defer c.work.Unlock()
		if err := e.define(c); err != nil {
			continue // tend tells
		}
		ok, err := e.resume(ctx, c)
		if err != nil {
			return err
		}
		if ok {
			resumed = append(resumed, c)
		}
	}
	e.mu.Lock()
	for _, c := range resumed {
		if !c.touches().Intersect(e.replaced).Empty() {
			c.anew = otherServer
			continue
		}
		c.ready, c.anew = true, ""
		for _, counted := range c.counted {
			for on, p := range counted {
				at, known := least[on]
				if !known || at.Covers(p.Position) {
					at.Position = p.Position
				}
				if !known || p.There.Before(at.There) { // the log has been the same one since
					at.There = p.There
				}
				least[on] = at
			}
		}
	}
	for on, from := range least {
		e.start(on, from)
	}
	e.keeps, e.replaced = true, catalog.ShardSet{}
	e.mu.Unlock()
	return e.o.Publish(ctx)
}

// Replaced has columns built anew whose rows or durable values a shard has: it has another server, which may lack what was
// counted last. Until then their reads run the queries.
//
// Counter-example: a primary dies, and a replica takes over that lacks its last second: rows that were counted, or a batch of
// durable values.
func (e *Engine) Replaced(id catalog.ShardID) {
	e.mu.Lock()
	if !e.keeps {
		e.replaced.Add(id)
	}
	for _, c := range e.columns {
		if c.touches().Has(id) {
			c.buildAnew(otherServer)
		}
	}
	e.mu.Unlock()
	e.nudge()
}

const otherServer = "one of its shards has another server"

// readerOf is newReader of the current catalog. Callers hold mu.
func (e *Engine) readerOf(c *column) *reader {
	if cat := e.o.Catalog(); c.reader == nil || c.reader.cat != cat || c.reader.def != c.def {
		c.reader = newReader(c, cat)
	}
	return c.reader
}

func newColumn(v *catalog.VirtualColumn) *column {
	c := &column{def: v, turns: follow.Turns{Time: freshTime}}
	c.clear()
	return c
}

// freshTime bounds how long a read waits for durable values.
const freshTime = 2 * time.Second

// tend brings a column to where it is ready, and consolidates it when that is due.
func (e *Engine) tend(ctx context.Context, c *column) error {
	if !c.work.TryLock() {
		return nil // somebody is at it
	}
	defer c.work.Unlock()
	e.mu.Lock()
	dropped, ready, anew, failed, size, rests := c.dropped, c.ready, c.anew, c.failed, c.size(), c.again
	e.mu.Unlock()
	if dropped || time.Now().Before(rests) {
		return nil
	}
	if anew == "" && ready {
		e.mu.Lock()
		r := e.readerOf(c)
		moved := r != nil && r.moved()
		e.mu.Unlock()
		if moved {
			e.again(c, "its tables are on other shards")
			return e.o.Publish(ctx)
		}
		if failed != "" {
			if err := e.consolidate(ctx, c); err != nil {
				return err
			}
			return e.o.Publish(ctx)
		}
		if size >= e.o.At || time.Since(c.consolidated) >= e.o.Every {
			_ = e.pass(c.child)(ctx) // for Lag: what was handed over is written anyway
			return e.consolidate(ctx, c)
		}
		if !c.tidy && time.Since(c.built) > tidyAfter {
			for home := range c.homes.All {
				if err := e.o.Shards.Tidy(ctx, home, c.def); err != nil {
					return err
				}
			}
			c.tidy = true
		}
		return nil
	}
	if err := e.define(c); err != nil {
		return err
	}
	return e.build(ctx, c)
}

// define reads a column's definition by the current catalog. Callers have its work.
func (e *Engine) define(c *column) error {
	v, err := e.o.Define(Definition{ID: c.def.ID, Schema: c.def.Of.Schema, Table: c.def.Of.Name, Name: c.def.Name, Expression: c.def.Expression})
	if err != nil {
		return err
	}
	cat := e.o.Catalog()
	of, child := cat.Table(v.Of.Schema, v.Of.Name), cat.Table(v.Child.Schema, v.Child.Name)
	if of == nil || child == nil {
		return fmt.Errorf("its tables aren't known")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v.ID, v.Generation = c.def.ID, c.def.Generation
	c.def, c.kind, c.child, c.homes, c.cat = v, kindOf(v), child.Shards, of.Shards, cat
	return nil
}

// resume reads how far a column's durable values are; false: they aren't complete. Callers have its work.
func (e *Engine) resume(ctx context.Context, c *column) (bool, error) {
	r := newReader(c, e.o.Catalog())
	if r == nil {
		return false, nil
	}
	generation, first := uint32(0), true
	counted, doubtful, batches := map[catalog.ShardID]positions{}, map[string]string{}, map[catalog.ShardID]uint64{}
	for home := range c.homes.All {
		s, ok, err := e.o.Shards.State(ctx, home, c.def)
		if err != nil || !ok || !first && s.Generation != generation {
			return false, err
		}
		generation, first = s.Generation, false
		counted[home], batches[home] = positions{}, s.Batch
		for on := range c.child.All {
			text, known := s.Counted[on]
			if !known {
				return false, nil
			}
			if counted[home][on], err = follow.ParsePlace(text); err != nil {
				return false, err
			}
		}
		for _, raw := range s.Doubtful {
			if key, literal, ok := r.keyOf(raw); ok {
				doubtful[key] = literal
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.clear()
	def := *c.def
	def.Generation = generation
	c.def = &def
	c.counted, c.doubtful, c.batch, c.tried = counted, doubtful, batches, maps.Clone(batches)
	for key := range doubtful {
		c.marked[key] = true
	}
	return true, nil
}

// Create makes a virtual column, which is built in the background.
func (e *Engine) Create(ctx context.Context, v *catalog.VirtualColumn) error {
	e.mu.Lock()
	if !e.known {
		e.mu.Unlock()
		return errors.New("the shards' virtual columns aren't known yet: try again")
	}
	e.defined.Add(1)
	for e.columns[v.ID] != nil || v.ID == 0 {
		v.ID = rand.Uint32N(1 << 31)
	}
	e.mu.Unlock()
	d := Definition{ID: v.ID, Schema: v.Of.Schema, Table: v.Of.Name, Name: v.Name, Expression: v.Expression}
	cat := e.o.Catalog()
	if child := cat.Table(v.Child.Schema, v.Child.Name); child != nil {
		for on := range child.Shards.All {
			if err := e.o.Shards.Fit(ctx, on); err != nil {
				return err
			}
		}
	}
	for _, s := range cat.Shards {
		if err := e.o.Shards.Define(ctx, s.ID, d, v); err != nil {
			return errors.Join(err, e.forget(ctx, v))
		}
	}
	c := newColumn(v)
	c.anew = "it is new"
	e.mu.Lock()
	e.columns[v.ID] = c
	e.defined.Add(1)
	e.mu.Unlock()
	e.nudge()
	return e.o.Publish(ctx)
}

func (e *Engine) forget(ctx context.Context, v *catalog.VirtualColumn) error {
	var errs []error
	for _, s := range e.o.Catalog().Shards {
		errs = append(errs, e.o.Shards.Forget(ctx, s.ID, v))
	}
	return errors.Join(errs...)
}

// Drop removes a virtual column.
func (e *Engine) Drop(ctx context.Context, id uint32) error {
	c := e.column(id)
	if c == nil {
		return errGone
	}
	e.mu.Lock()
	c.dropped = true
	delete(e.columns, id)
	e.defined.Add(1)
	e.mu.Unlock()
	if err := e.o.Publish(ctx); err != nil { // nobody reads it from now on
		return err
	}
	c.work.Lock()
	defer c.work.Unlock()
	defer e.defined.Add(1)
	return e.forget(ctx, c.def)
}

var errGone = errors.New("the virtual column is gone")

func (e *Engine) column(id uint32) *column {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.columns[id]
}

// Rebuild has a column built anew.
func (e *Engine) Rebuild(ctx context.Context, id uint32) error {
	c := e.column(id)
	if c == nil {
		return errGone
	}
	if !e.isTurn() {
		return errElsewhere
	}
	e.again(c, "REBUILD")
	return e.o.Publish(ctx)
}

// again has a column built anew.
func (e *Engine) again(c *column, why string) {
	e.mu.Lock()
	c.buildAnew(why)
	e.mu.Unlock()
	e.nudge()
}

// buildAnew has a column built anew at the next look. Callers hold Engine.mu.
func (c *column) buildAnew(why string) {
	if c.watched {
		c.unwatch()
		return
	}
	c.anew, c.again, c.rest = why, time.Time{}, 0
}

func sortedIDs(m map[uint32]*column) []uint32 {
	out := make([]uint32, 0, len(m))
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
