package indexer

import (
	"context"
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// modelTrail is a follower's reading of the model shard's log.
type modelTrail struct {
	w *world
	// began and passed count the transactions that were handed over, and dealt with.
	began, passed int
}

func (m *modelTrail) Shown(context.Context) error {
	if m.w.broken.unshown {
		return nil
	}
	n := 0
	m.w.step("has seen", func() string {
		n = m.began
		return fmt.Sprint(n)
	})
	m.w.choose("waits until that is visible", func() bool {
		for _, l := range m.w.shard.log[:n] {
			if !l.shown {
				return false
			}
		}
		return true
	}, 1, func(int) string { return "" })
	return nil
}

func (m *modelTrail) CaughtUp(context.Context) error {
	if m.w.broken.notPassed {
		return nil
	}
	n := 0
	m.w.step("asks where the log ends", func() string {
		for i, l := range m.w.shard.log {
			if l.shown {
				n = i + 1
			}
		}
		return fmt.Sprint(n)
	})
	m.w.choose("waits until that is passed", func() bool { return m.passed >= n }, 1, func(int) string { return "" })
	return nil
}

func (m *modelTrail) Abreast(context.Context) error {
	if m.w.broken.notAbreast {
		return nil
	}
	n := 0
	m.w.step("asks what is in the log", func() string {
		n = len(m.w.shard.log)
		return fmt.Sprint(n)
	})
	m.w.choose("waits until that is dealt with", func() bool { return m.passed >= n }, 1, func(int) string { return "" })
	return nil
}

func (m *modelTrail) Live() bool { return true }

func (m *modelTrail) At() string {
	if m.w.broken.keptAhead {
		return fmt.Sprintf("%d:%d", m.w.shard.server, m.began)
	}
	return fmt.Sprintf("%d:%d", m.w.shard.server, m.passed)
}

// from begins at a place that was kept, or before what isn't visible yet; ok is false where the log has no such place.
func (m *modelTrail) from(place string) (ok bool) {
	var server, n int
	m.began = 0
	for m.began < len(m.w.shard.log) && m.w.shard.log[m.began].shown {
		m.began++
	}
	if place != "" {
		if _, err := fmt.Sscanf(place, "%d:%d", &server, &n); err != nil {
			panic(err)
		}
		if server != m.w.shard.server && !m.w.broken.anyServer || n > len(m.w.shard.log) {
			return false
		}
		m.began = n
	}
	m.passed = m.began
	return true
}

// stray starts a writer that isn't Shunt's.
func (w *world) stray(name string, e edit) {
	th := w.shard.thread(name)
	th.stray = true
	w.start(name, false, func() { w.send(name, e, func() {}, func() {}) })
}

// resuming goes on following where the store says, and keeps there where it is. It does the jobs that are asked for.
// What is missed meanwhile nobody is promised (caughtUp).
func (w *world) resuming() {
	p := w.proc
	trail := w.follows()
	w.start("keep", true, func() {
		for {
			w.choose("has something to keep", func() bool {
				f := w.resumed
				return f != nil && (f.owes || trail.At() != f.kept)
			}, 1, func(int) string {
				return fmt.Sprint(w.resumed.owes, trail.At())
			})
			w.must(w.resumed.keep(context.Background()))
		}
	}).endless = true
	w.start("work", true, func() {
		for {
			w.choose("claims a job", func() bool { return p.serving && w.store.now.jobs > 0 }, 1, func(int) string {
				w.claimed = true
				return ""
			})
			w.scan()
			w.step("finishes it", func() string {
				w.claimed = false
				w.store.write("finish", func(i *image) { i.jobs = max(i.jobs-1, 0) })
				return ""
			})
		}
	}).endless = true
}

// following is resuming once: a scan that is owed is made, and no place is kept behind that.
func (w *world) following() {
	w.follows()
	w.start("tend", true, func() {
		for {
			w.choose("has something to do", func() bool {
				f := w.resumed
				return f != nil && (f.owes || f.old())
			}, 1, func(int) string { return fmt.Sprint(w.resumed.owes) })
			f := w.resumed
			if !f.owes {
				w.must(f.renew(context.Background()))
				continue
			}
			w.must(f.keep(context.Background()))
			w.scan()
			w.step("finishes the scan", func() string {
				w.store.write("finish", func(i *image) { i.jobs = 0 })
				return ""
			})
		}
	}).endless = true
}

// follows goes on following where the store says: resumed is who does, once it has begun.
func (w *world) follows() *modelTrail {
	p, trail := w.proc, &modelTrail{w: w}
	w.start("follow", true, func() { w.reads(p, w.goesOn(p, trail), trail) }).endless = true
	return trail
}

// goesOn begins to follow where the store says.
func (w *world) goesOn(p *process, trail *modelTrail) (f *follower) {
	for found := false; !found; {
		var from string
		w.choose("reads the place", func() bool { return p.serving }, 1, func(int) string {
			from, _ = p.x.placeIn(0)
			return from
		})
		w.step("begins to follow", func() string {
			if found = trail.from(from); found {
				f = p.x.newFollower(0, from, trail)
				w.resumed, w.trail = f, trail
			}
			return fmt.Sprint(found, trail.began)
		})
		if !found {
			w.must(w.store.KeepPosition(0, ""))
		}
	}
	return f
}

// unheard has a member follow from a place, and do something once: it may be fenced meanwhile, and not hear of it.
func (w *world) unheard(from string, due func(*follower) bool, do func(*follower, context.Context) error) {
	p := w.proc
	trail := &modelTrail{w: w}
	f := p.x.newFollower(0, from, trail)
	w.start("follow", true, func() { w.reads(p, f, trail) }).endless = true
	w.start("tend", true, func() {
		w.choose("has something to do", func() bool { return due(f) }, 1, func(int) string { return trail.At() })
		_ = do(f, context.Background()) // it may find that it was fenced
	}).endless = true
}

// caughtUp reports that what others have changed on the shard is promised to be found.
func (w *world) caughtUp() bool {
	return w.resumed != nil && !w.resumed.owes && w.trail.passed == len(w.shard.log) && w.store.now.jobs == 0
}

// exchange puts another server in the shard's place, with other rows, and another log.
func (w *world) exchange() {
	w.shard.server++
	w.shard.committed = rows{1: "c"}
	w.shard.log = []*logged{{changes: []rowChange{{1, "", "c"}}, shown: true}}
	w.shard.conns = map[string]*modelThread{}
}

// waiterName is the reader's that waits for the follower.
const waiterName = "waiter"

// waiter starts an autocommit read of a key that waits for the follower.
func (w *world) waiter(pk int, key string) {
	w.start(waiterName, true, func() {
		x, visible := w.proc.x, false
		w.choose("there is a follower", func() bool { return x.followers.any.Load() }, 1, func(int) string { return "" })
		w.step("begins", func() string {
			visible = w.shard.committed[pk] == key
			return fmt.Sprint(visible)
		})
		set, err := x.Passing(context.Background(), nil).Lookup(&catalog.Index{ID: 1}, []byte(key), nil)
		w.must(err)
		w.step("has looked up", func() string {
			if visible && !set.Has(0) && w.shard.committed[pk] == key {
				w.must(fmt.Errorf("a read that waits for the follower misses %d, whose key has been %s since it began", pk, key))
			}
			return fmt.Sprint(set.Has(0))
		})
	})
}

// modelImage is a row of the model's table.
type modelImage struct {
	pk int
	k  string
}

func (m modelImage) Column(c *catalog.Column) (raw []byte, ok bool) {
	if c.Name == "id" {
		return fmt.Append(nil, m.pk), true
	}
	return []byte(m.k), true
}

func (c rowChange) row() (r RowChange) {
	if c.before != "" {
		r.Before = modelImage{c.pk, c.before}
	}
	if c.after != "" {
		r.After = modelImage{c.pk, c.after}
	}
	return r
}

// reads hands a log's changes to a follower.
func (w *world) reads(p *process, f *follower, trail *modelTrail) {
	for {
		var l *logged
		w.choose("is handed a change", func() bool { return len(w.shard.log) > trail.began }, 1, func(int) string {
			l = w.shard.log[trail.began]
			trail.began++
			return fmt.Sprint(l.changes)
		})
		for _, c := range l.changes {
			w.must(f.change(p.table(), c.row()))
		}
		w.must(f.flush())
		w.step("has dealt with it", func() string {
			trail.passed++
			return ""
		})
	}
}

// follower follows the log, and clears marks some times.
func (w *world) follower(times int) {
	p := w.proc
	trail := &modelTrail{w: w}
	var f *follower
	w.start("follow", true, func() {
		w.step("begins to follow", func() string {
			trail.began, trail.passed = len(w.shard.log), len(w.shard.log)
			f = p.x.newFollower(0, "", trail)
			p.x.followers.set(0, f)
			return fmt.Sprint(trail.began)
		})
		w.reads(p, f, trail)
	}).endless = true
	w.start("clear", true, func() {
		w.choose("begins", func() bool { return f != nil }, 1, func(int) string { return "" })
		w.must(f.clear(context.Background()))
		for {
			clears := false
			w.choose("has something to do", func() bool {
				clears = w.store.now.logged && times > 0
				e, _ := f.open.Epoch(0)
				return clears || e < p.cluster.Epoch(0)
			}, 1, func(int) string { return fmt.Sprint(clears) })
			if clears {
				times--
				w.must(f.clear(context.Background()))
			} else {
				w.must(f.renew(context.Background()))
			}
		}
	}).endless = true
}

var followScenarios = []scenario{
	{name: "computed update, followed", follows: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(2)
		w.reader("r")
	}},
	{name: "computed update beside a verify", long: true, follows: true, rows: rows{1: "a"}, indexed: true, stale: "b", actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(1)
		w.verifier("b")
	}},
	{name: "two computed updates, followed", long: true, follows: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.autocommit("w2", compute(1, "c"))
		w.follower(2)
	}},
	{name: "followed beside a scan", long: true, follows: true, rows: rows{1: "a"}, indexed: true, stale: "b", actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(1)
		w.scanner(1)
	}},
	{name: "transaction, followed", follows: true, rows: rows{1: "a", 2: "a"}, indexed: true, actors: func(w *world) {
		w.transaction("w1", set(1, "b"), compute(2, "c"))
		w.follower(2)
	}},
	{name: "followed beside a rebuild", long: true, follows: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(1)
		w.builder(false)
	}},
	{name: "two keys, followed", follows: true, rows: rows{1: "b"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "a"))
		w.follower(1)
		w.finder("a", "b")
	}},
	{name: "a read that waits", follows: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(1)
		w.waiter(1, "b")
	}},
	{name: "a read that waits beside two updates", long: true, follows: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.autocommit("w2", compute(1, "c"))
		w.follower(0)
		w.waiter(1, "c")
	}},
	{name: "followed, process death", follows: true, rows: rows{1: "a"}, indexed: true, crash: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(2)
	}},
	{name: "followed, power loss", long: true, follows: true, rows: rows{1: "a"}, indexed: true, power: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.follower(2)
		w.lifter()
	}},
	{name: "place kept, process death", follows: true, resumes: true, place: "0:0", rows: rows{1: "a"}, indexed: true, crash: true, actors: func(w *world) {
		w.stray("s1", set(1, "b"))
		w.stray("s2", insert(2, "c"))
		w.resuming()
	}},
	{name: "place kept, not visible", follows: true, resumes: true, place: "0:0", verifies: "b", rows: rows{1: "a"}, indexed: true, crash: true, actors: func(w *world) {
		w.stray("s1", set(1, "b"))
		w.resuming()
	}},
	{name: "place kept, power loss", follows: true, resumes: true, place: "0:0", rows: rows{1: "a"}, indexed: true, power: true, actors: func(w *world) {
		w.stray("s1", set(1, "b"))
		w.resuming()
		w.lifter()
	}},
	{name: "place kept, another server", follows: true, resumes: true, exchanged: true, place: "0:0", rows: rows{1: "a"}, indexed: true, crash: true, actors: func(w *world) {
		w.stray("s1", set(1, "b"))
		w.resuming()
	}},
	{name: "no place yet, power loss", follows: true, resumes: true, rows: rows{1: "b"}, unseen: true, indexed: true, power: true, actors: func(w *world) {
		w.resuming()
		w.lifter()
	}},
	{name: "followed beside the first build", long: true, follows: true, resumes: true, builds: true, rows: rows{1: "a"}, actors: func(w *world) {
		w.stray("s1", set(1, "b"))
		w.builder(true)
		w.following()
	}},
}

