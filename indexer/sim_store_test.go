package indexer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/shunt-sql/shunt/storage"
)

// modelStore is storage.Store as its contract says, for one index and one
// shard. Every call is a step. What was written since the last sync is kept
// apart, so that a power loss can take any of it.
type modelStore struct {
	w *world
	// now is what the process sees; disk is what a power loss leaves, together
	// with those of the unsynced writes that happen to survive.
	now, disk image
	unsynced  []write
	epoch     storage.Epoch
	// floor, gate and removals are the process's.
	floor, gate storage.Epoch
	removals    uint64
	// active and record are the write-intent of the one pair, in memory and on
	// disk.
	active, record bool
	// lost and unclean are what the intent says after a stop.
	lost, unclean bool
}

// image is the content of the store.
type image struct {
	gens       map[int]map[string]storage.Epoch
	read       int // generation, 0: none
	build      int
	next       int
	marked     bool
	mark       storage.Epoch
	logged     bool // a logged mark
	log        storage.Epoch
	defined    bool
	unbegun    bool // no build has read the shard
	status     catalog.IndexStatus
	checkpoint string
	place      string // in the log
	jobs       int    // scans that are to be made
}

// write changes an image.
type write struct {
	label string
	do    func(*image)
}

func (i image) clone() image {
	gens := map[int]map[string]storage.Epoch{}
	for id, g := range i.gens {
		gens[id] = maps.Clone(g)
	}
	i.gens = gens
	return i
}

func (i image) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(i.gens)) {
		fmt.Fprintf(&b, "%d{", id)
		for _, k := range slices.Sorted(maps.Keys(i.gens[id])) {
			fmt.Fprintf(&b, "%s@%d ", k, i.gens[id][k])
		}
		b.WriteString("}")
	}
	fmt.Fprint(&b, i.read, i.build, i.next, i.marked, i.mark, i.logged, i.log, i.defined, i.unbegun, i.status, i.checkpoint, i.place, i.jobs)
	return b.String()
}

func (m *modelStore) write(label string, do func(*image)) {
	do(&m.now)
	if m.w.sc.power {
		m.unsynced = append(m.unsynced, write{label, do})
	} else {
		do(&m.disk)
	}
}

func (m *modelStore) sync() {
	for _, u := range m.unsynced {
		u.do(&m.disk)
	}
	m.unsynced = nil
}

// powerLosses are the ways in which unsynced writes can be lost: none, a
// suffix, or a single one.
func (m *modelStore) powerLosses() int { return 1 + 2*len(m.unsynced) }

func (m *modelStore) losePower(choice int) {
	n := len(m.unsynced)
	for i, u := range m.unsynced {
		if choice > 0 && choice <= n && i >= n-choice || choice > n && i == choice-n-1 {
			continue
		}
		u.do(&m.disk)
	}
	m.unsynced = nil
	m.now = m.disk.clone()
	m.epoch += 100
}

