package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Kinds of records that are the cluster's own.
const (
	fenceKind   = "fence"   // by a member: tables that jobs keep off
	dismissKind = "dismiss" // by a member: an index that isn't built
)

// fences are those of all members, as far as the board was read.
type fences struct {
	mu        sync.Mutex
	tables    map[string]map[catalog.TableName]bool // by member
	dismissed map[string]catalog.IndexID
	// written are the kinds of which the board may have a record of this process's.
	written map[string]bool
}

func (f *fences) init() {
	f.tables, f.dismissed, f.written = map[string]map[catalog.TableName]bool{}, map[string]catalog.IndexID{}, map[string]bool{}
}

// apply takes a record over, and reports what is to be interrupted for it, if anything.
func (f *fences) apply(r Record) (hit func(catalog.TableName, catalog.IndexID) bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.Kind == fenceKind && r.Body == nil:
		delete(f.tables, r.Name)
	case r.Kind == fenceKind:
		var names []catalog.TableName
		if err := json.Unmarshal(r.Body, &names); err != nil {
			return nil, fmt.Errorf("read a fence of %s: %w", r.Name, err)
		}
		set := make(map[catalog.TableName]bool, len(names)) // which nobody changes
		for _, n := range names {
			set[n] = true
		}
		f.tables[r.Name] = set
		return func(t catalog.TableName, _ catalog.IndexID) bool { return set[t] }, nil
	case r.Kind == dismissKind && r.Body == nil:
		delete(f.dismissed, r.Name)
	case r.Kind == dismissKind:
		var index catalog.IndexID
		if err := json.Unmarshal(r.Body, &index); err != nil {
			return nil, fmt.Errorf("read which index %s dismisses: %w", r.Name, err)
		}
		f.dismissed[r.Name] = index
		return func(_ catalog.TableName, builds catalog.IndexID) bool { return builds == index }, nil
	}
	return nil, nil
}

// of lists the members that have fences or dismiss an index.
func (f *fences) of() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(f.tables)
	for m := range f.dismissed {
		all[m] = nil
	}
	return slices.Sorted(maps.Keys(all))
}

// Follow has this process go by what is shared, and does what it owes.
func (s *Shared) Follow(ctx context.Context) error {
	if err := s.follow(ctx, 0); err != nil {
		return err
	}
	return errors.Join(s.debts.pay(ctx), s.keepNumber(ctx), s.tidy(ctx))
}

// follow goes by the newest version. published is one that this process goes by as it
// is: 0 for none.
func (s *Shared) follow(ctx context.Context, published uint64) error {
	version, err := s.adopt(ctx, published)
	if err != nil {
		return err
	}
	s.mu.Lock()
	ends := slices.Clone(s.ending)
	s.mu.Unlock()
	for _, e := range ends {
		if err := s.interrupt(ctx, e.hit); err != nil {
			return fmt.Errorf("end jobs that %s keeps off: %w", e.by, err)
		}
		s.mu.Lock()
		s.ending = slices.DeleteFunc(s.ending, e.is)
		s.mu.Unlock()
	}
	s.goBy(version)
	return nil
}

// adopt is follow, but for the end of jobs that are to end: these may take their time, and until
// then it isn't told that this process goes by the version.
func (s *Shared) adopt(ctx context.Context, published uint64) (version uint64, err error) {
	if err := take(ctx, s.following); err != nil {
		return 0, err
	}
	defer func() { <-s.following }()
	at, records, err := s.opts.Board.Read(ctx, s.read.Number)
	if err != nil {
		return 0, fmt.Errorf("read what is shared: %w", err)
	}
	if at.Number < s.read.Number || at.Number == s.read.Number && s.read.ID != "" && at.ID != s.read.ID {
		return 0, fmt.Errorf("the shared records are of version %d, and were of %d: %w", at.Number, s.read.Number, ErrWentBack)
	}
	freed := false
	for _, r := range records {
		if r.Kind == lifeKind {
			if err := s.replacedBy(r); err != nil {
				return 0, err
			}
			continue
		}
		// In the fences first, then interrupted: none begins in between.
		hit, err := s.fences.apply(r)
		if err != nil {
			return 0, err
		}
		if freed = freed || hit == nil; hit != nil {
			s.mu.Lock()
			e := ending{r.Version, r.Kind + " of " + r.Name, hit}
			if !slices.ContainsFunc(s.ending, e.is) { // else it was read before, and Adopt failed
				s.ending = append(s.ending, e)
			}
			s.mu.Unlock()
		}
	}
	if freed {
		s.freed()
	}
	if at.Number > max(s.adopted, published) && s.member.Adopt != nil {
		if err := s.member.Adopt(ctx, at.Number); err != nil {
			return 0, fmt.Errorf("go by version %d of what is shared: %w", at.Number, err)
		}
	}
	s.read, s.adopted = at, max(s.adopted, at.Number, published)
	return max(at.Number, published), nil
}

// goBy raises the version that this process tells, to one behind which it has ended all jobs that it
// was to end.
func (s *Shared) goBy(version uint64) {
	s.mu.Lock()
	for _, e := range s.ending {
		version = min(version, e.version-1)
	}
	s.mu.Unlock()
	for {
		had := s.catalog.Load()
		if had >= version {
			return
		}
		if s.catalog.CompareAndSwap(had, version) {
			s.nudgeAll()
			return
		}
	}
}

