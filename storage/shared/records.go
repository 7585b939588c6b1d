package shared

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// Kinds of records.
const (
	kindIndex       = "index"       // by number: storage.IndexRecord
	kindPartitioned = "partitioned" // the same, of those that have partitions
	kindNext        = "next"        // index: the number of the next one
	kindPlacement   = "placement"   // by schema and table
	kindShard       = "shard"       // by name: its number
	kindSlots       = "slots"       // one: the slot map
	kindApart       = "apart"       // by name of a shard: how
	kindUnlike      = "unlike"      // by schema and table: how
	kindUnfinished  = "unfinished"  // by key: storage.UnfinishedDDL
	kindCluster     = "cluster"     // one: the cluster's ID
	kindMembers     = "members"     // one: what is the same for all members, as lines of text
	kindHas         = "has"         // by member: what it has of that; of those that came with something else than kindMembers
	kindComing      = "coming"      // by member: what it is to have in place of kindMembers, once all members are
	kindHold        = "hold"        // one: the member that has the others' copies closed, since it adds a shard
	kindNotes       = "notes"       // one: members note which tables they write, for the one that adds a shard
	kindWritten     = "written"     // by member: what it has noted
	kindSchema      = "schema"      // by process: that it has changed the shards' schemas
	kindHomes       = "homes"       // by process, and of all: the names of the homes, the first one first
)

// state is what the records say. Nobody changes it.
type state struct {
	version uint64
	id      string
	records map[string]map[string][]byte
	indexes map[catalog.IndexID]storage.IndexRecord
	// wholes are the indexes that partitions are of.
	wholes map[catalog.IndexID]catalog.IndexID
	// heads are what homes have, as far as they have answered.
	heads map[string]map[catalog.IndexID]home.Head
	// schemas are the versions in which processes have changed the shards' schemas last.
	schemas map[string]uint64
}

// Refresh reads what others have written.
func (s *Store) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	was := s.state.Load()
	first := s.first()
	at, records, err := first.Read(ctx, was.version)
	if err != nil {
		return fmt.Errorf("read the shared records: %w", err)
	}
	heads, err := s.readHeads(ctx, was)
	if err != nil {
		return fmt.Errorf("read the shared records: %w", err)
	}
	next := &state{version: at.Number, id: at.ID, records: maps.Clone(was.records), indexes: map[catalog.IndexID]storage.IndexRecord{}, schemas: maps.Clone(was.schemas), heads: heads}
	changed := map[string]bool{}
	for _, r := range records {
		if !changed[r.Kind] {
			changed[r.Kind] = true
			if next.records[r.Kind] = maps.Clone(was.records[r.Kind]); next.records[r.Kind] == nil {
				next.records[r.Kind] = map[string][]byte{}
			}
		}
		if r.Kind == kindSchema {
			next.schemas[r.Name] = r.Version
		}
		if r.Body == nil {
			delete(next.records[r.Kind], r.Name)
		} else {
			next.records[r.Kind][r.Name] = r.Body
		}
	}
	for name, body := range next.records[kindIndex] {
		var d storage.IndexRecord
		if err := json.Unmarshal(body, &d); err != nil {
			return fmt.Errorf("read the record of virtual index %s: %w", name, err)
		}
		d.Home = cmp.Or(d.Home, s.homes()[0].name) // of before there were several
		if !d.Forsaken {
			head := heads[d.Home][d.ID]
			d.ReadGeneration, d.BuildGeneration = head.Readable, head.Building
		}
		d.Readable, d.HasBuild = d.ReadGeneration != 0, d.BuildGeneration != 0
		if d.Target != "" {
			// It is one that is built until the record says that it is read.
			head := heads[d.Target][d.ID]
			d.BuildGeneration, d.HasBuild = max(head.Readable, head.Building), true
		}
		next.indexes[d.ID] = d
	}
	next.wholes = map[catalog.IndexID]catalog.IndexID{}
	for name := range next.records[kindPartitioned] {
		d, err := one[storage.IndexRecord](next, kindPartitioned, name)
		if err != nil {
			return err
		}
		for _, part := range d.Parts {
			next.wholes[part] = d.ID
		}
		next.indexes[d.ID] = next.compose(d)
	}
	s.state.Store(next)
	if changed[kindSchema] {
		s.numbers.forgetAll()
	}
	return nil
}

