package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The simulation is of the rules of adding.go and proxy/join.go, over all orders of their steps. Member a adds a shard; two serve
// beside it, or come meanwhile, and end a's hold if a dies. They write: rows of a reference table, which are on all shards that the writer goes by,
// and rows on the new shard, once it goes by that. Each member that lives has to find each row of which a client was told: of a
// reference table on any shard that it goes by. For each rule there is a variant without it, in which a miss must be found.

// addRules names rules to leave out.
type addRules struct {
	noHold       bool // others aren't waited for until they have closed their copies
	freeAnywhere bool // rows on the new shard need no open copies
	releaseEarly bool // the hold ends though some go by other shards
	anyHolder    bool // a serves the shard though its hold was ended
	reopenFirst  bool // a opens its own copies before the hold is over
	cleanEarly   bool // the hold of who has died ends though some go by other shards
	lookEarly    bool // a compares before all note what they write
	notedBegun   bool // a write is noted when it begins
	noteUnsaid   bool // who comes doesn't say that it notes before it serves
	deadIgnored  bool // who hasn't said what it has written has written nothing
}

type addMember struct {
	dead, serves, closed bool
	// fenced: it isn't on the shards; joins: it is again, and serves nobody before it goes by what it has read since.
	fenced, joins bool
	told          int8
	// step of going by the records, of which at and held were read.
	step, at    int8
	held, fresh bool
	// notes: it has said that it notes what it writes; noting as of the records that it read. wrote: it has noted a write.
	notes, noting, wrote bool
	// said what it has written, in all, behind the closing of its copies.
	said said
}

type said int8

const (
	saidNothing said = iota
	saidNone
	saidSome
)

// out reports that it neither reads nor writes.
func (m *addMember) out() bool { return m.dead || m.fenced || m.joins }

type addWrite struct {
	phase    int8 // 1: begun, 2: the client was told
	view, on bool // the writer's, whether it is on the new shard
}

// addWriters are who writes what: rows of a reference table first, then rows on the new shard.
var addWriters = [...]int{0, 1, 0, 2}

const wroteAnywhere = 2

type addState struct {
	// note: members are to note what they write.
	note, holds, serves bool
	version             int8
	m                   [3]addMember
	w                   [len(addWriters)]addWrite
	// step of a's, and what it waits for.
	step, awaits int8
	back         bool // it has taken the shard back
	perils       int8 // how often something may still go wrong
}

type addStep struct {
	what string
	to   addState
}

func (s *addState) change() { s.version++ }

// byAll reports that all go by a version who may be asked.
func (s *addState) byAll(version int8) bool {
	for _, m := range s.m {
		if !m.dead && !m.fenced && m.told < version {
			return false
		}
	}
	return true
}

// writing reports that a member has writes open that share its copies.
func (s *addState) writing(m int, without addRules) bool {
	for i, w := range s.w {
		if addWriters[i] == m && w.phase == 1 && (i < wroteAnywhere || !without.freeAnywhere) {
			return true
		}
	}
	return false
}

