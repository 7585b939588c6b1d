package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

var (
	// ErrNotJoined: the process isn't on the shard (yet, or any more).
	ErrNotJoined = errors.New("not joined to the shard")
	// ErrFenced: others have taken the process off the shard.
	ErrFenced = errors.New("another member has fenced this one, which stood still, or couldn't follow the others")
	// ErrWentBack: what a shard or the board says is older than what it has said.
	ErrWentBack = errors.New("another server answers, or it was put back")
	// ErrTurnLost: the process was fenced, and another has its turn.
	ErrTurnLost = errors.New("the turn was taken over")
)

// Options of a Shared.
type Options struct {
	Seats map[catalog.ShardID]Seat
	Board Board
	// Identity is of this process; ID 0: a random one.
	Identity Identity
	// ShardName is for messages; nil: by number.
	ShardName func(catalog.ShardID) string
	// Aside reports a shard that serves nobody yet: that it can't be asked is in nobody's way. nil: none is.
	Aside func(catalog.ShardID) bool
	// Every is the time between two heartbeats; 0: 250 ms.
	Every time.Duration
	// Patience with a member that doesn't follow, before it is fenced; 0: 30 s. It is
	// for its sake: to fence one at once is as safe.
	Patience time.Duration
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger     // nil: slog.Default()
}

// Shared is a process that is one of several. Beat, Sweep and Follow do the work of all
// times; Run calls them.
type Shared struct {
	registrations
	gates
	opts   Options
	self   string
	member Member
	log    *slog.Logger
	seats  map[catalog.ShardID]*seated
	ids    []catalog.ShardID // of seats, rising

	// catalog is the version that this process goes by.
	catalog atomic.Uint64
	fences  fences
	ddl     turn
	changes turn
	numbers numbers
	duties  duties
	tables  tables
	debts   debts
	// waiting is how many wait for others: see await.
	waiting atomic.Int64
	// asked has an element when others have asked this process something.
	asked chan struct{}
	// followed: waits for all to go by a version.
	followed waited

	// following has an element while the board is read.
	following chan struct{}
	read      Version // as far as it was read; whoever has following
	adopted   uint64  // the version up to which Member.Adopt was called; whoever has following

	mu sync.Mutex
	// round is closed when something may have changed, and replaced.
	round chan struct{}
	// ending are jobs that this process was told to end. Invariant: it
	// goes by no such version (goBy).
	ending []ending
}

// ending are jobs that a record keeps off.
type ending struct {
	version uint64
	by      string
	hit     func(catalog.TableName, catalog.IndexID) bool
}

func (e ending) is(o ending) bool { return e.version == o.version && e.by == o.by }

var _ Cluster = (*Shared)(nil)

// NewShared returns a process that isn't on any shard yet.
func NewShared(o Options) *Shared {
	if o.Identity.ID == 0 {
		o.Identity.ID = rand.Uint64()
	}
	if o.ShardName == nil {
		o.ShardName = func(id catalog.ShardID) string { return strconv.Itoa(int(id)) }
	}
	if o.Every == 0 {
		o.Every = 250 * time.Millisecond
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Shared{
		opts: o, self: life(o.Identity.ID), log: o.Logger, seats: map[catalog.ShardID]*seated{}, ids: slices.Sorted(maps.Keys(o.Seats)),
		following: make(chan struct{}, 1), asked: make(chan struct{}, 1), round: make(chan struct{}),
	}
	for i := range s.shards {
		s.shards[i].settled = true // the rows of others stand for them
	}
	for id, seat := range o.Seats {
		s.seats[id] = newSeated(id, seat, &s.shards[id])
	}
	s.ddl.init("ddl")
	s.changes.init("changes")
	s.fences.init()
	s.numbers.init()
	s.debts.init()
	s.registrations.freed = s.nudgeAll
	s.start(s.freed)
	return s
}

// life is how a member is named where it isn't a number.
func life(id uint64) string { return strconv.FormatUint(id, 36) }

// Join is Processes'.
func (s *Shared) Join(m Member) { s.member.add(m) }

func (s *Shared) freed() {
	if s.member.Freed != nil {
		s.member.Freed()
	}
}

// Self is Processes'.
func (s *Shared) Self() string { return s.self }

// Gone is Processes': no shard has a row of it.
func (s *Shared) Gone(ctx context.Context, life string) bool {
	if life == s.self {
		return false
	}
	rows, err := s.rowsOf(ctx, life)
	return err == nil && len(rows) == 0
}

// On reports that this process is on a shard.
func (s *Shared) On(id catalog.ShardID) bool {
	a := s.seats[id]
	return a != nil && a.join() != 0
}

// seat finds what is on a shard.
func (s *Shared) seat(id catalog.ShardID) (*seated, error) {
	if a := s.seats[id]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("shard %s: %w", s.opts.ShardName(id), ErrNotJoined)
}

// aside reports a shard that serves nobody yet.
func (s *Shared) aside(id catalog.ShardID) bool { return s.opts.Aside != nil && s.opts.Aside(id) }

// at says where an error happened.
func (s *Shared) at(a *seated, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %s: %w", s.opts.ShardName(a.id), err)
}

// on is a row, and where.
type on struct {
	*seated
	Row
}

// rowsOf are a member's rows on all shards. After an error not all are known.
func (s *Shared) rowsOf(ctx context.Context, member string) ([]on, error) {
	var rows []on
	var errs []error
	for _, id := range s.ids {
		a := s.seats[id]
		_, there, err := a.seat.Rows(ctx)
		if err != nil && !s.aside(id) {
			errs = append(errs, s.at(a, err))
		}
		for _, r := range there {
			if life(r.ID) == member {
				rows = append(rows, on{a, r})
			}
		}
	}
	return rows, errors.Join(errs...)
}

// changed is closed when something may have changed.
func (s *Shared) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round
}

