package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// buildCase is what statements take while virtual indexes are built, one after the other, beside what they take without.
const buildCase = "build/beside"

func (b *bench) build(ctx context.Context) error {
	f, err := b.newFleet(ctx, usual)
	if err != nil {
		return err
	}
	defer f.stop()
	var ratios []float64
	for range f.rounds {
		if err := f.idle(ctx); err != nil {
			return err
		}
		quiet, err := f.during(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		if err != nil {
			return err
		}
		builds := 0
		beside, err := f.during(ctx, func(during context.Context) error {
			for during.Err() == nil {
				if _, err := f.db.ExecContext(ctx, "CREATE VIRTUAL INDEX idx_beside ON plain (code)"); err != nil {
					return err
				}
				if err := f.awaitIndexes(ctx); err != nil {
					return err
				}
				if _, err := f.db.ExecContext(ctx, "DROP VIRTUAL INDEX idx_beside ON plain"); err != nil {
					return err
				}
				builds++
			}
			return nil
		})
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(beside[1])/float64(quiet[1]))
		fmt.Fprintf(f.out, "%s: at %d statements a second p50, p99 %s, %s ms; beside %d builds of %d rows %s, %s ms\n", buildCase, membersRate,
			milliseconds(float64(quiet[0])), milliseconds(float64(quiet[1])), builds, f.rows, milliseconds(float64(beside[0])), milliseconds(float64(beside[1])))
	}
	fmt.Fprintf(f.out, "%s: p99 ratio %.2f, median of %d rounds\n", buildCase, median(ratios), len(ratios))
	return nil
}

// during sends statements at an even rate, while something else is done, and returns their median and 99th percentile. What is done
// ends soon after its context.
func (f *fleet) during(ctx context.Context, do func(context.Context) error) (at [2]time.Duration, err error) {
	during, cancel := context.WithTimeout(ctx, time.Duration(4*f.seconds)*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(during) }()
	answers, err := f.paced(during, membersRate, nobody)
	if err = errors.Join(err, <-done, ctx.Err()); err != nil {
		return at, err
	}
	took := make([]time.Duration, len(answers))
	for i, a := range answers {
		took[i] = a.took
	}
	slices.Sort(took)
	return [2]time.Duration{took[len(took)/2], took[len(took)*99/100]}, nil
}