// readHeads reads what all homes have, at once. Of those that don't answer what they had before stands.
func (s *Store) readHeads(ctx context.Context, was *state) (map[string]map[catalog.IndexID]home.Head, error) {
	heads := map[string]map[catalog.IndexID]home.Head{}
	var names []string
	for _, p := range s.homes() {
		names, heads[p.name] = append(names, p.name), was.heads[p.name]
	}
	var mu sync.Mutex
	err := atOnce(names, func(name string) error {
		first := name == names[0]
		if !first && s.outage(name) != nil {
			return nil
		}
		brief, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		h := s.first()
		if !first {
			h = s.place(name).home.Load()
		}
		read, err := h.Heads(brief)
		if err != nil {
			if first || ctx.Err() != nil {
				return err
			}
			if home.Unreachable(err) {
				_ = s.answered(s.place(name), err) // who needs it is told
				return nil
			}
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		heads[name] = read
		return nil
	})
	return heads, err
}

// Version is that of the records which this process goes by, and of those that it has written.
func (s *Store) Version() (read, written uint64) { return s.state.Load().version, s.written.Load() }

// change writes what fn makes of the newest records, all or none; nothing where fn has none.
// Where another process has written meanwhile, fn is asked again.
//
// Rule first version: what is written is written behind a version. Counter-example: two members
// begin an empty store at once; both find no ID of the cluster, and both write one. One member
// then tells the shards an ID that the store has lost, and nobody ever starts again.
func (s *Store) change(fn func(now *state) ([]home.Record, error)) error {
	for {
		err := s.tryChange(fn)
		if !errors.Is(err, home.ErrStale) {
			return err
		}
	}
}

func (s *Store) tryChange(fn func(now *state) ([]home.Record, error)) error {
	ctx, cancel := s.brief()
	defer cancel()
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	now := s.state.Load()
	if now.version == 0 { // which expects nothing
		if _, err := s.first().Write(ctx, 0); err != nil {
			return fmt.Errorf("write the first version of the shared records: %w", err)
		}
		return home.ErrStale
	}
	records, err := fn(now)
	if err != nil || len(records) == 0 {
		return err
	}
	version, err := s.first().Write(ctx, now.version, records...)
	if err != nil {
		return fmt.Errorf("write shared records: %w", err)
	}
	for {
		was := s.written.Load()
		if was >= version || s.written.CompareAndSwap(was, version) {
			return s.Refresh(ctx)
		}
	}
}

// record is one of these; a nil value is none.
func record(kind, name string, value any) (home.Record, error) {
	r := home.Record{Kind: kind, Name: name}
	if value == nil {
		return r, nil
	}
	var err error
	if r.Body, err = json.Marshal(value); err != nil {
		return r, fmt.Errorf("write %s %s: %w", kind, name, err)
	}
	return r, nil
}

// set writes one record.
func (s *Store) set(kind, name string, value any) error {
	return s.change(func(*state) ([]home.Record, error) {
		r, err := record(kind, name, value)
		return []home.Record{r}, err
	})
}

// all are the values of a kind.
func all[T any](s *Store, kind string) (map[string]T, error) {
	now, out := s.state.Load(), map[string]T{}
	for name := range now.records[kind] {
		v, err := one[T](now, kind, name)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// one is a value of a kind, zero where there is none.
func one[T any](now *state, kind, name string) (v T, err error) {
	if body := now.records[kind][name]; body != nil {
		if err := json.Unmarshal(body, &v); err != nil {
			return v, fmt.Errorf("read %s %s: %w", kind, name, err)
		}
	}
	return v, nil
}

// tableName is how a table is named in a record: no name has a zero byte.
func tableName(t catalog.TableName) string { return t.Schema + "\x00" + t.Name }

func byTable(of map[string]string) map[catalog.TableName]string {
	out := map[catalog.TableName]string{}
	for name, v := range of {
		schema, table, _ := strings.Cut(name, "\x00")
		out[catalog.TableName{Schema: schema, Name: table}] = v
	}
	return out
}

// Placements is storage.Store's.
func (s *Store) Placements() (map[catalog.TableName]string, error) {
	of, err := all[string](s, kindPlacement)
	return byTable(of), err
}

// Placement is storage.Store's.
func (s *Store) Placement(t catalog.TableName) (string, error) {
	of, err := s.Placements()
	return of[t], err
}

// SetPlacements is storage.Store's.
func (s *Store) SetPlacements(placements map[catalog.TableName]string) error {
	return s.change(func(now *state) (records []home.Record, err error) {
		for t, how := range placements {
			r, err := record(kindPlacement, tableName(t), or(how))
			if err != nil {
				return nil, err
			}
			if string(now.records[kindPlacement][r.Name]) != string(r.Body) {
				records = append(records, r)
			}
		}
		return records, nil
	})
}

// or is nil for "".
func or(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Apart is storage.Store's.
func (s *Store) Apart() (map[string]string, error) { return all[string](s, kindApart) }

// SetApart is storage.Store's.
func (s *Store) SetApart(name, how string) error { return s.set(kindApart, name, or(how)) }

// Unlike is storage.Store's.
func (s *Store) Unlike() (map[catalog.TableName]string, error) {
	of, err := all[string](s, kindUnlike)
	return byTable(of), err
}

// SetUnlike is storage.Store's.
func (s *Store) SetUnlike(t catalog.TableName, how string) error {
	return s.set(kindUnlike, tableName(t), or(how))
}

// Unfinished is storage.Store's.
func (s *Store) Unfinished() (map[string]storage.UnfinishedDDL, error) {
	return all[storage.UnfinishedDDL](s, kindUnfinished)
}

// KeepUnfinished is storage.Store's.
func (s *Store) KeepUnfinished(key string, u storage.UnfinishedDDL, _ bool) error {
	return s.set(kindUnfinished, key, u)
}

// ForgetUnfinished is storage.Store's.
func (s *Store) ForgetUnfinished(key string) error { return s.set(kindUnfinished, key, nil) }

// Shards is storage.Store's.
func (s *Store) Shards() map[string]catalog.ShardID {
	of, err := all[catalog.ShardID](s, kindShard)
	if err != nil {
		s.log.Error("the numbers of shards can't be read", "error", err)
	}
	return of
}

// ShardID is storage.Store's.
func (s *Store) ShardID(name string) (id catalog.ShardID, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		if body := now.records[kindShard][name]; body != nil {
			return nil, json.Unmarshal(body, &id)
		}
		n := len(now.records[kindShard]) // numbers are never taken back, so they are dense
		if n >= catalog.MaxShards {
			return nil, storage.ErrTooManyShards
		}
		id = catalog.ShardID(n)
		r, err := record(kindShard, name, id)
		return []home.Record{r}, err
	})
	if err != nil {
		return 0, fmt.Errorf("number shard %s: %w", name, err)
	}
	return id, nil
}

// SlotMap is storage.Store's.
func (s *Store) SlotMap() ([]byte, error) {
	of, err := all[[]byte](s, kindSlots)
	return of[""], err
}

// KeepSlotMap is storage.Store's.
func (s *Store) KeepSlotMap(m []byte) (kept []byte, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		if body := now.records[kindSlots][""]; body != nil {
			return nil, json.Unmarshal(body, &kept)
		}
		kept = slices.Clone(m)
		r, err := record(kindSlots, "", kept)
		return []home.Record{r}, err
	})
	return kept, err
}

