package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// MemberStatus is a member as its rows on all shards tell: a line of SHOW MEMBERS.
type MemberStatus struct {
	// Member names it, as Self does.
	Member, Addr, Version string
	// State is "joined", or what is otherwise and on which shards: "fenced: s0; joining: s1";
	// "unknown" on those that don't answer.
	State string
	// Since is when the oldest of its rows came, by that shard's clock.
	Since time.Time
	// Told are the epochs since which something may be open, by shard.
	Told []ToldOn
	// Catalog is the lowest version that it tells.
	Catalog uint64
	// Connections are those to shards; Open is how many statements and transactions were
	// open when that was told last. Both are sums over shards.
	Connections, Open int
}

// ToldOn is what was told on a shard, which is in epoch Now.
type ToldOn struct {
	Shard      catalog.ShardID
	Epoch, Now storage.Epoch
}

// rowsTold is what a shard has answered.
type rowsTold struct {
	epoch storage.Epoch
	rows  []Row
	quiet map[uint64]time.Duration
	err   error
}

func (t *rowsTold) ask(ctx context.Context, seat Seat) {
	if t.epoch, t.rows, t.err = seat.Rows(ctx); t.err == nil {
		t.quiet, t.err = seat.Quiet(ctx)
	}
}

// Sharing is how many members were on a shard when it was looked last, this one among them.
func (s *Shared) Sharing(id catalog.ShardID) int {
	a := s.seats[id]
	if a == nil {
		return 1
	}
	return int(a.others.Load()) + 1
}

// Members lists those that have a row on any shard, by name. After an error it is what the
// other shards tell.
func (s *Shared) Members(ctx context.Context) ([]MemberStatus, error) {
	all := map[string]*MemberStatus{}
	states := map[string]map[string][]string{} // by member and state: shards
	var asked []catalog.ShardID
	var errs []error
	told := make([]rowsTold, len(s.ids))
	var asking sync.WaitGroup
	for i, id := range s.ids { // side by side: one may hang
		asking.Go(func() { told[i].ask(ctx, s.seats[id].seat) })
	}
	asking.Wait()
	for i, id := range s.ids {
		epoch, rows, err := told[i].epoch, told[i].rows, told[i].err
		if err != nil {
			errs = append(errs, s.at(s.seats[id], err))
			continue
		}
		asked = append(asked, id)
		for _, r := range rows {
			name := life(r.ID)
			m := all[name]
			if m == nil {
				m = &MemberStatus{Member: name, Addr: r.Addr, Version: r.Version, Since: r.Since, Catalog: r.Catalog}
				all[name], states[name] = m, map[string][]string{}
			}
			m.add(r, id, epoch)
			if state := stateOf(r, epoch, told[i].quiet[r.Join]); !slices.Contains(states[name][state], s.opts.ShardName(id)) {
				states[name][state] = append(states[name][state], s.opts.ShardName(id))
			}
		}
	}
	members := make([]MemberStatus, 0, len(all))
	for name, m := range all {
		for _, id := range s.ids {
			if !slices.Contains(asked, id) {
				states[name]["unknown"] = append(states[name]["unknown"], s.opts.ShardName(id))
			} else if !slices.ContainsFunc(m.Told, func(t ToldOn) bool { return t.Shard == id }) {
				states[name]["absent"] = append(states[name]["absent"], s.opts.ShardName(id))
			}
		}
		m.State = joined(states[name])
		members = append(members, *m)
	}
	slices.SortFunc(members, func(a, b MemberStatus) int { return strings.Compare(a.Member, b.Member) })
	return members, errors.Join(errs...)
}

// add counts a row in.
func (m *MemberStatus) add(r Row, id catalog.ShardID, now storage.Epoch) {
	if r.Since.Before(m.Since) {
		m.Since = r.Since
	}
	m.Catalog = min(m.Catalog, r.Catalog)
	m.Connections += r.Connections
	m.Open += r.Open
	i := slices.IndexFunc(m.Told, func(t ToldOn) bool { return t.Shard == id })
	if i < 0 {
		m.Told = append(m.Told, ToldOn{id, r.Epoch, now})
	} else {
		m.Told[i].Epoch = min(m.Told[i].Epoch, r.Epoch) // of a former join, too
	}
}

// The states of a row, the worst first.
var rowStates = []string{"unknown", "absent", "fenced", "silent", "joining", "behind"}

func stateOf(r Row, now storage.Epoch, quiet time.Duration) string {
	switch {
	case r.Fenced:
		return "fenced"
	case !r.Linked || quiet >= silence: // it is dead, or stands still
		return "silent"
	case r.Adopted == 0:
		return "joining"
	case r.Adopted < now: // which may be for a heartbeat only
		return "behind"
	}
	return "joined"
}

// joined says on which shards a member is otherwise than joined.
func joined(states map[string][]string) string {
	var parts []string
	for _, state := range rowStates {
		if shards := states[state]; len(shards) > 0 {
			parts = append(parts, state+": "+strings.Join(shards, ", "))
		}
	}
	if len(parts) == 0 {
		return "joined"
	}
	return strings.Join(parts, "; ")
}
