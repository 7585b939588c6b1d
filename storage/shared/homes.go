package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// Server is a home by its name, which it keeps for ever.
type Server struct {
	Name string
	home.Config
	// Replaced: whatever server answers.
	Replaced bool
}

// place is a home as this process sees it.
type place struct {
	name string
	at   atomic.Pointer[home.Config]
	any  bool // Server.Replaced
	// home is nil until the server has answered for the first time.
	home atomic.Pointer[home.Home]
	// opening is held while it is opened.
	opening sync.Mutex
	out     atomic.Pointer[OutError]
	// admits are the epochs in which shards were joined without this home's having been asked
	// what it knows of them: see Admit. Store.admitting guards it.
	admits map[catalog.ShardID]storage.Epoch
	// since is when out was set, in ns; 0: it isn't.
	since    atomic.Int64
	refusals refusals
	// written: something was added or marked there that it hasn't counted.
	written atomic.Bool
	// volatile is why it may lose what it has acknowledged, as it was told last.
	volatile string
	// forsaken counts the indexes that this process has given up there.
	forsaken atomic.Int64
	// marks are those that it had when they were read last.
	marks atomic.Pointer[[]storage.Mark]
}

var (
	// ErrNoHome: no server of the store has that name.
	ErrNoHome = errors.New("no such server of the store")
	// errNotOpen: a server that hasn't answered since this process began.
	errNotOpen = errors.New("it hasn't answered yet")
	errUnknown = errors.New("it isn't in this Shunt's configuration: restart it with that of the others")
)

// place is the home of a name, nil where this process has none.
func (s *Store) place(name string) *place {
	for _, p := range s.homes() {
		if p.name == name {
			return p
		}
	}
	return nil
}

// homes are those that this process has, in the order of its configuration.
func (s *Store) homes() []*place { return *s.places.Load() }

// reach returns the home, or at once why it is taken for out.
func (s *Store) reach(name string) (*home.Home, error) {
	p := s.place(name)
	if p == nil {
		return nil, &OutError{Home: name, Cause: errUnknown}
	}
	return p.reach()
}

// Server is a home by its name. The error is why it is taken for out.
func (s *Store) Server(name string) (*home.Home, error) { return s.reach(name) }

// On are the indexes that a home has.
func (s *Store) On(name string) []string { return s.state.Load().on(name) }

// outage is why a home is taken for out.
func (s *Store) outage(name string) error {
	p := s.place(name)
	if p == nil {
		return &OutError{Home: name, Cause: errUnknown}
	}
	if out := p.out.Load(); out != nil {
		return out
	}
	return nil
}

func (p *place) reach() (*home.Home, error) {
	if out := p.out.Load(); out != nil {
		return nil, out
	}
	h := p.home.Load()
	if h == nil {
		return nil, &OutError{Home: p.told(), Cause: errNotOpen}
	}
	return h, nil
}

// told is how it is called to people.
func (p *place) told() string {
	addr := p.at.Load().Addr
	if p.name == "" || p.name == addr {
		return addr
	}
	return p.name + " (" + addr + ")"
}

// open connects to a home that hasn't answered yet.
func (p *place) open(ctx context.Context) error {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.home.Load() != nil {
		return nil
	}
	open := home.Open
	if p.any {
		open = home.OpenAny
	}
	h, err := open(ctx, *p.at.Load())
	if err != nil {
		return err
	}
	p.home.Store(h)
	return nil
}

func newPlace(at Server) *place {
	p := &place{name: at.Name, any: at.Replaced}
	p.at.Store(&at.Config)
	return p
}

// Readdress has a home be reached elsewhere from now on, or as somebody else.
func (s *Store) Readdress(to Server) error {
	p := s.place(to.Name)
	if p == nil {
		return nil
	}
	at := to.Config
	at.Cluster = p.at.Load().Cluster
	p.opening.Lock()
	defer p.opening.Unlock()
	p.at.Store(&at)
	if h := p.home.Load(); h != nil {
		return h.Readdress(at)
	}
	return nil
}

// OpenHomes has the store have more homes than the first. One that doesn't answer is out until it does.
func (s *Store) OpenHomes(ctx context.Context, cluster string, more []Server) error {
	places := slices.Clone(s.homes())
	for _, at := range more {
		at.Cluster = cluster
		p := newPlace(at)
		brief, cancel := context.WithTimeout(ctx, s.timeout)
		err := p.open(brief)
		cancel()
		if err != nil && !home.Unreachable(err) {
			return err
		}
		if err != nil {
			_ = s.answered(p, err) // who needs it is told
		}
		places = append(places, p)
	}
	s.places.Store(&places)
	return nil
}

