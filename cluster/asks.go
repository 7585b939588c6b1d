package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Question is one that another member asks.
type Question struct {
	Ask  uint64
	Body []byte
}

// Asks are questions of members to members. They are for people: nothing that a read goes by is asked
// so. Nothing is written while nobody asks.
type Asks interface {
	// Ask puts a question to members, under a number that no other has.
	Ask(ctx context.Context, ask uint64, body []byte, members ...string) error
	// Answers are those that there are, by member.
	Answers(ctx context.Context, ask uint64) (map[string][]byte, error)
	// Withdraw removes a question, and reports how many members hadn't taken it up: these
	// never do.
	Withdraw(ctx context.Context, ask uint64) (untouched int, err error)
	// TakeUp returns the questions to a member, each once.
	TakeUp(ctx context.Context, member string) ([]Question, error)
	// Answer gives a member's answer; nobody may wait for it any more.
	Answer(ctx context.Context, ask uint64, member string, answer []byte) error
}

// answerTime is how long members may take to answer: several heartbeats.
const answerTime = 2 * time.Second

// Asked is what came of a question.
type Asked struct {
	// Answers by member. Who isn't among them didn't answer in time.
	Answers map[string][]byte
	// Untouched: none of those who didn't answer has begun to do anything, or ever will.
	Untouched bool
}

// Ask asks members, and waits for their answers, but not for long. An error says that the question
// wasn't put, or that no answer can be read.
func (s *Shared) Ask(ctx context.Context, body []byte, members ...string) (a Asked, err error) {
	ask := rand.Uint64()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := s.opts.Board.Ask(ctx, ask, body, members...); err != nil {
		return a, err
	}
	for {
		answers, err := s.opts.Board.Answers(ctx, ask)
		if err == nil {
			a.Answers = answers
		}
		if len(a.Answers) == len(members) || ctx.Err() != nil {
			break
		}
		if err != nil {
			return a, err
		}
		timer := time.NewTimer(s.opts.Every / 10)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer stop()
	untouched, err := s.opts.Board.Withdraw(late, ask)
	a.Untouched = err == nil && untouched == len(members)-len(a.Answers)
	return a, nil
}

// Listen answers what others ask this process, until ctx ends. Run hears that there is something.
func (s *Shared) Listen(ctx context.Context, answer func(context.Context, []byte) []byte) {
	var answering sync.WaitGroup
	defer answering.Wait()
	failing := ""
	for {
		questions, err := s.opts.Board.TakeUp(ctx, s.self)
		s.tellOnce(&failing, "what other members ask can't be read: KILL and SHOW PROCESSLIST there miss this process's clients", err)
		for _, q := range questions {
			answering.Go(func() { // one may take longer than the next
				if err := s.opts.Board.Answer(ctx, q.Ask, s.self, answer(ctx, q.Body)); err != nil && ctx.Err() == nil {
					s.log.Warn("another member's question stays without an answer", "error", err)
				}
			})
		}
		if !s.pause(ctx, followEvery*s.opts.Every, s.asked) {
			return
		}
	}
}

// hasAsk has Listen look for questions at once.
func (s *Shared) hasAsk() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}