// Cluster is the ID by which shards know whose they are: proposed, where there is none yet.
func (s *Store) Cluster(proposed string) (id string, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		if body := now.records[kindCluster][""]; body != nil {
			return nil, json.Unmarshal(body, &id)
		}
		id = proposed
		r, err := record(kindCluster, "", id)
		return []home.Record{r}, err
	})
	return id, err
}

// Members is what is the same for all members (their shards, how rows are placed), as one of them has
// said.
func (s *Store) Members() ([]string, error) {
	of, err := all[[]string](s, kindMembers)
	return of[""], err
}

// SetMembers says what is the same for all members, in place of what was said before, and reports
// that this was it.
func (s *Store) SetMembers(was, is []string) (ok bool, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		var said []string
		if body := now.records[kindMembers][""]; body != nil {
			if err := json.Unmarshal(body, &said); err != nil {
				return nil, err
			}
		}
		if ok = slices.Equal(said, was); !ok {
			return nil, nil
		}
		r, err := record(kindMembers, "", is)
		return []home.Record{r}, err
	})
	return ok, err
}

// Has is what members have, of those who have said so (SetHas).
func (s *Store) Has() (map[string][]string, error) { return all[[]string](s, kindHas) }

// SetHas says what a member has of what is to be the same for all, and forgets what others have said
// who are gone.
func (s *Store) SetHas(member string, has []string, gone func(member string) bool) error {
	return s.say(kindHas, member, has, gone)
}

// Coming is what members are to have in place of Members, of those who have said so (SetComing).
func (s *Store) Coming() (map[string][]string, error) { return all[[]string](s, kindComing) }

// SetComing is SetHas for Coming; nil: nothing.
func (s *Store) SetComing(member string, coming []string, gone func(member string) bool) error {
	return s.say(kindComing, member, coming, gone)
}

func (s *Store) say(kind, member string, what []string, gone func(member string) bool) error {
	return s.change(func(now *state) ([]home.Record, error) {
		said := home.Record{Kind: kind, Name: member} // none
		if what != nil {
			var err error
			if said, err = record(kind, member, what); err != nil {
				return nil, err
			}
		}
		records := []home.Record{said}
		for other := range now.records[kind] {
			if other != member && gone(other) {
				records = append(records, home.Record{Kind: kind, Name: other})
			}
		}
		return records, nil
	})
}

// Come puts what is coming in place of Members if all that are named have said so, and nothing at all has changed since a
// version. What members have said before counts no more.
func (s *Store) Come(since uint64, coming []string, members []string) (ok bool, err error) {
	err = s.change(func(now *state) ([]home.Record, error) {
		if ok = now.version == since; !ok {
			return nil, nil
		}
		is, err := record(kindMembers, "", coming)
		if err != nil {
			return nil, err
		}
		records := []home.Record{is}
		for _, m := range members {
			said, err := one[[]string](now, kindComing, m)
			if ok = err == nil && slices.Equal(said, coming); !ok {
				return nil, err
			}
			records = append(records, home.Record{Kind: kindComing, Name: m}, home.Record{Kind: kindHas, Name: m})
		}
		return records, nil
	})
	return ok, err
}

// ChangedBy is the last version in which another process than self has changed the shards' schemas.
func (s *Store) ChangedBy(self string) (version uint64) {
	for by, v := range s.state.Load().schemas {
		if by != self {
			version = max(version, v)
		}
	}
	return version
}

// Changed has others read the shards' schemas again, as they go by a version that this process
// has written.
func (s *Store) Changed(by string) error { return s.set(kindSchema, by, struct{}{}) }
