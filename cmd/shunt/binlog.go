package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// binlogs are the shards' binary logs, for the indexer.
type binlogs struct {
	dial map[catalog.ShardID]shard.Config
	// fit: a log that can't be followed as its server is set up is left alone, and looked at again from time
	// to time.
	fit bool
	log *slog.Logger
	// needed reports that a shard's log is to be followed.
	needed func(catalog.ShardID) bool
	seen   func(catalog.ShardID, time.Duration) // how long after it was committed a transaction has been dealt with

	mu     sync.Mutex
	states map[catalog.ShardID]string
	trails map[catalog.ShardID]*trail
}

// again has a shard's log be read over a new connection: it may have another server.
//
// Counter-example: the stream is connected to the new server before a session is; that is when it is noticed, and all that was
// kept of the shard is void until its log is resumed.
func (b *binlogs) again(id catalog.ShardID) {
	if b == nil {
		return
	}
	b.mu.Lock()
	t := b.trails[id]
	b.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	t.again++
	broken := t.broken
	t.mu.Unlock()
	if broken != nil {
		broken(errOtherServer)
	}
}

// State is what SHOW SHARDS tells of a shard's log.
func (b *binlogs) State(id catalog.ShardID) string {
	if b == nil {
		return "not followed: maintenance.follow is scan"
	}
	b.mu.Lock()
	state := b.states[id]
	b.mu.Unlock()
	switch {
	case state == stateFollowed:
		return state
	case !b.needed(id):
		return "not followed: no virtual index needs it"
	}
	return cmp.Or(state, "not followed here")
}

// Lag is how late what comes by a shard's log is at most; negative where that isn't known, as where another member follows it.
func (b *binlogs) Lag(id catalog.ShardID) time.Duration {
	if b == nil {
		return -1
	}
	b.mu.Lock()
	t := b.trails[id]
	b.mu.Unlock()
	if t == nil {
		return -1
	}
	at := t.abreast()
	if at.IsZero() {
		return -1
	}
	return max(0, time.Since(at))
}

// lagOf is that of the latest of some shards; negative where none of them is known.
func (b *binlogs) lagOf(shards catalog.ShardSet) time.Duration {
	lag := time.Duration(-1)
	for id := range shards.All {
		lag = max(lag, b.Lag(id))
	}
	return lag
}

// stateFollowed is that of a shard whose log is being read.
const stateFollowed = "followed"

// is sets a shard's state.
func (b *binlogs) is(id catalog.ShardID, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states == nil {
		b.states = map[catalog.ShardID]string{}
	}
	b.states[id] = state
}

// notFollowed says why.
func (b *binlogs) notFollowed(id catalog.ShardID, why any) {
	b.is(id, fmt.Sprint("not followed: ", why))
}

const (
	// reopenPause is how long a log isn't read after it could not be.
	reopenPause = 500 * time.Millisecond
	// unfitPause is how long one is left alone that can't be followed.
	unfitPause = 10 * time.Minute
)

// Follow implements indexer.Logs. A connection that breaks, and another server of the shard's, are no end: the
// log goes on where it was.
//
// A log that couldn't be followed as its server was set up has no place of before: it may not have been written.
func (b *binlogs) Follow(ctx context.Context, id catalog.ShardID, at string, begin func(indexer.Trail) indexer.Reader) (err error) {
	defer func() {
		b.notFollowed(id, err)
		b.mu.Lock()
		delete(b.trails, id)
		b.mu.Unlock()
		if errors.Is(err, follow.ErrPurged) || errors.Is(err, follow.ErrDiverged) || errors.Is(err, follow.ErrUnfit) {
			err = fmt.Errorf("%w: %w", indexer.ErrNoPlace, err)
		}
	}()
	cfg, err := b.shard(id)
	if err != nil {
		return err
	}
	waited, err := b.untilFit(ctx, id, cfg)
	if err != nil {
		return err
	}
	if waited && at != "" {
		return fmt.Errorf("%w: it couldn't be followed before", follow.ErrUnfit)
	}
	t, err := b.begin(ctx, cfg, at)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.trails == nil {
		b.trails = map[catalog.ShardID]*trail{}
	}
	b.trails[id] = t
	b.mu.Unlock()
	var reader indexer.Reader
	told := "" // why the stream has ended last, while it hasn't gone on
	for {
		err := b.stream(ctx, id, cfg, t, func() indexer.Reader {
			told = ""
			if reader == nil {
				reader = begin(t)
			} else {
				reader.Resumed()
			}
			return reader
		})
		var refused *readerError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case reader == nil, errors.Is(err, follow.ErrPurged), errors.Is(err, follow.ErrDiverged), errors.Is(err, follow.ErrUnfit), errors.As(err, &refused):
			return err
		}
		b.notFollowed(id, err)
		if err.Error() != told {
			told = err.Error()
			b.log.Warn("the stream of a shard's binary log has ended; it goes on where it was", "shard", cfg.Name, "error", err)
		}
		select {
		case <-time.After(reopenPause):
		case <-ctx.Done():
		}
	}
}

