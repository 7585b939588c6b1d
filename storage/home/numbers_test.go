package home

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

var tableA, tableB = catalog.TableName{Schema: "shop", Name: "a"}, catalog.TableName{Schema: "shop", Name: "b"}

// from is a table's answer.
func from(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }

// take wants n numbers to begin with want; 0: the sequence to be unstarted.
func (p *place) take(t *testing.T, name catalog.TableName, n, want uint64) {
	t.Helper()
	got, err := p.TakeNumbers(t.Context(), name, func(next uint64) uint64 { return next + n })
	if want == 0 && !errors.Is(err, storage.ErrUnstarted) || want != 0 && err != nil || got != want {
		t.Fatalf("took %d, %v; want %d", got, err, want)
	}
}

var numberConformance = []conformanceCase{
	{"Sequences", func(t *testing.T, p *place) {
		ctx := t.Context()
		kept := func(name catalog.TableName, want bool) {
			t.Helper()
			if must[bool](t)(p.SequenceKept(ctx, name)) != want {
				t.Fatalf("kept: %v", !want)
			}
		}
		p.take(t, tableA, 1, 0)
		kept(tableA, false)
		if err := p.StartSequence(ctx, tableA, func() (uint64, error) { return 0, io.EOF }); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		p.take(t, tableA, 1, 0)
		kept(tableA, false)
		check(t, p.StartSequence(ctx, tableA, from(7)))
		p.take(t, tableA, 1, 7)
		p.take(t, tableA, 5000, 8)
		p.take(t, tableA, 2, 5008)
		kept(tableA, true)
		if _, err := p.TakeNumbers(ctx, tableA, func(next uint64) uint64 { return next - 1 }); err == nil {
			t.Fatal("took back")
		}
		// Who asked the table before others took numbers doesn't set it back.
		check(t, p.StartSequence(ctx, tableA, from(7)))
		p.take(t, tableA, 1, 5010)
		check(t, p.DoubtSequence(ctx, tableA))
		p.take(t, tableA, 1, 0)
		kept(tableA, true)
		check(t, p.StartSequence(ctx, tableA, from(200_000)))
		p.take(t, tableA, 1, 200_000)
		// Where all are in doubt what is kept says nothing, under another name neither.
		check(t, p.DoubtSequences(ctx))
		p.take(t, tableA, 1, 0)
		check(t, p.RenameSequence(ctx, tableA, tableB))
		kept(tableB, false)
		check(t, p.RenameSequence(ctx, tableB, tableA))
		check(t, p.StartSequence(ctx, tableA, from(7)))
		p.take(t, tableA, 1, 200_001)
		kept(tableA, true)
		check(t, p.RestartSequence(ctx, tableA))
		p.take(t, tableA, 1, 0)
		kept(tableA, false)
		check(t, p.StartSequence(ctx, tableA, from(1)))
		check(t, p.StartSequence(ctx, tableA, from(1)))
		p.take(t, tableA, 1, 1)
		p.take(t, tableA, 1, 2)
		check(t, p.RenameSequence(ctx, tableA, tableA))
		check(t, p.RenameSequence(ctx, tableA, tableB))
		p.take(t, tableB, 1, 0)
		check(t, p.StartSequence(ctx, tableB, from(1)))
		p.take(t, tableB, 1, 3)
		p.take(t, tableA, 1, 0)
		check(t, p.DropSequences(ctx, "shop"))
		p.take(t, tableB, 1, 0)
		check(t, p.StartSequence(ctx, tableB, from(1)))
		p.take(t, tableB, 1, 1)
		check(t, p.DropSequence(ctx, tableB))
		p.take(t, tableB, 1, 0)
		// The last number is the one under the highest.
		check(t, p.StartSequence(ctx, tableA, from(1)))
		must[uint64](t)(p.TakeNumbers(ctx, tableA, func(uint64) uint64 { return 1<<64 - 1 }))
		p.take(t, tableA, 0, 1<<64-1)
	}},
	{"SequencesBeside", func(t *testing.T, p *place) {
		check(t, p.StartSequence(t.Context(), tableA, from(1)))
		var wg sync.WaitGroup
		got := make([][]uint64, 4)
		for w := range got {
			wg.Go(func() {
				for i := range 30 {
					n := uint64(i % 7)
					first, err := p.TakeNumbers(t.Context(), tableA, func(next uint64) uint64 { return next + n })
					if err != nil {
						t.Error(err)
						return
					}
					for k := range n {
						got[w] = append(got[w], first+k)
					}
				}
			})
		}
		wg.Wait()
		all := slices.Concat(got...)
		slices.Sort(all)
		for i, n := range all {
			if n != uint64(i)+1 {
				t.Fatalf("number %d is %d", i+1, n)
			}
		}
	}},
	{"SequenceLateAnswer", func(t *testing.T, p *place) {
		ctx := t.Context()
		// What a table answered before a restart begins nothing, be it restarted, dropped or renamed.
		for _, again := range []func() error{
			func() error { return p.RestartSequence(ctx, tableA) },
			func() error { return p.DropSequence(ctx, tableA) },
			func() error {
				return errors.Join(p.RenameSequence(ctx, tableA, tableB), p.RenameSequence(ctx, tableB, tableA), p.RestartSequence(ctx, tableA))
			},
		} {
			check(t, p.DropSequence(ctx, tableA))
			check(t, p.StartSequence(ctx, tableA, func() (uint64, error) {
				check(t, p.StartSequence(ctx, tableA, from(1)))
				p.take(t, tableA, 1, 1)
				check(t, again())
				return 1, nil
			}))
			p.take(t, tableA, 1, 0)
			check(t, p.StartSequence(ctx, tableA, from(2)))
			p.take(t, tableA, 1, 2)
		}
		// Behind an answer of before a doubt numbers are taken once.
		late := func() (uint64, error) { return 5, p.DoubtSequence(ctx, tableA) }
		check(t, p.StartSequence(ctx, tableA, late))
		p.take(t, tableA, 1, 5)
		p.take(t, tableA, 1, 0)
		// Who asks behind the last doubt ends it.
		check(t, p.StartSequence(ctx, tableA, late))
		check(t, p.StartSequence(ctx, tableA, from(9)))
		p.take(t, tableA, 1, 9)
		p.take(t, tableA, 1, 10)
		// However often it is doubted, a restarted one begins.
		check(t, p.RestartSequence(ctx, tableA))
		check(t, p.StartSequence(ctx, tableA, late))
		p.take(t, tableA, 1, 5)
		p.take(t, tableA, 1, 0)
	}},
}
