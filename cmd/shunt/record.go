package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// records say on each shard who served its schemas last: an empty table of the scratch
// schema for each, whose name has the schema's lock, the life that served, and which of
// the slots it had there.
//
//	shunt_scratch.owner_<lock>_<life>_<slots>
//
// A store whose own last life that isn't is behind somebody's back: another Shunt has
// served since, or the store was copied or restored. What it knows of the shard's rows
// is of before. Names of tables need no right but those that gathers need, and come out
// the same on replicas whether or not they are replicated.
//
// At each claim of a shard, whose locks are held:
//
//  1. read the record. Is it of no life that this store remembers for the shard, tell
//     the store, durably, that the shard's rows are unknown;
//  2. remember this life, durably;
//  3. write its record, and drop the others;
//  4. remember what there are records of now: this life.
//
// A crash before 3 leaves the record of before, by which 1 is done again if it was done;
// one behind it that of a life that is remembered. Of two records, by a crash within 3,
// one that isn't remembered counts. 2 and 3 are tried again where the server refuses 3.
type records struct {
	path string
	// locks are those whose records there are, by what stands for them in the names.
	locks atomic.Pointer[map[string]string]
	life  string
	// slots are those of each shard, in short.
	slots map[string]string
	// foreign has the store forget what it knows of a shard.
	foreign func(name string) error
	log     *slog.Logger

	mu sync.Mutex
	// lives are those of this store that a record may name, by shard and lock.
	lives map[string]map[string][]string
	// told are shards of which it was told that there can be no record.
	told map[string]bool
}

const (
	recordsFile  = "owner.json"
	recordPrefix = "owner_"
	// settleTime is how long what another Shunt has left is waited for: more than a
	// living one needs to see that it has lost a shard.
	settleTime = 3 * time.Second
)

// ofOriginal is remembered in a copy in place of the lives, of which a record may name one
// that served the original on.
const ofOriginal = "original"

// errSlots: rows would be looked for where they are not.
var errSlots = errors.New("the Shunt that served the shard last placed rows otherwise: its shards were others, or in another order, at its first start; " +
	"take the shards of that start in the same order (those that came later are added afterwards), or a copy of its data_dir, or, if the rows lie so by now, drop the tables shunt_scratch.owner_* on all shards")

// slotsOf tells a shard's slots in short.
func slotsOf(l layout, id catalog.ShardID) string {
	var owned [catalog.Slots]byte
	for slot, owner := range l.slots {
		if owner == id {
			owned[slot] = 1
		}
	}
	sum := sha256.Sum256(owned[:])
	return hex.EncodeToString(sum[:4])
}

func newRecords(dir string, l layout, locks []string, foreign func(name string) error, log *slog.Logger) (*records, error) {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // it never fails
	r := &records{path: filepath.Join(dir, recordsFile), life: hex.EncodeToString(raw[:]), foreign: foreign, log: log, slots: map[string]string{}, told: map[string]bool{}}
	r.add(locks)
	for _, sh := range l.shards {
		r.slots[sh.Name] = slotsOf(l, sh.ID)
	}
	var err error
	if r.lives, err = readKept[map[string][]string](r.path); err != nil {
		return nil, fmt.Errorf("read which lives have served the shards: %s: %w; if it is damaged remove it: all virtual indexes are then scanned anew", r.path, err)
	}
	return r, nil
}

// add has records of more locks.
func (r *records) add(locks []string) {
	all := map[string]string{}
	if now := r.locks.Load(); now != nil {
		maps.Copy(all, *now)
	}
	for _, l := range locks {
		sum := sha256.Sum256([]byte(l))
		all[hex.EncodeToString(sum[:8])] = l
	}
	r.locks.Store(&all)
}

// distrust is for a store that is a copy: no record is of a life of its own. Survives a power
// loss.
func (r *records) distrust() error {
	for name := range r.slots {
		lives := map[string][]string{}
		for _, lock := range *r.locks.Load() {
			lives[lock] = []string{ofOriginal}
		}
		if err := r.remember(name, lives); err != nil {
			return err
		}
	}
	return nil
}

// judge does the first step. An error is why the shard can't be used now.
func (r *records) judge(ctx context.Context, name string, conn *shard.Conn) error {
	found, err := r.read(ctx, conn)
	if err != nil {
		return err
	}
	lives := r.remembered(name)
	same := true
	for key, lock := range *r.locks.Load() {
		of := found[key]
		// A store that remembers nothing is new, or of before there were records.
		same = same && (len(of) > 0 || len(lives[lock]) == 0) && !slices.ContainsFunc(of, func(life string) bool { return !slices.Contains(lives[lock], life) })
	}
	if same {
		return nil
	}
	if err := r.placed(name, found); err != nil {
		return err
	}
	r.settle(ctx, conn)
	if err := r.foreign(name); err != nil {
		return fmt.Errorf("another Shunt has served the shard, and the virtual indexes can't be told: %w", err)
	}
	r.log.Warn("another Shunt has served the shard since, or it was replaced or restored, or data_dir is a copy; reads by virtual indexes go to it until it has been scanned", "shard", name)
	return nil
}

