package indexer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	defined    bool
	status     storage.Status
	checkpoint string
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
	fmt.Fprint(&b, i.read, i.build, i.next, i.marked, i.mark, i.defined, i.status, i.checkpoint)
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
	// The horizon is not computed at once after the first advance of a scan.
	// After the second one the next thing is a step anyway.
	a := m.w.current
	if a.advances++; a.name == "recovery" || (a.advances%2 == 1) != (a.name == "build") {
		m.w.step("computes the horizon", func() string { return fmt.Sprint(m.w.proc.x.tracker.Horizon(0)) })
	}
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

func (m *modelStore) Remove(_ storage.IndexID, _ storage.ShardID, ks [][]byte, before storage.Epoch) (int, error) {
	removed := 0
	m.w.step("remove", func() string {
		var said []string
		for _, k := range ks {
			for _, id := range m.now.live() {
				e, ok := m.now.gens[id][string(k)]
				if !ok || e >= before && !m.w.broken.removeAnyEpoch {
					continue
				}
				removed++
				k := string(k)
				said = append(said, k)
				m.write(fmt.Sprint("remove ", id, k), func(i *image) { delete(i.gens[id], k) })
			}
		}
		return fmt.Sprintf("%s before %d", strings.Join(said, " "), before)
	})
	return removed, nil
}

func (m *modelStore) covers(key string) bool {
	if m.now.marked {
		return true
	}
	_, ok := m.now.gens[m.now.read][key]
	return ok
}

func (m *modelStore) Lookup(storage.IndexID, []byte, [][]byte) (storage.ShardSet, error) {
	panic("the simulation looks by itself, in every state")
}

func (m *modelStore) Range(storage.IndexID, []byte, []byte, int) (storage.ShardSet, bool, error) {
	panic("not simulated")
}

func (m *modelStore) Entries(_ storage.IndexID, from []byte, _ bool, fn func([]byte, []storage.ShardEpoch) bool) error {
	m.w.note(fmt.Sprint(m.now.read))
	if m.now.read == 0 {
		return storage.ErrNoIndex
	}
	var ks []string
	es := map[string]storage.Epoch{}
	m.w.step("entries", func() string {
		for k, e := range m.now.gens[m.now.read] {
			if m.w.broken.removeAnyEpoch {
				e = 0
			}
			es[k] = e
		}
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

func (m *modelStore) Mark(marks []storage.Mark) error {
	if m.w.broken.noMark {
		return nil
	}
	if m.w.broken.intentFirst {
		m.intend()
	}
	m.w.step("mark", func() string {
		for _, k := range marks {
			if m.now.marked && m.now.mark >= k.Epoch {
				continue
			}
			e := k.Epoch
			m.write(fmt.Sprint("mark ", e), func(i *image) { i.marked, i.mark = true, e })
		}
		return fmt.Sprint(marks[0].Epoch)
	})
	return nil
}

func (m *modelStore) ClearMarks(_ storage.IndexID, _ storage.ShardID, before storage.Epoch) (n int, err error) {
	m.w.step("clear marks", func() string {
		if m.now.marked && (m.now.mark < before || m.w.broken.clearAnyEpoch) {
			n = 1
			m.write("clear", func(i *image) { i.marked, i.mark = false, 0 })
		}
		return fmt.Sprintf("%d before %d", n, before)
	})
	return n, nil
}

func (m *modelStore) Marks(storage.IndexID) []storage.Mark { return m.AllMarks() }

func (m *modelStore) AllMarks() []storage.Mark {
	m.w.note(fmt.Sprint(m.now.marked))
	if m.now.marked {
		return []storage.Mark{{Index: 1, Epoch: m.now.mark}}
	}
	return nil
}

func (m *modelStore) Intend([]storage.Pair) error {
	if !m.w.broken.noIntent && !m.w.broken.intentFirst {
		m.intend()
	}
	return nil
}

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

// No note of the dead process's connections is the harder case.
func (m *modelStore) OldThreads(storage.ShardID) []storage.Thread { return nil }

func (m *modelStore) Thread(storage.ShardID, uint32) (t storage.Thread, known bool) {
	return t, false
}

func (m *modelStore) ForgetThread(storage.ShardID, uint32) error { return nil }

func (m *modelStore) def() storage.IndexDef {
	return storage.IndexDef{
		ID: 1, Schema: "s", Table: "t", Name: "ix", Columns: []string{"k"}, Partitions: 1,
		Status: m.now.status, Readable: m.now.read != 0, HasBuild: m.now.build != 0, BuildGeneration: uint32(m.now.build),
	}
}

func (m *modelStore) CreateIndex(storage.IndexDef) (storage.IndexDef, error) {
	m.w.step("create index", func() string {
		m.write("create", func(i *image) {
			i.defined, i.status = true, storage.Building
			i.next++
			i.build = i.next
			i.gens[i.build] = map[string]storage.Epoch{}
		})
		m.sync()
		return ""
	})
	return m.def(), nil
}

func (m *modelStore) Index(storage.IndexID) (storage.IndexDef, bool) {
	d := m.def()
	d.HasBuild = d.HasBuild && !m.w.broken.hideBuild
	m.w.note(fmt.Sprint(d.Status, d.Readable, d.HasBuild, d.BuildGeneration))
	return d, m.now.defined
}

func (m *modelStore) Indexes() []storage.IndexDef {
	d, ok := m.Index(1)
	if !ok {
		return nil
	}
	return []storage.IndexDef{d}
}

func (m *modelStore) UpdateIndex(_ storage.IndexID, fn func(*storage.IndexDef)) error {
	m.w.step("update index", func() string {
		d := m.def()
		fn(&d)
		m.write("update "+string(d.Status), func(i *image) { i.status = d.Status })
		return string(d.Status)
	})
	return nil
}

func (m *modelStore) MoveIndexes(map[storage.IndexID]storage.TableName) error {
	panic("not simulated")
}

func (m *modelStore) DropIndex(storage.IndexID) error { panic("not simulated") }

func (m *modelStore) StartBuild(storage.IndexID, int) error {
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

func (m *modelStore) FinishBuild(_ storage.IndexID, generation uint32) (err error) {
	m.w.step("finish build", func() string {
		switch m.now.build {
		case 0:
			err = storage.ErrNotBuilding
		case int(generation):
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

func (m *modelStore) DeleteGarbage(context.Context, int) (bool, error) { return false, nil }

func (m *modelStore) Repartition(context.Context, storage.IndexID, int, func(float64)) error {
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

// Jobs are not modelled: the simulation runs every job that may be needed.
func (m *modelStore) Enqueue(storage.Job) (uint64, error) { return 1, nil }
func (m *modelStore) EnqueueSoon(storage.Job) error       { return nil }
func (m *modelStore) Jobs() []storage.Job                 { return nil }
func (m *modelStore) NextJob() (time.Time, bool)          { return time.Time{}, false }
func (m *modelStore) JobsChanged() <-chan struct{}        { return nil }
func (m *modelStore) Claim(string, time.Duration, time.Time, func(*storage.Job) bool) (*storage.Job, error) {
	return nil, nil
}
func (m *modelStore) Renew(uint64, string, time.Duration) error { return nil }
func (m *modelStore) SaveCheckpoint(uint64, string, json.RawMessage, float64) error {
	return nil
}
func (m *modelStore) Finish(uint64, string) error                 { return nil }
func (m *modelStore) Fail(uint64, string, error, time.Time) error { return nil }
