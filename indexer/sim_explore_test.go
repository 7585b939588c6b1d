package indexer

import (
	"iter"
	"strings"
)

// The simulation runs the protocol's real code as coroutines over a model
// store and a model shard. Every call to either is a step; between two steps an
// actor runs alone. The explorer visits every reachable state: it executes a
// schedule from the start, goes on with the first choice not yet taken, and
// gives up where it meets a state it has seen. A state is what store, shard and
// process hold, and for each living actor the steps it took with their results,
// which determine its local variables.

// op is an actor's next step.
type op struct {
	label   string
	enabled func() bool // nil: always
	choices int         // 0: 1
	run     func(choice int) string
}

// actor is one coroutine.
type actor struct {
	name string
	// dies: it belongs to the process, and ends when that dies.
	dies    bool
	next    func() (op, bool)
	stop    func()
	yield   func(op) bool
	pending op
	done    bool
	history uint64
	// saw is what its last step was told by the shard's seat, or the board.
	saw string
	// of is the process that it is one of.
	of *process
	// endless: it need not come to an end.
	endless bool
}

// killed unwinds an actor whose process died or whose schedule is over.
type killed struct{}

func (w *world) start(name string, dies bool, body func()) *actor {
	a := &actor{name: name, dies: dies, of: w.proc, history: noHistory}
	if w.proc.name != "" {
		a.name = w.proc.name + "'s " + name
	}
	a.next, a.stop = iter.Pull(func(yield func(op) bool) {
		a.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
			}
		}()
		body()
	})
	w.actors = append(w.actors, a)
	w.advance(a)
	return a
}

// noHistory is of an actor that has done nothing, or remembers nothing of it.
const noHistory = 14695981039346656037

// advance runs an actor up to its next step.
func (w *world) advance(a *actor) {
	before := w.current
	w.current = a
	var ok bool
	a.pending, ok = a.next()
	w.current = before
	if !ok {
		a.done = true
	}
}

// step makes one step of the current actor.
func (w *world) step(label string, fn func() string) {
	w.choose(label, nil, 1, func(int) string { return fn() })
}

// note adds what the current actor learned without a step to its history.
func (w *world) note(what string) {
	if w.current != nil {
		w.current.history = mix(w.current.history, what)
	}
}

// choose makes a step that has several outcomes, or that waits.
func (w *world) choose(label string, enabled func() bool, choices int, fn func(choice int) string) {
	if !w.current.yield(op{label, enabled, choices, fn}) {
		panic(killed{})
	}
}

// option is one way for a schedule to go on.
type option struct {
	label  string
	run    func() string // of the environment
	actor  *actor
	choice int
}

func (w *world) options(opts []option) []option {
	for _, a := range w.actors {
		if a.done || a.pending.enabled != nil && !a.pending.enabled() {
			continue
		}
		for c := range max(1, a.pending.choices) {
			opts = append(opts, option{actor: a, choice: c})
		}
	}
	return w.environment(opts)
}

// take follows an option; the log is kept if there is one.
func (w *world) take(o option, log *[]string) {
	label, result := o.label, ""
	if a := o.actor; a != nil {
		label, a.saw = a.pending.label, ""
		result = a.pending.run(o.choice)
		a.history = mix(mix(a.history, label), result)
		w.advance(a)
		result += a.saw
	} else {
		result = o.run()
	}
	if log != nil {
		if o.actor != nil {
			label = o.actor.name + ": " + label
		}
		if result != "" {
			label += " -> " + result
		}
		*log = append(*log, label)
	}
}

// mix is FNV-1a.
func mix(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ 0xff) * 1099511628211
}

func (w *world) hash() uint64 {
	h := mix(noHistory, w.fingerprint())
	for _, a := range w.actors {
		if !a.done {
			h = mix(mix(h^a.history, a.name), a.pending.label)
		}
	}
	return h
}

// outcome is what exploring a scenario found.
type outcome struct {
	schedules, states, steps int
	// miss says which read would miss a row; trace is the schedule to it.
	miss  string
	trace []string
	// stuck is a schedule after which somebody waits forever.
	stuck []string
	full  bool
}

func (o outcome) counterExample() string {
	return o.miss + "\n  " + strings.Join(o.trace, "\n  ")
}

// explore visits all states of a scenario, or stops at the first miss. limit
// bounds the states.
func explore(sc scenario, broken rules, limit int) (out outcome) {
	type frame struct{ choice, of int }
	var (
		stack []frame
		opts  []option
		seen  = map[uint64]bool{}
	)
	defer func() { out.states = len(seen) }()
	for {
		out.schedules++
		w := newWorld(sc, broken)
		for depth, over := 0, false; !over; depth++ {
			opts = w.options(opts[:0])
			if len(opts) == 0 {
				if w.unfinished() && out.stuck == nil {
					out.stuck = replay(sc, broken, len(stack), func(i int) int { return stack[i].choice })
				}
				break
			}
			if depth == len(stack) {
				stack = append(stack, frame{0, len(opts)})
			}
			w.take(opts[stack[depth].choice], nil)
			out.steps++
			if depth < len(stack)-1 {
				continue // on the way to the first new state
			}
			miss := w.missed()
			if miss == "" {
				miss = w.failure
			}
			if miss != "" {
				w.close()
				out.miss = miss
				out.trace = replay(sc, broken, len(stack), func(i int) int { return stack[i].choice })
				return out
			}
			h := w.hash()
			over = seen[h]
			seen[h] = true
		}
		w.close()
		for len(stack) > 0 && stack[len(stack)-1].choice+1 == stack[len(stack)-1].of {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			out.full = true
			return out
		}
		if len(seen) >= limit {
			return out
		}
		stack[len(stack)-1].choice++
	}
}

// replay follows a schedule and returns its log.
func replay(sc scenario, broken rules, n int, choice func(int) int) []string {
	w := newWorld(sc, broken)
	defer w.close()
	log := []string{}
	for i := range n {
		w.take(w.options(nil)[choice(i)], &log)
	}
	return log
}
