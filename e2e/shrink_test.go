package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/e2e/generate"
)

// shrinkLimit bounds the time for making a script smaller.
const shrinkLimit = 90 * time.Second

// shrink makes the smallest script that it finds that still differs. It says
// how well that went.
func (r *worldRun) shrink(v *variant, st generate.Statement, d difference) (how, script string) {
	s := &shrinker{r: r, v: v, class: d.class, deadline: time.Now().Add(shrinkLimit)}
	steps := append(slices.Clone(r.history), st)
	if st.Kind != generate.Read {
		steps = slices.Clone(r.history) // it is in there already
	}
	if st.Kind == generate.Read && d.class != "state" {
		// Most differing reads differ for the rows as they are now.
		if now := r.now(st); now != nil && s.fails(now) {
			steps = now
		}
	}
	if !s.fails(steps) {
		// What lies between writes may matter: index maintenance, timing.
		return "not reproduced", render(r.w, v, steps)
	}
	steps = s.fewer(steps)
	for again := true; again; {
		again = false
		for i := range slices.Backward(steps) {
			for simpler, ok := s.simpler(steps, i); ok; simpler, ok = s.simpler(steps, i) {
				steps, again = simpler, true
			}
		}
		if more := s.fewer(steps); len(more) < len(steps) {
			steps, again = more, true
		}
		if time.Now().After(s.deadline) {
			break
		}
	}
	return fmt.Sprintf("shrunk in %d runs", s.runs), render(r.w, v, steps)
}

// now is a script that makes the tables as they are, and the statement.
func (r *worldRun) now(st generate.Statement) []generate.Statement {
	var out []generate.Statement
	for _, h := range r.history {
		if h.Kind == generate.Schema || h.Kind == generate.Session && strings.HasPrefix(h.SQL(), "SET") {
			out = append(out, h)
		}
	}
	for _, t := range r.w.Tables {
		o := r.plain.table(t.Name)
		if o.broken != nil || o.code != 0 {
			return nil
		}
		if n := t.Insert(rowsOfReply(o)); n != nil {
			out = append(out, generate.Statement{Kind: generate.Write, Node: n, Tables: []string{t.Name}})
		}
	}
	return append(out, st)
}

type shrinker struct {
	r        *worldRun
	v        *variant
	class    string
	deadline time.Time
	runs     int
}

// fails reports whether a script still shows a difference of the class.
func (s *shrinker) fails(steps []generate.Statement) bool {
	if time.Now().After(s.deadline) {
		return false
	}
	s.runs++
	c := s.r.c
	plain, err := c.open(s.r.worker, nil)
	if err != nil {
		return false
	}
	defer plain.Close()
	side, err := c.open(s.r.worker, s.v)
	if err != nil {
		return false
	}
	defer side.Close()
	indexed := !s.v.indexes || len(s.v.p.servers) == 1
	for _, st := range steps {
		if st.Kind != generate.Schema && st.Kind != generate.Session && !indexed {
			indexed = true
			// A column or table that was left out has no index.
			for _, sql := range s.r.w.Virtual() {
				_ = side.index([]string{sql})
			}
		}
		got := side.run(st)
		if got.refused() {
			continue
		}
		want := plain.run(st)
		if want.broken != nil {
			return false
		}
		if d := compareReplies(got, want, st.Node.Check(), st.Kind == generate.Write); d.class != "" && !d.minor() {
			return d.class == s.class || s.class == "state"
		}
	}
	if s.class == "state" {
		for _, t := range s.r.w.Tables {
			if d := compareReplies(side.table(t.Name), plain.table(t.Name), generate.Check{}, false); d.class != "" && !d.minor() {
				return true
			}
		}
	}
	return false
}

// fewer leaves out statements, halves first.
func (s *shrinker) fewer(steps []generate.Statement) []generate.Statement {
	return fewer(steps, s.fails)
}

// fewer leaves out steps of a script, halves first, while it still fails.
func fewer[S any](steps []S, fails func([]S) bool) []S {
	for size := max(1, len(steps)/2); size > 0; size /= 2 {
		for i := len(steps) - size; i >= 0; i -= size {
			less := slices.Delete(slices.Clone(steps), i, i+size)
			if len(less) > 0 && fails(less) {
				steps = less
				i = min(i, len(steps))
			}
		}
	}
	return steps
}

// simpler makes one statement simpler.
func (s *shrinker) simpler(steps []generate.Statement, i int) ([]generate.Statement, bool) {
	old := len(steps[i].SQL())
	for n := range steps[i].Node.Simpler() {
		if time.Now().After(s.deadline) {
			return nil, false
		}
		if len(n.String()) >= old {
			continue
		}
		less := slices.Clone(steps)
		less[i].Node = n
		if s.fails(less) {
			return less, true
		}
	}
	return nil, false
}

// render writes a script in the form of testdata/regress.
func render(w *generate.World, v *variant, steps []generate.Statement) string {
	var b strings.Builder
	virtual := v.indexes && len(v.p.servers) > 1
	for _, st := range steps {
		text := st.SQL()
		switch {
		case st.Prepared:
			sql, params := st.Node.Prepared()
			if len(params) > 0 {
				text = sql
				fmt.Fprintf(&b, "-- params: %s\n", paramList(params))
			} else {
				b.WriteString("-- params:\n")
			}
		case st.Kind == generate.Read:
			if c := checkLine(st.Node.Check()); c != "" {
				b.WriteString("-- check:" + c + "\n")
			}
		}
		fmt.Fprintf(&b, "%s;\n", text)
		if st.Kind == generate.Schema {
			name := strings.Fields(text)[2]
			b.WriteString(generate.Directive(name))
			for _, t := range w.Tables {
				if t.Name == name && virtual {
					for i, columns := range t.Virtual {
						fmt.Fprintf(&b, "-- @virtual ix_%s_%d %s\n", name, i, strings.Join(columns, ","))
					}
				}
			}
		}
	}
	return b.String()
}