// Agree has the records say which homes there are: all processes have the same. self is this one, and
// gone says that another one is over.
//
// A home that was added later is used as soon as all have it. One that is gone from the list may have
// no index.
func (s *Store) Agree(self string, gone func(ctx context.Context, process string) bool) error {
	s.self, s.gone = self, gone
	var names []string
	for _, p := range s.homes() {
		names = append(names, p.name)
	}
	return s.change(func(now *state) (records []home.Record, err error) {
		known, err := now.names("")
		if err != nil {
			return nil, err
		}
		if len(known) > 0 && known[0] != names[0] {
			return nil, fmt.Errorf("the store's first server is %s, and the configuration's is %s: it stays the first for ever, with all that the Shunts share", known[0], names[0])
		}
		for _, name := range known {
			on := now.on(name)
			if slices.Contains(names, name) || len(on) == 0 {
				continue
			}
			if now.leaves(name) {
				return nil, fmt.Errorf("the configuration lacks server %s of the store, from which virtual indexes have moved and are still being removed: try again in a moment", name)
			}
			return nil, fmt.Errorf("the configuration lacks server %s of the store, which has virtual indexes: move them first (REBUILD VIRTUAL INDEX ... HOME), as %s", name, strings.Join(on, ", "))
		}
		for of, names := range map[string][]string{"": names, s.self: names} {
			r, err := record(kindHomes, of, names)
			if err != nil {
				return nil, err
			}
			if string(now.records[kindHomes][of]) != string(r.Body) {
				records = append(records, r)
			}
		}
		return records, nil
	})
}

// TakeOut has the store have no home of this name any more, which may have no index. The function returned
// takes that back. REQUIRES: no other process has the store.
func (s *Store) TakeOut(name string) (back func() error, err error) {
	had := s.homes()
	left := slices.DeleteFunc(slices.Clone(had), func(p *place) bool { return p.name == name })
	if len(left) == len(had) || len(left) == 0 {
		return func() error { return nil }, nil
	}
	s.places.Store(&left)
	back = func() error {
		s.places.Store(&had)
		return s.Agree(s.self, s.gone)
	}
	if err := s.Agree(s.self, s.gone); err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}

// quit takes back that this process has the homes.
func (s *Store) quit() {
	if s.self == "" || s.outage(s.homes()[0].name) != nil {
		return
	}
	if err := s.set(kindHomes, s.self, nil); err != nil {
		s.log.Info("another process removes which homes this one had", "error", err)
	}
}

// names are the homes that a process has, or those of the store where of is "".
func (now *state) names(of string) ([]string, error) {
	return one[[]string](now, kindHomes, of)
}