// live are the generations that an Add goes to.
func (i *image) live() []int {
	var ids []int
	for _, id := range []int{i.read, i.build} {
		if id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *modelStore) Epoch() storage.Epoch { return m.epoch }

func (m *modelStore) Advance() (e storage.Epoch, err error) {
	m.w.step("advance", func() string {
		if !m.w.broken.epochStands {
			m.epoch++
		}
		e = m.epoch
		return fmt.Sprint(e)
	})
	return e, nil
}

func (m *modelStore) Add(entries []storage.Entry) error {
	if m.w.broken.intentFirst {
		m.intend()
	}
	m.w.step("add", func() string {
		var said []string
		for _, e := range entries {
			said = append(said, fmt.Sprintf("%s@%d", e.Key, e.Epoch))
			for _, id := range m.now.live() {
				if have, ok := m.now.gens[id][string(e.Key)]; ok && have >= e.Epoch {
					continue
				}
				k, at := string(e.Key), e.Epoch
				m.write(fmt.Sprint("add ", id, k, at), func(i *image) {
					if i.gens[id] != nil {
						i.gens[id][k] = at
					}
				})
			}
		}
		return strings.Join(said, " ")
	})
	return nil
}

func (m *modelStore) OpenGate(_ catalog.IndexID, _ catalog.ShardID, e storage.Epoch) (g storage.Gate, err error) {
	m.w.step("open gate", func() string {
		m.gate = max(m.gate, e)
		g = storage.Gate{Epoch: m.gate, Generation: uint32(m.newest()), Sole: m.now.read != 0 && (m.now.build == 0 || m.w.broken.hideBuild)}
		return fmt.Sprint(g)
	})
	return g, nil
}

// Retire is one step: the store raises the floor first, so that lookups beside it are only wider.
func (m *modelStore) Retire(r storage.Retirement) (removed, cleared int, err error) {
	m.w.step("retire", func() string {
		if r.Gate.Epoch != m.gate && !m.w.broken.noGate || m.newest() > int(r.Gate.Generation) && !m.w.broken.oldGeneration {
			err = storage.ErrSuperseded
			return "superseded"
		}
		m.removals++
		if !m.w.broken.noFloor {
			m.floor = max(m.floor, r.After)
		}
		var said []string
		for _, k := range r.Keys {
			for _, id := range m.now.live() {
				e, ok := m.now.gens[id][string(k)]
				if !ok || e >= r.Before && !m.w.broken.removeAnyEpoch {
					continue
				}
				removed++
				k := string(k)
				said = append(said, k)
				m.write(fmt.Sprint("remove ", id, k), func(i *image) { delete(i.gens[id], k) })
			}
		}
		if r.Marks && m.now.marked && (m.now.mark < r.Before || m.w.broken.clearAnyEpoch) {
			cleared = 1
			said = append(said, "marks")
			m.write("clear", func(i *image) { i.marked, i.mark = false, 0 })
		}
		if r.Marks && m.now.logged && m.now.log < r.Before {
			cleared = 1
			said = append(said, "logged marks")
			m.write("clear logged", func(i *image) { i.logged, i.log = false, 0 })
		}
		return fmt.Sprintf("%s before %d", strings.Join(said, " "), r.Before)
	})
	return removed, cleared, err
}

func (m *modelStore) newest() int { return max(m.now.read, m.now.build) }

// Lookup is no step: the simulation looks in every state.
func (m *modelStore) Lookup(_ catalog.IndexID, key []byte, _ [][]byte) (f storage.Found, err error) {
	look := func() string {
		_, ok := m.now.gens[m.now.read][string(key)]
		switch f = (storage.Found{Floors: m}); {
		case ok || m.now.marked:
			f.Shards.Add(0)
		case m.now.logged:
			f.Shards.Add(0)
			f.Logged.Add(0)
		}
		return fmt.Sprint(f.Shards.Has(0), f.Logged.Has(0))
	}
	if a := m.w.current; a != nil && a.name == waiterName {
		m.w.step("looks up", look)
	} else {
		look()
	}
	return f, nil
}

func (m *modelStore) Floor(catalog.ShardID) storage.Epoch { return m.floor }

func (m *modelStore) Removals() uint64 { return m.removals }

func (m *modelStore) Range(catalog.IndexID, []byte, []byte, int) (storage.Found, bool, error) {
	panic("not simulated")
}

func (m *modelStore) Entries(_ catalog.IndexID, from []byte, _ bool, fn func([]byte, []storage.ShardEpoch) bool) error {
	m.w.note(fmt.Sprint(m.now.read))
	if m.now.read == 0 {
		return storage.ErrNoIndex
	}
	var ks []string
	es := map[string]storage.Epoch{}
	m.w.step("entries", func() string {
		maps.Copy(es, m.now.gens[m.now.read])
		ks = slices.Sorted(maps.Keys(es))
		return fmt.Sprint(es)
	})
	for _, k := range ks {
		if k >= string(from) && !fn([]byte(k), []storage.ShardEpoch{{Shard: 0, Epoch: es[k]}}) {
			return nil
		}
	}
	return nil
}

func (m *modelStore) EntriesOf(id catalog.IndexID, _ catalog.ShardID, from []byte, fn func([]byte) bool) error {
	return m.Entries(id, from, false, func(key []byte, _ []storage.ShardEpoch) bool { return fn(key) })
}

func (m *modelStore) Kept(key []byte) []byte { return key }

func (m *modelStore) Mark(marks []storage.Mark) error {
	if m.w.broken.noMark {
		return nil
	}
	if m.w.broken.intentFirst {
		m.intend()
	}
	m.w.step("mark", func() string {
		for _, k := range marks {
			if m.now.marked && m.now.mark >= k.Epoch || k.Logged && m.now.logged && m.now.log >= k.Epoch {
				continue
			}
			e := k.Epoch
			if k.Logged {
				m.write(fmt.Sprint("mark logged ", e), func(i *image) { i.logged, i.log = true, e })
				continue
			}
			m.write(fmt.Sprint("mark ", e), func(i *image) { i.marked, i.mark = true, e })
		}
		return fmt.Sprint(marks[0].Epoch)
	})
	return nil
}

func (m *modelStore) Marks(catalog.IndexID) []storage.Mark { return m.AllMarks() }

func (m *modelStore) AllMarks() []storage.Mark {
	m.w.note(fmt.Sprint(m.now.marked, m.now.logged))
	var marks []storage.Mark
	if m.now.marked {
		marks = append(marks, storage.Mark{Index: 1, Epoch: m.now.mark})
	}
	if m.now.logged {
		marks = append(marks, storage.Mark{Index: 1, Epoch: m.now.log, Logged: true})
	}
	return marks
}

func (m *modelStore) Clear(_ catalog.IndexID, _ catalog.ShardID, before storage.Epoch) (cleared int, err error) {
	m.w.step("clear", func() string {
		if m.now.logged && (m.now.log < before || m.w.broken.clearAnyEpoch) {
			cleared = 1
			m.write("clear logged", func(i *image) { i.logged, i.log = false, 0 })
		}
		return fmt.Sprint(cleared, " before ", before)
	})
	return cleared, nil
}

func (m *modelStore) Unlog(catalog.IndexID, catalog.ShardID) (had bool, err error) {
	m.w.step("unlog", func() string {
		had = m.now.logged
		if e := m.now.log; m.now.logged && !m.w.broken.vouchAll {
			m.write("unlog", func(i *image) { i.marked, i.mark, i.logged, i.log = true, max(i.mark, e), false, 0 })
		}
		return fmt.Sprint(had)
	})
	return had, nil
}

func (m *modelStore) Intend([]storage.Pair) (uint64, error) {
	if !m.w.broken.noIntent && !m.w.broken.intentFirst {
		m.intend()
	}
	return 0, nil
}

func (m *modelStore) Told([]storage.Pair, uint64) {}

func (m *modelStore) intend() {
	if !m.w.sc.power {
		return
	}
	m.w.step("intend", func() string {
		m.active, m.record = true, true
		return ""
	})
}

// lift is the store's own goroutine: it lifts an intent that was idle.
func (m *modelStore) lift() {
	m.w.choose("lift intent", func() bool { return m.active }, 1, func(int) string {
		m.active = false
		return ""
	})
	m.w.step("sync", func() string {
		m.sync()
		return ""
	})
	m.w.step("delete intent", func() string {
		if !m.active {
			m.record = false
		}
		return fmt.Sprint(m.record)
	})
}

var modelPair = storage.Pair{Schema: "s", Table: "t", Shard: 0}

func (m *modelStore) Lost() []storage.Pair {
	if m.lost {
		return []storage.Pair{modelPair}
	}
	return nil
}

func (m *modelStore) Unclean() []storage.Pair {
	if m.unclean {
		return []storage.Pair{modelPair}
	}
	return nil
}

func (m *modelStore) Recovered() error {
	m.w.step("recovered", func() string {
		m.sync()
		m.lost, m.unclean, m.record = false, false, m.active
		return ""
	})
	return nil
}

func (m *modelStore) NoteThread(catalog.ShardID, storage.Thread) error { return nil }

// No note of the dead process's connections is the harder case.
func (m *modelStore) OldThreads(catalog.ShardID) []storage.Thread { return nil }

func (m *modelStore) Thread(catalog.ShardID, uint32) (t storage.Thread, known bool) {
	return t, false
}

func (m *modelStore) ForgetThread(catalog.ShardID, uint32) error { return nil }

func (m *modelStore) def() storage.IndexRecord {
	return storage.IndexRecord{
		IndexDef: catalog.IndexDef{ID: 1, Schema: "s", Table: "t", Name: "ix", Columns: []string{"k"}, Partitions: 1, Status: m.now.status},
		Readable: m.now.read != 0, HasBuild: m.now.build != 0, BuildGeneration: uint32(m.now.build), ReadGeneration: uint32(m.now.read),
		Unbegun: m.now.unbegun,
	}
}

func (m *modelStore) CreateIndex(catalog.IndexDef) (storage.IndexRecord, error) {
	m.w.step("create index", func() string {
		m.write("create", func(i *image) {
			i.defined, i.unbegun, i.status = true, true, catalog.Building
			i.next++
			i.build = i.next
			i.gens[i.build] = map[string]storage.Epoch{}
		})
		m.sync()
		return ""
	})
	return m.def(), nil
}

func (m *modelStore) Index(catalog.IndexID) (storage.IndexRecord, bool) {
	d := m.def()
	m.w.note(fmt.Sprint(d.Status, d.Unbegun, d.Readable, d.HasBuild, d.BuildGeneration, d.ReadGeneration))
	return d, m.now.defined
}

func (m *modelStore) Indexes() []storage.IndexRecord {
	d, ok := m.Index(1)
	if !ok {
		return nil
	}
	return []storage.IndexRecord{d}
}

func (m *modelStore) UpdateIndex(_ catalog.IndexID, fn func(*storage.IndexRecord)) error {
	m.w.step("update index", func() string {
		d := m.def()
		fn(&d)
		m.write("update "+string(d.Status), func(i *image) {
			i.status = d.Status
			i.unbegun = d.Unbegun || m.w.broken.begunUnsaid && i.unbegun
		})
		return string(d.Status)
	})
	return nil
}

func (m *modelStore) MoveIndexes(map[catalog.IndexID]catalog.TableName) error {
	panic("not simulated")
}

func (m *modelStore) DropIndex(catalog.IndexID) error { panic("not simulated") }

func (m *modelStore) StartBuild(catalog.IndexID, int) error {
	m.w.step("start build", func() string {
		m.write("start build", func(i *image) {
			delete(i.gens, i.build)
			i.next++
			i.build = i.next
			i.gens[i.build] = map[string]storage.Epoch{}
			i.checkpoint = ""
		})
		m.sync()
		return ""
	})
	return nil
}

func (m *modelStore) FinishBuild(_ catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) (err error) {
	m.w.step("finish build", func() string {
		switch m.now.build {
		case 0:
			err = storage.ErrNotBuilding
		case int(generation):
			m.removals++
			if !m.w.broken.buildNoFloor {
				m.floor = max(m.floor, floors[0])
			}
			m.write("finish build", func(i *image) {
				delete(i.gens, i.read)
				i.read, i.build = i.build, 0
			})
		default:
			err = storage.ErrSuperseded
		}
		return fmt.Sprint(err)
	})
	return err
}

func (m *modelStore) Move(catalog.IndexID, string, bool) error { panic("not simulated") }

func (m *modelStore) EndMove(catalog.IndexID) error { return nil }

func (m *modelStore) Outage(catalog.IndexID) error { return nil }

func (m *modelStore) Away(catalog.IndexID) []string { return nil }

func (m *modelStore) Forsake(catalog.IndexID) error { panic("not simulated") }

func (m *modelStore) Sweep(context.Context) error { return nil }

func (m *modelStore) DeleteGarbage(context.Context, int) (bool, error) { return false, nil }

func (m *modelStore) Repartition(context.Context, catalog.IndexID, int, func(float64)) error {
	panic("not simulated")
}
func (m *modelStore) Stats() storage.Stats { return storage.Stats{} }

func (m *modelStore) saveCheckpoint(c checkpoint) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	m.w.step("checkpoint", func() string {
		m.write("checkpoint "+string(raw), func(i *image) { i.checkpoint = string(raw) })
		return ""
	})
	return nil
}

