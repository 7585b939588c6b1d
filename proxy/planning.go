package proxy

import (
	"context"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
)

const (
	// largeText: a statement of more bytes waits for room to be planned. Planning takes some
	// twenty times its text, and keeps a part of it until the statement is bound.
	largeText = 256 << 10
	// planningBytes bounds the texts of large statements that are planned at the same time,
	// planningShare their share of a memory limit.
	planningBytes = 64 << 20
	planningShare = 64
)

// planningRoom is what large statements wait for while others are planned: a hundred clients
// that load data would else take gigabytes at once. Nobody has it while he waits for a shard,
// where he might wait for one who waits here.
type planningRoom struct {
	sem *semaphore.Weighted
	all int64
}

func newPlanningRoom() planningRoom {
	all := max(1, min(planningBytes, debug.SetMemoryLimit(-1)/planningShare))
	return planningRoom{semaphore.NewWeighted(all), all}
}

// roomToPlan waits until a statement may be planned or bound; leave says that this is done.
func (s *session) roomToPlan(ctx context.Context, sql string) (leave func(), err error) {
	if len(sql) <= largeText {
		return func() {}, nil
	}
	room := &s.proxy.planning
	n := min(int64(len(sql)), room.all)
	leave = func() { room.sem.Release(n) }
	if room.sem.TryAcquire(n) {
		return leave, nil
	}
	ctx, stop := s.whileClientStays(ctx)
	defer stop()
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	if s.activity.killed() {
		return nil, errInterrupted
	}
	if room.sem.Acquire(ctx, n) != nil {
		return nil, context.Cause(ctx)
	}
	return leave, nil
}
