package shared

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// OutError says that a home doesn't answer: reads by its indexes are wide, and what must be added there
// isn't.
type OutError = home.OutError

// wrote is answered for what was written.
func (s *Store) wrote(p *place, err error) error {
	if err == nil {
		p.written.Store(true)
		if p.refusals.end(time.Now(), s.patience) {
			s.log.Info("the shared store takes writes again", "home", p.told())
		}
	}
	return s.answered(p, err)
}

// answered takes the error of a call to a home, which may be that it doesn't answer. Then it is
// taken for out, and whoever needs it meanwhile fails at once: else each statement would wait for it
// until the timeout. One that takes no writes is asked each time, and read.
func (s *Store) answered(p *place, err error) error {
	cause := err
	out, told := errors.AsType[*OutError](err)
	switch {
	case told && out.Refuses && out.Home == p.at.Load().Addr:
		out = &OutError{Home: p.told(), Cause: out.Cause, Refuses: true}
		if p.refusals.add(time.Now()) {
			s.log.Warn("writes that need new entries there are refused", "error", out)
		}
		return out
	case told && out.Home == p.at.Load().Addr:
		cause = out.Cause
	case told, !home.Unreachable(err) && !errors.Is(err, home.ErrWentBack):
		return err
	}
	out = &OutError{Home: p.told(), Cause: cause}
	if p.out.CompareAndSwap(nil, out) {
		p.since.Store(time.Now().UnixNano())
		s.log.Warn("reads by its virtual indexes go to all shards, and writes that need new entries there are refused", "error", out)
	}
	return out
}

// probe looks whether homes that were out are back.
func (s *Store) probe(ctx context.Context) {
	for _, p := range s.homes() {
		if p.out.Load() == nil {
			continue
		}
		brief, cancel := context.WithTimeout(ctx, time.Second)
		err := p.open(brief)
		if err == nil {
			_, err = p.home.Load().Life(brief)
		}
		if errors.Is(err, home.ErrWentBack) {
			s.wentBack(p, err)
			err = s.accept(brief, p)
		}
		if err == nil {
			err = s.commits(brief, p)
		}
		if err == nil {
			err = s.remember(brief, p)
		}
		cancel()
		switch {
		case err == nil:
			p.since.Store(0)
			p.out.Store(nil)
			s.log.Info("the shared store answers again", "home", p.told())
			// What builds there have come to while it was away.
			brief, cancel := s.brief()
			if err := s.Refresh(brief); err != nil {
				s.log.Warn("the shared records can't be read", "error", err)
			}
			cancel()
		case p.home.Load() == nil && !home.Unreachable(err):
			p.out.Store(&OutError{Home: p.told(), Cause: err}) // another cluster's, or another version's
		}
	}
}

// Standing is of the homes by name: why one doesn't answer, nil for one that does.
func (s *Store) Standing() map[string]error {
	away := map[string]error{}
	for _, p := range s.homes() {
		away[p.name] = nil
		if out := p.out.Load(); out != nil {
			away[p.name] = out
		}
	}
	return away
}

// Outage is why an index can't be read where it is, or written where it was.
func (s *Store) Outage(id catalog.IndexID) error { return s.each(id, s.outageOf) }

func (s *Store) outageOf(id catalog.IndexID) error {
	d, ok := s.Index(id)
	if !ok {
		return nil
	}
	for _, name := range []string{d.Home, d.Former} {
		if name == "" {
			continue
		}
		if _, err := s.reach(name); err != nil {
			return err
		}
	}
	return nil
}

// Takes reports that the servers that have an index, or are to have it, answer, and have refused nothing lately.
func (s *Store) Takes(id catalog.IndexID) bool {
	now := s.state.Load()
	for _, part := range now.parts(id) {
		for _, name := range homesOf(now.indexes[part]) {
			if p := s.place(name); p == nil || p.out.Load() != nil || p.refusals.lately(time.Now()) {
				return false
			}
		}
	}
	return true
}

