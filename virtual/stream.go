package virtual

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// stream hands what one shard's log has to the columns over its rows.
type stream struct {
	e        *Engine
	on       catalog.ShardID
	progress *follow.Progress
	begun    chan struct{}   // closed when the log is being read
	life     context.Context // ends when something of it is missing
	end      context.CancelFunc
	// The transaction that is being read; the goroutine's own.
	effects map[*column]map[string]*effect
	readers map[*column]*reader
	of      map[*catalog.Catalog]bool
	unknown map[*column]string
	// last is the transaction that was taken last, which progress may not have yet, current the one that is being read;
	// Engine.mu's.
	last, current follow.Position
	// passed is when it was last asked what may be visible of what the stream has taken; Engine.mu's.
	passed time.Time
	again  bool // current was taken already; the goroutine's own
	// turns are those of who waits for it.
	turns follow.Turns
}

// stream is a shard's, nil where there is none.
func (e *Engine) stream(on catalog.ShardID) *stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.streams[on]
}

// start begins a stream. Callers hold mu.
func (e *Engine) start(on catalog.ShardID, from follow.Place) *stream {
	s := &stream{e: e, on: on, progress: follow.Resume(from), begun: make(chan struct{}), effects: map[*column]map[string]*effect{}, unknown: map[*column]string{}, turns: follow.Turns{Time: freshTime, Gather: 5 * time.Millisecond}}
	e.streams[on] = s
	e.streamed++
	ctx := e.ctx
	s.life, s.end = context.WithCancel(ctx)
	e.streaming.Go(func() { s.run(ctx) })
	return s
}

// reads reports that the log was found to be the one that the stream begins in.
//
// Counter-example: while nobody read it the log was begun anew, and has had more transactions since. What is visible now counts
// as taken, by numbers of before, until the stream is opened.
func (s *stream) reads() bool {
	select {
	case <-s.begun:
		return true
	default:
		return false
	}
}

// while ends with the stream, too.
//
// Counter-example: a shard has another server, which lacks what the stream has taken. Who waits until that is visible waits for ever,
// with the column's work.
func (s *stream) while(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errNotRead) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

var errNotRead = errors.New("a shard's binary log isn't read")

// at is up to where the log was taken. Callers hold Engine.mu.
func (s *stream) at() follow.Position {
	return s.progress.Position().Plus(s.last)
}