func TestSimulationOfFollowing(t *testing.T) { exploreAll(t, followScenarios) }

func TestSimulationOfFollowingHasTeeth(t *testing.T) {
	suite.Long(t)
	findTeeth(t, followScenarios, []tooth{
		{"marks from before are left to scans", rules{vouchAll: true}, "computed update, followed"},
		{"what was seen is visible before the registration ends", rules{unshown: true}, "computed update beside a verify"},
		{"what marks stand for was passed", rules{notPassed: true}, "computed update, followed"},
		{"marks of the horizon or later stay", rules{clearAnyEpoch: true}, "computed update, followed"},
		{"a read waits for what was visible when it began", rules{notAbreast: true}, "a read that waits"},
		{"only marks that the follower vouches for are ignored", rules{vouchAll: true}, "a read that waits"},
		{"write-intents behind what the log makes", rules{noIntent: true}, "followed, power loss"},
		{"a place is kept behind its entries", rules{keptAhead: true}, "place kept, process death"},
		{"a place is kept behind its entries, which a power loss doesn't take", rules{noIntent: true}, "place kept, power loss"},
		{"what comes before a place is visible", rules{unshown: true}, "place kept, not visible"},
		{"a place is of one server", rules{anyServer: true}, "place kept, another server"},
		{"a build reads no row before all know of it", rules{begunUnsaid: true}, "followed beside the first build"},
		{"a scan that is owed is asked for before a place is kept", rules{noIntent: true}, "no place yet, power loss"},
	})
}