func (s addState) next(without addRules) (steps []addStep) {
	do := func(what string, fn func(*addState)) {
		to := s
		fn(&to)
		steps = append(steps, addStep{what, to})
	}
	for i, w := range s.w {
		m := s.m[addWriters[i]]
		if m.out() {
			continue
		}
		anywhere := i >= wroteAnywhere
		switch {
		case w.phase == 0 && (!m.closed || anywhere && without.freeAnywhere) && (!anywhere || m.serves):
			do(fmt.Sprintf("write %d begins, serves %v", i, m.serves), func(t *addState) {
				t.w[i] = addWrite{1, m.serves, false}
				t.noted(i, without.notedBegun)
			})
		case w.phase == 1:
			do(fmt.Sprintf("write %d ends", i), func(t *addState) {
				t.w[i].phase, t.w[i].on = 2, w.view
				t.noted(i, !without.notedBegun)
			})
		}
	}
	for i, m := range s.m {
		if m.dead {
			continue
		}
		switch {
		case m.fenced && m.step == 0:
			do(fmt.Sprintf("%d joins anew", i), func(t *addState) { t.m[i].fenced, t.m[i].joins = false, true })
		case m.step == 0 && (m.told < s.version || m.joins):
			do(fmt.Sprintf("%d reads version %d", i, s.version), func(t *addState) {
				t.m[i].step, t.m[i].at, t.m[i].held, t.m[i].fresh = 1, s.version, s.holds && i != 0, m.joins
				t.m[i].noting = s.note && i != 0
			})
		case m.step == 1 && (!m.held || m.closed || !s.writing(i, without)):
			do(fmt.Sprintf("%d notes if %v, closes if %v", i, m.noting, m.held), func(t *addState) {
				to := &t.m[i]
				to.step, to.closed = 2, m.closed || m.held
				if m.noting && !m.notes && (!m.fresh || !without.noteUnsaid) {
					to.notes, to.wrote = true, false
				}
				if to.closed && to.notes && to.said == saidNothing {
					if to.said = saidNone; to.wrote {
						to.said = saidSome
					}
				}
			})
		case m.step == 2:
			do(fmt.Sprintf("%d serves %v", i, s.serves), func(t *addState) { t.m[i].step, t.m[i].serves = 3, s.serves })
		case m.step == 3:
			if s.perils > 0 {
				do(fmt.Sprintf("%d can't read a shard behind that", i), func(t *addState) { t.m[i].step, t.perils = 0, s.perils-1 })
			}
			do(fmt.Sprintf("%d goes by version %d", i, m.at), func(t *addState) {
				t.m[i].closed = m.closed && (m.held || i == 0)
				t.m[i].step, t.m[i].told, t.m[i].joins = 0, m.at, m.joins && !m.fresh
			})
		}
	}
	if !s.m[0].dead {
		s.adds(without, do)
		if s.perils > 0 {
			do("a dies", func(t *addState) { t.m[0].dead = true; t.perils--; t.lose(0) })
		}
	}
	if s.perils > 0 && s.note && !s.m[1].out() {
		do("1 dies", func(t *addState) { t.m[1].dead = true; t.perils--; t.lose(1) })
	}
	if s.perils > 0 && !s.m[0].fenced {
		do("a is fenced", func(t *addState) { t.m[0].fenced, t.m[0].joins = true, false; t.perils--; t.lose(0) })
	}
	if s.holds && (s.m[0].dead || s.m[0].fenced) && (without.cleanEarly || s.byAll(s.version)) {
		do("another one ends the hold", func(t *addState) { t.holds = false; t.change() })
	}
	return steps
}

// lose ends a member's open writes. Whether they are done nobody is told.
func (s *addState) lose(m int) {
	for i := range s.w {
		if addWriters[i] == m && s.w[i].phase == 1 {
			s.w[i] = addWrite{phase: 3}
		}
	}
}

// noted notes a write of a reference table, if that is the moment.
func (s *addState) noted(write int, now bool) {
	if now && write < wroteAnywhere {
		s.m[addWriters[write]].wrote = true
	}
}

// copy has what was written so far be on the new shard.
func (s *addState) copy() {
	for i := range wroteAnywhere {
		s.w[i].on = s.w[i].on || s.w[i].phase == 2
	}
}

// written reports that a reference table may have been written since all note that.
func (s *addState) written(without addRules) bool {
	some := s.m[0].wrote
	for _, m := range s.m[1:] {
		unsaid := !m.notes && !m.out() || m.notes && m.said == saidNothing
		some = some || m.said == saidSome || unsaid && !without.deadIgnored
	}
	return some
}

