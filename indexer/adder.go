package indexer

import (
	"sync"

	"github.com/shunt-sql/shunt/storage"
)

// slice is some entries and the bytes of their keys.
type slice struct {
	entries []storage.Entry
	arena   []byte
}

// adder gives slices to the store beside the reading of the shard: looking
// entries up and committing them takes longer than reading rows. With workers 0
// (the simulation) it does so at once.
type adder struct {
	add     func([]storage.Entry) error
	work    chan *slice
	free    chan *slice
	workers sync.WaitGroup
	pending sync.WaitGroup

	mu  sync.Mutex
	err error
}

// adders is how many slices are in the store's hands at once.
const adders = 3

func newAdder(add func([]storage.Entry) error, workers int) *adder {
	a := &adder{add: add}
	if workers == 0 {
		return a
	}
	a.work, a.free = make(chan *slice), make(chan *slice, workers+1)
	for range workers {
		a.free <- &slice{}
		a.workers.Go(func() {
			for s := range a.work {
				if err := a.add(s.entries); err != nil {
					a.mu.Lock()
					if a.err == nil {
						a.err = err
					}
					a.mu.Unlock()
				}
				s.entries, s.arena = s.entries[:0], s.arena[:0]
				a.free <- s
				a.pending.Done()
			}
		})
	}
	return a
}

// give hands a slice over and returns an empty one. An error may be that of an
// earlier slice.
func (a *adder) give(s *slice) (*slice, error) {
	if a.work == nil {
		err := a.add(s.entries)
		s.entries, s.arena = s.entries[:0], s.arena[:0]
		return s, err
	}
	a.pending.Add(1)
	a.work <- s
	return <-a.free, a.failed()
}

// drain waits until all that was given is in the store.
func (a *adder) drain() error {
	a.pending.Wait()
	return a.failed()
}

func (a *adder) failed() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// stop ends the goroutines.
func (a *adder) stop() {
	if a.work != nil {
		close(a.work)
		a.workers.Wait()
	}
}
