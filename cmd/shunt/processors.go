package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/proxy/wire"
)

const (
	loadPeriod = 20 * time.Millisecond
	// Who is idle holds nobody up, and need not be woken as often.
	idleLoad   = 0.05
	idlePeriod = 5 * loadPeriod
	// A processor that is busier than this in one period, or busier than usualLoad
	// over ten or so, is full.
	fullLoad  = 0.9
	usualLoad = 0.7
	// calm is how long the load must have been lower before processors are given up,
	// and mostCalm after it has grown again each time. Counter-example: with 10 s, a burst of
	// 20 ms had all processors, and statements cost twice as much, for 10 s.
	calm     = time.Second
	mostCalm = 10 * time.Minute
	// relief is what is left of the load of statements with one processor, which the ring
	// serves. Counter-example: what is 0.5 with one is 0.8 with two, and would stay so.
	relief = 0.6
)

// processorsByLoad sets GOMAXPROCS by the load until ctx ends, unless whoever
// started Shunt has set it. Of a statement's 20 µs Go spends a fifth on threads
// that look for work while a processor is free, and the kernel on moving them:
// so there are no more processors than the load fills, often one. When it grows
// there are all of them at once: a long merge must not hold up others, nor a
// thread that waits for a page of the store to be read, with its processor.
//
// While there is one, ring serves the connections.
func processorsByLoad(ctx context.Context, calm time.Duration, ring *wire.Ring, log *slog.Logger) {
	all := runtime.GOMAXPROCS(0)
	ring.Use(all == 1)
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	defer runtime.SetDefaultGOMAXPROCS()
	defer ring.Use(false)
	now, l := all, load{period: loadPeriod}
	at, used := time.Now(), processUsage()
	wait, lowered := calm, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.period):
		}
		t, u := time.Now(), processUsage()
		l.add(u.since(used), t.Sub(at))
		at, used = t, u
		n := min(l.processors(1), all)
		if n <= now && l.over < wait {
			continue
		}
		if now > 1 && ring != nil && l.processors(relief) == 1 {
			n = 1
		}
		switch {
		case n < now:
			lowered = at
		case n > now && at.Sub(lowered) < 2*wait:
			wait = min(2*wait, mostCalm)
		case n > now:
			wait = calm
		}
		ring.Use(n == 1)
		if n > now {
			runtime.SetDefaultGOMAXPROCS() // which looks anew how many there are
			all = runtime.GOMAXPROCS(0)
			n = all
		} else if n < now {
			runtime.GOMAXPROCS(n)
		}
		if n != now {
			log.Debug("processors by load", "processors", n, "before", now, "of", all)
		}
		now, l = n, load{period: l.period}
	}
}

// load is how busy the process is over some time, in processors.
type load struct {
	period  time.Duration // until it is looked at again
	over    time.Duration
	mean    float64 // of late
	peak    float64 // the highest mean
	highest float64 // in one period
	waited  bool    // with a processor, as one does for the disk
}

func (l *load) add(u usage, passed time.Duration) {
	busy := u.time.Seconds() / passed.Seconds()
	l.waited = l.waited || u.faults > 0 || passed > l.period+loadPeriod // a processor had no time for this
	l.over += passed
	l.mean += (busy - l.mean) * min(1, passed.Seconds()/(10*loadPeriod).Seconds())
	l.peak, l.highest = max(l.peak, l.mean), max(l.highest, busy)
	l.period = loadPeriod
	if busy < idleLoad {
		l.period = idlePeriod
	}
}

// processors is how many a share of the load needs.
func (l *load) processors(share float64) int {
	if l.waited {
		return math.MaxInt
	}
	return max(1, int(math.Ceil(share*max(l.peak/usualLoad, l.highest/fullLoad))))
}

// usage is what the process has used.
type usage struct {
	time   time.Duration
	faults int64 // of pages that had to be read from the disk
}

func (u usage) since(before usage) usage {
	return usage{u.time - before.time, u.faults - before.faults}
}

func processUsage() usage {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return usage{}
	}
	return usage{time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Majflt)} //nolint:unconvert // int32 on some systems
}
