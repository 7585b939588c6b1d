package shared

import (
	"context"
	"errors"
	"sync"

	"github.com/shunt-sql/shunt/storage/home"
)

// errNoCommit: its reads are answered.
var errNoCommit = errors.New("a commit there doesn't end, as where a disk is full")

// commits is an error where the home, which answers, doesn't commit what is written.
//
// Counter-example: its binary log's disk is full, so that a commit waits until it isn't. The home is back each
// time that it is asked, the next writes wait in vain, and it is never given up.
func (s *Store) commits(ctx context.Context, p *place) error {
	err := p.home.Load().Count(ctx)
	if refused, told := errors.AsType[*OutError](err); told && refused.Refuses {
		return nil // which each write is told
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNoCommit
		p.out.Store(&OutError{Home: p.told(), Cause: err})
	}
	return err
}

// wentBack has a home be out for that.
func (s *Store) wentBack(p *place, cause error) {
	if out := p.out.Load(); out == nil || !errors.Is(out, home.ErrWentBack) {
		out = &OutError{Home: p.told(), Cause: cause}
		p.out.Store(out)
		s.log.Error("a server of the store went back: its virtual indexes are given up and built anew; what else it has, as the first one, takes shunt replaced", "error", out)
	}
}

// accept takes a home in use again that went back, once no index is there any more.
//
// Rule lost at once: what it has of indexes is of no use, so these are given up at once (Away), which all go by
// before anything new is made there.
func (s *Store) accept(ctx context.Context, p *place) error {
	if p == s.homes()[0] {
		return home.ErrWentBack
	}
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	if on := s.state.Load().on(p.name); len(on) > 0 {
		return home.ErrWentBack
	}
	if err := p.home.Load().Accept(ctx, *p.at.Load()); err != nil {
		return err
	}
	_, err := p.home.Load().Life(ctx)
	return err
}

// look looks at all homes that answer, at once. jobs: there are some, or may be.
func (s *Store) look(ctx context.Context) (jobs bool) {
	first := s.homes()[0]
	jobs = true
	var looking sync.WaitGroup
	for _, p := range s.homes() {
		looking.Go(func() {
			if l, err := s.lookAt(ctx, p); err == nil && p == first {
				jobs = l.Jobs
			}
		})
	}
	looking.Wait()
	return jobs
}

// lookAt has a home count what was written there, and sees whether it still has what it had; it tells where that may
// be lost.
func (s *Store) lookAt(ctx context.Context, p *place) (l home.Look, err error) {
	h, err := p.reach()
	if err != nil {
		return l, err
	}
	brief, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if p.written.Swap(false) {
		err = h.Count(brief)
	}
	if err == nil {
		l, err = h.Look(brief)
	}
	if ctx.Err() != nil { // which says nothing of the home
		return l, ctx.Err()
	}
	if err := s.answered(p, err); err != nil {
		return l, err
	}
	if l.Volatile != p.volatile && l.Volatile != "" {
		s.log.Warn("a server of the store may lose what it has acknowledged: when its machine loses power, reads by virtual indexes may miss rows", "home", p.told(), "why", l.Volatile)
	}
	p.volatile = l.Volatile
	return l, nil
}
