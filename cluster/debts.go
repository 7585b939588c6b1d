package cluster

import (
	"context"
	"sync"
)

// debts are what this process owes to the board, by calls that don't wait: to give a turn
// back, to take a fence away. They are paid in order, and before anything else is taken
// or written that they could undo.
type debts struct {
	mu   sync.Mutex
	open []func(context.Context) error
	// paying has an element while they are paid.
	paying chan struct{}
	// came has an element when there are some.
	came chan struct{}
}

func (d *debts) init() { d.paying, d.came = make(chan struct{}, 1), make(chan struct{}, 1) }

func (d *debts) owe(one func(context.Context) error) {
	d.mu.Lock()
	d.open = append(d.open, one)
	d.mu.Unlock()
	select {
	case d.came <- struct{}{}:
	default:
	}
}

// any reports that something is owed.
func (d *debts) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) > 0
}

// pay returns when nothing is owed, or with why something still is.
func (d *debts) pay(ctx context.Context) error {
	if err := take(ctx, d.paying); err != nil {
		return err
	}
	defer func() { <-d.paying }()
	for {
		d.mu.Lock()
		if len(d.open) == 0 {
			d.mu.Unlock()
			return nil
		}
		first := d.open[0]
		d.mu.Unlock()
		if err := first(ctx); err != nil {
			return err
		}
		d.mu.Lock()
		d.open = d.open[1:]
		d.mu.Unlock()
	}
}
