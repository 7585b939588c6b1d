package indexer

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

var scenarios = []scenario{
	{name: "literal updates", long: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.autocommit("w2", set(1, "a"))
		w.scanner(1)
		w.reader("r")
	}},
	{name: "computed update", long: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.autocommit("w2", set(1, "a"))
		w.scanner(1)
		w.reader("r")
	}},
	{name: "computed updates, two scans", rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.autocommit("w2", compute(1, "c"))
		w.scanner(2)
	}},
	{name: "two keys", rows: rows{1: "b"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "a"))
		w.scanner(1)
		w.finder("a", "b")
	}},
	{name: "two keys, rebuild", rows: rows{1: "b"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "a"))
		w.builder(false)
		w.finder("a", "b")
	}},
	{name: "a guess and a mark", long: true, rows: rows{1: "b"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "a"))
		w.autocommit("w2", set(1, "c"))
		w.scanner(1)
		w.guesser("a")
	}},
	{name: "a guess and verify", rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.verifier("a")
		w.guesser("a")
	}},
	{name: "delete, insert and verify", long: true, rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", remove(1))
		w.autocommit("w2", insert(1, "a"))
		w.verifier("a")
		w.reader("r")
	}},
	{name: "stale entry, insert and verify", rows: rows{}, indexed: true, stale: "a", actors: func(w *world) {
		w.autocommit("w1", insert(1, "a"))
		w.autocommit("w2", remove(1))
		w.verifier("a")
		w.reader("r")
	}},
	{name: "transaction", rows: rows{1: "a", 2: "a"}, indexed: true, actors: func(w *world) {
		w.transaction("w1", set(1, "b"), compute(2, "b"))
		w.autocommit("w2", set(1, "c"))
		w.scanner(1)
	}},
	{name: "verify beside a scan", long: true, rows: rows{}, indexed: true, stale: "b", actors: func(w *world) {
		w.transaction("w1", insert(1, "a"), compute(1, "b"))
		w.scanner(1)
		w.verifier("b")
	}},
	{name: "large table", long: true, rows: rows{1: "a"}, indexed: true, stale: "c", blind: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.autocommit("w2", insert(2, "c"))
		w.scanner(1)
		w.reader("r")
	}},
	{name: "lost connection", rows: rows{1: "a"}, indexed: true, stale: "b", actors: func(w *world) {
		w.disconnected("w1", set(1, "b"))
		w.scanner(1)
		w.reader("r")
	}},
	{name: "process death", rows: rows{1: "a"}, indexed: true, stale: "b", crash: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.autocommit("w2", compute(1, "c"))
		w.scanner(1)
	}},
	{name: "process death in a transaction", rows: rows{1: "a"}, indexed: true, crash: true, actors: func(w *world) {
		w.transaction("w1", set(1, "b"), compute(1, "c"))
		w.scanner(1)
		w.reader("r")
	}},
	{name: "power loss", rows: rows{1: "a"}, indexed: true, power: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.scanner(1)
		w.lifter()
	}},
	{name: "power loss with a mark", rows: rows{1: "a"}, indexed: true, power: true, actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.scanner(1)
		w.lifter()
	}},
	{name: "build", builds: true, rows: rows{1: "a"}, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.builder(true)
		w.reader("r")
	}},
	{name: "build beside a transaction", builds: true, rows: rows{1: "a"}, actors: func(w *world) {
		w.transaction("w1", compute(1, "b"), set(1, "c"))
		w.builder(true)
	}},
	{name: "rebuild", rows: rows{1: "a"}, indexed: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.builder(false)
		w.reader("r")
	}},
	{name: "rebuild beside a scan", long: true, rows: rows{1: "a"}, indexed: true, stale: "b", actors: func(w *world) {
		w.autocommit("w1", compute(1, "b"))
		w.builder(false)
		w.scanner(1)
	}},
	{name: "build, process death, primary key change", builds: true, rows: rows{2: "a", 3: "b"}, crash: true, checkpoints: true, actors: func(w *world) {
		w.autocommit("w1", w.move(3, 1))
		w.builder(true)
	}},
	{name: "build, power loss", long: true, builds: true, rows: rows{1: "a"}, power: true, actors: func(w *world) {
		w.autocommit("w1", set(1, "b"))
		w.builder(true)
		w.lifter()
	}},
}

func TestSimulation(t *testing.T) { exploreAll(t, scenarios) }

