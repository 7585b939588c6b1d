package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
)

// records say on each shard who served its schemas last, and up to when: tables of the
// scratch schema. For each schema there is an empty one, whose name has the schema's lock,
// the life that served, and which of the slots it had there; for the life one more, whose
// highest number is the serial of the store (storage/serial.go) that the shard was told last.
//
//	shunt_scratch.owner_<lock>_<life>_<slots>
//	shunt_scratch.owner_serial_<life>_<slots>
//
// A store that remembers another last life, or a lower serial, is behind somebody's back:
// another Shunt has served since, or the store was copied or put back. What it knows of the
// shard's rows is of before. It takes no right but those that gathers need, and names of
// tables come out the same on replicas whether or not they are replicated.
//
// At each claim of a shard, whose locks are held:
//
//  1. read the record. Is it of no life that this store remembers for the shard, or of a
//     serial that it doesn't know, tell the store, durably, that the shard's rows are unknown;
//  2. remember this life, durably;
//  3. write its record, and drop the others;
//  4. remember what there are records of now: this life.
//
// A crash before 3 leaves the record of before, by which 1 is done again if it was done;
// one behind it that of a life that is remembered. Of two records, by a crash within 3,
// one that isn't remembered counts. 2 and 3 are tried again where the server refuses 3.
// While the shard is claimed it is told the serial; see teller.go.
//
// Behind another's back all indexes are marked on the shard, and no AUTO_INCREMENT counter
// counts as kept until every shard has answered. The log says what it was:
// another Shunt, a copy of this store, a store that was set back, a shard without a record. A
// Shunt whose slots are others than the record's neither starts nor stands by (errSlots).
//
// Without what it remembers, in a file of data_dir, a store is behind on all shards (widen).
type records struct {
	file  keptFile[map[string][]string]
	store *storage.Store
	// instance is the data_dir's, and its copies'.
	instance string
	// locks are those whose records there are, by what stands for them in the names.
	locks atomic.Pointer[map[string]string]
	// slots are those of each shard, in short.
	slots map[string]string
	// foreign has the store forget what it knows of a shard.
	foreign func(name string) error
	log     *slog.Logger

	mu sync.Mutex
	// lives are those of this store that a record may name, by shard and lock: <life>_<slots>,
	// and behind a blank, when it has ended, the highest serial that it may have told.
	lives map[string]map[string][]string
	// life is this one, written is its record's on a shard, "" while there is none.
	life, written map[string]string
	// told are shards of which it was told that there can be no record.
	told map[string]bool
}

const (
	recordsFile  = "owner.json"
	recordPrefix = "owner_"
	serialPrefix = recordPrefix + "serial_"
	// settleTime is how long what another Shunt has left is waited for: more than a
	// living one needs to see that it has lost a shard.
	settleTime = 3 * time.Second
)

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

func newRecords(dir string, l layout, locks []string, store *storage.Store, foreign func(name string) error, log *slog.Logger) (*records, error) {
	r := &records{
		file: recordsIn(dir), store: store, foreign: foreign, log: log,
		slots: map[string]string{}, life: map[string]string{}, written: map[string]string{}, told: map[string]bool{},
	}
	r.add(locks)
	for _, sh := range l.shards {
		r.slots[sh.Name], r.life[sh.Name] = slotsOf(l, sh.ID), newLife()
	}
	var err error
	r.lives, err = r.file.read()
	switch damage := err; {
	case errors.Is(damage, errDamaged):
		if err = r.widen(); err == nil {
			err = setAside(r.file.path, recordsLost, damage, log)
		}
	case errors.Is(err, fs.ErrNotExist):
		if err = nil; !store.Fresh() {
			log.Warn("a file in data_dir is missing: "+recordsLost, "file", r.file.path)
			err = r.widen()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read which lives have served the shards: %w", err)
	}
	var anew bool
	if r.instance, anew, err = scratchInstance(dir); err != nil {
		return nil, err
	}
	if anew && len(r.lives) > 0 {
		if err := r.widen(); err != nil {
			return nil, err
		}
	}
	return r, r.endLives()
}

func recordsIn(dir string) keptFile[map[string][]string] {
	return keptFile[map[string][]string]{filepath.Join(dir, recordsFile), func(sum string) map[string][]string { return map[string][]string{"": {sum}} }}
}

const recordsLost = "who has served the shards isn't known, so reads by virtual indexes go to each until it has been scanned"

// widen has the store forget what it knows of all shards, durably, as if each had been another Shunt's.
// It comes before the file that is lost is made anew, since that has those alone that answer by then.
//
// Counter-example without it: a copy of data_dir has served, and has told s0 so, but not s1, which was down.
// By s0's record, and by data_dir's own name (scratchInstance), s1 is known to be behind too.
func (r *records) widen() error {
	for _, name := range slices.Sorted(maps.Keys(r.slots)) {
		if err := r.foreign(name); err != nil {
			return fmt.Errorf("shard %s: the virtual indexes can't be told: %w", name, err)
		}
	}
	return nil
}

// recordsToRead are for fits alone: they keep nothing.
func recordsToRead(l layout, locks []string) *records {
	r := &records{slots: map[string]string{}}
	r.add(locks)
	for _, sh := range l.shards {
		r.slots[sh.Name] = slotsOf(l, sh.ID)
	}
	return r
}

func newLife() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return hex.EncodeToString(raw[:])
}

