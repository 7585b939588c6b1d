package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// seated is this process on one shard.
type seated struct {
	id    catalog.ShardID
	seat  Seat
	track *track // with the join and the epoch that were adopted
	// beating has an element while a Beat or Sweep is under way.
	beating chan struct{}
	// nudged has an element when the next heartbeat is to come at once.
	nudged chan struct{}
	// joining is the number of a row that this process isn't on yet, because the rest
	// failed; whoever has beating.
	joining uint64
	// late, by join, and when it was last looked how long each was quiet: whoever has beating.
	late   map[uint64]lateness
	looked time.Time

	mu sync.Mutex
	// told is what row toldBy says at least.
	told   Told
	toldBy uint64
	// least is the highest of Seat.Least's answers: what was registered before it has
	// ended. wanted: somebody waits until it is higher, and risen is closed then.
	least  storage.Epoch
	wanted bool
	risen  chan struct{}
	// suspects: the last Sweep has found one that may have died, or doesn't follow.
	suspects bool
	// failed is the last heartbeat's error.
	failed error
	noted  noted

	// lost counts fences of this process, and fenced those that it has done. others is how many were there when it
	// was looked last.
	lost, fenced, others atomic.Uint64
	// unlike: some of them were of another version of Shunt.
	unlike atomic.Bool
}

func newSeated(id catalog.ShardID, seat Seat, t *track) *seated {
	return &seated{
		id: id, seat: seat, track: t, beating: make(chan struct{}, 1), nudged: make(chan struct{}, 1),
		late: map[uint64]lateness{}, risen: make(chan struct{}), noted: noted{by: map[uint32][]note{}},
	}
}

func (a *seated) nudge() {
	select {
	case a.nudged <- struct{}{}:
	default:
	}
}

// join is the number under which the process is on the shard; 0: it isn't.
func (a *seated) join() uint64 {
	a.track.mu.Lock()
	defer a.track.mu.Unlock()
	return a.track.join
}

// adopted is the epoch in which statements are registered.
func (a *seated) adopted() storage.Epoch {
	a.track.mu.Lock()
	defer a.track.mu.Unlock()
	return a.track.adopted
}

// adopt has statements registered in an epoch, that was asked for under a join, when it was to be
// at least min; since when this process may have heard of a later one.
func (a *seated) adopt(join uint64, e, min storage.Epoch) error {
	if e < min {
		return fmt.Errorf("its epoch is %d, and was to be %d: %w", e, min, ErrWentBack)
	}
	a.track.mu.Lock()
	defer a.track.mu.Unlock()
	if join == 0 || a.track.join != join {
		return ErrNotJoined
	}
	a.track.adopted = max(a.track.adopted, e)
	return nil
}

// enter puts the process on the shard, in an epoch read behind the row's insertion. It may be
// lower than one heard of under a former join: what was registered then is over.
func (a *seated) enter(join uint64, b Beat) error {
	a.track.mu.Lock()
	defer a.track.mu.Unlock()
	a.track.life = b.Life // it may be another server than the one that was looked at
	if err := a.track.currentLocked(); err != nil {
		return err
	}
	// Both at once: what is registered under the join is registered in that epoch or later.
	a.track.adopted, a.track.join = b.Epoch, join
	return nil
}

// lose takes the process off the shard.
func (s *Shared) lose(a *seated, join uint64, why error) {
	a.track.mu.Lock()
	had := a.track.join == join
	if had {
		a.track.join = 0
	}
	a.track.mu.Unlock()
	if !had {
		return
	}
	a.mu.Lock()
	a.least = 0 // it may be another server
	a.noted.lose(join)
	a.mu.Unlock()
	a.lost.Add(1)
	s.log.Warn("this process isn't on a shard any more, and joins it anew: connections to it are closed", "shard", s.opts.ShardName(a.id), "join", join, "why", why)
	if s.member.Lost != nil {
		s.member.Lost(a.id, join, why)
	}
}

// present is what the process tells now. Computed under the lock behind which an epoch
// is adopted: if a registration isn't counted it is made later, and in that epoch.
func (s *Shared) present(a *seated) (join uint64, told Told) {
	t := a.track
	t.mu.Lock()
	defer t.mu.Unlock()
	told = Told{Epoch: t.adopted, Adopted: t.adopted, Catalog: s.catalog.Load()}
	if e, open := t.oldestLocked(); open {
		told.Epoch = min(told.Epoch, e)
	}
	for _, o := range t.open {
		told.Open += o.n
	}
	return t.join, told
}