// adds are a's steps.
func (s addState) adds(without addRules, do func(string, func(*addState))) {
	const (
		notes = iota
		noted
		begins
		held
		closes
		copies
		serves
		publishes
		served
		releases
		reopens
	)
	fails := func(what string, then func(*addState)) {
		if s.perils > 0 {
			do(what, func(t *addState) { t.perils--; then(t) })
		}
	}
	switch s.step {
	case notes:
		do("a has all note what they write", func(t *addState) {
			t.note, t.m[0].wrote = true, false
			t.change()
			t.step, t.awaits = noted, t.version
		})
	case noted:
		if without.lookEarly || s.byAll(s.awaits) {
			do("a copies", func(t *addState) { t.copy(); t.step = begins })
		}
	case begins:
		do("a holds", func(t *addState) { t.holds = true; t.change(); t.step, t.awaits = held, t.version })
	case held:
		if without.noHold || s.byAll(s.awaits) {
			do("all have closed", func(t *addState) { t.step = closes })
		}
		fails("not all close", func(t *addState) { t.step = releases })
	case closes:
		if !s.writing(0, without) {
			do("a closes", func(t *addState) { t.m[0].closed, t.step = true, copies })
		}
	case copies:
		do("a copies what was written since", func(t *addState) {
			if s.written(without) {
				t.copy()
			}
			t.step = serves
		})
	case serves:
		if s.holds || without.anyHolder {
			do("the shard serves", func(t *addState) { t.serves = true; t.change(); t.step, t.awaits = publishes, t.version })
		} else {
			do("the hold isn't a's any more", func(t *addState) { t.step = releases })
		}
	case publishes:
		do("a publishes it", func(t *addState) { t.m[0].serves, t.step = true, served })
	case served:
		if s.byAll(s.awaits) {
			do("all serve it", func(t *addState) { t.step = releases })
		}
		if s.holds || without.anyHolder {
			fails("not all serve it: taken back", func(t *addState) { t.serves, t.back = false, true; t.change(); t.step = releases })
		} else {
			fails("not all serve it", func(t *addState) { t.step = releases })
		}
	case releases:
		if s.m[0].told < s.version && !without.releaseEarly {
			return // it goes by all that it waits for itself
		}
		if without.reopenFirst && s.m[0].closed {
			do("a opens its copies", func(t *addState) { t.m[0].closed = false })
		}
		switch {
		case !s.holds && s.byAll(s.version):
			do("it is over", func(t *addState) { t.step = reopens })
		case s.holds && (without.releaseEarly || s.byAll(s.version)):
			do("a releases", func(t *addState) { t.holds = false; t.change(); t.step = reopens })
		}
	case reopens:
		do("a opens its copies", func(t *addState) { t.m[0].closed = false; t.step++ })
	}
}

// missed names what a member doesn't find.
func (s *addState) missed() string {
	for n, m := range s.m {
		if m.out() {
			continue
		}
		for i, w := range s.w {
			switch {
			case w.phase != 2:
			case i < wroteAnywhere && m.serves && !w.on:
				return fmt.Sprintf("member %d doesn't find write %d on the new shard", n, i)
			case i >= wroteAnywhere && w.on && !m.serves:
				return fmt.Sprintf("member %d doesn't look for write %d on the new shard", n, i)
			}
		}
	}
	return ""
}

// explore goes through all orders in which something goes wrong so many times at most. Copies that stay closed are a miss, too.
func (without addRules) explore(perils int8) (states int, miss string, way []string) {
	type from struct {
		was  addState
		what string
	}
	serving := addState{perils: perils}
	coming := serving
	coming.m[1].fenced = true // it joins
	seen := map[addState]from{serving: {}, coming: {}}
	todo := []addState{serving, coming}
	told := func(s addState, what string) {
		for miss = what; seen[s].what != ""; s = seen[s].was {
			way = append(way, seen[s].what)
		}
		slices.Reverse(way)
	}
	for len(todo) > 0 && miss == "" {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if what := s.missed(); what != "" {
			told(s, what)
			break
		}
		steps := s.next(without)
		if len(steps) == 0 && slices.ContainsFunc(s.m[1:], func(m addMember) bool { return m.closed && !m.dead }) {
			told(s, "copies stay closed")
		}
		for _, step := range steps {
			if _, known := seen[step.to]; !known {
				seen[step.to] = from{s, step.what}
				todo = append(todo, step.to)
			}
		}
	}
	return len(seen), miss, way
}

func TestAddingSimulation(t *testing.T) {
	t.Parallel()
	perils := int8(2)
	if testing.Short() {
		perils = 1
	}
	states, miss, way := addRules{}.explore(perils)
	if t.Logf("%d states", states); miss != "" {
		t.Errorf("%s:\n%s", miss, strings.Join(way, "\n"))
	}
}

func TestAddingSimulationHasTeeth(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]addRules{
		"all close their copies first":                      {noHold: true},
		"rows on the new shard need open copies":            {freeAnywhere: true},
		"the hold ends when all go by the same":             {releaseEarly: true},
		"a shard serves while the hold is its adder's":      {anyHolder: true},
		"own copies are opened behind the hold":             {reopenFirst: true},
		"a dead member's hold ends when all go by the same": {cleanEarly: true},
		"all note first what they write":                    {lookEarly: true},
		"a write is noted when it ends":                     {notedBegun: true},
		"who comes notes before it serves":                  {noteUnsaid: true},
		"of who hasn't said nothing is known":               {deadIgnored: true},
	} {
		states, miss, way := without.explore(1)
		if miss == "" {
			t.Errorf("%s: no miss without it, in %d states", name, states)
			continue
		}
		t.Logf("%s: %s, in %d states:\n    %s", name, miss, states, strings.Join(way, "\n    "))
	}
}