// on are the indexes that a home has.
func (now *state) on(name string) (indexes []string) {
	for id, d := range now.indexes {
		if slices.Contains(homesOf(d), name) {
			indexes = append(indexes, now.indexes[now.whole(id)].Name+" ON "+d.Schema+"."+d.Table)
		}
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// leaves reports that all indexes of a home have moved to others, and what it had of them is being removed.
func (now *state) leaves(name string) bool {
	for _, d := range now.indexes {
		if d.Home == name && !d.Forsaken || d.Target == name {
			return false
		}
	}
	return true
}

// homesOf are the homes that an index is added to: none of one that has partitions, which have some.
func homesOf(d storage.IndexRecord) []string {
	var names []string
	if len(d.Parts) > 0 {
		return nil
	}
	for _, name := range []string{d.Home, d.Target, d.Former} {
		if name != "" && (!d.Forsaken || name != d.Home) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// choose finds a home for an index of a table: the one asked for, or the one with the table's other indexes, so
// that a row's entries are one commit there, or the one with the fewest tables.
func (s *Store) choose(now *state, of catalog.TableName, asked string) (string, error) {
	known, err := now.names("")
	if err != nil {
		return "", err
	}
	if len(known) == 0 { // nobody has spoken of homes
		for _, p := range s.homes() {
			known = append(known, p.name)
		}
	}
	if asked != "" {
		if !slices.Contains(known, asked) {
			return "", fmt.Errorf("%s: %w, which has %s", asked, ErrNoHome, strings.Join(known, ", "))
		}
		if who := s.lacks(now, asked); who != "" {
			return "", fmt.Errorf("%s: %w that all have: restart %s with the configuration of the others", asked, ErrNoHome, who)
		}
		if _, err := s.reach(asked); err != nil {
			return "", err
		}
		return asked, nil
	}
	tables := map[string]map[catalog.TableName]int{} // by home, their indexes
	for _, d := range now.indexes {
		if len(d.Parts) > 0 {
			continue
		}
		at := cmp.Or(d.Target, d.Home)
		if tables[at] == nil {
			tables[at] = map[catalog.TableName]int{}
		}
		tables[at][catalog.TableName{Schema: d.Schema, Name: d.Table}]++
	}
	best := ""
	for _, name := range known {
		if _, err := s.reach(name); err != nil || s.lacks(now, name) != "" {
			continue
		}
		if best == "" || cmp.Or(cmp.Compare(tables[best][of], tables[name][of]), cmp.Compare(len(tables[name]), len(tables[best]))) < 0 {
			best = name
		}
	}
	if best == "" {
		_, err := s.reach(known[0])
		return "", cmp.Or(err, ErrNoHome)
	}
	return best, nil
}

// lacks names a process that runs and doesn't have a home.
func (s *Store) lacks(now *state, name string) string {
	if s.place(name) == nil {
		return "this Shunt"
	}
	for of := range now.records[kindHomes] {
		names, err := now.names(of)
		if of == "" || of == s.self || err == nil && slices.Contains(names, name) {
			continue
		}
		ctx, cancel := s.brief()
		gone := s.gone != nil && s.gone(ctx, of)
		cancel()
		if !gone {
			return "member " + of
		}
	}
	return ""
}

// tidy removes what processes that are gone have said of homes.
func (s *Store) tidy(ctx context.Context) error {
	return s.change(func(now *state) (records []home.Record, err error) {
		for of := range now.records[kindHomes] {
			if of != "" && of != s.self && s.gone != nil && s.gone(ctx, of) {
				records = append(records, home.Record{Kind: kindHomes, Name: of})
			}
		}
		return records, nil
	})
}

// Sweep drops what homes have of indexes that there are no more, or not there: of those that were
// dropped, or moved, while the server was away. REQUIRES: nobody else changes indexes.
func (s *Store) Sweep(ctx context.Context) error {
	if err := s.tidy(ctx); err != nil { // which reads the records
		return err
	}
	now := s.state.Load()
	var errs []error
	for name, heads := range now.heads {
		for id := range heads {
			if d, known := now.indexes[id]; known && slices.Contains(homesOf(d), name) {
				continue
			}
			h, err := s.reach(name)
			if err != nil {
				break
			}
			if err := h.DropIndex(ctx, id); err != nil && !errors.Is(err, storage.ErrNoIndex) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// reads is the home that lookups of an index go to. storage.ErrNoIndex where there is none.
func (now *state) reads(id catalog.IndexID) (name string, err error) {
	d, ok := now.indexes[id]
	if !ok || d.Forsaken {
		return "", storage.ErrNoIndex
	}
	return d.Home, nil
}

// everywhere calls do with each home and what it is to have of a list, at once. Of an index that isn't
// known, or has no home, nothing is.
func everywhere[T any](s *Store, list []T, index func(T) catalog.IndexID, do func(*home.Home, []T) error) error {
	now := s.state.Load()
	var names []string
	parts := map[string][]T{}
	for _, v := range list {
		d, ok := now.indexes[index(v)]
		if !ok {
			continue
		}
		for _, name := range homesOf(d) {
			if parts[name] == nil {
				names = append(names, name)
			}
			parts[name] = append(parts[name], v)
		}
	}
	return atOnce(names, func(name string) error {
		h, err := s.reach(name)
		if err != nil {
			return err
		}
		for part := parts[name]; ; {
			began := time.Now()
			err = do(h, part)
			s.called(name, "write", time.Since(began), err)
			err = s.wrote(s.place(name), err)
			if out, told := errors.AsType[*OutError](err); !told || !out.Refuses {
				return err
			}
			left := slices.DeleteFunc(slices.Clone(part), func(v T) bool { return s.forsakeUnread(index(v), name) })
			if len(left) == 0 {
				return nil
			}
			if len(left) == len(part) {
				return err
			}
			part = left
		}
	})
}

// atOnce calls do with each name, at the same time where there are several.
func atOnce(names []string, do func(name string) error) error {
	if len(names) == 1 {
		return do(names[0])
	}
	errs := make([]error, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { errs[i] = do(name) })
	}
	asking.Wait()
	return errors.Join(errs...)
}