// tell writes what has changed since it was told last.
func (s *Shared) tell(ctx context.Context, a *seated) error {
	join, told := s.present(a)
	if join == 0 {
		return ErrNotJoined
	}
	a.mu.Lock()
	known := a.toldBy == join && a.told.Epoch >= told.Epoch && a.told.Adopted >= told.Adopted && a.told.Catalog >= told.Catalog
	a.mu.Unlock()
	if known {
		return nil
	}
	if err := a.seat.Tell(ctx, join, told); err != nil {
		return fmt.Errorf("tell what is open: %w", err)
	}
	a.mu.Lock()
	if a.toldBy != join {
		a.told, a.toldBy = Told{}, join
	}
	a.told = Told{Epoch: max(a.told.Epoch, told.Epoch), Adopted: max(a.told.Adopted, told.Adopted), Catalog: max(a.told.Catalog, told.Catalog)}
	a.mu.Unlock()
	return nil
}

// Beat is a heartbeat: it hears of the shard's epoch and of a fence, tells what has
// changed, and joins where the process isn't on the shard.
func (s *Shared) Beat(ctx context.Context, id catalog.ShardID) error {
	return s.apart(ctx, id, s.beat)
}

// apart runs one Beat or Sweep of a shard at a time.
func (s *Shared) apart(ctx context.Context, id catalog.ShardID, fn func(context.Context, *seated) error) error {
	a, err := s.seat(id)
	if err != nil {
		return err
	}
	if err := take(ctx, a.beating); err != nil {
		return err
	}
	defer func() { <-a.beating }()
	return s.at(a, fn(ctx, a))
}