// abreast returns when the log was taken up to all that was visible when it was called, which seen covers.
func (s *stream) abreast(ctx context.Context) (seen follow.Position, err error) {
	ctx, done := s.while(ctx)
	defer done()
	began := time.Now()
	if seen, err = s.e.o.Shards.Seen(ctx, s.on); err != nil {
		return seen, err
	}
	if err = s.progress.Wait(ctx, seen); err != nil {
		return seen, err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.passed.Before(began) {
		s.passed = began
	}
	return seen, nil
}

// run reads the log until ctx ends, or something is missing.
func (s *stream) run(ctx context.Context) {
	for once := false; ctx.Err() == nil; {
		err := s.e.o.Shards.Follow(ctx, s.on, s.progress, s, func() {
			if !once {
				once = true
				close(s.begun)
			}
		})
		if ctx.Err() != nil {
			return
		}
		s.effects, s.unknown = map[*column]map[string]*effect{}, map[*column]string{}
		if missing(err) {
			s.e.o.Log.Warn("a shard's binary log can't be read from where it was: virtual columns over its rows are built anew", "shard", s.on, "error", err)
			s.e.mu.Lock()
			delete(s.e.streams, s.on)
			s.e.streamed++
			s.end()
			if !once {
				close(s.begun)
			}
			s.e.mu.Unlock()
			for _, c := range s.e.all() {
				s.e.mu.Lock()
				over := c.child.Has(s.on)
				s.e.mu.Unlock()
				if over {
					s.e.again(c, "a shard's binary log can't be read from where it was")
				}
			}
			_ = s.e.o.Publish(ctx)
			return
		}
		s.e.o.Log.Debug("a shard's binary log is read again for virtual columns", "shard", s.on, "error", err)
		select {
		case <-time.After(s.e.o.Look / 2):
		case <-ctx.Done():
		}
	}
}

// over are the columns over a table's rows.
func (s *stream) over(on catalog.TableName) (out []*reader) {
	cat := s.e.o.Catalog()
	if !s.of[cat] {
		s.of, s.readers = map[*catalog.Catalog]bool{cat: true}, map[*column]*reader{}
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	for _, c := range s.e.columns {
		if c.child.Empty() || !same(cat, on, c.def.Child) {
			continue
		}
		r, known := s.readers[c]
		if !known || r == nil || r.def != c.def {
			r = newReader(c, cat)
			s.readers[c] = r
		}
		if r == nil {
			s.unknown[c] = "its tables have changed"
			continue
		}
		out = append(out, r)
	}
	return out
}

// same reports that an event of on may be about a table. Names without a table are of all of a schema.
func same(cat *catalog.Catalog, on, of catalog.TableName) bool {
	equal := func(a, b string) bool { return a == b || cat.LowerCaseNames && strings.EqualFold(a, b) }
	return (on.Schema == "" || equal(on.Schema, of.Schema)) && (on.Name == "" || equal(on.Name, of.Name))
}

// Begin implements LogReader.
func (s *stream) Begin(gtid string) {
	clear(s.effects)
	at, err := follow.ParsePosition(gtid)
	if err != nil {
		s.Unknown(catalog.TableName{}, err.Error())
	}
	s.e.mu.Lock()
	s.current, s.again = at, s.at().Covers(at)
	s.e.mu.Unlock()
}

// Change implements LogReader.
func (s *stream) Change(on catalog.TableName, before, after Image) {
	for _, r := range s.over(on) {
		if s.unknown[r.c] != "" {
			continue // it is built anew at the end of the transaction
		}
		effects := s.effects[r.c]
		if effects == nil {
			effects = map[string]*effect{}
			s.effects[r.c] = effects
		}
		if !r.change(effects, before, after) {
			s.unknown[r.c] = "the binary log lacks columns of changed rows (binlog_row_image)"
		} else if len(effects) > s.e.o.HoldMost {
			s.unknown[r.c] = "a transaction has changed more values than are held in memory"
			delete(s.effects, r.c)
		}
	}
}

// Unknown implements LogReader.
func (s *stream) Unknown(on catalog.TableName, why string) {
	s.doubt(on, why, false)
}

// Gone implements LogReader.
//
// Rule parents: a table that comes in the place of a column's own may have its keys elsewhere, or of another type.
func (s *stream) Gone(on catalog.TableName) {
	s.doubt(on, "a table was dropped, or has another name", true)
}

// doubt has columns over a table's rows built anew, and those of the table itself if parents is set.
func (s *stream) doubt(on catalog.TableName, why string, parents bool) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	cat := s.e.o.Catalog()
	for _, c := range s.e.columns {
		if !c.child.Empty() && (same(cat, on, c.def.Child) || parents && same(cat, on, c.def.Of)) {
			s.unknown[c] = why
		}
	}
}

// Commit implements LogReader.
func (s *stream) Commit(gtid string, xa bool) {
	at, err := follow.ParsePosition(gtid)
	if err != nil {
		s.Unknown(catalog.TableName{}, err.Error())
	}
	anew := false
	if s.again {
		return // it was taken, and the stream has broken before that was known
	}
	s.e.mu.Lock()
	if xa {
		for _, c := range s.e.columns {
			if c.child.Has(s.on) && (s.effects[c] != nil || len(s.effects) == 0) {
				s.unknown[c] = "an XA transaction"
			}
		}
	}
	for c, effects := range s.effects {
		if r := s.readers[c]; r != nil && !c.dropped {
			c.take(r, s.on, at, effects, s.e.watches)
			if why := c.overfull(s.e.o.HoldMost); why != "" {
				s.unknown[c] = why
			}
		}
	}
	for c, why := range s.unknown {
		if s.e.watches {
			c.unwatch()
			delete(s.unknown, c)
			continue
		}
		c.anew, anew = why, true
		if c.noting != nil {
			c.noting.broken = why
		}
	}
	s.last, s.current = at, follow.Position{}
	s.e.mu.Unlock()
	clear(s.effects)
	if anew {
		clear(s.unknown)
		_ = s.e.o.Publish(s.e.ctx)
		s.e.nudge()
	}
}