// begin is a trail from a place in a shard's log on, or from now on.
func (b *binlogs) begin(ctx context.Context, cfg shard.Config, at string) (*trail, error) {
	was, position, _ := strings.Cut(at, placeSeparator)
	from, err := follow.ParsePlace(position)
	if at != "" && err != nil { // damaged, or another version's: the tables tell all
		return nil, fmt.Errorf("%w: %w", follow.ErrDiverged, err)
	}
	if at == "" {
		if from.Position, err = follow.Now(ctx, sourceOf(cfg, b.log)); err != nil {
			return nil, err
		}
	}
	return &trail{progress: follow.Resume(from), turns: follow.Turns{Time: turnTime}, was: was}, nil
}

// A place in a log is a server's name and a follow.Place. Neither has such a character.
const placeSeparator = "\n"

// serverName is what tells a server from others; "" where it has no name of its own (before MariaDB 10.11).
func serverName(s *follow.Server) (string, error) {
	name, err := s.One(identityQuery(s.MariaDB()))
	if _, refused := errors.AsType[*mysql.MyError](err); refused {
		return "", nil
	}
	return name, err
}

// stream reads the log over one connection. The server is asked for its position over one that is as old: both
// end with the server.
func (b *binlogs) stream(ctx context.Context, id catalog.ShardID, cfg shard.Config, t *trail, begin func() indexer.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // which ends the connection to server, too
	source, asked := sourceOf(cfg, b.log), t.asked()
	server, err := follow.Dial(ctx, source)
	if err != nil {
		return err
	}
	name, err := serverName(server)
	if err != nil {
		return err
	}
	if t.was != "" && t.was != name {
		return fmt.Errorf("%w: another server was followed", follow.ErrDiverged)
	}
	stream, err := follow.Open(ctx, source, t.progress)
	if err != nil {
		return err
	}
	defer stream.Close()
	t.streams(stream)
	defer t.streams(nil)
	reader := begin()
	t.was = "" // another one has all that was read, from here on
	defer reader.Stopped()
	t.answers(server, name, cancel)
	if t.asked() != asked {
		cancel(errOtherServer)
	}
	b.is(id, stateFollowed)
	defer t.answers(nil, "", nil)
	err = b.read(id, stream, t, reader)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// untilFit waits until a log is worth being followed, where it need not be: statements in place of rows would have all
// tables scanned, behind writes whose keys are known, too.
func (b *binlogs) untilFit(ctx context.Context, id catalog.ShardID, cfg shard.Config) (waited bool, err error) {
	for ; b.fit; waited = true {
		problems, err := b.lacking(ctx, cfg)
		if len(problems) == 0 {
			return waited, err
		}
		b.notFollowed(id, problems)
		if !waited {
			b.log.Info("a shard's binary log isn't followed: tables are scanned behind what can't be computed", "shard", cfg.Name, "lacking", fmt.Sprint(problems))
		}
		select {
		case <-time.After(unfitPause):
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
	return waited, nil
}

// shard is one by its number.
func (b *binlogs) shard(id catalog.ShardID) (shard.Config, error) {
	cfg, ok := b.dial[id]
	if !ok {
		return cfg, fmt.Errorf("no shard has number %d", id)
	}
	return cfg, nil
}

// lacking is why a log isn't worth being followed. An error comes without.
func (b *binlogs) lacking(ctx context.Context, cfg shard.Config) ([]follow.Problem, error) {
	problems, err := follow.Check(ctx, sourceOf(cfg, b.log))
	if err != nil && !errors.Is(err, follow.ErrUnfit) {
		return nil, err
	}
	return slices.DeleteFunc(problems, func(p follow.Problem) bool { return p.Weight < follow.Most }), err
}

// Fit implements indexer.Logs.
func (b *binlogs) Fit(ctx context.Context, id catalog.ShardID) error {
	cfg, err := b.shard(id)
	if err != nil {
		return err
	}
	problems, err := b.lacking(ctx, cfg)
	if slices.ContainsFunc(problems, func(p follow.Problem) bool { return b.fit || p.Weight == follow.Fatal }) {
		return fmt.Errorf("%w: %v", follow.ErrUnfit, problems)
	}
	return err
}

// sourceOf is a shard's server as package follow connects to it.
func sourceOf(cfg shard.Config, log *slog.Logger) follow.Source {
	cfg = cfg.Current()
	return follow.Source{Addr: cfg.Addr, User: cfg.User, Password: cfg.Password, TLS: cfg.TLS, Connect: cfg.Connect, Log: log}
}

// readerError is the reader's: what it was handed isn't dealt with.
type readerError struct{ error }

func (e *readerError) Unwrap() error { return e.error }

func (b *binlogs) read(id catalog.ShardID, stream *follow.Stream, t *trail, reader indexer.Reader) error {
	tell := func(err error) error {
		if err != nil {
			return &readerError{err}
		}
		return nil
	}
	for {
		event, err := stream.Next()
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case *follow.Begin:
			t.begin(e.GTID)
		case *follow.Rows:
			on := catalog.TableName{Schema: e.Table.Schema, Name: e.Table.Name}
			err = e.Each(func(before, after *follow.Row) error {
				return tell(reader.Change(on, indexer.RowChange{Before: imageOf(e.Table, before), After: imageOf(e.Table, after)}))
			})
		case *follow.Unknown:
			err = tell(reader.Doubt(catalog.TableName{Schema: e.Schema, Name: e.Table}))
		case *follow.Schema:
			reader.Defined(e.Tables)
		case *follow.Commit:
			if e.XA { // its rows came before, or will never be visible
				reader.Defined([]catalog.TableName{{}})
			}
			if err = tell(reader.End()); err == nil {
				b.seen(id, time.Since(e.At))
			}
		}
		if err != nil {
			return err
		}
	}
}

// image is a row of the log.
type image struct {
	table *follow.Table
	row   *follow.Row
}

func imageOf(t *follow.Table, row *follow.Row) indexer.Image {
	if row == nil {
		return nil
	}
	return image{t, row}
}

// Column implements indexer.Image.
func (i image) Column(c *catalog.Column) (raw []byte, ok bool) {
	at := i.table.Column(c.Name)
	if at < 0 {
		return nil, false
	}
	text, state := i.row.Append([]byte{}, at)
	switch state {
	case follow.Null:
		return nil, true
	case follow.Present:
		return follow.TextOf(c.Type, text)
	default:
		return nil, false
	}
}

// trail implements indexer.Trail.
type trail struct {
	progress *follow.Progress
	turns    follow.Turns
	asking   sync.Mutex // the server
	was      string     // the only server that may answer: a place in its log was kept; who streams

	mu     sync.Mutex
	begun  string         // the GTID of the transaction that was handed over last
	server *follow.Server // whose log is being read; nil: it isn't
	name   string         // the server's
	stream *follow.Stream // nil: none yet
	known  time.Time      // Abreast of streams before
	broken context.CancelCauseFunc
	// again counts how often another connection was asked for.
	again int
}

// asked is how often another connection was asked for.
func (t *trail) asked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.again
}

// answers says which server is asked, how it is named, and what to call when it doesn't answer.
func (t *trail) answers(server *follow.Server, name string, broken context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server, t.name, t.broken = server, name, broken
}

// streams says by which stream the log is read.
func (t *trail) streams(s *follow.Stream) {
	before := t.abreast()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stream, t.known = s, before
}

// abreast is up to when all that was committed has been dealt with; zero where that isn't known.
func (t *trail) abreast() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stream != nil {
		if at := t.stream.Abreast(); at.After(t.known) {
			t.known = at
		}
	}
	return t.known
}

