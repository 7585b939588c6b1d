package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine describes where the figures are from.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s; a load from 256 KiB, 4 MiB and 64 MiB takes %.0f, %.0f and %.0f ns), %s", runtime.NumCPU(), model,
		loadTime(256<<10), loadTime(4<<20), loadTime(64<<20), runtime.Version())
}

// loadTime is how many nanoseconds a load takes from memory of that size, in an order that
// the processor can't foresee. Whoever shares a machine's caches slows all that is on it, and
// shows in no processor time.
func loadTime(size int) float64 {
	const line, loads = 64 / 4, 1 << 21
	next := make([]uint32, size/4)
	order := rand.Perm(len(next) / line)
	for i, at := range order {
		next[at*line] = uint32(order[(i+1)%len(order)] * line)
	}
	var at uint32
	for range len(order) { // into the caches, as far as they go
		at = next[at]
	}
	begun := time.Now()
	for range loads {
		at = next[at]
	}
	took := time.Since(begun)
	runtime.KeepAlive(at)
	return float64(took.Nanoseconds()) / loads
}

// busy is the share of the processors' time that others take: before anything
// is started. What they take while it runs distorts all figures.
func busy() (share float64, err error) {
	work, all, err := processorTime()
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Second) // what is measured, not waited for
	work2, all2, err := processorTime()
	if err != nil || all2 == all {
		return 0, err
	}
	return (work2 - work) / (all2 - all), nil
}

// processorTime reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq and steal, in ticks.
func processorTime() (work, all float64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("read processor time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, 0, fmt.Errorf("read processor time: %q", line)
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read processor time: %q: %w", line, err)
		}
		all += ticks
		if i != 3 && i != 4 {
			work += ticks
		}
	}
	return work, all, nil
}