func (s *Shared) beat(ctx context.Context, a *seated) (err error) {
	defer func() {
		a.mu.Lock()
		a.failed = err
		a.mu.Unlock()
	}()
	join, before := a.join(), a.adopted()
	if join == 0 {
		return s.joinShard(ctx, a)
	}
	b, err := a.seat.Beat(ctx, join)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if !b.Here {
		s.lose(a, join, ErrFenced)
		return s.joinShard(ctx, a)
	}
	if err := a.adopt(join, b.Epoch, before); err != nil {
		s.lose(a, join, err)
		return err
	}
	if err := s.tell(ctx, a); err != nil {
		return err
	}
	if err := a.forget(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	wanted := a.wanted
	a.mu.Unlock()
	if wanted {
		_, err = s.look(ctx, a)
	}
	return err
}

// joinShard puts the process on a shard:
//
//	1 go by the newest version of what is shared
//	2 insert a row that tells 0
//	3 read the epoch, and register in it from 6 on
//	4 go by the newest version, once more
//	5 see whether turns are still this process's, and whether the shard's epoch and life are right
//	6 use the join; tell
//
// Counter-examples. 3 before 2: the epoch is read, 3; a scan on another member advances it
// to 4, and finds nobody who tells an older one; the row comes; what is registered in 3 has
// its entries removed by that scan. 4 before 2: somebody publishes a virtual index
// and finds that all rows there have the version; the row comes, and statements that
// were planned without the index. 5 before 2: see turn.
//
// 1 is so that one that can't follow holds nobody up by rows that it doesn't get to use.
func (s *Shared) joinShard(ctx context.Context, a *seated) error {
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	var err error
	if a.joining == 0 {
		if a.joining, err = a.seat.Join(ctx, s.opts.Identity, s.catalog.Load()); err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
	b, err := a.seat.Beat(ctx, a.joining)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	if !b.Here {
		a.joining = 0
		return fmt.Errorf("join: fenced meanwhile: %w", ErrNotJoined)
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.checkTurns(ctx); err != nil {
		return err
	}
	if err := a.current(b); err != nil {
		return err
	}
	if b, err = s.admit(ctx, a, b); err != nil {
		return err
	}
	if err := a.enter(a.joining, b); err != nil {
		return err
	}
	a.joining = 0
	return s.tell(ctx, a)
}

// catchUp is follow for who is about to join: it doesn't wait for the end of jobs. Counter-example:
// one doesn't end, since its shard hangs; the process would be on no other shard either.
func (s *Shared) catchUp(ctx context.Context) error {
	version, err := s.adopt(ctx, 0)
	if err == nil {
		s.goBy(version)
	}
	return err
}

// admit has a shard looked at, and returns what it says of itself then.
func (s *Shared) admit(ctx context.Context, a *seated, b Beat) (Beat, error) {
	if s.member.Admit == nil {
		if had := a.adopted(); b.Epoch < had {
			return b, fmt.Errorf("its epoch is %d, and was %d: %w", b.Epoch, had, ErrWentBack)
		}
		return b, nil
	}
	if err := s.member.Admit(ctx, a.id, b.Epoch); err != nil {
		return b, fmt.Errorf("look whether it has forgotten epochs: %w", err)
	}
	b, err := a.seat.Beat(ctx, a.joining)
	if err != nil {
		return b, fmt.Errorf("join: %w", err)
	}
	return b, nil
}

// Raise has a shard be in an epoch, or a later one.
func (s *Shared) Raise(ctx context.Context, id catalog.ShardID, e storage.Epoch) error {
	a, err := s.seat(id)
	if err != nil {
		return err
	}
	if err := a.seat.Raise(ctx, e); err != nil {
		return s.at(a, fmt.Errorf("raise the epoch: %w", err))
	}
	return nil
}

// leave takes the process's rows off a shard.
func (s *Shared) leave(ctx context.Context, a *seated) error {
	if err := take(ctx, a.beating); err != nil {
		return err
	}
	defer func() { <-a.beating }()
	if join := a.join(); join != 0 {
		a.track.mu.Lock()
		a.track.join = 0
		a.track.mu.Unlock()
	}
	_, rows, err := a.seat.Rows(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.ID != s.opts.Identity.ID {
			continue
		}
		for gone := false; !gone; {
			if gone, err = s.expel(ctx, a, r.Join); err != nil {
				return err
			}
			if !gone && !s.pause(ctx, s.opts.Every, nil) {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Epoch is Epochs': as far as this process has heard.
func (s *Shared) Epoch(id catalog.ShardID) storage.Epoch {
	if a := s.seats[id]; a != nil {
		return a.adopted()
	}
	return 0
}

// Advance is Epochs'.
func (s *Shared) Advance(ctx context.Context, id catalog.ShardID) (storage.Epoch, error) {
	a, err := s.seat(id)
	if err != nil {
		return 0, err
	}
	join, before := a.join(), a.adopted()
	e, err := a.seat.Advance(ctx)
	if err == nil {
		err = a.adopt(join, e, before+1)
	}
	if err != nil {
		return 0, s.at(a, fmt.Errorf("advance epoch: %w", err))
	}
	return e, nil
}

// Horizon is Registrations'.
func (s *Shared) Horizon(ctx context.Context, id catalog.ShardID) (storage.Epoch, error) {
	a, err := s.seat(id)
	if err != nil {
		return 0, err
	}
	if err := s.tell(ctx, a); err != nil {
		return 0, s.at(a, err)
	}
	e, err := s.look(ctx, a)
	return e, s.at(a, err)
}

// look reads the least that is told.
func (s *Shared) look(ctx context.Context, a *seated) (storage.Epoch, error) {
	join := a.join()
	e, err := a.seat.Least(ctx)
	if err != nil {
		return 0, fmt.Errorf("read what is open: %w", err)
	}
	rose := false
	a.mu.Lock()
	// Not behind a lost join, since when the shard may be another server.
	if e > a.least && join != 0 && a.join() == join {
		a.least = e
		if rose = a.wanted; rose {
			close(a.risen)
			a.risen, a.wanted = make(chan struct{}), false
		}
	}
	a.mu.Unlock()
	if rose {
		s.freed()
	}
	return e, nil
}

// Still is Registrations'.
func (s *Shared) Still(ctx context.Context, id catalog.ShardID, join uint64) error {
	a, err := s.seat(id)
	if err != nil {
		return err
	}
	b, err := a.seat.Beat(ctx, join)
	if err == nil && !b.Here {
		err = ErrFenced
	}
	return s.at(a, err)
}

// passed reports whether everything before an epoch has ended, as far as is known, and if
// not has it looked at from now on: risen is closed when more is known.
func (s *Shared) passed(a *seated, min storage.Epoch) (risen <-chan struct{}, ok bool) {
	a.mu.Lock()
	if a.least >= min {
		a.mu.Unlock()
		return nil, true
	}
	first := !a.wanted
	a.wanted = true
	risen = a.risen
	a.mu.Unlock()
	if first {
		a.track.mu.Lock()
		if a.track.wake == nil {
			a.track.wake = make(chan struct{}) // so that End nudges
		}
		a.track.mu.Unlock()
		a.nudge()
	}
	return risen, false
}

// Passed is Registrations'.
func (s *Shared) Passed(id catalog.ShardID, min storage.Epoch) bool {
	a, err := s.seat(id)
	if err != nil {
		return false
	}
	_, ok := s.passed(a, min)
	return ok
}

// Wait is Registrations'.
func (s *Shared) Wait(ctx context.Context, id catalog.ShardID, min storage.Epoch) error {
	a, err := s.seat(id)
	if err != nil {
		return err
	}
	for {
		risen, ok := s.passed(a, min)
		if ok {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return s.at(a, context.Cause(ctx))
		}
		select {
		case <-risen:
		case <-ctx.Done():
			return s.at(a, context.Cause(ctx))
		}
	}
}
