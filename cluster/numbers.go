package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

const (
	// numberBits of a connection's number tell the member.
	numberBits = 8
	lastNumber = 1<<numberBits - 1
)

// numbers are those of clients' connections: a count, and in the last bits the member's own
// number, which is a turn. It is 0 as long as it has none; then they may be another one's.
type numbers struct {
	turn turn
	mu   sync.Mutex
	own  uint32
	last uint32
	open map[uint32]bool
}

func (n *numbers) init() {
	n.turn.init("")
	n.open = map[uint32]bool{}
}

// ConnectionID is Processes'. The count comes around after 16 million connections, and
// leaves out those that are still open.
func (s *Shared) ConnectionID() uint32 {
	n := &s.numbers
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		n.last++
		if id := n.last<<numberBits | n.own; id>>numberBits != 0 && !n.open[id] {
			n.open[id] = true
			return id
		}
	}
}

// EndConnection is Processes'.
func (s *Shared) EndConnection(id uint32) {
	s.numbers.mu.Lock()
	delete(s.numbers.open, id)
	s.numbers.mu.Unlock()
}

// MemberOf names the member whose client has a connection; "": none.
func (s *Shared) MemberOf(ctx context.Context, connection uint32) (member string, err error) {
	return s.opts.Board.Holder(ctx, numberTurn(connection&lastNumber))
}

func numberTurn(n uint32) string { return fmt.Sprintf("number %d", n) }

// Numbered returns once the process has a number, or an error. What connects before that may have
// the number of another member's client.
func (s *Shared) Numbered(ctx context.Context) error { return s.keepNumber(ctx) }

// keepNumber takes a number, where the process has none, or lost it. Those of members that are gone
// come last: their clients may be there still, for a member that was fenced and lives. They start at
// a place of its own, so that one finds a free one at once.
//
// Counter-example: a member stands still, and is fenced. Another one comes, and gets its number; who
// kills a connection of the first one's, by a third member, ends one of the second's.
func (s *Shared) keepNumber(ctx context.Context) error {
	n := &s.numbers
	if err := take(ctx, n.turn.mine); err != nil {
		return err
	}
	defer func() { <-n.turn.mine }()
	n.mu.Lock()
	own := n.own
	n.mu.Unlock()
	if own != 0 && !n.turn.isLost() {
		return nil
	}
	taken := false
	defer func() {
		if !taken { // next time
			n.turn.set(false, true)
		}
	}()
	first := s.opts.Identity.ID
	for i := range uint64(2 * lastNumber) {
		own := uint32((first+i)%lastNumber) + 1
		n.turn.mu.Lock()
		n.turn.name, n.turn.claimed, n.turn.lost = numberTurn(own), true, false
		n.turn.mu.Unlock()
		ok, err := s.takeNumber(ctx, numberTurn(own), i >= lastNumber)
		if err != nil {
			return fmt.Errorf("take a number among the members: %w", err)
		}
		if taken = ok; ok {
			n.mu.Lock()
			n.own = own
			n.mu.Unlock()
			return nil
		}
	}
	return errors.New("there are too many members")
}

// takeNumber takes a number that nobody has, or with over one of a member that is gone.
func (s *Shared) takeNumber(ctx context.Context, name string, over bool) (bool, error) {
	ok, err := s.opts.Board.TakeTurn(ctx, name, s.self)
	if ok || err != nil {
		return ok, err
	}
	holder, err := s.opts.Board.Holder(ctx, name)
	if err != nil || holder == s.self {
		return err == nil, err
	}
	// One that lives, and has merely lost its rows, finds out as it joins anew.
	if !over || holder == "" || !s.Gone(ctx, holder) {
		return false, nil
	}
	return s.opts.Board.TakeOver(ctx, name, holder, s.self)
}

// leaveNumber gives the number back.
func (s *Shared) leaveNumber(ctx context.Context) error {
	n := &s.numbers
	n.mu.Lock()
	own := n.own
	n.own = 0
	n.mu.Unlock()
	if own == 0 {
		return nil
	}
	n.turn.set(false, false)
	return s.opts.Board.GiveTurn(ctx, numberTurn(own), s.self)
}