// wake has those look again who wait.
func (s *Shared) wake() {
	s.mu.Lock()
	close(s.round)
	s.round = make(chan struct{})
	s.mu.Unlock()
}

// waitQuietly is how long is waited for others until the log tells of it.
const waitQuietly = 2 * time.Second

// await asks until nobody holds what is waited for; an answer names who does. If ctx
// ends before, the error wraps its cause, and says who it was.
func (s *Shared) await(ctx context.Context, what string, ask func(context.Context) (holders []string)) error {
	began, told := s.opts.Now(), false
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for {
		changed := s.changed()
		holders := ask(ctx)
		if len(holders) == 0 {
			return nil
		}
		if !told && s.opts.Now().Sub(began) > waitQuietly {
			told = true
			s.log.Warn("waiting for other members", "for", what, "held_up_by", strings.Join(holders, "; "))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: held up by %s: %w", what, strings.Join(holders, "; "), context.Cause(ctx))
		}
	}
}

// nudgeAll has all shards' heartbeats come at once.
func (s *Shared) nudgeAll() {
	for _, a := range s.seats {
		a.nudge()
	}
}

const (
	// sweepEvery is how many heartbeats there are for one look at who else is there.
	sweepEvery = 4
	// calmAfter so many heartbeats that have changed nothing, there is one where there were sweepEvery:
	// all members' are as many statements on each shard.
	calmAfter = 20
	// followEvery is how many heartbeats there are for one Follow where the board has no news.
	followEvery = 16
)

// Run has the process be on its shards, until ctx ends. The rows stay: see Quit.
func (s *Shared) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.Attend(ctx) })
	failing := ""
	var err error
	for n := 0; ; n++ {
		err = s.hear(ctx, err != nil || n%followEvery == 0)
		s.tellOnce(&failing, "what the members share can't be read or written; changes of the catalog wait", err)
		s.wake()
		if !s.pause(ctx, s.opts.Every, s.debts.came) {
			break
		}
	}
	running.Wait()
}

// hear follows where there is something new, or something owed, or anyway.
func (s *Shared) hear(ctx context.Context, anyway bool) error {
	at, asked, err := s.opts.Board.News(ctx, s.self)
	if asked {
		s.hasAsk()
	}
	if err != nil || anyway || s.debts.any() || s.isNews(ctx, at) {
		return s.Follow(ctx)
	}
	return nil
}

// isNews: another version than the one that was read last.
func (s *Shared) isNews(ctx context.Context, at Version) bool {
	if take(ctx, s.following) != nil {
		return true
	}
	defer func() { <-s.following }()
	return s.read != at
}

// Attend is the part of Run that needs no Member: this process is on the shards, and follows no
// record yet, so that what others publish waits for it.
func (s *Shared) Attend(ctx context.Context) {
	var running sync.WaitGroup
	for _, a := range s.seats {
		running.Go(func() { s.attend(ctx, a) })
	}
	running.Wait()
}

// attend is the goroutine of one shard.
func (s *Shared) attend(ctx context.Context, a *seated) {
	failing, calm := "", 0
	for n := 0; ; n++ {
		before := a.adopted()
		err := s.Beat(ctx, a.id)
		if calm++; err != nil || a.adopted() != before || s.awaited(a) {
			calm = 0
		}
		if err == nil && n%sweepEvery == 0 {
			err = s.Sweep(ctx, a.id)
		}
		s.tellOnce(&failing, "the members' rows on a shard can't be read or written; removals of stale entries there wait", err)
		s.wake()
		every := s.opts.Every
		if calm > calmAfter {
			every *= sweepEvery
		}
		if !s.pause(ctx, every, a.nudged) {
			return
		}
	}
}

// awaited: this process waits for others on a shard, or for one that may have died, or has something open there for
// which others may wait.
func (s *Shared) awaited(a *seated) bool {
	_, told := s.present(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted || a.suspects || s.waiting.Load() > 0 || told.Epoch < told.Adopted
}

// pause waits for the next heartbeat; false: ctx has ended.
func (s *Shared) pause(ctx context.Context, every time.Duration, nudged <-chan struct{}) bool {
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-nudged:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// tellOnce logs an error, unless it is the one before.
func (s *Shared) tellOnce(last *string, what string, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != "" && now != *last && !errors.Is(err, context.Canceled) {
		s.log.Warn(what, "error", err)
	}
	*last = now
}

// Quit takes the process off all shards. REQUIRES: Run has returned, and no connection
// of the process is used any more.
func (s *Shared) Quit(ctx context.Context) error {
	var errs []error
	for _, id := range s.ids {
		errs = append(errs, s.at(s.seats[id], s.leave(ctx, s.seats[id])))
	}
	errs = append(errs, s.leaveNumber(ctx), s.debts.pay(ctx))
	return errors.Join(errs...)
}

// ToSettle is Lives': there is nothing. What others have left running their rows stand
// for.
func (s *Shared) ToSettle(catalog.ShardID) (unsettled int, open bool) { return 0, false }

// Settle is Lives'.
func (s *Shared) Settle(catalog.ShardID, int) {}

// Unsettle is Lives'.
func (s *Shared) Unsettle(catalog.ShardID) {}

// OldThreads is Connections'.
func (s *Shared) OldThreads(catalog.ShardID) []storage.Thread { return nil }