// maxPatience bounds how long a home that comes and goes is waited for until it is given up.
const maxPatience = 10 * time.Minute

// Away are the homes of an index that have been away for so long that it is added to there no more, but
// for one that it has been forsaken at. The first one isn't given up: what is shared lies there.
func (s *Store) Away(id catalog.IndexID) (names []string) {
	now := s.state.Load()
	for _, part := range now.parts(id) {
		for _, name := range homesOf(now.indexes[part]) {
			p := s.place(name)
			if p == nil || p == s.homes()[0] {
				continue
			}
			if p.lost(s.patience) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// lost: it has been away, or has taken no writes, for longer than is waited for. One that went back is lost at once.
func (p *place) lost(patience time.Duration) bool {
	patience = min(patience<<min(p.forsaken.Load(), 10), max(patience, maxPatience))
	out, since := p.out.Load(), p.since.Load()
	if out == nil || since == 0 {
		return p.refusals.lasted(time.Now()) > patience
	}
	return errors.Is(out, home.ErrWentBack) || time.Since(time.Unix(0, since)) > patience
}

// Forsake has an index be added to no more where it is; of one with partitions those that are lost. It ends builds elsewhere.
// StartBuild places it anew, when the home is back. REQUIRES: nobody reads by it.
//
// Counter-example to leaving builds: partitions on a, b and c are moved to b, which is lost. The one on b is given up, and to the
// others all is added on b, too: writes are refused for as long as b is away.
func (s *Store) Forsake(id catalog.IndexID) error {
	now := s.state.Load()
	if len(now.indexes[id].Parts) == 0 {
		return s.forsake(id, true)
	}
	return s.each(id, func(part catalog.IndexID) error {
		lost := s.Away(part)
		if len(lost) == 0 {
			return nil
		}
		return s.forsake(part, slices.Contains(lost, now.indexes[part].Home))
	})
}

// forsake ends the builds of an index elsewhere; there: it is where it is read no more, either.
func (s *Store) forsake(id catalog.IndexID, there bool) error {
	d, _ := s.Index(id)
	if p := s.place(d.Home); p != nil && there {
		p.forsaken.Add(1)
	}
	err := s.alter(id, func(d *storage.IndexRecord) {
		if d.Target, d.Former = "", ""; there {
			d.Forsaken, d.Unread = true, true
		}
	})
	if err == nil {
		s.forget(id, d.Target)
		s.forget(id, d.Former)
	}
	return err
}

// forsakeUnread has an index be added to no more at a home that takes no writes, if nobody reads by it, and reports
// whether it isn't.
//
// Rule unread: an index that is built where a server takes no writes is forsaken by whoever is told so, at once and
// without a barrier. No reader can miss what isn't added, and no build that was under way makes the index readable,
// since FinishBuild finds the record changed. Counter-example: the disk of a server is full, and its indexes were given
// up. A small write still goes, so they are placed there anew each minute, and clients' writes, which don't go, are
// refused until the indexes are given up again.
func (s *Store) forsakeUnread(id catalog.IndexID, name string) bool {
	d, known := s.Index(id)
	if !known || !d.Unread {
		return false
	}
	forsaken := false
	err := s.tryAlter(id, func(d *storage.IndexRecord) error {
		forsaken = d.Forsaken // by another one
		if forsaken || !d.Unread || d.Home != name || d.Target != "" || d.Former != "" {
			return errAsItIs
		}
		d.Forsaken = true
		return nil
	})
	switch {
	case err == nil:
		s.log.Warn("a virtual index isn't built where its server takes no writes; this is tried again each minute", "index", d.Name, "schema", d.Schema, "table", d.Table, "server", name)
		return true
	case !errors.Is(err, errAsItIs):
		s.log.Warn("a virtual index that is built can't be given up where its server takes no writes", "index", d.Name, "schema", d.Schema, "table", d.Table, "server", name, "error", err)
	}
	return forsaken
}

// errAsItIs leaves a record.
var errAsItIs = errors.New("the record stays as it is")