// endLives keeps up to which serial the lives of before may have told shards. Survives a
// power loss. Serials of this life are of another line: a store that was put back, and serves,
// may come to the numbers that the one which it was put in place of has told.
func (r *records) endLives() error {
	ended := false
	for _, shard := range r.lives {
		for _, lives := range shard {
			for i, life := range lives {
				if !strings.Contains(life, " ") {
					lives[i], ended = fmt.Sprintf("%s %d", life, r.store.KnownSerial()), true
				}
			}
		}
	}
	if ended {
		if err := r.file.write(r.lives); err != nil {
			return fmt.Errorf("remember who has served the shards: %w", err)
		}
	}
	return nil
}

// remembers reports whether one of a lock's lives has left a record, which has told a serial;
// older: it has, but hadn't told that one. A record of an older version of Shunt, or one that
// a crash has left without, has none.
func (r *records) remembers(lives []string, life string, serial *uint64) (may, older bool) {
	for _, one := range lives {
		name, bound, ended := strings.Cut(one, " ")
		if name != life {
			continue
		}
		known := r.store.Serial()
		if ended {
			known, _ = strconv.ParseUint(bound, 10, 64) // what isn't a number is wide
		}
		may = serial == nil && known == 0 || serial != nil && *serial <= known
		return may, !may
	}
	return false, false
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

// judge does the first step. An error is why the shard can't be used now.
func (r *records) judge(ctx context.Context, name string, conn *shard.Conn) error {
	found, err := r.read(ctx, conn)
	if err == nil {
		err = found.alone(name)
	}
	if err != nil {
		return err
	}
	why, setBack := r.behind(name, found)
	if why == "" {
		return nil
	}
	if err := r.placed(name, found); err != nil {
		return err
	}
	r.settle(ctx, conn)
	// A store that was set back is so for all shards, also for one that couldn't be told of
	// its last writes.
	shards := []string{name}
	if setBack {
		shards = slices.Collect(maps.Keys(r.slots))
	}
	for _, one := range shards {
		if err := r.foreign(one); err != nil {
			return fmt.Errorf("another Shunt has served the shard, and the virtual indexes can't be told: %w", err)
		}
	}
	r.mu.Lock()
	r.life[name] = newLife() // the record may name this one, and serials that are others
	r.mu.Unlock()
	r.log.Warn("what the virtual indexes know of the shard is of before: reads by them go to it until it has been scanned", "shard", name, "cause", why)
	return nil
}

// behind is why the store doesn't know what has become of the shard's rows, "" where it does.
// setBack: it is one of before.
func (r *records) behind(name string, found *record) (why string, setBack bool) {
	lives := r.remembered(name)
	for key, lock := range *r.locks.Load() {
		of, known := found.lives[key], lives[lock]
		if len(of) == 0 && len(known) > 0 {
			return "the shard has no record of who served it: it was restored or replaced, or its tables shunt_scratch.owner_* were dropped", false
		}
		for _, life := range of {
			may, older := r.remembers(known, life, found.serials[life])
			switch {
			case may:
			case older:
				return "data_dir is older than the shard's record: a copy or a snapshot of before was put in its place", true
			case found.instances[life] == r.instance:
				return "a copy of data_dir has served the shard since, or data_dir is one", true
			case len(known) == 0:
				return "data_dir is new to the shard, which another one has served", false
			default:
				return "another Shunt has served the shard since, with a data_dir of its own", false
			}
		}
	}
	return "", false
}

// fits is errSlots where a record says so, else errSeveral where it is several Shunts'.
func (r *records) fits(ctx context.Context, name string, conn *shard.Conn) error {
	found, err := r.read(ctx, conn)
	if err != nil {
		return fmt.Errorf("shard %s: %w", name, err)
	}
	if err := r.placed(name, found); err != nil {
		return err
	}
	return found.alone(name)
}

// alone is an error where several Shunts have the shard.
func (f *record) alone(name string) error {
	if f.several > 0 {
		return fmt.Errorf("shard %s: %w", name, errSeveral)
	}
	return nil
}

func (r *records) placed(name string, found *record) error {
	for key := range *r.locks.Load() {
		for _, life := range found.lives[key] {
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
	life := r.lifeOn(ctx, name, conn)
	current := found.serials[life] != nil
	for key := range *r.locks.Load() {
		current = current && len(found.lives[key]) == 1 && found.lives[key][0] == life
	}
	if current {
		r.wrote(name, life)
		return false, nil
	}
	lives := r.remembered(name)
	for _, lock := range *r.locks.Load() {
		if !slices.Contains(lives[lock], life) {
			lives[lock] = append(lives[lock], life)
		}
	}
	if err := r.remember(name, lives); err != nil {
		return false, err
	}
	refused := r.make(ctx, conn, life, found)
	if refused == nil {
		r.wrote(name, life)
	} else {
		r.wrote(name, "")
	}
	if found, err = r.read(ctx, conn); err != nil {
		return false, err
	}
	for key, lock := range *r.locks.Load() {
		lives[lock] = slices.DeleteFunc(lives[lock], func(life string) bool {
			life, _, _ = strings.Cut(life, " ")
			return !slices.Contains(found.lives[key], life)
		})
	}
	if err := r.remember(name, lives); err != nil {
		return false, err
	}
	if refused != nil && r.first(name) {
		r.log.Warn("who serves the shard can't be written down in its schema shunt_scratch: Shunts that take turns, each with its own data_dir, would miss rows of each other's", "shard", name, "error", refused)
	}
	return refused != nil, nil
}

// lifeOn is this life's part of names on a shard. What is in the server's binary log is a
// life of its own: replicas have its tables, and rows of others would stop them.
func (r *records) lifeOn(ctx context.Context, name string, conn *shard.Conn) string {
	logged := "b"
	if res, err := conn.Query(ctx, "SELECT @@SESSION.sql_log_bin"); err == nil && string(res.Rows[0][0]) == "0" {
		logged = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life[name] + logged + "_" + r.slots[name]
}

func (r *records) wrote(name, life string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[name] = life
}

// tell writes a serial into the shard's record. missing: there is none any more.
func (r *records) tell(ctx context.Context, name string, conn *shard.Conn, serial uint64) (missing bool, err error) {
	r.mu.Lock()
	life := r.written[name]
	r.mu.Unlock()
	if life == "" {
		return false, nil // gone on without
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", serialTable(life), serial))
	refused, ok := errors.AsType[*shard.ServerError](err)
	switch {
	case ok && refused.Code == mysqlerr.DupEntry:
		return false, nil
	case ok && (refused.Code == mysqlerr.NoSuchTable || refused.Code == mysqlerr.BadDB):
		return true, err
	}
	return false, err
}

// trim takes the serials of before out of the shard's record. A crash behind it leaves none,
// for which the shard's rows are taken for unknown.
func (r *records) trim(ctx context.Context, name string, conn *shard.Conn) error {
	r.mu.Lock()
	life := r.written[name]
	r.mu.Unlock()
	if life == "" {
		return nil
	}
	_, err := conn.Exec(ctx, "TRUNCATE TABLE "+serialTable(life))
	return err
}

func serialTable(life string) string { return catalog.ScratchSchema + "." + serialPrefix + life }

// record is what a shard says of who served it.
type record struct {
	// lives, with their slots, are by key.
	lives map[string][]string
	// serials are the last ones that lives have told, instances the data_dirs that they had.
	serials   map[string]*uint64
	instances map[string]string
	// several is how many rows there are of Shunts that have a store together.
	several int
}

// instanceOf begins what follows the instance in a table's comment.
const instanceOf = "data_dir "

// read returns what a shard says.
func (r *records) read(ctx context.Context, conn *shard.Conn) (*record, error) {
	res, err := conn.Query(ctx, "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+catalog.ScratchSchema+"'")
	if err != nil {
		return nil, err
	}
	found := &record{lives: map[string][]string{}, serials: map[string]*uint64{}, instances: map[string]string{}}
	for _, row := range res.Rows {
		if rest, ok := strings.CutPrefix(string(row[0]), recordPrefix); ok && !strings.HasPrefix(string(row[0]), serialPrefix) {
			key, life, _ := strings.Cut(rest, "_")
			found.lives[key] = append(found.lives[key], life)
			_, instance, _ := strings.Cut(string(row[1]), instanceOf)
			found.instances[life] = instance
		}
	}
	if found.several, err = severalOn(ctx, conn); err != nil {
		return nil, err
	}
	for _, row := range res.Rows {
		life, ok := strings.CutPrefix(string(row[0]), serialPrefix)
		if _, named := found.instances[life]; !ok || !named {
			continue
		}
		last, err := conn.Query(ctx, "SELECT MAX(serial) FROM "+serialTable(life))
		if refused, ok := errors.AsType[*shard.ServerError](err); ok && refused.Code == mysqlerr.NoSuchTable {
			continue // another Shunt's, of other schemas, which has dropped it meanwhile
		}
		if err != nil {
			return nil, err
		}
		if last.Rows[0][0] != nil {
			n, err := strconv.ParseUint(string(last.Rows[0][0]), 10, 64)
			if err != nil {
				return nil, err
			}
			found.serials[life] = &n
		}
	}
	return found, nil
}

// tables are those of the records that there are of these locks.
func (r *records) tables(found *record) (names []string) {
	others := map[string]bool{}
	for key, lives := range found.lives {
		if _, mine := (*r.locks.Load())[key]; !mine {
			for _, life := range lives {
				others[life] = true
			}
		}
	}
	for key := range *r.locks.Load() {
		for _, life := range found.lives[key] {
			names = append(names, fmt.Sprintf("%s.%s%s_%s", catalog.ScratchSchema, recordPrefix, key, life))
			if t := serialTable(life); !others[life] && !slices.Contains(names, t) {
				names = append(names, t)
			}
		}
	}
	return names
}

// make makes this life's records, and drops the others.
func (r *records) make(ctx context.Context, conn *shard.Conn, life string, found *record) error {
	sql := []string{
		"CREATE DATABASE IF NOT EXISTS " + catalog.ScratchSchema,
		"CREATE TABLE IF NOT EXISTS " + serialTable(life) + " (serial BIGINT UNSIGNED PRIMARY KEY) COMMENT = 'Shunt: up to when a schema was served'",
		fmt.Sprintf("INSERT IGNORE INTO %s VALUES (%d)", serialTable(life), r.store.Serial()),
	}
	var old []string
	for key := range *r.locks.Load() {
		sql = append(sql, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s%s_%s (a INT PRIMARY KEY) COMMENT = 'Shunt: who has served a schema last, by %s%s'", catalog.ScratchSchema, recordPrefix, key, life, instanceOf, r.instance))
		for _, other := range found.lives[key] {
			if other != life {
				old = append(old, fmt.Sprintf("%s.%s%s_%s", catalog.ScratchSchema, recordPrefix, key, other))
				if t := serialTable(other); !slices.Contains(old, t) {
					old = append(old, t)
				}
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
	if err := r.file.write(all); err != nil {
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
		list, err := conn.Processes(ctx, false)
		own := slices.IndexFunc(list, func(x shard.Process) bool { return x.ID == conn.ThreadID })
		if err != nil || own < 0 || !slices.ContainsFunc(list, func(x shard.Process) bool {
			return x.User == list[own].User && x.ID != conn.ThreadID && !strings.HasPrefix(x.Command, "Binlog Dump")
		}) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