// Jobs are not modelled, but for those of resuming: the simulation runs every job that may be needed.
func (m *modelStore) Enqueue(storage.Job) (uint64, error) {
	if m.w.sc.resumes {
		m.w.step("enqueue", func() string {
			if m.now.jobs == 0 || m.w.claimed && m.now.jobs == 1 { // else one waits already
				m.write("enqueue", func(i *image) { i.jobs++ })
			}
			return fmt.Sprint(m.now.jobs)
		})
	}
	return 1, nil
}

func (m *modelStore) Position(catalog.ShardID) (string, error) { return m.now.place, nil }

func (m *modelStore) KeepPosition(_ catalog.ShardID, place string) error {
	m.w.step("keep "+place, func() string {
		m.write("keep "+place, func(i *image) { i.place = place })
		if place == "" {
			m.sync()
		}
		return ""
	})
	return nil
}

func (m *modelStore) EnqueueSoon(storage.Job) error { return nil }
func (m *modelStore) Jobs() []storage.Job           { return nil }
func (m *modelStore) NextJob() (time.Time, bool)    { return time.Time{}, false }
func (m *modelStore) JobsChanged() <-chan struct{}  { return nil }
func (m *modelStore) Claim(string, time.Duration, time.Time, func(*storage.Job) bool) (*storage.Job, error) {
	return nil, nil
}
func (m *modelStore) Renew(uint64, string, time.Duration) error { return nil }
func (m *modelStore) SaveCheckpoint(uint64, string, json.RawMessage, float64) error {
	return nil
}
func (m *modelStore) Finish(uint64, string) error                 { return nil }
func (m *modelStore) Fail(uint64, string, error, time.Time) error { return nil }
