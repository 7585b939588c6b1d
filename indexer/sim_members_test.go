package indexer

import (
	"context"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

var both = []string{"A", "B"}

// memberScenarios are those of several members. Most have A write or read, and B scan.
var memberScenarios = []scenario{
	{name: "a writer beside the other's scan", rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "a writer of what it has added before, beside the other's scan", long: true, rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A").remembers()
		w.autocommit("w1", set(1, "b"))
		w.autocommit("w2", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "a writer of what it has added before, beside the other's rebuild", rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A").remembers()
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.builder(false)
	}},
	{name: "a writer who marks again, beside the other's scan", long: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", compute(1, "b"))
		w.autocommit("w2", compute(1, "c"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "a computing writer beside the other's scan", long: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", compute(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(2)
	}},
	{name: "a transaction beside the other's scan", rows: rows{1: "a", 2: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.transaction("w1", set(1, "b"), compute(2, "c"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "a transaction that adds beside its statements, and the other's scan", rows: rows{1: "a", 2: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.transactionBeside("w1", set(1, "b"), set(2, "c"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "a transaction that adds beside its statements, and the other's build", builds: true, rows: rows{1: "a"}, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.transactionBeside("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.builder(true)
	}},
	{name: "a reader and the other's writer and scan", long: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.reader("r")
		w.lives()
		w.at("B")
		w.autocommit("w1", set(1, "b"))
		w.scanner(1)
	}},
	{name: "a reader and a writer beside the other's scan", long: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.reader("r")
		w.autocommit("w1", compute(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "two keys, and the other's writer and scan", long: true, rows: rows{1: "b"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.finder("a", "b")
		w.lives()
		w.at("B")
		w.autocommit("w1", set(1, "a"))
		w.scanner(1)
	}},
	{name: "a guess, and the other's writer", rows: rows{1: "b"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A").lazy = true
		w.guesser("a")
		w.at("B").coarse = true
		w.autocommit("w1", set(1, "a"))
	}},
	{name: "a guess, and the other's writer and scan", long: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.guesser("a")
		w.lives()
		w.at("B").coarse = true
		w.autocommit("w1", set(1, "b"))
		w.scanner(1)
	}},
	{name: "a guess, and the other's writer and rebuild", long: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.guesser("a")
		w.lives()
		w.at("B").coarse = true
		w.autocommit("w1", set(1, "b"))
		w.builder(false)
	}},
	{name: "a scan each", rows: rows{}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", computeInsert(1, "b"))
		w.scanner(1)
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "verify beside the other's scan", rows: rows{}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse = true
		w.verifier("b")
		w.at("B")
		w.autocommit("w1", computeInsert(1, "b"))
		w.scanner(1)
	}},
	{name: "a build beside the other's writer", builds: true, rows: rows{1: "a"}, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.builder(true)
	}},
	{name: "a build beside the other's reader", builds: true, rows: rows{1: "a"}, members: both, joined: 2, actors: func(w *world) {
		w.at("A").lazy = true
		w.reader("r")
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.builder(true)
	}},
	{name: "a rebuild beside the other's writer", rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", set(1, "b"))
		w.reader("r")
		w.lives()
		w.at("B").coarse = true
		w.builder(false)
	}},
	{name: "a rebuild beside the other's scan", long: true, rows: rows{}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse, w.at("A").lazy = true, true
		w.scanner(1)
		w.lives()
		w.at("B").coarse, w.at("B").lazy = true, true
		w.autocommit("w1", computeInsert(1, "b"))
		w.builder(false)
	}},
	{name: "a member that is paused", long: true, rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.autocommit("w1", set(1, "b"))
		w.reader("r")
		w.at("B")
		w.autocommit("w2", set(1, "c"))
		w.scanner(1)
	}},
	{name: "a member that joins", long: true, rows: rows{1: "a"}, indexed: true, stale: "b", members: []string{"B", "A"}, joined: 1, actors: func(w *world) {
		w.at("A")
		w.session("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.scanner(1)
	}},
	{name: "a member that is fenced", rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.session("w1", set(1, "b"))
		w.at("B").coarse = true
		w.advanced()
		w.sweeper(w.scan)
	}},
	{name: "a member that is fenced, and joins anew", long: true, rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A").lazy = true
		w.session("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.advanced()
		w.sweeper(w.scan)
	}},
	{name: "a member that is fenced in a transaction", rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.session("w1", set(1, "b"), compute(1, "c"))
		w.at("B").coarse = true
		w.advanced()
		w.sweeper(w.scan)
	}},
	{name: "a member that dies", long: true, rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, mortal: "A", actors: func(w *world) {
		w.at("A")
		w.session("w1", set(1, "b"))
		w.at("B").coarse = true
		w.advanced()
		w.sweeper(func() {})
		w.scanner(1)
	}},
	{name: "a member that clears marks is fenced", follows: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.unheard("", func(*follower) bool { return w.store.now.logged }, (*follower).clear)
		w.advanced()
		w.at("B").coarse = true
		w.must(w.proc.cluster.(*member).Beat(context.Background(), 0))
		w.autocommit("w1", compute(1, "b"))
		w.sweeper(func() { w.verify("b") })
	}},
	{name: "a member that follows is fenced", follows: true, resumes: true, place: "0:0", rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A")
		w.stray("s1", set(1, "b"))
		w.unheard("0:0", func(f *follower) bool { return f.trail.At() != f.kept }, (*follower).keep)
		p := w.at("B").proc
		p.cluster.(*member).coarse = true
		w.advanced()
		gone := false
		w.sweeper(func() {
			w.verify("b")
			gone = true
		})
		w.start("follow", true, func() {
			w.choose("A is gone", func() bool { return gone }, 1, func(int) string { return "" })
			trail := &modelTrail{w: w}
			w.reads(p, w.goesOn(p, trail), trail)
		}).endless = true
	}},
}

