package main

import (
	"fmt"
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
	return fmt.Sprintf("%d CPUs (%s), %s", runtime.NumCPU(), model, runtime.Version())
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
