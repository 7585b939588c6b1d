package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// target is what a load can be sent to: a server, or a proxy before it.
type target struct {
	name                 string
	addr, user, password string
	// pid of the proxy, 0 if there is none or its processor time isn't known.
	pid int
	// http is where Shunt tells its metrics and profiles.
	http string
}

const (
	direct = "direct"
	ours   = "Shunt"
)

// half is what one target showed in one round.
type half struct {
	statements    float64 // a second
	p50, p95, p99 time.Duration
	cpu           time.Duration // of the proxy, a statement
}

func (t target) cpuTime() (time.Duration, error) {
	if t.pid == 0 {
		return 0, nil
	}
	return throwaway.ProcessorTime(t.pid)
}

// series is a case: every target's halves, by round.
type series struct {
	name string
	// base is the target that the others are compared with.
	base    string
	targets []string
	halves  map[string][]half
}

// ratio is the median over the rounds of what the target showed by what the
// other showed.
func (s *series) ratio(target, other string, of func(half) float64) float64 {
	if ratios := s.ratios(target, other, of); len(ratios) > 0 {
		return median(ratios)
	}
	return 0
}

// ratios are those of the rounds.
func (s *series) ratios(target, other string, of func(half) float64) (ratios []float64) {
	for i, h := range s.halves[target] {
		if o := s.halves[other]; i < len(o) && of(o[i]) > 0 {
			ratios = append(ratios, of(h)/of(o[i]))
		}
	}
	return ratios
}

// typical is the median over the rounds.
func (s *series) typical(target string, of func(half) float64) float64 {
	var values []float64
	for _, h := range s.halves[target] {
		values = append(values, of(h))
	}
	if len(values) == 0 {
		return 0
	}
	return median(values)
}

// What a half is compared by.
func throughput(h half) float64 { return h.statements }
func p50(h half) float64        { return float64(h.p50) }
func p95(h half) float64        { return float64(h.p95) }
func p99(h half) float64        { return float64(h.p99) }
func cpu(h half) float64        { return float64(h.cpu) }

// milliseconds of a figure in nanoseconds.
func milliseconds(ns float64) string { return fmt.Sprintf("%.4f", ns/1e6) }

// line is the case in one line.
func (s *series) line() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%-32s %s %.0f/s %s", s.name, s.base, s.typical(s.base, throughput), latencies(s, s.base))
	for _, t := range s.targets {
		if t != s.base {
			fmt.Fprintf(&w, " | %s %.3f cpu %s %s", t, s.ratio(t, s.base, throughput), milliseconds(s.typical(t, cpu)), latencies(s, t))
		}
	}
	return w.String()
}

func latencies(s *series, target string) string {
	return fmt.Sprintf("(%s %s %s)", milliseconds(s.typical(target, p50)), milliseconds(s.typical(target, p95)), milliseconds(s.typical(target, p99)))
}

// turnsOf measures the targets in turns. Each round starts with another one and
// goes the other way round, so that none is always after the same neighbour.
func (b *bench) turnsOf(ctx context.Context, name, base string, targets []target, measure func(target) (half, error)) (*series, error) {
	s := &series{name: name, base: base, halves: map[string][]half{}}
	for _, t := range targets {
		s.targets = append(s.targets, t.name)
	}
	for round := range b.rounds {
		for i := range targets {
			t := targets[(round+i)%len(targets)]
			if round%2 == 1 {
				t = targets[(round+len(targets)-i)%len(targets)]
			}
			h, err := measure(t)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", name, t.name, err)
			}
			s.halves[t.name] = append(s.halves[t.name], h)
		}
	}
	fmt.Fprintln(b.out, s.line())
	return s, nil
}

// keep adds a case to the others. One that failed is noted, and the rest is
// measured all the same, unless the run was ended.
func (b *bench) keep(ctx context.Context, results []*series, s *series, err error) ([]*series, error) {
	return b.keepAll(ctx, results, []*series{s}, err)
}

func (b *bench) keepAll(ctx context.Context, results, cases []*series, err error) ([]*series, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		fmt.Fprintln(b.out, "FAILED", err)
		b.failures = append(b.failures, err)
		return results, nil
	}
	return append(results, cases...), nil
}
