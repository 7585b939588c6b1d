package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// lifeKind, by a shard's number: the first life of its servers that is in use.
const lifeKind = "life"

// ErrReplaced: another server has taken a server's place.
var ErrReplaced = errors.New("another server has taken its place")

// current notes the life of the server that has answered: ErrReplaced where that isn't in use any more.
func (a *seated) current(b Beat) error {
	t := a.track
	t.mu.Lock()
	defer t.mu.Unlock()
	t.life = b.Life
	return t.currentLocked()
}

func (t *track) currentLocked() error {
	if t.life != 0 && t.life < t.inUse {
		return fmt.Errorf("this server is in life %d, and the shard in life %d: %w; give that one's address, or have this one serve again by shunt replaced", t.life, t.inUse, ErrReplaced)
	}
	return nil
}

// Life is that of the server of a shard which this process has joined last, or has tried to: ErrReplaced where that isn't in
// use any more.
func (s *Shared) Life(id catalog.ShardID) (uint64, error) {
	a := s.seats[id]
	if a == nil {
		return 0, nil
	}
	a.track.mu.Lock()
	defer a.track.mu.Unlock()
	return a.track.life, a.track.currentLocked()
}

// LifeInUse is the first life of a shard's servers that is in use; 0: any is.
func LifeInUse(ctx context.Context, of Records, id catalog.ShardID) (life uint64, err error) {
	_, records, err := of.Read(ctx, 0)
	if err != nil {
		return 0, fmt.Errorf("read which servers are in use: %w", err)
	}
	for _, r := range records {
		if r.Kind == lifeKind && r.Name == strconv.Itoa(int(id)) {
			return readLife(r)
		}
	}
	return 0, nil
}

func readLife(r Record) (life uint64, err error) {
	if r.Body == nil {
		return 0, nil
	}
	if err := json.Unmarshal(r.Body, &life); err != nil {
		return 0, fmt.Errorf("read which server of shard %s is in use: %w", r.Name, err)
	}
	return life, nil
}

// Replace has nobody use a shard's servers that are in an earlier life than this, so that one in this life may be taken
// in use: all leave them, and join none any more. It returns when all have left that are on the shards of this process,
// which needs to be on none, and to know none of the shard that is replaced.
//
// Counter-examples. Without the record: the former server is started again behind its replica's promotion; one that
// has its address joins it, and finds none of what others write by the new one. Without waiting: it never ended, one
// is late, and its reads there miss what others have been told is written.
//
// A member that is on no other shard isn't waited for: nobody may reach the former server any more. A server that is set up
// anew at the former one's address is in the first life, so it isn't used either.
func (s *Shared) Replace(ctx context.Context, id catalog.ShardID, life uint64) error {
	if err := s.sameVersion(ctx); err != nil {
		return err
	}
	body, err := json.Marshal(life)
	if err != nil {
		return fmt.Errorf("say which server is in use: %w", err)
	}
	version, err := s.opts.Board.Write(ctx, 0, Record{Kind: lifeKind, Name: strconv.Itoa(int(id)), Body: body})
	if err != nil {
		return fmt.Errorf("say which server is in use: %w", err)
	}
	if err := s.follow(ctx, version); err != nil {
		return err
	}
	began, told := s.opts.Now(), false
	for {
		holders := s.Behind(ctx, version)
		if len(holders) == 0 {
			return nil
		}
		if !told && s.opts.Now().Sub(began) > waitQuietly {
			told = true
			s.log.Warn("waiting for members to leave the former server", "held_up_by", strings.Join(holders, "; "))
		}
		for _, id := range s.ids {
			if err := s.Sweep(ctx, id); err != nil {
				return err
			}
		}
		if !s.pause(ctx, s.opts.Every, nil) {
			return fmt.Errorf("members that may use the former server: %s: %w", strings.Join(holders, "; "), context.Cause(ctx))
		}
	}
}

// sameVersion is an error where a member of another version of Shunt serves: it may not know of lives.
func (s *Shared) sameVersion(ctx context.Context) error {
	for _, id := range s.ids {
		a := s.seats[id]
		_, rows, err := a.seat.Rows(ctx)
		if err != nil {
			return s.at(a, err)
		}
		if i := slices.IndexFunc(rows, func(r Row) bool { return r.Linked && r.Version != s.opts.Identity.Version }); i >= 0 {
			return fmt.Errorf("%s is of version %s, and this is %s: stop it, or start it with the same version", s.describe(on{a, rows[i]}), rows[i].Version, s.opts.Identity.Version)
		}
	}
	return nil
}

// replacedBy takes such a record over.
func (s *Shared) replacedBy(r Record) error {
	life, err := readLife(r)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(r.Name)
	if err != nil {
		return fmt.Errorf("read which server is in use: %w", err)
	}
	a := s.seats[catalog.ShardID(id)]
	if a == nil {
		return nil
	}
	t := a.track
	t.mu.Lock()
	t.inUse = max(t.inUse, life)
	join, why := t.join, t.currentLocked()
	t.mu.Unlock()
	if join != 0 && why != nil {
		s.lose(a, join, why)
	}
	return nil
}