// exploreAll visits all states of each scenario: no read misses a row, and nobody waits forever.
func exploreAll(t *testing.T, list []scenario) {
	t.Helper()
	suite.Promise(t)
	limit := 2_000_000
	if underRace {
		limit = 1000 // it is one goroutine at a time; the detector has little to find
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5000))
	for _, sc := range list {
		t.Run(sc.name, func(t *testing.T) {
			if sc.long {
				suite.Long(t)
			}
			began := time.Now()
			o := explore(sc, rules{}, limit)
			t.Logf("%d states, %d schedules, %d steps, %v", o.states, o.schedules, o.steps, time.Since(began).Round(time.Millisecond))
			if o.miss != "" {
				t.Fatalf("miss: %s", o.counterExample())
			}
			if o.stuck != nil {
				t.Errorf("somebody waits forever after %q", o.stuck)
			}
			if !o.full && !underRace {
				t.Errorf("the limit was reached before all states were seen")
			}
		})
	}
}

// Each rule that is dropped makes some read miss a row; the schedule that shows
// it is printed with -v.
func TestSimulationHasTeeth(t *testing.T) {
	findTeeth(t, scenarios, []tooth{
		{"entries are added before the statement is sent", rules{addAfterSend: true}, "literal updates"},
		{"unknown keys are marked", rules{noMark: true}, "computed update"},
		{"entries of the horizon or later stay", rules{removeAnyEpoch: true}, "literal updates"},
		{"marks of the horizon or later stay", rules{clearAnyEpoch: true}, "computed update"},
		{"the horizon is computed before the snapshot", rules{horizonLate: true}, "literal updates"},
		{"the horizon is computed before the snapshot (marks)", rules{horizonLate: true}, "computed update"},
		{"transactions look where removals went by younger snapshots", rules{noFloor: true}, "literal updates"},
		{"transactions look where removals went by younger snapshots (marks)", rules{noFloor: true}, "computed update"},
		{"transactions look where removals went by younger snapshots (verify)", rules{noFloor: true}, "delete, insert and verify"},
		{"several keys are looked up as of one moment", rules{oneLook: true}, "two keys"},
		{"a guess holds where nothing was removed (marks)", rules{guess: guessRules{anyRemovals: true}}, "a guess and a mark"},
		{"a guess holds where nothing was removed (verify)", rules{guess: guessRules{anyRemovals: true}}, "a guess and verify"},
		{"several keys are looked up as of one moment (rebuild)", rules{oneLook: true}, "two keys, rebuild"},
		{"an open snapshot begins an epoch", rules{epochStands: true}, "literal updates"},
		{"a statement is open until its answer", rules{endEarly: true}, "literal updates"},
		{"a statement without an answer stays open", rules{endEarly: true}, "lost connection"},
		{"a previous life's statements are waited for", rules{blindToThreads: true}, "process death"},
		{"write-intents", rules{noIntent: true}, "power loss"},
		{"write-intents for marks", rules{noIntent: true}, "power loss with a mark"},
		{"write-intents after what they cover", rules{intentFirst: true}, "power loss"},
		{"the catalog is checked after registering", rules{noRecheck: true}, "build"},
		{"a build waits for older plans", rules{buildNoWait: true}, "build"},
		{"transactions look where a build went by younger snapshots", rules{buildNoFloor: true}, "build"},
		{"transactions look where a rebuild went by younger snapshots", rules{buildNoFloor: true}, "rebuild"},
		{"a scan beside a build adds what the old entries have", rules{hideBuild: true}, "rebuild beside a scan"},
		{"primary key changes are marked", rules{noPKMark: true}, "build, process death, primary key change"},
		{"a scan removes nothing behind one that began later", rules{noGate: true}, "verify beside a scan"},
		{"a scan removes nothing behind a build that began later", rules{oldGeneration: true}, "rebuild beside a scan"},
	})
}

// tooth is a rule that is dropped, and the scenario in which that makes some read miss a row.
type tooth struct {
	rule     string
	broken   rules
	scenario string
}

// findTeeth finds a miss without each rule.
func findTeeth(t *testing.T, list []scenario, teeth []tooth) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(5000))
	for _, tooth := range teeth {
		t.Run(tooth.rule, func(t *testing.T) {
			for _, sc := range list {
				if sc.name != tooth.scenario {
					continue
				}
				o := explore(sc, tooth.broken, 2_000_000)
				if o.miss == "" {
					t.Fatalf("without this rule the simulation finds no miss in %d states", o.states)
				}
				t.Logf("%d states, %d schedules: %s", o.states, o.schedules, o.counterExample())
				return
			}
			t.Fatalf("no scenario %q", tooth.scenario)
		})
	}
}