// fits is errSlots where a record says so.
func (r *records) fits(ctx context.Context, name string, conn *shard.Conn) error {
	found, err := r.read(ctx, conn)
	if err != nil {
		return err
	}
	return r.placed(name, found)
}

func (r *records) placed(name string, found map[string][]string) error {
	for key := range *r.locks.Load() {
		for _, life := range found[key] {
			if _, slots, told := strings.Cut(life, "_"); told && slots != r.slots[name] {
				return fmt.Errorf("shard %s: %w", name, errSlots)
			}
		}
	}
	return nil
}

// write does the other steps. Where a record can't be written it is gone on without:
// failed says so, for another attempt.
func (r *records) write(ctx context.Context, name string, conn *shard.Conn) (failed bool, err error) {
	found, err := r.read(ctx, conn)
	if err != nil {
		return false, err
	}
	current, life := true, r.life+"_"+r.slots[name]
	for key := range *r.locks.Load() {
		current = current && len(found[key]) == 1 && found[key][0] == life
	}
	if current {
		return false, nil
	}
	lives := r.remembered(name)
	for _, lock := range *r.locks.Load() {
		lives[lock] = append(lives[lock], life)
	}
	if err := r.remember(name, lives); err != nil {
		return false, err
	}
	refused := r.make(ctx, conn, life, found)
	if found, err = r.read(ctx, conn); err != nil {
		return false, err
	}
	for key, lock := range *r.locks.Load() {
		lives[lock] = slices.DeleteFunc(lives[lock], func(life string) bool { return !slices.Contains(found[key], life) })
	}
	if err := r.remember(name, lives); err != nil {
		return false, err
	}
	if refused != nil && r.first(name) {
		r.log.Warn("who serves the shard can't be written down in its schema shunt_scratch: Shunts that take turns, each with its own data_dir, would miss rows of each other's", "shard", name, "error", refused)
	}
	return refused != nil, nil
}

// read returns the lives, with their slots, that a shard has records of, by key.
func (r *records) read(ctx context.Context, conn *shard.Conn) (map[string][]string, error) {
	res, err := conn.Query(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+catalog.ScratchSchema+"'")
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, row := range res.Rows {
		if rest, ok := strings.CutPrefix(string(row[0]), recordPrefix); ok {
			key, life, _ := strings.Cut(rest, "_")
			found[key] = append(found[key], life)
		}
	}
	return found, nil
}

// make makes this life's records, and drops the others.
func (r *records) make(ctx context.Context, conn *shard.Conn, life string, found map[string][]string) error {
	sql := []string{"CREATE DATABASE IF NOT EXISTS " + catalog.ScratchSchema}
	var old []string
	for key := range *r.locks.Load() {
		sql = append(sql, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s%s_%s (a INT PRIMARY KEY) COMMENT = 'Shunt: who has served a schema last'", catalog.ScratchSchema, recordPrefix, key, life))
		for _, other := range found[key] {
			if other != life {
				old = append(old, fmt.Sprintf("%s.%s%s_%s", catalog.ScratchSchema, recordPrefix, key, other))
			}
		}
	}
	if len(old) > 0 {
		sql = append(sql, "DROP TABLE IF EXISTS "+strings.Join(old, ", "))
	}
	for _, s := range sql {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// first reports that the shard's record is missed for the first time.
func (r *records) first(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told[name]
	r.told[name] = true
	return !told
}

// remembered is a shard's part of lives, the caller's own.
func (r *records) remembered(name string) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cloned(r.lives[name])
}

func cloned(lives map[string][]string) map[string][]string {
	out := map[string][]string{}
	for lock, of := range lives {
		out[lock] = slices.Clone(of)
	}
	return out
}

// remember keeps it. Survives a power loss.
func (r *records) remember(name string, lives map[string][]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.lives)
	all[name] = cloned(lives)
	if err := keep(r.path, all); err != nil {
		return fmt.Errorf("remember who serves the shard: %w", err)
	}
	r.lives = all
	return nil
}

// settle waits until the account's other connections to a shard have ended, for
// settleTime at most: of a Shunt that has died, statements may still be under way, and
// AUTO_INCREMENT values with them that are in no table yet. Where the account is
// another program's, too, it waits that long.
func (r *records) settle(ctx context.Context, conn *shard.Conn) {
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		res, err := conn.Query(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(USER(), '@', 1) AND ID <> CONNECTION_ID() AND COMMAND NOT LIKE 'Binlog Dump%'")
		if err != nil || string(res.Rows[0][0]) == "0" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