// Live implements indexer.Trail.
func (t *trail) Live() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.server != nil
}

// At implements indexer.Trail.
func (t *trail) At() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.progress.Place()
	if t.name == "" || at.Position.String() == "" {
		return ""
	}
	return t.name + placeSeparator + at.String()
}

func (t *trail) begin(gtid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = gtid
}

// CaughtUp implements indexer.Trail.
func (t *trail) CaughtUp(ctx context.Context) error {
	end, err := t.ask((*follow.Server).Written)
	if err != nil {
		return err
	}
	return t.progress.Wait(ctx, end)
}

// Abreast implements indexer.Trail.
func (t *trail) Abreast(ctx context.Context) error {
	return t.turns.Next(ctx, func(ctx context.Context) error {
		seen, err := t.ask((*follow.Server).Seen)
		if err != nil {
			return err
		}
		return t.progress.Wait(ctx, seen)
	})
}

// turnTime bounds how long reads wait for a follower with those that came before them.
const turnTime = 20 * time.Millisecond

// Shown implements indexer.Trail.
func (t *trail) Shown(ctx context.Context) error {
	t.mu.Lock()
	gtid := t.begun
	t.mu.Unlock()
	begun, err := follow.ParsePosition(gtid)
	if err != nil {
		return err
	}
	passed := t.progress.Position()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		shown, err := t.ask((*follow.Server).Now)
		if err != nil {
			return err
		}
		if shown.Covers(begun) && shown.Covers(passed) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errOtherServer = errors.New("the shard has another server")

var errNotRead = errors.New("the binary log isn't being read")

// ask asks the server for a position.
func (t *trail) ask(question func(*follow.Server) (follow.Position, error)) (follow.Position, error) {
	t.mu.Lock()
	server, broken := t.server, t.broken
	t.mu.Unlock()
	if server == nil {
		return follow.Position{}, errNotRead
	}
	t.asking.Lock()
	p, err := question(server)
	t.asking.Unlock()
	if err != nil {
		broken(fmt.Errorf("the server no longer answers beside the stream: %w", err))
	}
	return p, err
}
