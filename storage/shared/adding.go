package shared

import (
	"errors"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage/home"
)

// ErrHeld: another member adds a shard, or has ended this one's hold.
var ErrHeld = errors.New("another member adds a shard, or took this one for dead while it did")

// Hold is that a member has the others' copies closed.
type Hold struct {
	By string // "": nobody
	// Changed: it has changed which shards serve, or may have.
	Changed bool
}

// Holder is who has the others' copies closed.
func (s *Store) Holder() (Hold, error) { return one[Hold](s.state.Load(), kindHold, "") }

// Hold says that a member has the others' copies closed.
func (s *Store) Hold(member string) error {
	return s.change(func(now *state) ([]home.Record, error) {
		if h, err := one[Hold](now, kindHold, ""); err != nil || h.By != "" {
			return nil, errors.Join(err, ErrHeld)
		}
		r, err := record(kindHold, "", Hold{By: member})
		return []home.Record{r}, err
	})
}

// Notes is that members note which tables they write, since a version; 0: they don't.
type Notes struct {
	By    string
	Since uint64
}

// Written is what a member has noted since a version.
type Written struct {
	Since uint64
	// Whole: it writes no more. Else it has begun to note.
	Whole  bool
	Tables []catalog.TableName
	Any    bool // any table may have been written
}

// Note has members note anew which tables they write, for one of them.
func (s *Store) Note(member string) (since uint64, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		since = now.version
		r, err := record(kindNotes, "", Notes{member, since})
		return append(noted(now), r), err
	})
	return since, err
}

// noted ends what members have noted.
func noted(now *state) []home.Record {
	var records []home.Record
	for member := range now.records[kindWritten] {
		records = append(records, home.Record{Kind: kindWritten, Name: member})
	}
	return records
}

// Notes is for whom members note which tables they write.
func (s *Store) Notes() (Notes, error) { return one[Notes](s.state.Load(), kindNotes, "") }

// Written is what members have noted.
func (s *Store) Written() (map[string]Written, error) { return all[Written](s, kindWritten) }

// SetWritten says what a member has noted.
func (s *Store) SetWritten(member string, w Written) error { return s.set(kindWritten, member, w) }

// EndHold ends a member's hold, if there is one. Where it has changed which shards serve, nothing at all may have changed since a
// version. over: there is none any more.
func (s *Store) EndHold(member string, since uint64) (over bool, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		h, err := one[Hold](now, kindHold, "")
		if over = h.By != member; err != nil || over {
			return nil, err
		}
		if over = !h.Changed || now.version == since; !over {
			return nil, nil
		}
		return append(noted(now), home.Record{Kind: kindHold}, home.Record{Kind: kindNotes}), nil
	})
	return over, err
}

// Serving is what members have while a shard serves, or doesn't.
type Serving struct {
	Shard string
	// Apart is how it is apart; "": it serves.
	Apart string
	// Has is what is the same for all members then; Had before.
	Has, Had []string
	// Keyed is storage.IndexRecord.Keyed of indexes then, and before; where it was another it stays that.
	Keyed map[catalog.IndexID]Keyed
}

// Keyed is how an index's keys are made.
type Keyed struct{ Is, Was string }

// Back is what takes it back.
func (v *Serving) Back(apart string) *Serving {
	back := &Serving{Shard: v.Shard, Apart: apart, Has: v.Had, Had: v.Has, Keyed: map[catalog.IndexID]Keyed{}}
	for id, k := range v.Keyed {
		back.Keyed[id] = Keyed{k.Was, k.Is}
	}
	return back
}

// SetServing changes all of that at once, where holder still has the others' copies closed, and all members that are named have
// said that Has is coming to them; none: that isn't asked for.
func (s *Store) SetServing(holder string, to *Serving, members []string) error {
	return s.change(func(now *state) ([]home.Record, error) {
		if h, err := one[Hold](now, kindHold, ""); err != nil || h.By != holder {
			return nil, errors.Join(err, ErrHeld)
		}
		hold, err := record(kindHold, "", Hold{By: holder, Changed: true})
		if err != nil {
			return nil, err
		}
		if known, err := one[[]string](now, kindMembers, ""); err != nil || !slices.Equal(known, to.Had) {
			return nil, errors.Join(err, errors.New("what is the same for all members has changed meanwhile"))
		}
		is, err := record(kindMembers, "", to.Has)
		if err != nil {
			return nil, err
		}
		apart, err := record(kindApart, to.Shard, or(to.Apart))
		if err != nil {
			return nil, err
		}
		records := []home.Record{hold, is, apart}
		for _, m := range members {
			said, err := one[[]string](now, kindComing, m)
			if err != nil || !slices.Equal(said, to.Has) {
				return nil, errors.Join(err, fmt.Errorf("member %s hasn't got shard %s in its configuration any more", m, to.Shard))
			}
			records = append(records, home.Record{Kind: kindComing, Name: m}, home.Record{Kind: kindHas, Name: m})
		}
		for id, keyed := range to.Keyed {
			d, ok := now.indexes[id]
			if !ok || d.Keyed != keyed.Was {
				continue
			}
			d.Keyed = keyed.Is
			r, err := record(kindIndex, indexName(id), d)
			if err != nil {
				return nil, err
			}
			records = append(records, r)
		}
		return records, nil
	})
}