func (s *Shared) interrupt(ctx context.Context, hit func(catalog.TableName, catalog.IndexID) bool) error {
	if s.member.Interrupt == nil {
		return nil
	}
	return s.member.Interrupt(ctx, hit)
}

// Adopted is Catalogs'.
func (s *Shared) Adopted(ctx context.Context, version uint64) error {
	if err := s.follow(ctx, version); err != nil {
		return err
	}
	return s.barrier(ctx, version)
}

// barrier waits until all that are on a shard go by a version. This process does.
func (s *Shared) barrier(ctx context.Context, version uint64) error {
	for _, id := range s.ids {
		if err := s.tell(ctx, s.seats[id]); err != nil {
			s.seats[id].nudge() // its row is looked at below
		}
	}
	began := s.opts.Now()
	defer func() { s.followed.add(s.opts.Now().Sub(began)) }()
	return s.await(ctx, fmt.Sprintf("version %d", version), func(ctx context.Context) []string { return s.Behind(ctx, version) })
}

// Behind names whom a version waits for: members that are on a shard and don't go by it
// yet, be they fenced, as long as their connections aren't gone; and shards that can't be
// asked.
func (s *Shared) Behind(ctx context.Context, version uint64) []string {
	var holders []string
	for _, id := range s.ids {
		a := s.seats[id]
		_, rows, err := a.seat.Rows(ctx)
		if err != nil && !s.aside(id) {
			holders = append(holders, s.at(a, err).Error())
		}
		for _, r := range rows {
			if r.Catalog < version {
				holders = append(holders, fmt.Sprintf("%s, which is at version %d", s.describe(on{a, r}), r.Catalog))
			}
		}
	}
	return holders
}

// describe names a row.
func (s *Shared) describe(r on) string {
	text := fmt.Sprintf("member %s (%s) on shard %s", life(r.ID), r.Addr, s.opts.ShardName(r.id))
	if r.Fenced {
		text += " (fenced; its connections aren't gone yet)"
	}
	return text
}

// Fence is Fences'.
func (s *Shared) Fence(ctx context.Context, tables ...catalog.TableName) error {
	return s.keepOff(ctx, fenceKind, tables)
}

// keepOff writes a record of this process's, and waits until all go by it.
func (s *Shared) keepOff(ctx context.Context, kind string, what any) error {
	if err := s.debts.pay(ctx); err != nil { // which may remove the one before
		return err
	}
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	s.fences.mu.Lock()
	s.fences.written[kind] = true
	s.fences.mu.Unlock()
	version, err := s.opts.Board.Write(ctx, 0, Record{Kind: kind, Name: s.self, Body: body})
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	if err := s.follow(ctx, 0); err != nil {
		return err
	}
	return s.barrier(ctx, version)
}

// readmit takes keepOff back. Others hear of it in time.
func (s *Shared) readmit(kind string) {
	s.fences.mu.Lock()
	written := s.fences.written[kind]
	s.fences.written[kind] = false
	s.fences.mu.Unlock()
	if !written {
		return
	}
	s.debts.owe(func(ctx context.Context) error {
		if _, err := s.opts.Board.Write(ctx, 0, Record{Kind: kind, Name: s.self}); err != nil {
			return fmt.Errorf("remove %s: %w", kind, err)
		}
		return nil
	})
	_, _ = s.fences.apply(Record{Kind: kind, Name: s.self}) // which can't fail
	s.freed()
}

// Unfence is Fences'.
func (s *Shared) Unfence() { s.readmit(fenceKind) }

// Fenced is Fences'.
func (s *Shared) Fenced(t catalog.TableName) bool {
	f := &s.fences
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tables := range f.tables {
		if tables[t] {
			return true
		}
	}
	return false
}

// Fencing is Fences'.
func (s *Shared) Fencing() bool {
	f := &s.fences
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tables := range f.tables {
		if len(tables) > 0 {
			return true
		}
	}
	return false
}

// Dismiss is Fences'.
func (s *Shared) Dismiss(ctx context.Context, id catalog.IndexID) (readmit func(), err error) {
	readmit = func() { s.readmit(dismissKind) }
	if err := s.keepOff(ctx, dismissKind, id); err != nil {
		readmit()
		return nil, err
	}
	return readmit, nil
}

// Dismissed is Fences'.
func (s *Shared) Dismissed(id catalog.IndexID) bool {
	f := &s.fences
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dismissed := range f.dismissed {
		if id != 0 && dismissed == id {
			return true
		}
	}
	return false
}

// tidy removes what members that are gone have left on the board.
func (s *Shared) tidy(ctx context.Context) error {
	for _, m := range s.fences.of() {
		if m == s.self || !s.Gone(ctx, m) {
			continue
		}
		if _, err := s.opts.Board.Write(ctx, 0, Record{Kind: fenceKind, Name: m}, Record{Kind: dismissKind, Name: m}); err != nil {
			return fmt.Errorf("remove what %s keeps off: %w", m, err)
		}
	}
	return nil
}
