package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/ci/suite"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	ImportPath  string // of what didn't build
	FailedBuild string
}

// final is in the output of tests that are not run again: of promises, of data races, and of what ends the process with
// all tests that were to come.
var final = regexp.MustCompile(regexp.QuoteMeta(suite.OfPromise) + `|^WARNING: DATA RACE|^panic: |^fatal error: `)

// read tells the events of a stream. What isn't one is an event with an Output alone.
func read(from io.Reader, tell func(event)) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				e = event{Output: string(line)}
			}
			tell(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// name of a test; Test is "" for the package itself.
type name struct{ Package, Test string }

func (n name) String() string {
	return strings.TrimSuffix(n.Package[strings.LastIndexByte(n.Package, '/')+1:]+"."+n.Test, ".")
}

// pattern is what go test -run finds n by.
func (n name) pattern() string {
	parts := strings.Split(n.Test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// within reports that n is of's test, or one of its subtests.
func (n name) within(of name) bool {
	return n.Package == of.Package && (n.Test == of.Test || of.Test == "" || strings.HasPrefix(n.Test, of.Test+"/"))
}

// processor begins the line that tells a package's processor time, in seconds.
const processor = "testrun: processor time "

// used finds the processor time of a process that a test has run, in seconds.
var used = regexp.MustCompile(suite.UsedBy + `(\d+\.\d) s\n$`)

// result of a test or a package.
type result struct {
	action    string // pass, fail, skip; "" while it runs
	elapsed   float64
	processor float64 // a package's, or that of the processes that a test has run, in seconds
	output    excerpt
	flaky     bool
	// stands: another run excuses nothing.
	stands bool
}

// report is what a run of go test tells.
type report struct {
	out     io.Writer
	order   []name // as they began
	results map[name]*result
}

func newReport(out io.Writer) *report { return &report{out: out, results: map[name]*result{}} }

func (r *report) result(n name) *result {
	if r.results[n] == nil {
		r.results[n] = &result{}
		r.order = append(r.order, n)
	}
	return r.results[n]
}

func (r *report) add(e event) {
	n := name{cmp.Or(e.Package, e.ImportPath), e.Test}
	t := r.result(n)
	switch e.Action {
	case "pass", "fail", "skip":
		t.action, t.elapsed = e.Action, e.Elapsed
		switch {
		case e.Test == "" && e.Action != "skip":
			fmt.Fprintf(r.out, "%s\t%s\t%.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed)
		case e.Action == "fail":
			fmt.Fprintf(r.out, "--- FAIL: %s (%.1fs)\n", n, e.Elapsed)
		default: // of those that pass nothing is printed
			t.output = excerpt{}
		}
	case "output", "build-output", "":
		if seconds, ok := strings.CutPrefix(strings.TrimSpace(e.Output), processor); ok {
			r.result(name{Package: n.Package}).processor, _ = strconv.ParseFloat(seconds, 64)
			return
		}
		if m := used.FindStringSubmatch(e.Output); m != nil && e.Test != "" {
			seconds, _ := strconv.ParseFloat(m[1], 64)
			root, _, _ := strings.Cut(e.Test, "/")
			r.result(name{e.Package, root}).processor += seconds
			return
		}
		t.output.add(e.Output)
		t.stands = t.stands || final.MatchString(e.Output)
	case "build-fail":
		t.action = "fail"
	}
}

// breakOff has tests that never ended fail: their package ended before.
func (r *report) breakOff() {
	for _, n := range r.order {
		if t := r.results[n]; n.Test != "" && t.action == "" {
			t.action, t.stands = "fail", true
			t.output.add("it has not ended\n")
		}
	}
}

// leaves are the failed tests of which no subtest failed, and the failed packages of which no test did.
func (r *report) leaves() (failed []name) {
	for _, n := range r.order {
		if r.results[n].action != "fail" || n.Package == "" {
			continue
		}
		if !slices.ContainsFunc(r.order, func(o name) bool { return o != n && o.within(n) && r.results[o].action == "fail" }) {
			failed = append(failed, n)
		}
	}
	return failed
}

// doubtful are the failed tests that are worth another run: none, where one of them isn't.
func (r *report) doubtful() []name {
	failed := r.leaves()
	if len(failed) > most {
		return nil
	}
	for _, n := range failed {
		for of, t := range r.results {
			if n.Test == "" || t.stands && of.Test != "" && (n.within(of) || of.within(n)) {
				return nil
			}
		}
	}
	return failed
}

func (r *report) passed(n name) bool {
	return r.results[n] != nil && r.results[n].action == "pass" && !r.failed()
}

// forgive has a failed test be a flaky one, and what failed by it alone pass.
func (r *report) forgive(n name) {
	r.results[n].flaky = true
	for _, of := range r.order {
		if n.within(of) && !slices.ContainsFunc(r.leaves(), func(l name) bool { return l != n && l.within(of) }) {
			r.results[of].action = "pass"
		}
	}
}

func (r *report) failed() bool {
	return slices.ContainsFunc(r.order, func(n name) bool { return r.results[n].action == "fail" })
}

// listed is how many tests are listed as the slowest.
const listed = 10

func (r *report) print() {
	for _, n := range r.order {
		if t := r.results[n]; t.flaky || t.action == "fail" && t.output.lines > 0 {
			fmt.Fprintf(r.out, "\n=== %s\n%s", n, t.output.text())
		}
	}
	type row struct{ tests, failed, flaky int }
	rows := map[string]*row{}
	var packages []string
	var tests []name
	var total row
	skipped := 0
	for _, n := range r.order {
		if n.Package == "" {
			continue
		}
		w := rows[n.Package]
		if w == nil {
			w = &row{}
			rows[n.Package] = w
			packages = append(packages, n.Package)
		}
		t := r.results[n]
		if n.Test == "" {
			continue
		}
		switch {
		case t.flaky:
			w.flaky++
		case t.action == "fail":
			w.failed++
		case t.action == "skip":
			skipped++
			continue
		}
		w.tests++
		if strings.Count(n.Test, "/") < 2 {
			tests = append(tests, n)
		}
	}
	fmt.Fprintf(r.out, "\n%-28s %6s %8s %9s %6s %5s\n", "package", "tests", "seconds", "processor", "failed", "flaky")
	for _, p := range packages {
		w := rows[p]
		whole := r.results[name{Package: p}]
		if w.tests == 0 && (whole == nil || whole.action != "fail") {
			continue
		}
		if whole != nil && whole.action == "fail" && w.failed == 0 {
			w.failed = 1 // it didn't build, or ended early
		}
		if whole == nil {
			whole = &result{}
		}
		_, short, _ := strings.Cut(strings.TrimPrefix(p, "github.com/"), "/")
		fmt.Fprintf(r.out, "%-28s %6d %8.1f %9.1f %6d %5d\n", short, w.tests, whole.elapsed, whole.processor, w.failed, w.flaky)
		total.tests, total.failed, total.flaky = total.tests+w.tests, total.failed+w.failed, total.flaky+w.flaky
	}
	r.list("slowest:", tests, func(t *result) float64 { return t.elapsed })
	r.list("dearest, by the processor time of processes of their own:", tests, func(t *result) float64 { return t.processor })
	for _, n := range r.order {
		if r.results[n].flaky {
			fmt.Fprintf(r.out, "flaky: %s\n", n)
		}
	}
	for _, n := range r.leaves() {
		fmt.Fprintf(r.out, "failed: %s\n", n)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", total.tests-total.failed, total.failed, skipped)
}

// list prints the tests that have the most of something, in seconds, with their subtests as one.
func (r *report) list(title string, tests []name, of func(*result) float64) {
	slices.SortStableFunc(tests, func(a, b name) int { return cmp.Compare(of(r.results[b]), of(r.results[a])) })
	seen := map[name]bool{}
	for _, n := range tests {
		root, _, _ := strings.Cut(n.Test, "/")
		if whole := (name{n.Package, root}); of(r.results[n]) > 0 && len(seen) < listed && !seen[whole] {
			if len(seen) == 0 {
				fmt.Fprintf(r.out, "\n%s\n", title)
			}
			seen[whole] = true
			fmt.Fprintf(r.out, "%8.1f s  %s\n", of(r.results[n]), n)
		}
	}
}

// excerpt keeps the first and the last lines of what it is given.
type excerpt struct {
	first, last []string
	lines       int
}

// kept is how many lines are kept at each end.
const kept = 50

func (x *excerpt) add(line string) {
	x.lines++
	switch {
	case len(x.first) < kept:
		x.first = append(x.first, line)
	case len(x.last) < kept:
		x.last = append(x.last, line)
	default:
		x.last = append(x.last[1:], line)
	}
}

func (x *excerpt) text() string {
	var b strings.Builder
	for i, line := range slices.Concat(x.first, x.last) {
		if cut := x.lines - 2*kept; i == kept && cut > 0 {
			fmt.Fprintf(&b, "    [%d lines]\n", cut)
		}
		if len(line) > 500 {
			line = line[:500] + "…\n"
		}
		b.WriteString(line)
	}
	return b.String()
}
