package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The simulation is of the rules of adding.go and proxy/join.go, over all orders of their steps. Member a adds a shard; two serve
// beside it, and end a's hold if a dies. They write: rows of a reference table, which are on all shards that the writer goes by,
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
}

type addMember struct {
	dead, serves, closed bool
	// fenced: it isn't on the shards; joins: it is again, and serves nobody before it goes by what it has read since.
	fenced, joins bool
	told          int8
	// step of going by the records, of which at and held were read.
	step, at    int8
	held, fresh bool
}

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
	holds, serves bool
	version       int8
	m             [3]addMember
	w             [len(addWriters)]addWrite
	// step of a's, and what it waits for.
	step, awaits int8
	back         bool // it has taken the shard back
	perils       int8 // how often something has gone wrong
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
			do(fmt.Sprintf("write %d begins, serves %v", i, m.serves), func(t *addState) { t.w[i] = addWrite{1, m.serves, false} })
		case w.phase == 1:
			do(fmt.Sprintf("write %d ends", i), func(t *addState) { t.w[i].phase, t.w[i].on = 2, w.view })
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
			})
		case m.step == 1 && (!m.held || m.closed || !s.writing(i, without)):
			do(fmt.Sprintf("%d closes if %v", i, m.held), func(t *addState) {
				t.m[i].step, t.m[i].closed = 2, m.closed || m.held
			})
		case m.step == 2:
			do(fmt.Sprintf("%d serves %v", i, s.serves), func(t *addState) { t.m[i].step, t.m[i].serves = 3, s.serves })
		case m.step == 3:
			if s.perils < 2 {
				do(fmt.Sprintf("%d can't read a shard behind that", i), func(t *addState) { t.m[i].step, t.perils = 0, s.perils+1 })
			}
			do(fmt.Sprintf("%d goes by version %d", i, m.at), func(t *addState) {
				t.m[i].closed = m.closed && (m.held || i == 0)
				t.m[i].step, t.m[i].told, t.m[i].joins = 0, m.at, m.joins && !m.fresh
			})
		}
	}
	if !s.m[0].dead {
		s.adds(without, do)
		if s.perils < 2 {
			do("a dies", func(t *addState) { t.m[0].dead = true; t.perils++; t.lose(0) })
		}
	}
	if s.perils < 2 && !s.m[0].fenced {
		do("a is fenced", func(t *addState) { t.m[0].fenced, t.m[0].joins = true, false; t.perils++; t.lose(0) })
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

// adds are a's steps.
func (s addState) adds(without addRules, do func(string, func(*addState))) {
	const (
		begins = iota
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
		if s.perils < 2 {
			do(what, func(t *addState) { t.perils++; then(t) })
		}
	}
	switch s.step {
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
		do("a copies", func(t *addState) {
			for i := range wroteAnywhere {
				t.w[i].on = t.w[i].on || t.w[i].phase == 2
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

// explore goes through all orders. stuck: copies stay closed for ever.
func (without addRules) explore() (states int, miss string, way []string) {
	type from struct {
		was  addState
		what string
	}
	seen := map[addState]from{{}: {}}
	todo := []addState{{}}
	told := func(s addState, what string) {
		for miss = what; s != (addState{}); s = seen[s].was {
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
		if len(steps) == 0 && (s.m[1].closed || s.m[2].closed) {
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
	states, miss, way := addRules{}.explore()
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
	} {
		states, miss, way := without.explore()
		if miss == "" {
			t.Errorf("%s: no miss without it, in %d states", name, states)
			continue
		}
		t.Logf("%s: %s, in %d states:\n    %s", name, miss, states, strings.Join(way, "\n    "))
	}
}
