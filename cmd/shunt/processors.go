package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	loadPeriod = 20 * time.Millisecond
	// A processor that is busier than this in one period, or busier than usualLoad
	// over ten or so, is full.
	fullLoad  = 0.9
	usualLoad = 0.7
	// calm is how long the load must have been lower before processors are given up.
	calm = 10 * time.Second
)

// processorsByLoad sets GOMAXPROCS by the load until ctx ends, unless whoever
// started Shunt has set it. Of a statement's 20 µs Go spends a fifth on threads
// that look for work while a processor is free, and the kernel on moving them:
// so there are no more processors than the load fills, often one. When it grows
// there are all of them at once: a long merge must not hold up others.
func processorsByLoad(ctx context.Context, calm time.Duration, log *slog.Logger) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	ticker := time.NewTicker(loadPeriod)
	defer ticker.Stop()
	defer runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	now, l := all, load{}
	at, used := time.Now(), processorTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		t, u := time.Now(), processorTime()
		l.add(u-used, t.Sub(at))
		at, used = t, u
		n := min(l.processors(), all)
		if n <= now && l.over < calm {
			continue
		}
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
		now, l = n, load{}
	}
}

// load is how busy the process is over some time, in processors.
type load struct {
	over    time.Duration
	mean    float64 // of late
	peak    float64 // the highest mean
	highest float64 // in one period
}

func (l *load) add(used, passed time.Duration) {
	busy := used.Seconds() / passed.Seconds()
	l.over += passed
	l.mean += (busy - l.mean) * min(1, passed.Seconds()/(10*loadPeriod).Seconds())
	l.peak, l.highest = max(l.peak, l.mean), max(l.highest, busy)
}

// processors is how many the load needs.
func (l *load) processors() int {
	return max(1, int(math.Ceil(max(l.peak/usualLoad, l.highest/fullLoad))))
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