func TestMembers(t *testing.T) { exploreAll(t, memberScenarios) }

// TestMembersTeeth: each rule about several members that is dropped makes some read miss a row.
func TestMembersTeeth(t *testing.T) {
	suite.Long(t)
	findTeeth(t, memberScenarios, []tooth{
		{"a row is inserted before the epoch is read", rules{shared: sharedRules{lateRow: true}}, "a member that joins"},
		{"what is open is told behind adoption", rules{shared: sharedRules{toldEarly: true}}, "a writer beside the other's scan"},
		{"what is told heeds what is open", rules{shared: sharedRules{toldAdopted: true}}, "a writer beside the other's scan"},
		{"what is told heeds what is open (marks)", rules{shared: sharedRules{toldAdopted: true}}, "a computing writer beside the other's scan"},
		{"a transaction's entries are added before its COMMIT is sent", rules{addAfterSend: true}, "a transaction that adds beside its statements, and the other's scan"},
		{"what was added is known for its epoch", rules{shared: sharedRules{knownEver: true}}, "a writer of what it has added before, beside the other's scan"},
		{"what was added is known for its epoch (rebuild)", rules{shared: sharedRules{knownEver: true}}, "a writer of what it has added before, beside the other's rebuild"},
		{"a rebuild waits for who knows what it has added", rules{buildNoWait: true}, "a writer of what it has added before, beside the other's rebuild"},
		{"the horizon is of all members", rules{shared: sharedRules{ownHorizon: true}}, "a writer beside the other's scan"},
		{"the horizon is of members that are paused", rules{shared: sharedRules{ownHorizon: true}}, "a member that is paused"},
		{"the horizon is computed before the snapshot", rules{horizonLate: true}, "a writer beside the other's scan"},
		{"a new index waits until all go by it", rules{shared: sharedRules{noBarrier: true}}, "a build beside the other's writer"},
		{"the catalog is checked after registering", rules{noRecheck: true}, "a build beside the other's writer"},
		{"a build waits for older plans", rules{buildNoWait: true}, "a build beside the other's writer"},
		{"a rebuild waits for what has added before", rules{buildNoWait: true}, "a rebuild beside the other's writer"},
		{"a build's floor tells older snapshots", rules{buildNoFloor: true}, "a build beside the other's reader"},
		{"a fenced row stays until its threads are gone", rules{shared: sharedRules{threadsStay: true}}, "a member that is fenced"},
		{"a fenced row stays until its threads are gone (transaction)", rules{shared: sharedRules{threadsStay: true}}, "a member that is fenced in a transaction"},
		{"a dead member's row stays until its threads are gone", rules{shared: sharedRules{threadsStay: true}}, "a member that dies"},
		{"a statement keeps to its join", rules{shared: sharedRules{anyJoin: true}}, "a member that is fenced, and joins anew"},
		{"a scan removes nothing behind one that began later", rules{noGate: true}, "verify beside the other's scan"},
		{"a scan removes nothing behind a build that began later", rules{oldGeneration: true}, "a rebuild beside the other's scan"},
		{"transactions look where removals went by younger snapshots", rules{noFloor: true}, "a reader and the other's writer and scan"},
		{"transactions look where removals went by younger snapshots (marks)", rules{noFloor: true}, "a reader and a writer beside the other's scan"},
		{"several keys are looked up as of one moment", rules{oneLook: true}, "two keys, and the other's writer and scan"},
		{"who was fenced keeps no place in a log", rules{shared: sharedRules{unasked: true}}, "a member that follows is fenced"},
		{"a guess holds where the store says so", rules{guess: guessRules{anySet: true}}, "a guess, and the other's writer"},
		{"the store is asked behind the read", rules{guess: guessRules{askedEarly: true}}, "a guess, and the other's writer"},
		{"a guess holds where nothing was removed", rules{guess: guessRules{anyRemovals: true}}, "a guess, and the other's writer and scan"},
		{"a guess holds where nothing was removed (rebuild)", rules{guess: guessRules{anyRemovals: true}}, "a guess, and the other's writer and rebuild"},
		{"a guess holds where nothing was removed since before it was sent", rules{guess: guessRules{heardLate: true}}, "a guess, and the other's writer and scan"},
	})
}
